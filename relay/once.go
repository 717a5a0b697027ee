package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// tidy makes a client's delta answer list each resource once (DELTA-20), although several names may
// stand for it. It adds the removals of what no name of the client stands for any more. base is the
// part of the sets. It is called only for a client with aliases.
func (s *Sub) tidy(own, base *Body, errs []*NameError) (*Body, []*NameError) {
	a := s.alias
	listed := make(map[string]bool, len(own.Variants)+len(own.Removed))
	own.Variants = s.onceEach(own.Variants, listed)
	own.Heartbeats = slices.DeleteFunc(own.Heartbeats, func(v *xds.Variant) bool {
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
		// It is removed even if a set has it that was not sent yet. The set then brings it again
		// (DEL-1).
		case !s.stillSelects(x.name):
			// By now the client is subscribed to it by its own name, and that is not answered.
			if r := s.record(x.name); r != nil && r.is(owed) {
				r.setSent(x.sent)
				r.flags |= holds
				// It is removed if the client gives it up before the answer.
				a.deferred = append(a.deferred, x.heldName)
			} else {
				remove(x.heldName)
			}
			if !x.asked {
				continue
			}
		}
		// Here the client has the resource by another name, and this name stands for nothing.
		if x.absent {
			remove(heldName{name: x.record.entry.name})
		}
	}
	s.addNotices(own, remove)
	a.dropped, a.notices = nil, false
	if a.undecided == 0 {
		a.deferred = slices.DeleteFunc(a.deferred, func(x heldName) bool {
			_, waits := s.sets.itemOf(x.name)
			r := s.record(x.name)
			if !waits && r == nil && !s.stillSelects(x.name) {
				remove(x)
			}
			return !waits && (r == nil || !r.is(owed)) // otherwise the record's answer decides
		})
	}
	return base.without(listed), errs
}

// succeeds is the body of a set to send when an alias no longer stands for the resource and no
// other name of the client does; nil: the client keeps what it has. A set that still lists the
// alias, in an older body, is behind, and its own update is yet to come. So it has nothing to send.
func (s *Sub) succeeds(x droppedAlias) (v *xds.Variant) {
	it, _ := s.sets.itemOf(x.name)
	if it == nil || s.namesResource(x.name) {
		return nil
	}
	held := x.sent
	if behind := it.rev < x.rev && it.variant.ListsAs(x.record.entry.name); it.variant.Digest != held && !behind {
		v, held = it.variant, it.variant.Digest
	}
	s.sets.setSent(x.name, held) // otherwise its removal would not be sent
	return v
}

// onceEach leaves each resource in a list once. It merges the notices of one name, since some
// origins use one name for all notices. The names are added to listed.
func (s *Sub) onceEach(vs []*xds.Variant, listed map[string]bool) []*xds.Variant {
	once := vs[:0]
	notices := map[string][]*xds.Variant{}
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
		// The answer has the resource of that name, so it can have no notice of it (DELTA-20).
		if listed[name] {
			continue
		}
		listed[name] = true
		once = append(once, joinNotices(list))
	}
	return once
}

func joinNotices(list []*xds.Variant) *xds.Variant {
	if len(list) == 1 {
		return list[0]
	}
	var aliases []string
	for _, v := range list {
		aliases = append(aliases, v.Aliases...)
	}
	slices.Sort(aliases)
	return xds.NewNotice(list[0].Spelling(), slices.Compact(aliases), "")
}

// errorsOnce leaves each error in the list once. The error of a resource that is in the answer is
// left for the next one (ABS-11).
func (s *Sub) errorsOnce(errs []*NameError, bodies map[string]bool) []*NameError {
	told := map[string]bool{}
	return slices.DeleteFunc(errs, func(f *NameError) bool {
		if bodies[f.Name] {
			for _, r := range append(s.alias.by[f.Name], s.record(f.Name)) {
				if r != nil && r.lastError() != nil {
					r.setLastError(nil)
					r.markDirty(r.entry.rev)
				}
			}
			return true
		}
		twice := told[f.Name]
		told[f.Name] = true
		return twice
	})
}

// without is b without the resources that are listed elsewhere. It is b itself if there are none.
func (b *Body) without(listed map[string]bool) *Body {
	twice := func(v *xds.Variant) bool { return listed[v.Name] }
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
