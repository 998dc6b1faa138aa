package report

import (
	"fmt"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
)

// Points adds a plot of named points on logarithmic axes, and of lines that bound them:
// a roofline, when x is the work for each byte and y the work for each second. Points
// that are not positive are left out.
func (p *Page) Points(a Axes, names []string, x, y []float64, bounds ...Line) {
	pl := newPlot(a)
	var at plotter.XYLabels
	dropped := 0
	for i := range x {
		if !drawable(x[i], true) || !drawable(y[i], true) {
			dropped++
			continue
		}
		at.XYs = append(at.XYs, plotter.XY{X: x[i], Y: y[i]})
		at.Labels = append(at.Labels, " "+names[i])
	}
	if len(at.XYs) == 0 {
		p.draw(pl, 0, fmt.Errorf("no points"))
		return
	}
	marks, err := plotter.NewScatter(at.XYs)
	if err != nil {
		p.draw(pl, 0, err)
		return
	}
	marks.GlyphStyle.Color, marks.GlyphStyle.Shape = colours[1], draw.CircleGlyph{}
	labels, err := plotter.NewLabels(at)
	if err != nil {
		p.draw(pl, 0, err)
		return
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font = pl.X.Tick.Label.Font
	}
	pl.Add(marks, labels)
	for i, b := range bounds {
		xys := make(plotter.XYs, len(b.Y))
		for j := range xys {
			xys[j] = plotter.XY{X: b.X[j], Y: b.Y[j]}
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			p.draw(pl, 0, err)
			return
		}
		line.Color = colours[i%len(colours)]
		pl.Add(line)
		pl.Legend.Add(b.Name, line)
	}
	pl.Legend.Top = false
	logAxis(&pl.X, true)
	logAxis(&pl.Y, true)
	p.draw(pl, dropped, nil)
}
