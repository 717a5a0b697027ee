package relay

import "slices"

// tidy makes a delta answer of names and aliases one that lists each resource once
// (DELTA-20), and adds the removals of what no name of the client stands for any more. base is the
// wildcard's part. It is for who has aliases.
func (s *Sub) tidy(own, base *Body, errs []*NameError) (*Body, []*NameError) {
	a := s.alias
	listed := make(map[string]bool, len(own.Variants)+len(own.Removed))
	own.Variants = s.onceEach(own.Variants, listed)
	own.Heartbeats = slices.DeleteFunc(own.Heartbeats, func(v *Variant) bool {
		again := listed[v.Name]
		listed[v.Name] = true
		return again
	})
	errs = s.errorsOnce(errs, listed)
	own.Removed = slices.DeleteFunc(own.Removed, func(name string) bool { return listed[name] })
	for _, name := range own.Removed {
		listed[name] = true
	}
	remove := func(x heldName) {
		if !listed[x.name] {
			listed[x.name] = true
			own.remove(x.name, x.spelt)
		}
	}
	for _, x := range a.dropped {
		if v := s.succeeds(x); v != nil && !listed[x.name] {
			listed[x.name] = true
			own.Variants = append(own.Variants, v)
		}
		switch {
		case !s.stillSelects(x.name): // a set that has it all the same, and is not told yet, brings it anew (DEL-1)
			// it is subscribed by its own name by now, and that is not answered
			if r := s.record(x.name); r != nil && r.is(owed) {
				s.sent(r, x.sent)
				r.flags |= holds
				a.deferred = append(a.deferred, x.heldName) // should it be given up before
			} else {
				remove(x.heldName)
			}
			if !x.asked {
				continue
			}
		}
		if x.absent { // it has the resource by another name, and this one stands for nothing
			remove(heldName{name: x.record.entry.name})
		}
	}
	s.addNotices(own, remove)
	a.dropped, a.notices = nil, false
	if a.undecided == 0 {
		a.deferred = slices.DeleteFunc(a.deferred, func(x heldName) bool {
			_, waits := s.itemOf(x.name)
			r := s.record(x.name)
			if !waits && r == nil && !s.stillSelects(x.name) {
				remove(x)
			}
			return !waits && (r == nil || !r.is(owed)) // or else the record's answer tells of it
		})
	}
	return base.without(listed), errs
}

// succeeds is the body of a set that a client is sent when an alias stands for the resource
// no more, and no other name of it does; nil: it keeps what it has. A set that is behind keeps
// quiet: it still lists the alias, so its own word about that is yet to come.
func (s *Sub) succeeds(x droppedAlias) (v *Variant) {
	it, _ := s.itemOf(x.name)
	if it == nil || s.namesResource(x.name) {
		return nil
	}
	held := x.sent
	if behind := it.rev < x.rev && it.variant.listsAs(x.record.entry.name); it.variant.Digest != held && !behind {
		v, held = it.variant, it.variant.Digest
	}
	if s.more != nil {
		s.more.sent[x.name] = held // or else its removal would not be told
	}
	return v
}

// onceEach leaves each resource in a list once, and puts the notices of one name, which some
// origins use for all, together. The names are added to listed.
func (s *Sub) onceEach(vs []*Variant, listed map[string]bool) []*Variant {
	once := vs[:0]
	notices := map[string][]*Variant{}
	for _, v := range vs {
		switch {
		case v.Notice():
			if !slices.Contains(notices[v.Name], v) {
				notices[v.Name] = append(notices[v.Name], v)
			}
		case !listed[v.Name]:
			listed[v.Name] = true
			once = append(once, v)
		}
	}
	for name, list := range notices {
		if listed[name] { // the resource of that name is told: say it in the other way there is
			continue
		}
		listed[name] = true
		once = append(once, joinNotices(list))
	}
	return once
}

func joinNotices(list []*Variant) *Variant {
	if len(list) == 1 {
		return list[0]
	}
	var aliases []string
	for _, v := range list {
		aliases = append(aliases, v.aliases...)
	}
	slices.Sort(aliases)
	return newNotice(list[0].Spelling(), slices.Compact(aliases), "")
}

// errorsOnce leaves each error in once. That of a resource which is in the answer follows in
// the next (ABS-11).
func (s *Sub) errorsOnce(errs []*NameError, bodies map[string]bool) []*NameError {
	told := map[string]bool{}
	return slices.DeleteFunc(errs, func(f *NameError) bool {
		if bodies[f.Name] {
			for _, r := range append(s.alias.by[f.Name], s.record(f.Name)) {
				if r != nil && r.lastError() != nil {
					r.setLastError(nil)
					s.markDirty(r, r.entry.rev)
				}
			}
			return true
		}
		twice := told[f.Name]
		told[f.Name] = true
		return twice
	})
}

// without is b without what is listed elsewhere; b itself if that is nothing.
func (b *Body) without(listed map[string]bool) *Body {
	twice := func(v *Variant) bool { return listed[v.Name] }
	gone := func(name string) bool { return listed[name] }
	if b == nil || !slices.ContainsFunc(b.Variants, twice) && !slices.ContainsFunc(b.Heartbeats, twice) && !slices.ContainsFunc(b.Removed, gone) {
		return b
	}
	return &Body{
		spelt: b.spelt, nameless: b.nameless, Removed: slices.DeleteFunc(slices.Clone(b.Removed), gone),
		Variants:   slices.DeleteFunc(slices.Clone(b.Variants), twice),
		Heartbeats: slices.DeleteFunc(slices.Clone(b.Heartbeats), twice),
	}
}
