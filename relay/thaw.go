package relay

// The end of a freeze, or of a hold. What waits for its clusters then came while that was in force,
// and has to wait at the origin as they do. So it is applied before the end
// (testdata/gather_free.txt).

// Unfreeze lets clients go on. False: it was not frozen.
func (o *Origin) Unfreeze() bool {
	if o.frozen.Load() != nil {
		for _, g := range o.groupList() {
			g.gathering.all()
		}
	}
	if o.frozen.Swap(nil) == nil {
		return false
	}
	for _, g := range o.groupList() {
		if g.kept() {
			continue // by a hold
		}
		for _, s := range *g.all.Load() {
			s.thaw()
		}
	}
	return true
}

// Free ends that a group is held. The origin states the differences, as when a freeze ends. False:
// it was not held. A tier (tier.go) stays where it is held: it is for the canary gate to give it
// something else. It locks the origin, and the queue and the types of the group.
func (o *Origin) Free(group string) bool {
	if g := o.GroupOf(group); g != nil {
		g.gathering.all()
	}
	o.mu.Lock()
	_, was := o.holds[group]
	if _, tier := CutTier(group); tier != Newest && o.Canaries() {
		o.mu.Unlock()
		return was
	}
	delete(o.holds, group)
	g := o.groups[group]
	if g != nil {
		g.hold.Store(nil)
	}
	o.mu.Unlock()
	if g != nil && !g.kept() {
		for _, s := range *g.all.Load() {
			s.thaw()
		}
	}
	return was
}

// thaw has the origin asked again for what waits. It locks the shard.
func (s *shard) thaw() {
	s.mu.Lock()
	waited := len(s.frozen) > 0 || s.errorsCut
	if len(s.frozen) > 0 {
		s.thawed, s.thawedGen = s.frozen, s.group.gens.Load()
	}
	s.frozen, s.errorsCut = nil, false
	s.mu.Unlock()
	if waited {
		for _, l := range s.lanes.Load() {
			l.reopenSoon()
		}
	}
}
