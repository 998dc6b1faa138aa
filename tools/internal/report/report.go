// Package report writes what a command measured as one HTML page with tables and
// plots. The page is self-contained: it can be mailed, kept by a CI and read without
// a network.
//
//	p := report.New("tern perplexity", "sprig, 12 chunks of 512 tokens")
//	p.Text("Figures of the usual kind.")
//	p.Table([]string{"figure", "value"}, [][]string{{"Mean KLD", "0.0004"}})
//	p.Lines(report.Axes{Title: "perplexity", X: "chunk", Y: "PPL"}, report.Line{Name: "this", Y: ppl})
//	p.Histogram(report.Axes{Title: "divergence", X: "KL", LogX: true}, kl)
//	p.Bars(report.Axes{Title: "time", Y: "ms"}, []string{"mul_mat", "norm"}, ms)
//	p.Map(report.Axes{Title: "differences", X: "column", Y: "row"}, rows, columns, at)
//	err := p.Write(w)
//
// Numbers that cannot be drawn, infinities and NaN, and on a logarithmic axis those
// that are not positive, are left out and counted below the plot. The first error of
// a drawing is returned by Write.
package report

import (
	"errors"
	"html/template"
	"io"
	"strings"
	"time"
)

// Page is a report in the making.
type Page struct {
	Title, About string
	Parts        []part
	err          error
}

// part is a piece of text, a table or a plot.
type part struct {
	Heading, Text, Note string
	Head                []string
	Rows                [][]string
	Plot                template.HTML
}

// New begins a page.
func New(title, about string) *Page { return &Page{Title: title, About: about} }

// Heading begins a section.
func (p *Page) Heading(text string) { p.Parts = append(p.Parts, part{Heading: text}) }

// Text adds a paragraph.
func (p *Page) Text(text string) { p.Parts = append(p.Parts, part{Text: text}) }

// Table adds a table. Rows have a cell for each column of head.
func (p *Page) Table(head []string, rows [][]string) {
	p.Parts = append(p.Parts, part{Head: head, Rows: rows})
}

// Made is when the page is written.
func (p *Page) Made() string { return time.Now().UTC().Format("2006-01-02 15:04 MST") }

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	if p.err != nil {
		return p.err
	}
	return page.Execute(w, p)
}

// Picture writes the page's first plot alone, as an SVG file.
func (p *Page) Picture(w io.Writer) error {
	if p.err != nil {
		return p.err
	}
	for _, part := range p.Parts {
		if svg := string(part.Plot); svg != "" {
			end := strings.Index(svg, ">") + 1
			_, err := io.WriteString(w, svg[:end]+"\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"+svg[end:])
			return err
		}
	}
	return errors.New("a picture of a page without plots")
}

var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; }
.about, .note { opacity: .7; }
.note { font-size: .85em; margin-top: 0; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; border-bottom: 1px solid #8884; }
.wide { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; margin: 1rem 0 .3rem; padding: .5rem; box-sizing: border-box; background: #fff; border-radius: 6px; }
svg text { font-family: system-ui, "Liberation Sans", Arial, sans-serif !important; }
</style>
</head>
<body>
<h1>{{.Title}}</h1>
<p class="about">{{.About}}<br>{{.Made}}</p>
{{range .Parts -}}
{{if .Heading}}<h2>{{.Heading}}</h2>
{{end -}}
{{if .Text}}<p>{{.Text}}</p>
{{end -}}
{{if .Head}}<div class="wide"><table>
<tr>{{range .Head}}<th>{{.}}</th>{{end}}</tr>
{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table></div>
{{end -}}
{{if .Plot}}{{.Plot}}{{end -}}
{{if .Note}}<p class="note">{{.Note}}</p>
{{end -}}
{{end}}</body>
</html>
`))
