package frame

import (
	"errors"
	"image"
	"image/color"
	"image/png"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ternvk/tern/vk"
)

// example is a state with all that a picture can show.
func example() *State {
	return &State{
		Model: "sprig (embedded)", Device: "llvmpipe (LLVM 15.0.6, 256 bits)", Loading: 1, Rate: 123.4, Tokens: 56, Used: 20 << 20, Total: 64 << 20,
		Messages: []Message{
			{User: true, Text: "What is the capital of France?"},
			{Thought: "The user asks for a capital.", Text: "The capital of France is Paris.", Note: "9 tokens, 123.4 tokens/s, first after 12 ms"},
			{User: true, Text: "Write a haiku about bonsai trees — grüße, Ж"},
			{Text: strings.Repeat("A small tree in a pot waits for the rain. ", 8)},
		},
		Input: "And what is the capital of", Busy: true, Frame: 2100 * time.Microsecond, Now: time.UnixMilli(100),
		Kernels: []Kernel{{"mul_mat_q2_0_i8__dp4", 40000}, {"attention_f16", 20000}, {"rms_norm_f32", 10000}, {"argmax_f32", 5000}},
	}
}

// drawn draws a state at a size and scale.
func drawn(t *testing.T, d *Device, v *State, width, height uint32, scale float32) *image.RGBA {
	t.Helper()
	r, err := NewRenderer(d, PictureFormat, vk.ImageLayoutTransferSrcOptimal)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := NewPicture(d, r, width, height)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	atlas, err := NewAtlas(scale)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Render(r, &Scene{Atlas: atlas}, v); err != nil {
		t.Fatal(err)
	}
	i := p.Image()
	if dir := os.Getenv("TERN_PICTURES"); dir != "" { // for people to look at
		f, err := os.Create(dir + "/" + strings.ReplaceAll(t.Name(), "/", "-") + ".png")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := png.Encode(f, i); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

func device(t *testing.T) *Device {
	t.Helper()
	d, err := OpenDevice(DeviceOptions{})
	if errors.Is(err, vk.ErrNoLoader) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func rgba(c Color) color.RGBA {
	return color.RGBA{uint8(c), uint8(c >> 8), uint8(c >> 16), 255}
}

// where counts the pixels of a colour and gives the place that they span.
func where(i *image.RGBA, c Color) (n int, at image.Rectangle) {
	want := rgba(c)
	for y := range i.Rect.Dy() {
		for x := range i.Rect.Dx() {
			if i.RGBAAt(x, y) == want {
				n++
				at = at.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return n, at
}

// The picture has its parts where they belong, at every size and scale.
func TestDraw(t *testing.T) {
	d := device(t)
	for name, c := range map[string]struct {
		width, height uint32
		scale         float32
	}{"usual": {1100, 720, 1}, "high": {2200, 1440, 2}, "odd": {1333, 777, 1.5}} {
		t.Run(name, func(t *testing.T) {
			i := drawn(t, d, example(), c.width, c.height, c.scale)
			w, h := int(c.width), int(c.height)
			side := w - int(334*c.scale)
			if got := i.RGBAAt(1, 1); got != rgba(Background) {
				t.Errorf("the corner is %v", got)
			}
			n, at := where(i, bubble)
			if n < 4000 || at.Max.X > side || at.Min.X < w/10 {
				t.Errorf("questions: %d pixels in %v", n, at)
			}
			n, at = where(i, raised)
			if n < 10000 || at.Min.X > int(20*c.scale) || at.Max.X > side {
				t.Errorf("answers: %d pixels in %v", n, at)
			}
			n, at = where(i, bright)
			if n < 500 || at.Max.X > side {
				t.Errorf("text: %d pixels in %v", n, at)
			}
			// The bars of kernels: the longest as wide as the side bar, the others in proportion.
			n, at = where(i, amber)
			full := 288 * c.scale * 5 * c.scale
			if sum := full * (1 + 0.5 + 0.25 + 0.125); float32(n) < 0.85*sum || float32(n) > 1.05*sum || at.Min.X < side {
				t.Errorf("bars of kernels: %d pixels in %v, want about %.0f", n, at, sum)
			}
			n, _ = where(i, accent)
			if n < 100 {
				t.Errorf("the bar of memory and the cursor: %d pixels", n)
			}
			if n, at = where(i, green); n < 100 || at.Min.X < side || at.Max.Y > h/2 {
				t.Errorf("the speed: %d pixels in %v", n, at)
			}
		})
	}
}

// Small windows leave out the side bar and draw what fits.
func TestDrawSmall(t *testing.T) {
	d := device(t)
	for _, size := range [][2]uint32{{500, 400}, {120, 90}, {16, 16}, {1, 1}} {
		i := drawn(t, d, example(), size[0], size[1], 1)
		if n, _ := where(i, amber); n > 0 {
			t.Errorf("%v: there is a side bar", size)
		}
	}
	drawn(t, d, &State{}, 800, 600, 1)
}

// Text wraps between words, and within one that is too long; nothing is lost.
func TestWrap(t *testing.T) {
	atlas, err := NewAtlas(1)
	if err != nil {
		t.Fatal(err)
	}
	s := &Scene{Atlas: atlas}
	const words = "a few words that take more than one line and averyveryverylongwordwithoutspaces end"
	for _, w := range []float32{1, 30, 80, 200, 10000} {
		lines := s.Wrap(bodyStyle, words, w)
		if got := strings.Join(strings.Fields(strings.Join(lines, " ")), ""); got != strings.ReplaceAll(words, " ", "") {
			t.Errorf("width %g: %q", w, lines)
		}
		for _, l := range lines {
			if atlas.Width(bodyStyle, l) > w && len([]rune(l)) > 1 {
				t.Errorf("width %g: %q is %g wide", w, l, atlas.Width(bodyStyle, l))
			}
		}
	}
	if got := s.Fit(bodyStyle, words, 100); atlas.Width(bodyStyle, got) > 100 || !strings.Contains(got, "…") {
		t.Errorf("%q", got)
	}
	// More glyphs than the atlas holds begin it anew.
	big := Style{Regular, 200}
	for r := 'A'; r < 'z'; r++ {
		if g := atlas.glyph(big, r); g.at.Max.X > atlasSize || g.at.Max.Y > atlasSize {
			t.Fatalf("%q lies at %v", r, g.at)
		}
	}
}
