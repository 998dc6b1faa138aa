package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Axes say what a plot shows.
type Axes struct {
	Title, X, Y string
	LogX, LogY  bool // logarithmic axes; LogX for histograms, LogY for lines
}

// Line is a series of points; without X they stand at 1, 2, 3 and so on.
type Line struct {
	Name string
	X, Y []float64
}

const (
	width, height = 640, 300 // points
	margin        = 16       // for what stands out on the right
	mapCells      = 64       // of a map, at most, each way
	histogramBins = 60
)

var colours = []color.Color{
	color.RGBA{0x1f, 0x6f, 0xb4, 0xff}, color.RGBA{0xd9, 0x5f, 0x02, 0xff}, color.RGBA{0x2c, 0x9c, 0x5c, 0xff},
	color.RGBA{0x9a, 0x4f, 0xb0, 0xff}, color.RGBA{0x80, 0x80, 0x80, 0xff},
}

func newPlot(a Axes) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = a.Title, a.X, a.Y
	sans := font.Font{Typeface: "Liberation", Variant: "Sans"}
	for _, f := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font,
	} {
		*f = font.From(sans, f.Size)
	}
	p.Title.Padding = vg.Points(6)
	p.Legend.Top = true
	return p
}

// draw adds a plot; dropped numbers are told below it.
func (p *Page) draw(pl *plot.Plot, dropped int, err error) {
	var b bytes.Buffer
	if err == nil {
		canvas := vgsvg.New(width, height)
		pl.BackgroundColor = color.Transparent // the page gives the whole picture one
		pl.Draw(draw.Crop(draw.New(canvas), 0, -margin, 0, 0))
		_, err = canvas.WriteTo(&b)
	}
	if err != nil {
		if p.err == nil {
			p.err = fmt.Errorf("plot %q: %w", pl.Title.Text, err)
		}
		return
	}
	svg := b.String()
	part := part{Plot: template.HTML(svg[strings.Index(svg, "<svg"):])} // made by the plot library, which escapes texts
	if dropped > 0 {
		part.Note = fmt.Sprintf("%d numbers are left out: they are not finite, or not positive on a logarithmic axis.", dropped)
	}
	p.Parts = append(p.Parts, part)
}

func drawable(v float64, log bool) bool { return !math.IsInf(v, 0) && v == v && (!log || v > 0) }

// Lines adds a plot of lines. A number that cannot be drawn breaks its line.
func (p *Page) Lines(a Axes, lines ...Line) {
	pl := newPlot(a)
	dropped := 0
	for i, l := range lines {
		var pieces []plotter.XYs
		fresh := true
		for j, y := range l.Y {
			x := float64(j + 1)
			if l.X != nil {
				x = l.X[j]
			}
			if !drawable(x, a.LogX) || !drawable(y, a.LogY) {
				dropped++
				fresh = true
				continue
			}
			if fresh {
				pieces = append(pieces, nil)
				fresh = false
			}
			pieces[len(pieces)-1] = append(pieces[len(pieces)-1], plotter.XY{X: x, Y: y})
		}
		for n, xys := range pieces {
			line, points, err := plotter.NewLinePoints(xys)
			if err != nil {
				p.draw(pl, 0, err)
				return
			}
			line.Color, points.Color = colours[i%len(colours)], colours[i%len(colours)]
			line.Width, points.Radius = vg.Points(1.2), vg.Points(1.6)
			pl.Add(line)
			if len(l.Y) <= 200 {
				pl.Add(points)
			}
			if n == 0 && l.Name != "" && len(lines) > 1 {
				pl.Legend.Add(l.Name, line)
			}
		}
	}
	logAxis(&pl.X, a.LogX)
	logAxis(&pl.Y, a.LogY)
	p.draw(pl, dropped, nil)
}

// logAxis needs the axis's range, so it comes after all is added.
func logAxis(a *plot.Axis, log bool) {
	if log && a.Min > 0 && a.Max > 0 && !math.IsInf(a.Min, 0) {
		if a.Min == a.Max {
			a.Min, a.Max = a.Min/2, a.Max*2
		}
		a.Scale, a.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
}

// Histogram adds a plot of how often values occur; with LogX by their powers of ten.
func (p *Page) Histogram(a Axes, values []float64) {
	if a.Y == "" {
		a.Y = "count"
	}
	pl := newPlot(a)
	var shown plotter.Values
	for _, v := range values {
		if !drawable(v, a.LogX) {
			continue
		}
		if a.LogX {
			v = math.Log10(v)
		}
		shown = append(shown, v)
	}
	if len(shown) == 0 {
		p.draw(pl, len(values), nil)
		return
	}
	h, err := plotter.NewHist(shown, histogramBins)
	if err == nil {
		h.FillColor, h.LineStyle.Width = colours[0], 0
		pl.Add(h)
	}
	if a.LogX {
		pl.X.Tick.Marker = powers{}
	}
	p.draw(pl, len(values)-len(shown), err)
}

// powers are the ticks of an axis of decimal logarithms.
type powers struct{}

func (powers) Ticks(lo, hi float64) (ticks []plot.Tick) {
	step := max(1, math.Ceil((hi-lo)/10))
	for v := math.Ceil(lo); v <= hi; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("1e%.0f", v)})
	}
	if len(ticks) == 0 { // within one power
		for _, v := range []float64{lo, hi} {
			ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.2g", math.Pow(10, v))})
		}
	}
	return ticks
}

// Bars adds a plot with a bar for each name.
func (p *Page) Bars(a Axes, names []string, values []float64) {
	pl := newPlot(a)
	shown, dropped := make(plotter.Values, len(values)), 0
	for i, v := range values {
		if shown[i] = v; !drawable(v, false) {
			shown[i] = 0
			dropped++
		}
	}
	if len(shown) == 0 {
		p.draw(pl, 0, nil)
		return
	}
	bars, err := plotter.NewBarChart(shown, vg.Points(min(40, 0.7*width/float64(len(shown)))))
	if err == nil {
		bars.Color, bars.LineStyle.Width = colours[0], 0
		pl.Add(bars)
		pl.NominalX(names...)
		if len(names) > 6 {
			pl.X.Tick.Label.Rotation, pl.X.Tick.Label.XAlign, pl.X.Tick.Label.YAlign = math.Pi/5, -1, -0.5
		}
	}
	p.draw(pl, dropped, err)
}

// Map adds a plot of rows x columns cells, the first row on top, in colours from the
// least to the largest value. Large maps are shrunk, a cell showing the largest of
// its values, so that a single wrong word is seen.
func (p *Page) Map(a Axes, rows, columns int, at func(row, column int) float64) {
	pl := newPlot(a)
	g := &grid{rows: min(rows, mapCells), columns: min(columns, mapCells), height: rows, width: columns}
	g.values = make([]float64, g.rows*g.columns)
	lo, hi, dropped := math.Inf(1), math.Inf(-1), 0
	for r := range g.rows {
		for c := range g.columns {
			v := math.Inf(-1)
			for i := rows * r / g.rows; i < rows*(r+1)/g.rows; i++ {
				for j := columns * c / g.columns; j < columns*(c+1)/g.columns; j++ {
					if w := at(i, j); drawable(w, false) {
						v = max(v, w)
					} else {
						dropped++
					}
				}
			}
			if math.IsInf(v, -1) {
				v = math.NaN()
			} else {
				lo, hi = min(lo, v), max(hi, v)
			}
			g.values[r*g.columns+c] = v
		}
	}
	if lo > hi { // nothing to draw
		p.draw(pl, dropped, nil)
		return
	}
	pl.Title.Text += fmt.Sprintf(" (%.3g to %.3g)", lo, hi)
	if lo == hi {
		hi = lo + 1
	}
	m := moreland.ExtendedBlackBody()
	m.SetMin(0)
	m.SetMax(1)
	h := plotter.NewHeatMap(g, m.Palette(64))
	h.Min, h.Max = lo, hi+(hi-lo)/8 // the palette ends in white, which the page has as well
	h.NaN = color.RGBA{0, 0xc0, 0, 0xff}
	pl.Add(h)
	pl.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	p.draw(pl, dropped, nil)
}

// grid is a map's cells as the plot library wants them.
type grid struct {
	rows, columns, height, width int
	values                       []float64
}

func (g *grid) Dims() (c, r int)   { return g.columns, g.rows }
func (g *grid) Z(c, r int) float64 { return g.values[r*g.columns+c] }
func (g *grid) X(c int) float64    { return (float64(c) + 0.5) * float64(g.width) / float64(g.columns) }
func (g *grid) Y(r int) float64    { return (float64(r) + 0.5) * float64(g.height) / float64(g.rows) }
