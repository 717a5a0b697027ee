package relay

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

// lacks lists what another origin is to be asked for.
func (s *script) lacks() (out []string) {
	s.table.Origin("mesh").Lacks(s.now, func(Place) uint64 { return 0 }, func(l Lack) {
		line := shortType(l.TypeURL)
		if !l.Open {
			line += ", not yet"
		}
		for _, list := range []struct {
			what  string
			names []string
		}{{"sets", l.Sets}, {"namespaces", l.Namespaces}, {"names", l.Names}} {
			if slices.Sort(list.names); len(list.names) > 0 {
				line += ", " + list.what + " " + strings.Join(list.names, " ")
			}
		}
		out = append(out, line)
	})
	if out == nil {
		out = []string{"nothing"}
	}
	return out
}

// stand gives the origin what the other one has of a type now: of names, and of sets that are
// whole. A body that ends in "!" must not be cached, and one that ends in "~" has a TTL.
func (s *script) stand(words []string) []string {
	typeURL, r := shortTypes[words[0]], &Relief{From: s.table.Origin("mesh"), Sets: map[string][]*xds.Variant{}}
	from, selector := &xds.Provenance{TypeURL: typeURL, Server: r.From.Server("10.0.0.9:1")}, ""
	for i := 1; i < len(words); i++ {
		switch w := words[i]; w {
		case "names":
			selector = ""
		case "set":
			i++
			selector = words[i]
			r.Sets[selector] = nil
		default:
			name, body, _ := strings.Cut(w, "=")
			m := madeResource(typeURL, name, "9", strings.TrimRight(body, "!~"))
			m.DoNotCache = strings.HasSuffix(body, "!")
			v := xds.NewVariant(from, &m, "9")
			if strings.HasSuffix(body, "~") {
				end := s.now.Add(time.Minute)
				v.EndAt(end)
			}
			if selector == "" {
				r.Names = append(r.Names, v)
			} else {
				r.Sets[selector] = append(r.Sets[selector], v)
			}
		}
	}
	s.table.Origin("mesh").StandIn(s.now, Place{s.group.key, typeURL}, r)
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
