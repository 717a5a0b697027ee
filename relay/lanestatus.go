package relay

import (
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// AskedStatus is how an upstream subscription stands (CSDS-4). The one that says more is the
// greater.
type AskedStatus uint8

const (
	AskedRequested AskedStatus = iota + 1 // not answered yet
	AskedHeld                             // the origin gave it, and it is in use
	AskedAbsent                           // the origin says that it does not exist
	AskedTimeout                          // a healthy stream was silent about it for 15 s (ABS-5)
	// the origin states an error of it; what was held stays in use (ABS-8)
	AskedError
	// what the origin stated last was refused; what was held stays in use (RELAY-32)
	AskedRefused
)

// AskedItem is a picture of one resource that is asked of an origin.
type AskedItem struct {
	TypeURL, Name string
	Status        AskedStatus
	Version       string    // the origin's own; "" also where it must not be seen (RELAY-76)
	Updated       time.Time // when the body came; zero: not known, or there is none
	Body          *Variant  // nil also where it must not be kept (RELAY-9) or seen
	// Why is what is wrong, and WrongAt since when, if that is known: the origin's words, or ours
	// if it is refused.
	Why     string
	WrongAt time.Time
}

// LaneItems are a lane and what it carries.
type LaneItems struct {
	Lane *Lane
	// Name is main or side, and for one of a type's own that, a dot and the type's short name.
	Name   string
	stores []*store
}

// Lanes are those of the groups of the origin that carry something.
func (o *Origin) Lanes() (all []LaneItems) {
	for _, g := range o.groupList() {
		at := map[*Lane]int{}
		for k := range kinds(*g.all.Load()) {
			for i, l := range k.lanes.Load() {
				if !k.carriesSomething(laneIndex(i)) {
					continue
				}
				n, known := at[l]
				if !known {
					n = len(all)
					at[l], all = n, append(all, LaneItems{Lane: l, Name: l.name()})
				}
				all[n].stores = append(all[n].stores, k)
			}
		}
	}
	return all
}

func (l *Lane) name() string {
	name := "main"
	if l.index == sideLane {
		name = "side"
	}
	if l.only != nil {
		name += "." + metrics.ShortName(l.only.typeURL)
	}
	return name
}

// carriesSomething reports whether the type wants anything of the lane. It locks the store.
func (k *store) carriesSomething(i laneIndex) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wants(i)
}

// Items gives a picture of each resource that the lane is to bring. A name may occur for several
// parameter maps. One type is locked at a time, and none while f runs.
func (x *LaneItems) Items(f func(AskedItem)) {
	for _, k := range x.stores {
		for _, it := range k.asked(x.Lane.index) {
			f(it.item(k))
		}
	}
}

// askedName is an AskedItem before its texts are made, which is done outside the lock.
type askedName struct {
	name, spelt string
	status      AskedStatus
	body        *Variant
	why         string
	at          time.Time
}

func (x *askedName) item(k *store) AskedItem {
	secret := xds.IsSecret(k.typeURL)
	it := AskedItem{TypeURL: k.typeURL, Name: xds.Spelling(x.name, x.spelt), Status: x.status, Why: x.why, WrongAt: x.at}
	if secret && x.why != "" {
		it.Why = "(what is said of a secret is not kept)"
	}
	v := x.body
	if v == nil {
		return it
	}
	it.Updated = v.Received()
	if v.Nameless {
		it.Name = ""
	}
	if !secret {
		it.Version = v.originVersion
		if it.Version == "" { // state of the world has one for all of a response (VER-9)
			it.Version = v.from.version
		}
		if !v.DoNotCache {
			it.Body = v
		}
	}
	return it
}

// asked looks at what the type's lane of that index is to bring. It locks the store.
func (k *store) asked(i laneIndex) (all []askedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	refused := k.rejectionsOn(i)
	listed := map[string]bool{} // of those
	add := func(x askedName) {
		if r, is := refused[x.name]; is {
			listed[x.name] = true
			x.status, x.why, x.at = AskedRefused, r.Reason, r.At
		}
		all = append(all, x)
	}
	for _, s := range k.all {
		s.sets(func(t *set) {
			if t.laneIndex() == i && t.wanted() {
				t.eachAsked(add)
			}
		})
		if s.named.lane != i {
			continue
		}
		for _, e := range s.named.entries {
			if e.wanted() {
				add(s.askedName(e))
			}
		}
	}
	for name, r := range refused { // of a set, which holds nothing of that name
		if !listed[name] && k.setCovers(i, name) {
			all = append(all, askedName{name: name, status: AskedRefused, why: r.Reason, at: r.At})
		}
	}
	return all
}

func (k *store) setCovers(i laneIndex, name string) (covers bool) {
	for _, s := range k.all {
		s.sets(func(t *set) { covers = covers || t.laneIndex() == i && t.wanted() && t.includes(name) })
	}
	return covers
}

// eachAsked adds the members of a set and what is in error of it. A set that nothing came for
// stands for itself.
func (t *set) eachAsked(add func(askedName)) {
	for _, m := range t.members {
		for _, v := range m.variants {
			x := askedName{name: m.name, spelt: v.spelt, status: AskedHeld, body: v}
			if f := t.faults.byName[m.name]; f != nil {
				x.status, x.why, x.at = AskedError, f.err.Message, f.at
			}
			add(x)
		}
	}
	for name, f := range t.faults.byName {
		if t.members[name] == nil {
			add(askedName{name: name, spelt: f.err.spelt, status: statusOf(f.err), why: f.err.Message, at: f.at})
		}
	}
	self := askedName{name: t.selector, spelt: t.spelt}
	switch {
	case t.fault != nil:
		self.status, self.why = statusOf(t.fault), t.fault.Message
	case len(t.members)+len(t.faults.byName) > 0:
		return
	case t.firm || t.settled:
		return // it is known to be empty
	default:
		self.status = AskedRequested
	}
	add(self)
}

// statusOf is what an error says of the resource, of which nothing is held.
func statusOf(f *NameError) AskedStatus {
	if f.Code == codeNotFound {
		return AskedAbsent
	}
	return AskedError
}

func (s *shard) askedName(e *entry) askedName {
	x := askedName{name: e.name, spelt: e.spelt, body: e.chosen}
	switch f := e.fault; {
	case f != nil && e.chosen != nil:
		x.status, x.why = AskedError, f.Message
	case e.chosen != nil:
		x.status = AskedHeld
	case f != nil && e.isUnanswered() && f.same(unanswered(e.name)):
		x.status, x.why = AskedTimeout, f.Message
	case f != nil:
		x.status, x.why = statusOf(f), f.Message
	case s.absent(e):
		if x.status = AskedAbsent; e.isUnanswered() {
			x.status = AskedTimeout
		}
	case e.isUnanswered():
		x.status = AskedTimeout
	default:
		x.status = AskedRequested
	}
	return x
}
