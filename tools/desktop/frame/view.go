package frame

import (
	"fmt"
	"strings"
	"time"
)

// The colours.
var (
	Background = RGB(0x12141a)
	panel      = RGB(0x1a1d26)
	raised     = RGB(0x242936)
	line       = RGB(0x2e3444)
	bright     = RGB(0xe9ecf4)
	text       = RGB(0xc3c8d6)
	dim        = RGB(0x7d8498)
	accent     = RGB(0x6ea8fe)
	green      = RGB(0x5fd0a5)
	amber      = RGB(0xf2b866)
	bubble     = RGB(0x28406e)
)

// The styles.
var (
	titleStyle = Style{Bold, 19}
	bodyStyle  = Style{Regular, 15}
	smallStyle = Style{Regular, 12}
	labelStyle = Style{Bold, 11}
	monoStyle  = Style{Mono, 11}
	largeStyle = Style{Bold, 34}
)

// Message is a turn of the chat.
type Message struct {
	User    bool
	Thought string
	Text    string
	Note    string // what it took, or what went wrong
}

// Kernel is the GPU time of the nodes of one kernel in a step.
type Kernel struct {
	Name string
	NS   float64
}

// State is what the picture shows.
type State struct {
	Model, Device string
	Messages      []Message
	Input         string
	Busy          bool
	Loading       float32 // share of the model; 1: it is there
	Rate          float64 // tokens a second of the present or last answer
	Tokens        int     // of it
	Used, Total   uint64  // bytes of the device's memory that the model takes, and all
	Kernels       []Kernel
	Scroll        float32       // points up from the end
	Frame         time.Duration // what the last picture took
	Now           time.Time     // for the cursor
}

// Draw builds the picture of a state, width by height pixels.
func (v *State) Draw(s *Scene, width, height uint32) {
	s.Clear()
	w, h := float32(width), float32(height)
	margin := s.px(14)
	side := min(s.px(320), w*0.42)
	if w < s.px(560) {
		side = 0
	}
	left := Rect{margin, margin, w - side - 2*margin, h - 2*margin}
	if side > 0 {
		left.W -= margin
		v.sidebar(s, Rect{w - side - margin, margin, side, h - 2*margin})
	}
	head := s.Atlas.Line(titleStyle)
	s.Text(titleStyle, left.X, left.Y, bright, "Tern")
	s.Text(smallStyle, left.X+s.Atlas.Width(titleStyle, "Tern")+s.px(10), left.Y+s.px(6), dim,
		s.Fit(smallStyle, v.Model, left.W-s.px(80)))
	input := v.inputBox(s, left)
	v.messages(s, Rect{left.X, left.Y + head + s.px(8), left.W, input.Y - left.Y - head - s.px(20)})
}

// inputBox draws the prompt line at the bottom of r, and returns where it is.
func (v *State) inputBox(s *Scene, r Rect) Rect {
	pad, lineHeight := s.px(12), s.Atlas.Line(bodyStyle)
	lines := s.Wrap(bodyStyle, v.Input, r.W-2*pad-s.px(4))
	if len(lines) > 5 {
		lines = lines[len(lines)-5:]
	}
	height := float32(len(lines))*lineHeight + 2*pad
	hint := s.Atlas.Line(smallStyle) + s.px(4)
	box := Rect{r.X, r.Y + r.H - height - hint, r.W, height}
	border := line
	if !v.Busy {
		border = accent.Fade(0.8)
	}
	s.Box(box, border, s.px(10))
	s.Box(box.Inset(max(1, s.px(1))), panel, s.px(9))
	x, y := box.X+pad, box.Y+pad
	if v.Input == "" {
		s.Text(bodyStyle, x+s.px(4), y, dim, "Ask something")
	}
	end := x
	for i, l := range lines {
		end = x + s.Text(bodyStyle, x, y+float32(i)*lineHeight, bright, l)
	}
	if strings.HasSuffix(v.Input, " ") {
		end += s.Atlas.Width(bodyStyle, " ")
	}
	if v.Now.UnixMilli()%1000 < 550 {
		s.Box(Rect{end + s.px(1), y + float32(len(lines)-1)*lineHeight + s.px(2), max(1, s.px(1.5)), lineHeight - s.px(4)}, accent, 0)
	}
	keys := "Enter asks  ·  Esc stops  ·  Ctrl+L clears  ·  the wheel scrolls"
	s.Text(smallStyle, box.X+s.px(2), box.Y+box.H+s.px(5), dim, s.Fit(smallStyle, keys, r.W))
	return box
}

// messages draws the chat from its end upwards.
func (v *State) messages(s *Scene, r Rect) {
	s.clip = r
	defer func() { s.clip = Rect{} }()
	y := r.Y + r.H + s.px(v.Scroll)
	for i := len(v.Messages) - 1; i >= 0 && y > r.Y; i-- {
		y = v.message(s, &v.Messages[i], r, y, v.Busy && i == len(v.Messages)-1)
	}
	if len(v.Messages) == 0 {
		hello := "Ask the model a question: it answers on this machine."
		if v.Loading < 1 {
			hello = fmt.Sprintf("Loading the model: %.0f %%", 100*v.Loading)
		}
		s.Text(bodyStyle, r.X+(r.W-s.Atlas.Width(bodyStyle, hello))/2, r.Y+r.H/2, dim, hello)
	}
}

// message draws a turn that ends at bottom, and returns where it begins.
func (v *State) message(s *Scene, m *Message, r Rect, bottom float32, writing bool) float32 {
	pad, gap, height := s.px(12), s.px(12), s.Atlas.Line(bodyStyle)
	most := r.W*0.86 - 2*pad
	thought := s.thoughtLines(m.Thought, most)
	content := m.Text
	if writing {
		content += "▌"
	}
	lines := s.Wrap(bodyStyle, content, most)
	widest := float32(0)
	for _, l := range lines {
		widest = max(widest, s.Atlas.Width(bodyStyle, l))
	}
	for _, l := range thought {
		widest = max(widest, s.Atlas.Width(smallStyle, l))
	}
	small := s.Atlas.Line(smallStyle)
	box := Rect{W: widest + 2*pad, H: float32(len(lines))*height + float32(len(thought))*small + 1.4*pad}
	below := gap
	if m.Note != "" {
		below += small
	}
	box.X, box.Y = r.X, bottom-below-box.H
	fill := raised
	if m.User {
		box.X, fill = r.X+r.W-box.W, bubble
	}
	if top := max(box.Y, r.Y); top < box.Y+box.H { // not over the title
		visible := box
		visible.Y, visible.H = top, min(box.Y+box.H, r.Y+r.H)-top
		s.Box(visible, fill, s.px(10))
	}
	y := box.Y + 0.7*pad
	for _, l := range thought {
		s.Text(smallStyle, box.X+pad, y, dim, l)
		y += small
	}
	for _, l := range lines {
		s.Text(bodyStyle, box.X+pad, y, bright, l)
		y += height
	}
	if m.Note != "" {
		s.Text(smallStyle, box.X+s.px(4), box.Y+box.H+s.px(2), dim, m.Note)
	}
	return box.Y
}

func (s *Scene) thoughtLines(thought string, w float32) []string {
	if thought == "" {
		return nil
	}
	return append(s.Wrap(smallStyle, strings.TrimSpace(thought), w), "")
}

// sidebar draws the figures.
func (v *State) sidebar(s *Scene, r Rect) {
	s.Box(r, panel, s.px(12))
	in := r.Inset(s.px(16))
	y := in.Y
	label := func(name string) {
		s.Text(labelStyle, in.X, y, dim, name)
		y += s.Atlas.Line(labelStyle) + s.px(2)
	}
	label("DEVICE")
	for _, l := range s.Wrap(smallStyle, v.Device, in.W) {
		s.Text(smallStyle, in.X, y, text, l)
		y += s.Atlas.Line(smallStyle)
	}
	y += s.px(14)

	label("SPEED")
	color := text
	if v.Busy {
		color = green
	}
	w := s.Text(largeStyle, in.X, y, color, fmt.Sprintf("%.1f", v.Rate))
	s.Text(bodyStyle, in.X+w+s.px(8), y+s.Atlas.Line(largeStyle)-s.Atlas.Line(bodyStyle)-s.px(6), dim, "tokens/s")
	s.TextRight(smallStyle, in.X+in.W, y+s.Atlas.Line(largeStyle)-s.Atlas.Line(smallStyle)-s.px(8), dim, fmt.Sprintf("%d tokens", v.Tokens))
	y += s.Atlas.Line(largeStyle) + s.px(10)

	label("MEMORY")
	v.bar(s, Rect{in.X, y, in.W, s.px(10)}, share(float64(v.Used), float64(v.Total)), accent)
	y += s.px(15)
	s.Text(smallStyle, in.X, y, text, bytesText(v.Used))
	s.TextRight(smallStyle, in.X+in.W, y, dim, "of "+bytesText(v.Total))
	y += s.Atlas.Line(smallStyle) + s.px(14)

	label("GPU TIME OF A TOKEN, BY KERNEL")
	v.kernels(s, Rect{in.X, y, in.W, in.Y + in.H - y - s.Atlas.Line(smallStyle) - s.px(6)})
	s.Text(smallStyle, in.X, in.Y+in.H-s.Atlas.Line(smallStyle), dim, fmt.Sprintf("frame %.1f ms", float64(v.Frame.Microseconds())/1000))
}

// kernels draws a bar for each kernel that there is room for.
func (v *State) kernels(s *Scene, r Rect) {
	if len(v.Kernels) == 0 {
		s.Text(smallStyle, r.X, r.Y, dim, "measured after the first answer")
		return
	}
	total := 0.0
	for _, k := range v.Kernels {
		total += k.NS
	}
	row := s.Atlas.Line(monoStyle) + s.px(13)
	for i, k := range v.Kernels {
		y := r.Y + float32(i)*row
		if y+row > r.Y+r.H {
			break
		}
		figure := fmt.Sprintf("%.0f µs %2.0f %%", k.NS/1000, 100*k.NS/total)
		room := r.W - s.Atlas.Width(monoStyle, figure) - s.px(8)
		s.Text(monoStyle, r.X, y, text, s.Fit(monoStyle, k.Name, room))
		s.TextRight(monoStyle, r.X+r.W, y, dim, figure)
		v.bar(s, Rect{r.X, y + s.Atlas.Line(monoStyle) + s.px(1), r.W, s.px(5)}, share(k.NS, v.Kernels[0].NS), amber)
	}
}

// bar draws a share of a line.
func (v *State) bar(s *Scene, r Rect, part float32, c Color) {
	s.Box(r, line, r.H/2)
	r.W *= part
	s.Box(r, c, r.H/2)
}

func share(part, whole float64) float32 {
	if whole <= 0 {
		return 0
	}
	return float32(min(1, part/whole))
}

func bytesText(n uint64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
