package frame

import (
	"math"
	"strings"
	"unicode/utf8"
)

// Color is red, green, blue and alpha from the lowest byte.
type Color uint32

// RGB is a colour that covers what is below it.
func RGB(hex uint32) Color {
	return Color(hex>>16&0xff | hex&0xff00 | hex&0xff<<16 | 0xff<<24)
}

// Fade makes a colour let what is below it through.
func (c Color) Fade(alpha float32) Color { return c&0xffffff | Color(alpha*255)<<24 }

// Quad is what the shaders read: a rounded rectangle, or a glyph.
type Quad struct {
	X, Y, W, H     float32 // pixels
	GlyphX, GlyphY uint32
	Color          Color
	Radius         float32 // below 0: a glyph
}

// Rect is a place in a picture, in pixels.
type Rect struct{ X, Y, W, H float32 }

// Inset is the place within a border of d.
func (r Rect) Inset(d float32) Rect { return Rect{r.X + d, r.Y + d, r.W - 2*d, r.H - 2*d} }

// Scene is a picture as a list of quads, later ones over earlier ones.
type Scene struct {
	Quads []Quad
	Atlas *Atlas
	clip  Rect // of text; nothing if it is empty
}

// Clear begins a picture.
func (s *Scene) Clear() { s.Quads, s.clip = s.Quads[:0], Rect{} }

// px turns points into whole pixels.
func (s *Scene) px(points float32) float32 {
	return float32(math.Round(float64(points * s.Atlas.scale)))
}

// Box draws a rounded rectangle.
func (s *Scene) Box(r Rect, c Color, radius float32) {
	if r.W > 0 && r.H > 0 {
		s.Quads = append(s.Quads, Quad{X: r.X, Y: r.Y, W: r.W, H: r.H, Color: c, Radius: min(radius, r.W/2, r.H/2)})
	}
}

// Text draws a line of text with its top left corner at x, y, and returns its width.
func (s *Scene) Text(style Style, x, y float32, c Color, text string) float32 {
	pen := x
	base := y + s.Atlas.Ascent(style)
	for _, r := range text {
		g := s.Atlas.glyph(style, r)
		if !g.at.Empty() {
			q := Quad{
				X: float32(math.Round(float64(pen))) + g.dx, Y: base + g.dy, W: float32(g.at.Dx()), H: float32(g.at.Dy()),
				GlyphX: uint32(g.at.Min.X), GlyphY: uint32(g.at.Min.Y), Color: c, Radius: -1,
			}
			if s.clip == (Rect{}) || q.Y+q.H > s.clip.Y && q.Y < s.clip.Y+s.clip.H {
				s.Quads = append(s.Quads, q)
			}
		}
		pen += g.advance
	}
	return pen - x
}

// TextRight draws a line of text that ends at x.
func (s *Scene) TextRight(style Style, x, y float32, c Color, text string) {
	s.Text(style, x-s.Atlas.Width(style, text), y, c, text)
}

// Fit shortens a text in its middle until it is at most w pixels wide.
func (s *Scene) Fit(style Style, text string, w float32) string {
	if s.Atlas.Width(style, text) <= w {
		return text
	}
	r := []rune(text)
	for n := len(r) - 1; n > 1; n-- {
		short := string(r[:n/2]) + "…" + string(r[len(r)-(n-n/2):])
		if s.Atlas.Width(style, short) <= w {
			return short
		}
	}
	return "…"
}

// Wrap cuts a text into lines of at most w pixels, between words where it can.
func (s *Scene) Wrap(style Style, text string, w float32) (lines []string) {
	for paragraph := range strings.SplitSeq(text, "\n") {
		for {
			n := s.breakAt(style, paragraph, w)
			lines = append(lines, strings.TrimRight(paragraph[:n], " "))
			if paragraph = paragraph[n:]; paragraph == "" {
				break
			}
		}
	}
	return lines
}

// breakAt is the length of the first line of a text.
func (s *Scene) breakAt(style Style, text string, w float32) int {
	var width float32
	space := 0
	for i, r := range text {
		if r == ' ' {
			space = i + 1
		}
		width += s.Atlas.glyph(style, r).advance
		switch {
		case width <= w || r == ' ':
		case space > 0:
			return space
		case i > 0:
			return i
		default:
			return utf8.RuneLen(r)
		}
	}
	return len(text)
}
