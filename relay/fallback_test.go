package relay

import (
	"fmt"
	"slices"
	"strings"
)

// fallback gives the origin a last resort: words are TYPE NAME=BODY..., of several types one after
// the other.
func (s *script) fallback(words []string) []string {
	typeURL := ""
	f := s.table.Origin("mesh").NewFallback("files", func(yield func(string, *Resource) bool) {
		for _, w := range words {
			if url := shortTypes[w]; url != "" {
				typeURL = url
				continue
			}
			name, body, _ := strings.Cut(w, "=")
			r := madeResource(typeURL, name, "f"+body, body)
			if !yield(typeURL, &r) {
				return
			}
		}
	})
	if len(words) == 0 {
		f = nil
	}
	s.table.Origin("mesh").SetFallback(s.now, f)
	return s.woken()
}

// sources lists what is held and is not the origin's.
func (s *script) sources() (out []string) {
	s.table.Origin("mesh").Resources("", "", "", func(r ResourceStatus) bool {
		if r.Fallback {
			out = append(out, fmt.Sprintf("%s %s: %s, for %d", shortType(r.TypeURL), r.Name, r.Source, r.Clients))
		}
		return true
	})
	slices.Sort(out)
	if out == nil {
		out = []string{"all are the origin's"}
	}
	return out
}
