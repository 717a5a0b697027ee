package relay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-xds/weir/relay/xds"
)

// fallback gives the origin a last resort: words are TYPE NAME=BODY..., of several types one after
// the other.
func (s *script) fallback(words []string) []string {
	typeURL := ""
	f := s.table.Origin("mesh").NewFallback("files", func(yield func(string, *xds.Resource) bool) {
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
	for _, g := range s.table.Origin("mesh").Groups() {
		for v := range g.Types() {
			for _, r := range v.Maps()[0].Rows("", nil) {
				if r.Variant == nil {
					continue
				}
				if source, fallback := r.Source(nil); fallback {
					out = append(out, fmt.Sprintf("%s %s: %s, for %d", shortType(v.TypeURL), xds.Spelling(r.Name, r.Spelt), source, r.Clients))
				}
			}
		}
	}
	slices.Sort(out)
	if out == nil {
		out = []string{"all are the origin's"}
	}
	return out
}
