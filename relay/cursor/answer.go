package cursor

import (
	"maps"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// Answer is what one response says. Its lists may be shared with other clients.
type Answer struct {
	Number uint64 // of the cursor's answers, for Ack
	// Bodies are those of plain names. A list that is sent whole has All besides; what of it is not
	// in Changed the client has.
	Bodies
	Located    Located          // what is sent in located form
	Removed    []string         // in delta, as the client spells them
	Errors     []*xds.NameError // instead of resources (ABS-9)
	Unresolved []Unresolved     // to be said in resources without a payload
	Version    string           // version_info of state of the world (VER-4)
	Whole      bool             // it lists all there is (SOTW-2, SOTW-4)
	All        []state.Set      // of a list, by source, without those of locators
	Group      int              // of the plan, that all of it comes from; -1: it comes from several
	Waits      bool             // something that was asked for is not known yet
	More       bool             // more is to be said at once, in a response of its own (ABS-11)
	delta, ttl bool
	shared     *way
}

// Unresolved is a name that does not exist, and of which delta clients are told so in a resource
// without a payload: a virtual host on demand, which is Removed, too (ALIAS-10), or what the origin
// has such words for (ALIAS-5).
type Unresolved struct {
	Name   string       // as the client spells it
	Notice *xds.Variant // the origin's words; nil: there are none
}

// Bodies are resources of an answer.
type Bodies struct {
	Changed    []*xds.Variant // new to the client, or sent again
	Heartbeats []*xds.Variant // of which only the TTL is sent (TTL-2)
}

// Whole reports whether each SotW response has all that the client is to have (SOTW-2, SOTW-4).
func (c *Cursor) Whole() bool {
	return !c.Delta && (xds.SentWhole(c.TypeURL) || anyOf(c.parts, func(p *part) bool { return p.set(xds.Wildcard) >= 0 }))
}

// mustWait reports whether a list that is sent whole has to wait: it may not leave out what the
// client could hold (RELAY-7), nor be empty before that is known (SOTW-9).
func (k *take) mustWait() bool {
	asks, count := 0, 0
	if k.Holds && !k.sentWhole && k.Only == plan.Everything && !k.assumed { // it may hold what is not there
		k.wrote = true
	}
	union := k.several() && k.Only == plan.Everything
	wild := anyOf(k.parts, func(p *part) bool { return p.set(xds.Wildcard) >= 0 })
	late := union && !k.Holds && k.now.Sub(k.Began) >= k.Cold
	for i := range k.parts {
		p := &k.parts[i]
		to := k.Parts[p.Group].To
		has := k.counts(i)
		count += has
		if union && k.outs[i].waits && !k.sentWhole && (!k.Holds && !late && (wild || has == 0) || k.Holds && !isOpen(to)) { // FED-5
			return true
		}
		unready := 0
		for j := range p.sets {
			x := state.Selected{}
			if to != nil {
				x = p.sets[j].in(to)
			}
			if asks++; !k.ready(p, &p.sets[j], &x) {
				unready++
			}
		}
		alone := len(p.sets) == 1 && p.set(xds.Wildcard) == 0 || unready == len(p.sets) && len(p.names) == 0
		if unready > 0 && (k.Holds || alone) && !(late && to != nil && !isOpen(to)) {
			return true
		}
	}
	waits := k.waits && k.now.Sub(k.since) < k.Patience
	if k.Holds && (waits || asks == 0 && !k.sentWhole && k.refused()) {
		return true
	}
	if count == 0 && k.wrote && asks == 0 && !k.waits && !k.sentWhole && !k.Holds && len(k.a.Errors) == 0 {
		k.wrote = false // it asks for what is not there, and has nothing
	}
	for i := range k.parts { // an origin that is away is no witness, though others are there (RELAY-6)
		waits = waits || k.outs[i].waits && !isOpen(k.Parts[k.parts[i].Group].To)
	}
	return count == 0 && k.wrote && waits
}

// counts is how many bodies the client has of a source after the step.
func (k *take) counts(source int) (n int) {
	n = k.parts[source].held.Len()
	for _, o := range k.outs[source].all {
		switch {
		case o.claimed:
			n++
		case o.was == nil && o.is != nil:
			n++
		case o.was != nil && o.is == nil:
			n--
		}
	}
	return n
}

// refused reports whether nothing is known of each name that the client asks for, or an error that
// takes nothing away.
func (k *take) refused() bool {
	for i := range k.parts {
		p := &k.parts[i]
		errs := map[string]*xds.NameError{}
		maps.Copy(errs, p.told)
		left := p.stillOwed(k.outs[i].all)
		for _, o := range k.outs[i].all {
			if o.told != nil {
				errs[o.name] = o.told
			}
		}
		for name := range p.names {
			if err := errs[name]; err == nil && (!left[name].waits() || k.known(p, name).Known()) || err != nil && p.Ends(err) {
				return false
			}
		}
	}
	return true
}

// several reports whether what the client asks for comes from several origins.
func (c *Cursor) several() bool {
	return anyOf(c.parts, func(p *part) bool { return p.Group != c.parts[0].Group })
}

// isOpen reports whether a stream to the origin is open.
func isOpen(s *state.State) bool { return s != nil && (s.Lanes[0].Open || s.Lanes[1].Open) }

// patience finds out which sets a client that holds nothing has waited for long enough (RELAY-6),
// and when to look for the others.
func (k *take) patience() {
	k.until = time.Time{}
	has := anyOf(k.parts, func(p *part) bool { return p.held.Len() > 0 || k.holds(p) })
	for i := range k.parts {
		p := &k.parts[i]
		for j := range p.sets {
			t := &p.sets[j]
			if t.late = false; !t.fresh || has || k.sentWhole {
				continue
			}
			if end := t.since.Add(k.Cold); end.After(k.now) {
				k.lookAt(end)
			} else {
				t.late = true
			}
		}
	}
}

// lookAt has the list be looked at again at a time, though nothing comes.
func (k *take) lookAt(at time.Time) {
	if at.After(k.now) && (k.until.IsZero() || at.Before(k.until)) {
		k.until = at
	}
}

// sleep notes until when a list waits at most, if nothing comes.
func (k *take) sleep() {
	k.lookAt(k.since.Add(k.Patience))
	k.lookAt(k.Began.Add(k.Cold))
}

// wait finds out whether the client waits for names. It does so for a while, on a stream to their
// origin that is open (RELAY-6).
func (k *take) wait() {
	for i := range k.parts {
		p, waiting := &k.parts[i], k.parts[i].waiting
		for _, o := range k.outs[i].all {
			if p.owed[o.name].waits() && !(p.owed[o.name] &^ o.answered).waits() {
				waiting--
			} else if o.told != nil && p.told[o.name] == nil && p.owed[o.name].waits() && k.errorsAnswer() {
				waiting--
			}
		}
		for name := range p.told {
			if p.owed[name].waits() && k.errorsAnswer() {
				waiting--
			}
		}
		k.outs[i].waits = waiting > 0
		k.waits = k.waits || waiting > 0
	}
	if !slices.ContainsFunc(k.Parts, func(x plan.Part) bool { return isOpen(x.To) }) {
		k.since = k.now
	}
}

// errorsAnswer reports whether who was told an error of a name waits for it no longer. A client
// that comes back may hold it, and Envoy refuses a list without a secret that it names.
func (c *Cursor) errorsAnswer() bool { return !c.Holds && !xds.IsSecret(c.TypeURL) }

// finish is the answer, if there is one.
func (k *take) finish() *Answer {
	whole, c := k.Whole(), k.Cursor
	version := ""
	if !k.Delta {
		version = c.sum()
	}
	if !k.wrote {
		return nil
	}
	c.sentWhole, c.States, c.came, c.again = c.sentWhole || whole, nil, state.Set{}, false
	a := k.a
	a.Waits, a.Whole, a.Version = k.waits, whole, version
	var all []state.Set
	for i := range c.parts {
		p := &c.parts[i]
		if whole {
			all = append(all, p.held)
			p.isListed()
		}
		for j := range p.sets {
			p.sets[j].listed = p.sets[j].listed || whole || k.Delta
		}
	}
	if l := &a.Located; !k.Delta && len(a.Heartbeats)+len(l.Heartbeats) > 0 {
		if len(a.Changed)+len(l.Changed)+len(a.Errors) > 0 || c.version == "" { // heartbeats go alone, under the version that was accepted (TTL-9)
			a.Changed, a.Heartbeats = append(a.Changed, a.Heartbeats...), nil
			l.Changed, l.Heartbeats = append(l.Changed, l.Heartbeats...), nil
		} else {
			a.Version = c.version
		}
	}
	for _, x := range a.Unresolved { // a client that comes back says that it has what it was told in those words
		a.Removed = slices.DeleteFunc(a.Removed, func(name string) bool { return x.Notice != nil && xds.NameKey(name) == x.Notice.Name })
	}
	c.list(a, all)
	a.Group = k.cameFrom(whole)
	c.version = a.Version
	c.number++
	a.Number = c.number
	c.fly(flight{sent: k.sent(), all: all})
	return a
}

// cameFrom is the group that all of an answer comes from; -1: it comes from several, or from none.
func (k *take) cameFrom(whole bool) (group int) {
	group, any := -1, false
	for i := range k.parts {
		p := &k.parts[i]
		says := func(o outcome) bool { return o.sent || o.renewed || o.removed || o.told != nil }
		switch is := whole && p.held.Len() > 0 || slices.ContainsFunc(k.outs[i].all, says); {
		case is && any && group != p.Group:
			return -1
		case is:
			group, any = p.Group, true
		}
	}
	return group
}

// isListed notes that a list was sent: it answers for all that is in it.
func (p *part) isListed() {
	for name := range p.owed {
		if p.held.Get(name).Known() {
			p.clear(name, asked|demanded|parent)
		}
	}
}

// sum is the version of what the client holds (VER-4).
func (c *Cursor) sum() string {
	if len(c.parts) == 1 {
		return c.parts[0].held.Sum().TreeVersion()
	}
	var all []xds.SetDigest
	for i := range c.parts {
		if sum := c.parts[i].held.Sum(); !slices.Contains(all, sum) { // what two maps have is in the list once
			all = append(all, sum)
		}
	}
	return xds.JoinSets(all).TreeVersion()
}

// recognize finds out what a client of `*` has that comes back with a version: the list of one of
// the states that are kept (RELAY-43). So it is sent what differs from that, and nothing if nothing
// does. That proves nothing of TTLs, which it may have missed.
func (k *take) recognize() {
	c := k.Cursor
	if c.Version == "" || c.sentWhole || c.OriginVersions || !c.Whole() || len(c.parts) != 1 {
		return
	}
	p := &c.parts[0]
	if len(p.sets) != 1 || p.sets[0].Name.Name != xds.Wildcard || len(p.names) > 0 {
		return
	}
	for _, s := range append([]*state.State{k.Parts[p.Group].To}, c.States...) {
		if s == nil {
			continue
		}
		x := p.sets[0].in(s)
		if members := p.sets[0].filtered(&x); members.Sum().TreeVersion() == c.Version && !(c.TTL && members.Timed()) {
			p.held, p.sets[0].listed, c.sentWhole, c.version, c.States = members, true, true, c.Version, nil
			return
		}
	}
}

// OriginVersion is the origin's version of what was sent, in state of the world (VER-5); "": it has
// none.
func (c *Cursor) OriginVersion() string {
	if c.said == "" && c.from != nil {
		return c.from.Version
	}
	return c.said
}

// From is the newest response of an origin that had a part in what was sent (VER-5, VER-10).
func (c *Cursor) From() *xds.Provenance { return c.from }

// Pieces appends the encoded fields `resources` of an answer, but for heartbeats and bodies in
// located form. pairs are those of two pieces each, which have the TTL that is left now.
func (a *Answer) Pieces(now time.Time, to [][]byte) (plain, pairs [][]byte) {
	f := state.SotW
	if a.delta {
		f = state.Delta
	}
	switch {
	case a.Whole && a.shared != nil && to == nil:
		return a.shared.whole(), nil
	case a.Whole && !(a.ttl && slices.ContainsFunc(a.All, state.Set.Timed)):
		for _, s := range a.All {
			to = s.Pieces(to, f)
		}
		return to, nil
	case a.Whole:
		for _, s := range a.All {
			for e := range s.All() {
				to, pairs = a.piece(now, e.Body(), to, pairs)
			}
		}
		return to, pairs
	case a.shared != nil:
		return a.shared.pieces(f, to), nil
	}
	for _, v := range a.Changed {
		to, pairs = a.piece(now, v, to, pairs)
	}
	return to, pairs
}

func (a *Answer) piece(now time.Time, v *xds.Variant, plain, pairs [][]byte) (_, _ [][]byte) {
	switch ttl, timed := v.Remaining(now); {
	case v.Timed() && a.ttl && !timed: // it is about to be removed
	case v.Timed() && a.ttl:
		head, rest := v.TimedParts(a.delta, ttl)
		pairs = append(pairs, head, rest)
	case a.delta && !v.Nameless:
		plain = append(plain, v.Delta())
	case !a.delta:
		plain = append(plain, v.SotW())
	}
	return plain, pairs
}
