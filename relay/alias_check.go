package relay

// checkAliases: what goes by several names is found by each of them, and nothing else is.
func (n *namedTable) checkAliases(fail func(string, ...any)) {
	o, listed := &n.other, 0
	for name, h := range o.held {
		if len(h.entries) == 0 || h.name != name {
			fail("resource %q: named %q, held by nobody", name, h.name)
		}
		for _, e := range h.entries {
			if n.entries[e.name] != e || e.also != h || len(e.variants) == 0 || e.variants[0].Name != name {
				fail("resource %q: entry %q does not hold it", name, e.name)
			}
			if e.chosen != nil && e.chosen.ListsAs(e.name) == e.aliasDropped {
				fail("entry %q: lost is %v", e.name, e.aliasDropped)
			}
		}
		for _, alias := range h.aliases {
			if o.lister[alias] == name {
				listed++
			}
		}
	}
	if listed < len(o.lister) {
		fail("%d aliases are known, %d are listed", len(o.lister), listed)
	}
	for name, e := range n.entries {
		for _, v := range e.variants {
			if v.Name != e.variants[0].Name || (v.Name != name || len(v.Aliases) > 0) && (e.also == nil || e.also.name != v.Name) {
				fail("entry %q holds %q, which is not known of it", name, v.Name)
			}
		}
	}
}

// checkAliased: what a client has by other names.
func (s *Sub) checkAliased(fail func(string, ...any)) {
	n, first := 0, 0
	for name, list := range s.alias.by {
		for _, r := range list {
			n++
			if s.alias.of[r].name != name || s.record(r.entry.name) != r || r.entry.name == name {
				fail("record of %q does not stand for %q", r.entry.name, name)
			}
		}
	}
	for r := range s.records.all() {
		if r.is(maybeAlias) {
			first++
		}
	}
	if n != len(s.alias.of) || first != s.alias.undecided {
		fail("%d records stand for something else, %d are known; %d are early of %d", n, len(s.alias.of), first, s.alias.undecided)
	}
}
