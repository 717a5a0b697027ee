package relay

// A second stream of a lane, beside the one that the table knows: to a server that may take over
// (FED-8), or to compare what the origin says now with what is held (audit.go). It asks the same
// and changes nothing here.

// Preview is what Take would give on a stream that is opened now, as far as that can be told
// before. Nothing counts as asked, and no versions are presented. all: also list every name (SotW).
func (l *Lane) Preview(all bool) (asks []Ask) {
	for k := range kinds(l.shards()) {
		k.mu.Lock()
		asks = append(asks, k.preview(l, all)...)
		k.mu.Unlock()
	}
	return asks
}

func (k *store) preview(l *Lane, all bool) (asks []Ask) {
	for _, s := range k.all {
		if s.wantsLane(l) {
			asks = join(append(asks, s.preview(l.index)...), len(asks), false)
		}
	}
	if len(asks) == 0 {
		return nil
	}
	asks[0].First = true
	if !all {
		return asks
	}
	list := Ask{TypeURL: k.typeURL, First: true}
	for i := range asks {
		list.Wildcard = list.Wildcard || asks[i].Wildcard
		list.Subscribe = append(list.Subscribe, asks[i].Subscribe...)
	}
	list.All = list.Subscribe
	return []Ask{list}
}

func (s *shard) preview(i laneIndex) (asks []Ask) {
	kind := glob
	a := Ask{TypeURL: s.typeURL}
	if i == mainLane && s.store.wantsSet() {
		kind = namespace
		switch {
		case !s.star.wanted():
		case !s.byLocator():
			asks = append(asks, Ask{TypeURL: s.typeURL, Wildcard: true})
		default:
			a.Subscribe = append(a.Subscribe, s.starName())
		}
	}
	for _, t := range s.collections.byName {
		if t.kind == kind && t.wanted() {
			a.Subscribe = append(a.Subscribe, t.ask())
		}
	}
	if kind == glob {
		for _, e := range s.named.entries {
			if s.lists(e) {
				a.Subscribe = append(a.Subscribe, s.named.nameOf(e))
			}
		}
	}
	if len(a.Subscribe) == 0 {
		return asks
	}
	sortNames(a.Subscribe)
	return append(asks, a)
}

// Doubt has the next stream present no versions of what is held, so that all of it is told anew and
// the members that are not mentioned are swept (RELAY-46).
func (l *Lane) Doubt() { l.doubt.Store(true) }

// Uncached reports whether anybody in the group is subscribed to something that no server has
// answered yet, and that nobody can be served from here (FED-6). What merely lingers sends nobody
// to another server.
func (g *Group) Uncached() bool {
	for _, s := range *g.all.Load() {
		s.mu.Lock()
		uncached := s.uncached()
		s.mu.Unlock()
		if uncached {
			return true
		}
	}
	return false
}

// uncached leaves out what the origin may end streams for: that is asked apart, and may never
// be answered (RELAY-92).
func (s *shard) uncached() (uncached bool) {
	if s.quarantine != nil || !s.group.origin.Serves(s.typeURL) {
		return false
	}
	s.sets(func(t *set) { uncached = uncached || t.clients > 0 && (!t.settled || t.standsIn()) })
	for _, e := range s.named.entries {
		if uncached {
			return true
		}
		uncached = e.clients > 0 && e.isUnknown()
	}
	return uncached
}
