package relay

import "slices"

// What the lanes of a type are to bring, for package inspect (CSDS-4).

// Lanes are the type's main and side lane, if something of it is to be asked there; else nil.
func (v TypeView) Lanes() (lanes [2]*Lane) {
	k := v.store
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, l := range k.lanes.Load() {
		if k.wants(laneIndex(i)) {
			lanes[i] = l
		}
	}
	return lanes
}

// Asked gives a row for each resource of the type that the lane is to bring: one for each variant
// of a member, one for a name with the variant that is chosen, and one for each error of which
// nothing is held. A set that nothing came for stands for itself. A name may occur for several
// parameter maps, which are looked at in one instant.
func (v TypeView) Asked(l *Lane) []Row {
	k, i := v.store, l.index
	k.mu.Lock()
	defer k.mu.Unlock()
	refused := k.rejectionsOn(i)
	var rows rowList
	var sets []*set
	for _, s := range k.all {
		s.walk(func(t *set) bool {
			switch {
			case t == nil && s.named.lane == i:
				rows.all = slices.Grow(rows.all, len(s.named.entries))
				return true
			case t == nil || t.laneIndex() != i || !t.wanted():
				return false
			}
			if len(refused) > 0 {
				sets = append(sets, t)
			}
			rows.all = slices.Grow(rows.all, t.members.len())
			rows.askSet(t)
			return true
		}, rows.ask)
	}
	if len(refused) > 0 {
		rows.reject(refused, sets)
	}
	return rows.all
}

// reject notes what was refused, and adds what of it a set may have and holds nothing of.
func (rows *rowList) reject(refused map[string]Rejection, sets []*set) {
	listed := map[string]bool{}
	for i := range rows.all {
		r := &rows.all[i]
		if _, is := refused[r.Name]; is {
			x := refused[r.Name]
			listed[r.Name], r.Rejected = true, &x
		}
	}
	for name, x := range refused {
		if !listed[name] && slices.ContainsFunc(sets, func(t *set) bool { return t.includes(name) }) {
			rows.all = append(rows.all, Row{Name: name, Rejected: &x})
		}
	}
}

func (rows *rowList) ask(k known) {
	if k.set == nil {
		rows.askName(k)
		return
	}
	for _, v := range k.variants {
		r := rows.row(k.set, k.name, v.Spelt)
		r.Variant = v
		if f := k.set.nameErrors.byName[k.name]; f != nil {
			r.Error, r.ErrorAt = f.nameError, f.at
		}
		rows.all = append(rows.all, r)
	}
}

// askSet adds what is in error of a set and not held, and the set itself if it is, or if nothing is
// known of it.
func (rows *rowList) askSet(t *set) {
	for name, f := range t.nameErrors.byName {
		if t.members.get(name) == nil {
			r := rows.row(t, name, f.nameError.Spelt)
			r.Error, r.ErrorAt = f.nameError, f.at
			rows.all = append(rows.all, r)
		}
	}
	if t.collectionError != nil || t.members.len()+len(t.nameErrors.byName) == 0 && !t.firm && !t.settled {
		r := rows.row(t, t.selector, t.spelt)
		r.Error = t.collectionError
		rows.all = append(rows.all, r)
	}
}

func (rows *rowList) askName(k known) {
	e := k.entry
	if !e.wanted() {
		return
	}
	r := rows.row(nil, e.name, e.spelt)
	r.Variant, r.Error, r.Absent = e.chosen, e.nameError, k.shard.named.absent(e)
	r.Timeout = e.isUnanswered() && (e.nameError == nil || e.nameError.Same(unanswered(e.name)))
	rows.all = append(rows.all, r)
}
