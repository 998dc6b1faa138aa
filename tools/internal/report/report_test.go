package report

import (
	"encoding/xml"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
)

// written writes the page and checks that it is whole and asks for nothing outside.
func written(t *testing.T, p *Page) string {
	t.Helper()
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if outside := regexp.MustCompile(`(src|href)=|url\(|<script|@import`).FindString(text); outside != "" {
		t.Errorf("the page has %q", outside)
	}
	for i, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1) {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("plot %d: %v", i, err)
			}
		}
	}
	return text
}

func TestPage(t *testing.T) {
	p := New("a <b> & c", "about")
	p.Heading("h")
	p.Text("1 < 2")
	p.Table([]string{"x"}, [][]string{{"<script>"}})
	p.Lines(Axes{Title: "t & <u>", X: "x", Y: "y", LogY: true}, Line{Name: "one", Y: []float64{1, 10, math.NaN(), 100, 0}}, Line{Name: "two", Y: []float64{3}})
	p.Histogram(Axes{Title: "h", LogX: true}, []float64{1e-5, 1e-4, 2e-4, 0, math.Inf(1)})
	p.Bars(Axes{Title: "b"}, []string{"a", "b"}, []float64{1, 2})
	p.Map(Axes{Title: "m"}, 3, 200, func(r, c int) float64 { return float64(r * c) })
	text := written(t, p)
	for _, want := range []string{
		"a &lt;b&gt; &amp; c", "1 &lt; 2", "&lt;script&gt;", ">1e-5<", ">one<", "(0 to 398)",
		"2 numbers are left out",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(text, "<svg"); n != 4 {
		t.Errorf("%d plots", n)
	}
}

// A map of many cells shows a single one that stands out.
func TestMapShrinks(t *testing.T) {
	p := New("m", "")
	p.Map(Axes{}, 1000, 1000, func(r, c int) float64 {
		if r == 777 && c == 3 {
			return 5
		}
		return 0
	})
	text := written(t, p)
	if n := strings.Count(text, "<path"); n < 64*64 || n > 64*64+200 {
		t.Errorf("%d paths", n)
	}
	if !strings.Contains(text, "(0 to 5)") {
		t.Error("the largest value is lost")
	}
}

// Whatever is measured can be drawn.
func TestOddNumbers(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, values := range [][]float64{nil, {0}, {1}, {nan}, {inf, -inf}, {1, 1, 1}, {-1, 0, 1}, {1e-300, 1e300}, {2, 3}} {
		for _, log := range []bool{false, true} {
			p := New("odd", "")
			p.Lines(Axes{Title: "l", LogX: log, LogY: log}, Line{X: values, Y: values})
			p.Histogram(Axes{LogX: log}, values)
			p.Bars(Axes{}, make([]string, len(values)), values)
			p.Map(Axes{}, 1, len(values), func(_, c int) float64 { return values[c] })
			written(t, p)
		}
	}
}
