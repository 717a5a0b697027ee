package relay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// Check states the invariants that hold across the table's maps. Tests call it after every step; it
// is as slow as the table is large.
func (t *Table) Check() error {
	var errs []error
	views := 0
	for _, o := range t.Origins() {
		for _, g := range o.groupList() {
			trials := 0
			for _, s := range *g.all.Load() {
				s.mu.Lock()
				for _, e := range s.check() {
					errs = append(errs, fmt.Errorf("%s/%s/%s: %w", o.name, g.key, s.typeURL, e))
				}
				if s.quarantine != nil && s.quarantine.stage == stageProbing {
					trials++
				}
				s.sets(func(t *set) {
					views += t.viewsOfClients()
				})
				s.mu.Unlock()
			}
			if err := g.checkState(); err != nil {
				errs = append(errs, fmt.Errorf("%s/%s: %w", o.name, g.key, err))
			}
			if n := int(g.probing.Load()); n != trials || n > maxProbing {
				errs = append(errs, fmt.Errorf("%s/%s: %d trials are counted and %d under way, of at most %d", o.name, g.key, n, trials, maxProbing))
			}
		}
	}
	// those of origins that a new configuration ended count as well
	if n := int(t.budget.views.Load()); n < views {
		errs = append(errs, fmt.Errorf("%d views are counted, of %d", n, views))
	}
	return errors.Join(errs...)
}

func (s *shard) check() (errs []error) {
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if newest := s.table().Revision(); s.rev > newest {
		fail("revision %d is beyond the table's %d", s.rev, newest)
	}
	s.checkQuarantine(fail)
	s.expiring.check(fail)
	s.sets(func(t *set) { t.check(fail) })
	for selector, t := range s.collections.barred {
		if t.check(fail); t.selector != selector || !t.barred || t.clients == 0 || t.members.len() > 0 || t.askedGen != 0 {
			fail("barred set %q: of %q, %d clients, %d members, asked in %d", selector, t.selector, t.clients, t.members.len(), t.askedGen)
		}
	}
	for selector, t := range s.collections.byName {
		switch {
		case t.selector != selector || t.kind == wild:
			fail("collection %q: is that of %q", selector, t.selector)
		case !t.wanted() && !t.inChanged && t.lane().live(t.askedGen):
			fail("collection %q: unwanted, asked, and not to be looked at", selector)
		}
	}
	for _, t := range s.collections.changed {
		if !t.inChanged {
			fail("collection %q: to be looked at, and not marked", t.selector)
		}
	}
	s.named.checkAliases(fail)
	subs := map[*Sub]bool{}
	for name, e := range s.named.entries {
		if name != e.name || e.touched != untouched || e.gone {
			fail("entry %q: named %q, touched %d, gone %v", name, e.name, e.touched, e.gone)
		}
		e.check(s, subs, fail)
	}
	return errs
}

// checkExpiring: whatever has a TTL is known to, a timer is set for the first, and nothing else is
// kept.
func (x *expiring) check(fail func(string, ...any)) {
	timed := 0
	x.shard.walk(nil, func(k known) {
		m := x.byName[expiringKey{k.set, k.name}]
		for _, v := range k.variants {
			if v.Timed() && (m == nil || v.Expires().Before(m.at)) {
				fail("%q expires at %v, and nobody knows", k.name, v.Expires())
			}
		}
		if m != nil {
			timed++
		}
	})
	if timed != len(x.byName) || timed != len(x.order) {
		fail("%d names expire, %d and %d are minded", timed, len(x.byName), len(x.order))
	}
	if timed > 0 && (x.armed.IsZero() || x.armed.After(x.order[0].at)) {
		fail("the first expires at %v, the timer is for %v", x.order[0].at, x.armed)
	}
}

func (t *set) uncachedMembers() (n int) {
	for m := range t.members.all() {
		if slices.ContainsFunc(m.variants, func(v *xds.Variant) bool { return v.DoNotCache }) {
			n++
		}
	}
	return n
}

func (t *set) check(fail func(string, ...any)) {
	clients := 0
	for w := range t.shard.asking {
		if w.setOf(t.selector) == t {
			clients++
		}
	}
	for v := range t.views.all() {
		clients += v.check(fail)
	}
	if clients != int(t.clients) {
		fail("%d positions for %d clients of %q", clients, t.clients, t.selector)
	}
	if n := t.uncachedMembers(); n != len(t.uncached) {
		fail("%q: %d members must not be cached, counted %d", t.selector, n, len(t.uncached))
	}
	if t.firm && !t.settled {
		fail("%q is firm, and not settled", t.selector)
	}
	for m := range t.members.all() {
		name := m.name
		if t.members.get(name) != m || len(m.variants) == 0 {
			fail("member %q: found as %p with %d variants", name, t.members.get(name), len(m.variants))
		}
		if !t.includes(name) {
			fail("member %q: %q does not select it", name, t.selector)
		}
		if v := t.views.plain; v == nil && (m.item != nil || m.isUnchanged()) || v != nil && m.item == nil && !m.isUnchanged() && v.item(name) == nil && pick(m.variants, t.shard.params) != nil {
			fail("member %q of %q: its item is not the one in the view", name, t.selector)
		}
	}
	t.checkErrors(fail)
}

func (t *set) checkErrors(fail func(string, ...any)) {
	fs, last, standing := &t.nameErrors, uint64(0), 0
	for _, x := range fs.order {
		if x.seq <= last || x.seq > fs.seq {
			fail("error %d after %d, the last is %d", x.seq, last, fs.seq)
		}
		last = x.seq
		if !x.stands() {
			continue
		}
		standing++
		f, m := x.of, t.members.get(x.of.nameError.Name)
		if fs.byName[f.nameError.Name] != f {
			fail("error of %q: in the order, not in the map", f.nameError.Name)
		}
		if m != nil && t.shard.group.origin.ends(f.nameError) {
			fail("error %d of member %q, which it should have ended", f.nameError.Code, m.name)
		}
		for v := range t.views.all() {
			for p := v.ordered.head; p != nil; p = p.next {
				if p.errorsSent < x.seq && p.sub.unsent == 0 && f.gen == t.answeredGen && t.live() {
					fail("error of %q, told up to %d of %d, and the client was not told", f.nameError.Name, p.errorsSent, x.seq)
				}
			}
		}
	}
	if standing != len(fs.byName) || standing > t.members.len()+spareErrors {
		fail("%d errors for %d members, %d in order", len(fs.byName), t.members.len(), standing)
	}
}

func (s *shard) checkQuarantine(fail func(string, ...any)) {
	t := s.quarantine
	switch {
	case s.inQuarantine() != (t != nil):
		fail("apart is %v, and its lanes are its own: %v", t, s.inQuarantine())
	case t == nil:
	case s.lanes.Load() != &t.lanes:
		fail("apart, on the lanes of another trial")
	case t.stage == stageBackoff && t.since.IsZero(), t.failures > 0 && t.since.IsZero():
		fail("suspect, at stage %d after %d failures", t.stage, t.failures)
	case t.since.IsZero() && s.proven && t.stage != stageReleased:
		fail("suspect although it was answered")
	}
}

func (e *entry) check(s *shard, subs map[*Sub]bool, fail func(string, ...any)) {
	n := int32(0)
	for r := e.head; r != nil; r = r.next {
		n++
		if r.entry != e || r.sub.record(e.name) != r {
			fail("entry %q: a record that is not its client's", e.name)
		}
		if !subs[r.sub] {
			subs[r.sub] = true
			r.sub.checkAliased(fail)
			r.sub.checkRecords(fail)
		}
		if r.is(dirty) && !r.sub.Peek() && r.sub.unsent == 0 {
			fail("entry %q: dirty, and its client was not told", e.name)
		}
	}
	for w := range s.asking {
		if w.names[e.name] == e {
			n++
		}
	}
	if n != e.clients {
		fail("entry %q: %d records, count %d", e.name, n, e.clients)
	}
	if !e.wanted() && !e.inChanged && s.named.isAsked(e) {
		fail("entry %q: unwanted, asked, and not to be looked at", e.name)
	}
	if e.clients > 0 && !e.lingerAt.IsZero() {
		fail("entry %q: lingers with %d clients", e.name, e.clients)
	}
	if p := pick(e.variants, s.params); p != e.chosen {
		fail("entry %q: chosen variant is not the one that matches", e.name)
	}
}

// checkRecords: what a client's names are found by.
func (s *Sub) checkRecords(fail func(string, ...any)) {
	t, n, errorCount := s.records, 0, 0
	for i, r := range t.chains {
		for ; r != nil; r = r.chain {
			n++
			if r.sub != s || r.is(unsubscribed|listed) || int(r.entry.number)&(len(t.chains)-1) != i {
				fail("record of %q: of another client, chain or request", r.entry.name)
			}
			if f, is := t.sentErrors[r]; is != r.is(errorSent) || is && f == nil {
				fail("record of %q: in error is %v, told %v", r.entry.name, r.is(errorSent), f)
			} else if is {
				errorCount++
			}
		}
	}
	if s.names != nil && s.names.IsKept() && s.names.Tree(s.listSent).Digest() != xds.SetOf(s.listSent()) {
		fail("the digest that is kept of %d names is not that of what the client was sent", n)
	}
	if n != t.n || n > longestChain*len(t.chains) || errorCount != len(t.sentErrors) {
		fail("%d records in %d chains, %d are counted; %d errors told of %d", n, len(t.chains), t.n, errorCount, len(t.sentErrors))
	}
}

// check walks the view's lists and returns the number of its positions.
func (v *view) check(fail func(string, ...any)) int {
	live, dead, bytes := 0, 0, 0
	var digests []xds.Digest
	last := uint64(0)
	for it := v.head; it != nil; it = it.next {
		if it.last < last || it.birth > it.rev || it.rev > it.last || !v.ttl && it.rev != it.last {
			fail("item %q: revisions %d and %d after %d, born %d", it.variant.Name, it.rev, it.last, last, it.birth)
		}
		last = it.last
		if v.item(it.variant.Name) != it {
			fail("item %q: in the list, and not found by its name", it.variant.Name)
		}
		if !v.permit.Allows(it.variant.Name) {
			fail("item %q: clients of the view may not have it", it.variant.Name)
		}
		if it.dead {
			dead++
			continue
		}
		live++
		bytes += it.variant.Size()
		digests = append(digests, it.variant.Digest)
		m := v.set.members.get(it.variant.Name)
		if m == nil || pick(m.variants, v.set.shard.params) != it.variant {
			fail("item %q: is not what its member says", it.variant.Name)
		}
	}
	v.segments.check(v, fail)
	unchanged := 0
	for body := range v.allUnchanged() {
		unchanged, live, bytes = unchanged+1, live+1, bytes+body.Size()
		digests = append(digests, body.Digest)
		if m := v.set.members.get(body.Name); m.item != nil || pick(m.variants, v.set.shard.params) != body {
			fail("%q: the view has another body than its member", body.Name)
		}
	}
	if unchanged != v.unchanged || v.unchanged > 0 && v.head != nil && v.head.last < v.base {
		fail("view: counts %d members unchanged since %d, found %d", v.unchanged, v.base, unchanged)
	}
	if live != v.live || dead != v.dead || bytes != v.bytes || len(v.items) != dead && !v.own || len(v.items) != live+dead && v.own {
		fail("view: counts %d live %d dead %d bytes, found %d %d %d in %d items", v.live, v.dead, v.bytes, live, dead, bytes, len(v.items))
	}
	want := xds.SetOf(digests)
	if v.digests.IsKept() && v.tree().Digest() != want || v.version != "" && v.version != want.Version() {
		fail("view: version %s of tree %s, want %s of %d digests", v.version, v.tree().Digest().Version(), want.Version(), len(digests))
	}
	if dead > live+spareTombs && v.ordered.head != nil {
		fail("view: %d tombstones for %d live", dead, live)
	}
	return v.checkPositions(fail)
}

func (v *view) checkPositions(fail func(string, ...any)) (n int) {
	last := uint64(0)
	for p := v.ordered.head; p != nil; p = p.next {
		n++
		if p.fresh || p.sent < last || p.sent > v.set.shard.rev || !p.own() {
			fail("position at %d after %d, shard at %d", p.sent, last, v.set.shard.rev)
		}
		last = p.sent
		if p.sent < v.contentRev && p.sub.unsent == 0 {
			fail("position at %d, content at %d, and the client was not told", p.sent, v.contentRev)
		}
	}
	for p := v.fresh.head; p != nil; p = p.next {
		n++
		if !p.fresh || !p.own() {
			fail("a position in the wrong list")
		}
	}
	if n != v.deltas+v.whole {
		fail("%d positions, counted %d and %d", n, v.deltas, v.whole)
	}
	return n
}

// own reports whether the position is one of its client's.
func (p *position) own() bool {
	n, is := 0, false
	for x := p.sub.sets.first; x != nil; x = x.also {
		n++
		is = is || x == p
	}
	return is && (p.sub.sets.more == nil && n == 1 || p.sub.sets.more != nil && len(p.sub.sets.more.by) == n && p.sub.sets.more.by[p.view.set] == p)
}

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
