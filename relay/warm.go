package relay

import (
	"maps"
	"slices"
	"strings"

	"github.com/weir-xds/weir/relay/xds"
)

// Owe makes names be answered again though nothing changed (WARM-6), as far as the client is
// subscribed to them. Wildcard stands for all of them.
func (s *Sub) Owe(names []string) {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	for _, name := range names {
		if name == xds.Wildcard {
			s.oweAll()
			return
		}
		if r := s.record(name); r != nil {
			r.flags |= sendEmpty
			r.oweAgain()
			continue
		}
		if also := s.alias.by[name]; len(also) > 0 {
			also[0].oweAgain()
			continue
		}
		s.oweMember(name)
	}
}

func (s *Sub) oweAll() {
	for r := range s.records.all() {
		r.flags |= sendEmpty
		r.oweAgain()
	}
	for p := s.sets.first; p != nil; p = p.also {
		if p.fresh {
			s.version = ""
			for name := range s.claims.versions {
				s.claims.doubt(name)
			}
			continue
		}
		p.resend = true
		s.mark(s.shard.rev)
	}
}

// oweMember owes a name that the client has by a set.
func (s *Sub) oweMember(name string) {
	s.sets.covering(name, func(p *position) {
		switch it := p.view.item(name); {
		case p.fresh:
			// The first answer has it, whatever the client says to hold (WARM-6).
			s.version = ""
			s.claims.doubt(name)
		case it == nil || it.dead:
		case s.delta:
			s.sets.answerAgain(name, it.variant.Spelling())
			s.mark(s.shard.rev)
		default:
			p.resend = true // it is sent whole
			s.mark(s.shard.rev)
		}
	})
}

// uncovered is what endpoints the Clusters in a SotW list need that are a set's, where the list
// before had another body by a name that was dropped since.
func (s *Sub) uncovered() []string {
	var clusters []*xds.Variant
	for _, name := range slices.Sorted(maps.Keys(s.sets.again)) {
		if it := s.sets.live(name); it != nil && s.record(name) == nil {
			clusters = append(clusters, it.variant)
		}
	}
	s.sets.again = nil
	return needs(clusters)
}

// OweNamespaces makes the virtual hosts of these route configurations be answered again though
// nothing changed (WARM-4), as far as the client is subscribed to them, but for those in except.
// They are named `<route configuration>/<host>`, split at the last slash (ALIAS-6).
func (s *Sub) OweNamespaces(routes []string, except []*xds.Variant) {
	done := make(map[string]bool, len(except))
	for _, v := range except {
		done[v.Name] = true
	}
	of := make(map[string]bool, len(routes))
	for _, name := range routes {
		of[name] = true
	}
	covers := func(name string) bool {
		i := strings.LastIndexByte(name, '/')
		return !done[name] && (of[name] || i >= 0 && of[name[:i]])
	}
	s.shard.mu.Lock()
	defer s.shard.unlock()
	for r := range s.records.all() {
		name := r.entry.name
		if resource := s.alias.resource(r); covers(name) && !done[resource] || covers(resource) {
			r.oweAgain()
		}
	}
	for p := s.sets.first; p != nil; p = p.also {
		for it := range p.view.all() {
			if name := it.variant.Name; covers(name) && !it.dead && s.record(name) == nil {
				s.oweMember(name)
			}
		}
	}
}
