package conform

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// The elements of a JUnit report that build servers agree on. Times are in seconds.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string      `xml:"classname,attr"`
	Name    string      `xml:"name,attr"`
	Time    string      `xml:"time,attr"`
	Failure *junitEvent `xml:"failure,omitempty"`
	Skipped *junitEvent `xml:"skipped,omitempty"`
}

type junitEvent struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML: a test case an implementation, in the
// class of its contract.
func (r *Report) WriteJUnit(w io.Writer) error {
	s := junitSuite{Name: "tern conform on " + r.Executor, Tests: len(r.Results)}
	total := 0.0
	for _, k := range r.Results {
		c := junitCase{Class: k.Contract, Name: k.Kernel(), Time: fmt.Sprintf("%.3f", k.Elapsed.Seconds())}
		total += k.Elapsed.Seconds()
		switch {
		case k.Failed > 0:
			s.Failures++
			var lines []string
			for _, f := range k.Failures {
				lines = append(lines, f.String())
			}
			c.Failure = &junitEvent{Message: lines[0], Text: strings.Join(lines, "\n")}
		case k.Cases == 0:
			s.Skipped++
			c.Skipped = &junitEvent{Message: k.Skipped}
		}
		s.Cases = append(s.Cases, c)
	}
	s.Time = fmt.Sprintf("%.3f", total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	out := xml.NewEncoder(w)
	out.Indent("", "  ")
	if err := out.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
