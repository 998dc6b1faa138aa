package frame

import (
	"image"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// Style is a face and its size in points, of which the scale makes pixels.
type Style struct {
	Face Face
	Size float32
}

// Face is one of the fonts.
type Face uint8

// The fonts.
const (
	Regular Face = iota
	Bold
	Mono
)

// atlasSize is the width and height of the atlas, in pixels of a byte each.
const atlasSize = 1024

// Atlas holds the coverage of glyphs that were used, each once for its style.
type Atlas struct {
	Pixels  []byte // atlasSize rows of atlasSize bytes
	Changed bool   // since this was last set to false

	scale      float32
	fonts      [3]*opentype.Font
	faces      map[Style]font.Face
	glyphs     map[glyphKey]glyph
	x, y, tall int // where the next glyph goes: rows of glyphs, the present one tall pixels high
}

type glyphKey struct {
	style Style
	r     rune
}

// glyph is where a glyph lies in the atlas, and against the pen.
type glyph struct {
	at      image.Rectangle
	dx, dy  float32
	advance float32
}

// NewAtlas is for pictures with so many pixels a point.
func NewAtlas(scale float32) (*Atlas, error) {
	a := &Atlas{}
	for i, data := range [][]byte{goregular.TTF, gobold.TTF, gomono.TTF} {
		var err error
		if a.fonts[i], err = opentype.Parse(data); err != nil {
			return nil, err
		}
	}
	a.reset(scale)
	return a, nil
}

func (a *Atlas) reset(scale float32) {
	a.scale, a.Pixels, a.Changed = scale, make([]byte, atlasSize*atlasSize), true
	a.faces, a.glyphs = map[Style]font.Face{}, map[glyphKey]glyph{}
	a.x, a.y, a.tall = 0, 0, 0
}

// SetScale begins anew if the scale is another.
func (a *Atlas) SetScale(scale float32) {
	if scale != a.scale {
		a.reset(scale)
	}
}

func (a *Atlas) face(s Style) font.Face {
	f := a.faces[s]
	if f == nil {
		// The fonts are known to be good, and only their errors come back here.
		f, _ = opentype.NewFace(a.fonts[s.Face], &opentype.FaceOptions{Size: float64(s.Size * a.scale), DPI: 72, Hinting: font.HintingFull})
		a.faces[s] = f
	}
	return f
}

// glyph finds or draws a glyph. When the atlas is full all glyphs are drawn anew, in the
// next picture.
func (a *Atlas) glyph(s Style, r rune) glyph {
	key := glyphKey{s, r}
	if g, ok := a.glyphs[key]; ok {
		return g
	}
	if i, err := a.fonts[s.Face].GlyphIndex(new(sfnt.Buffer), r); (err != nil || i == 0) && r != '\ufffd' {
		g := a.glyph(s, '\ufffd') // what the font lacks
		a.glyphs[key] = g
		return g
	}
	bounds, mask, from, advance, _ := a.face(s).Glyph(fixed.Point26_6{}, r)
	g := glyph{advance: toPixels(advance), dx: float32(bounds.Min.X), dy: float32(bounds.Min.Y)}
	if w, h := bounds.Dx(), bounds.Dy(); w > 0 && h > 0 && mask != nil {
		if a.x+w > atlasSize {
			a.x, a.y, a.tall = 0, a.y+a.tall, 0
		}
		if a.y+h > atlasSize {
			a.reset(a.scale)
		}
		g.at = image.Rect(a.x, a.y, a.x+w, a.y+h)
		for y := range h {
			for x := range w {
				_, _, _, alpha := mask.At(from.X+x, from.Y+y).RGBA()
				a.Pixels[(a.y+y)*atlasSize+a.x+x] = byte(alpha >> 8)
			}
		}
		a.x, a.tall, a.Changed = a.x+w, max(a.tall, h), true
	}
	a.glyphs[key] = g
	return g
}

func toPixels(v fixed.Int26_6) float32 { return float32(v) / 64 }

// Width is how wide a text is, in pixels.
func (a *Atlas) Width(s Style, text string) (w float32) {
	for _, r := range text {
		w += a.glyph(s, r).advance
	}
	return w
}

// Line is the height of a line, and Ascent of what is above its base, in pixels.
func (a *Atlas) Line(s Style) float32 {
	return float32(math.Round(float64(s.Size * a.scale * 1.45)))
}

// Ascent is how far the base of a line is below its top, in pixels.
func (a *Atlas) Ascent(s Style) float32 {
	m := a.face(s).Metrics()
	return float32(math.Round(float64((a.Line(s)-toPixels(m.Ascent+m.Descent))/2 + toPixels(m.Ascent))))
}
