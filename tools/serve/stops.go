package serve

import "strings"

// stopper looks for stop strings in text that comes in pieces. It holds back what may
// be the beginning of one.
type stopper struct {
	stops []string
	held  string
	found string
}

// write returns the text that is certain, up to the first stop string.
func (s *stopper) write(text string) string {
	if s.found != "" {
		return ""
	}
	s.held += text
	first := -1
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); i >= 0 && (first < 0 || i < first) {
			first, s.found = i, stop
		}
	}
	if first >= 0 {
		text, s.held = s.held[:first], ""
		return text
	}
	keep := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				keep = n
				break
			}
		}
	}
	at := len(s.held) - keep
	text, s.held = s.held[:at], s.held[at:]
	return text
}

// flush returns what was held back, when nothing more comes.
func (s *stopper) flush() string {
	text := s.held
	s.held = ""
	return text
}
