package downstream

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// What a client asks for. A stream has a plan, and for each type a cursor with a source for each
// group and parameter map that names of the type are asked of.

// serving is how a stream is served, once its group is known: when what is sent.
type serving struct {
	plan   *plan.Stream
	cfg    plan.Config
	groups []*relay.Group         // by their number in the plan
	step   func(plan.Step) uint64 // session.step
	more   bool                   // more is to be written at once
	asks   []plan.Ask             // what the plan was asked last, to be used again
	again  time.Time              // when the plan or a cursor is to be looked at again
	// targets are what the client is brought to, and gathered is when it follows what changed since
	// (timing.coalesce); zero: it follows at once.
	targets  []*state.Target
	gathered time.Time
	// endpoints and routes are what was sent that needs endpoints, or virtual hosts, which the
	// client has not asked for yet (WARM-6).
	endpoints, routes []string
	clustersAt        time.Time // when those were sent last that need endpoints which it has not asked for
	// needed are endpoints that clusters refer to which were sent, and since when, until they are
	// sent (ORD-5).
	needed map[string]time.Time
}

// subscription is what the client asks for of one type, and what it was sent of it.
type subscription struct {
	*cursor.Cursor
	sources []source
	// lackedSince is when the first change came that the client has not been sent; zero: it lacks
	// none. lacked is the source of it.
	lackedSince time.Time
	lacked      int
	denies      bool // the list has names that the client may not have, so an empty list is due (SOTW-9)
}

// source is what is asked of one group with one parameter map. Its place is that of the cursor's
// source.
type source struct {
	group   *relay.Group
	wants   *relay.Wants
	located bool   // by locators
	number  int    // of the group in the plan
	has     uint64 // the revision of the newest state that the client is known to lack nothing of
	// coldFrom is when the present wait for a first answer began; zero: none is waited for.
	coldFrom time.Time
}

// newServing makes the plan of a stream of which it is known who the client is.
func (s *session) newServing() *serving {
	b := &serving{cfg: plan.Config{Delta: s.delta, Hold: s.cfg.timing.OrderHold, Cold: s.cfg.timing.ColdWait}, step: s.step}
	if s.poll { // it asks for one type, and nothing follows
		b.cfg.Hold = 0
	}
	b.plan = plan.New(b.cfg, 0)
	return b
}

// group is the number of a group in the plan.
func (b *serving) group(g *relay.Group) int {
	if i := slices.Index(b.groups, g); i >= 0 {
		return i
	}
	b.groups = append(b.groups, g)
	return b.plan.Join()
}

// cursor finds or makes the cursor of a type. holds: the client says that it holds something, in
// state of the world by a version.
func (s *session) cursor(now time.Time, st *streamType, holds bool, version string) *subscription {
	if st.sub == nil {
		st.sub = &subscription{Cursor: s.group.Cursor(cursor.Config{
			TypeURL: st.typeURL, Delta: s.delta, TTL: s.ttl, Holds: holds, Version: version, StandIn: s.ofStandIn(version), Began: now,
		})}
	}
	return st.sub
}

// source finds or makes the place of the plain names of a group among the sources of a type.
func (s *session) source(st *streamType, g *relay.Group) (int, error) {
	if i := st.sub.in(g); i >= 0 {
		return i, nil
	}
	i := s.openAt(st, asksAt{group: g, params: s.params(g.Origin(), st.typeURL)})
	if i < 0 {
		return i, relay.ErrParameterSets
	}
	return i, nil
}

// sourceAt finds or makes the place of the locators of a batch; -1: the group has no room for its
// parameters.
func (s *session) sourceAt(st *streamType, x *locatorBatch) int {
	if i := st.sub.at(x.group, x.params); i >= 0 {
		return i
	}
	return s.openAt(st, asksAt{x.group, x.params, true})
}

// openAt adds a source; -1: the group has no room for its parameters.
func (s *session) openAt(st *streamType, at asksAt) int {
	permit := s.permit(at.group.Origin(), st.typeURL, at.params)
	wants := at.group.Want(s.mailbox, st.typeURL, at.params, permit)
	if wants == nil {
		return -1
	}
	if s.poll {
		wants.Polls()
	}
	return st.sub.open(source{group: at.group, wants: wants, located: at.located, number: s.serving.group(at.group)})
}

// open adds a source to the cursor. It is not inlined: in the frame of its caller it would make the
// stack of each reader grow to 16 KiB, which then stays so.
//
//go:noinline
func (t *subscription) open(x source) int {
	t.sources = append(t.sources, x)
	return t.Open(x.wants.Source(x.number, x.located))
}

// in is the place of the plain names of a group; -1: none was asked for there.
func (t *subscription) in(g *relay.Group) int {
	return slices.IndexFunc(t.sources, func(x source) bool { return x.group == g && !x.located })
}

// at is the place of the locators of a group with one parameter map; -1: none was asked for there.
func (t *subscription) at(g *relay.Group, p constraints.Params) int {
	if t == nil {
		return -1
	}
	return slices.IndexFunc(t.sources, func(x source) bool {
		return x.group == g && x.located && x.wants.Params().Key() == p.Key()
	})
}

// names is how many names and sets are asked for.
func (t *subscription) names() (n int) {
	if t != nil {
		for i := range t.sources {
			n += t.sources[i].wants.Len()
		}
	}
	return n
}

// wildcard reports whether everything is asked for.
func (t *subscription) wildcard() bool {
	return t != nil && slices.ContainsFunc(t.sources, func(x source) bool { return x.wants.Wildcard() })
}

func (t *subscription) close(now time.Time) {
	if t != nil {
		for i := range t.sources {
			t.sources[i].wants.Close(now)
		}
		t.sources = nil
	}
}

// update passes a request to the cursor of its type, to each source its part. The listener's own
// origin comes first: a name that is unsubscribed elsewhere may be covered by a `*` that this
// request subscribes (DELTA-6, DELTA-9).
func (s *session) update(now time.Time, st *streamType, to routed, unsubscribe []string, initial map[string]string, first bool) error {
	own, err := s.groupOf(st, s.cfg.origin)
	if err != nil {
		return s.noGroup(err)
	}
	s.cursor(now, st, len(initial) > 0, "")
	var denied []relay.Denied
	gone := s.leave(st, &to, unsubscribe)
	update := func(g *relay.Group, subscribe, unsubscribe []string, initial map[string]string) error {
		i, err := s.source(st, g)
		if err != nil {
			return err
		}
		x := &st.sub.sources[i]
		if g == own {
			x.wants.Namespaces(s.spaces(st, own, subscribe))
		}
		denied = append(denied, st.sub.update(now, i, subscribe, unsubscribe, initial)...)
		return nil
	}
	if first && len(to.own)+len(to.others)+len(to.locatorBatches.list) == 0 || len(to.own) > 0 || len(initial) > 0 || len(gone) > 0 && st.sub.in(own) >= 0 {
		err = update(own, to.own, gone, initial)
	}
	for i := range to.others {
		p := &to.others[i]
		err = cmp.Or(err, update(p.group, p.names, p.gone, p.initial))
	}
	if err != nil {
		return s.noGroup(err)
	}
	if err := s.denied(now, st, denied, nil, nil); err != nil {
		return err
	}
	for _, x := range to.locatorBatches.list {
		i := s.sourceAt(st, x)
		if i < 0 {
			denied = s.wholeList(x)
		} else {
			st.sub.sources[i].wants.Namespaces(s.spaces(st, x.group, x.names))
			denied = st.sub.update(now, i, x.names, x.gone, nil)
		}
		if err := s.denied(now, st, denied, x, nil); err != nil {
			return err
		}
	}
	s.noteAsked(now, st)
	return nil
}

// update asks for names of a source, and ends that others are asked for. It returns those that
// there was no room for.
func (t *subscription) update(now time.Time, i int, subscribe, unsubscribe []string, initial map[string]string) []relay.Denied {
	x := &t.sources[i]
	if len(unsubscribe) > 0 {
		subscribe = x.remaining(subscribe, unsubscribe)
	}
	added, denied := x.wants.Add(now, subscribe...)
	for j := range added {
		t.Subscribe(i, added[j])
	}
	if len(initial) > 0 {
		t.claim(i, initial, denied)
	}
	for _, key := range x.wants.Drop(now, unsubscribe...) {
		t.Unsubscribe(i, key)
	}
	return denied
}

// remaining are the names of a request without those that it drops, too (WILD-8). A covered one is
// answered (DELTA-9).
func (x *source) remaining(subscribe, unsubscribe []string) []string {
	left := map[string]bool{}
	for _, name := range unsubscribe {
		left[xds.NameKey(name)] = true
	}
	return slices.DeleteFunc(slices.Clone(subscribe), func(name string) bool {
		key := xds.NameKey(name)
		return left[key] && !x.wants.Covers(key)
	})
}

// claim notes what the client says it has. Nothing is known of what it may not have, so nothing of
// that is removed.
func (t *subscription) claim(i int, initial map[string]string, denied []relay.Denied) {
	unknown := map[string]bool{}
	for _, d := range denied {
		unknown[xds.NameKey(d.Name)] = true
	}
	for name, version := range initial {
		if key, spelt := xds.Spell(name); !unknown[key] {
			t.Claim(i, strings.Clone(key), strings.Clone(spelt), t.sources[i].group.Claim(version))
		}
	}
}

// replace passes a list to the cursor of its type, to each source its part.
func (s *session) replace(now time.Time, st *streamType, to routed, version string) error {
	own, err := s.groupOf(st, s.cfg.origin)
	if err != nil {
		return s.noGroup(err)
	}
	var denied []relay.Denied
	first := st.sub == nil
	s.cursor(now, st, version != "", version).denies = to.denies
	replace := func(g *relay.Group, names []string, wildcard bool) error {
		i, err := s.source(st, g)
		if err == nil {
			denied = append(denied, st.sub.replace(now, i, names, wildcard)...)
		}
		return err
	}
	if len(to.own) > 0 || to.wildcard || first && len(to.others)+len(to.locatorBatches.list) == 0 || st.sub.in(own) >= 0 {
		err = replace(own, to.own, to.wildcard)
	}
	for i := range to.others {
		err = cmp.Or(err, replace(to.others[i].group, to.others[i].names, false))
	}
	if err != nil {
		return s.noGroup(err)
	}
	before := st.denied
	st.denied = nil
	if err := s.denied(now, st, denied, nil, before); err != nil {
		return err
	}
	for _, x := range to.locatorBatches.list {
		if i := s.sourceAt(st, x); i >= 0 {
			denied = st.sub.replace(now, i, x.names, x.wildcard)
		} else {
			denied = s.wholeList(x)
		}
		if err := s.denied(now, st, denied, x, before); err != nil {
			return err
		}
	}
	for i := range st.sub.sources { // what is named no longer
		x := &st.sub.sources[i]
		named := x.group == own || to.at(x.group) != nil
		if x.located {
			named = to.locatorBatches.at[batchKey{x.group, x.wants.Params().Key()}] != nil
		}
		if !named {
			st.sub.replace(now, i, nil, false)
		}
	}
	s.noteAsked(now, st)
	return nil
}

// replace makes a list all that is asked for of a source. It returns the names that there was no
// room for.
func (t *subscription) replace(now time.Time, i int, names []string, wildcard bool) []relay.Denied {
	x, list := &t.sources[i], make([]cursor.Name, 0, len(names)+1)
	listed := make(map[string]bool, len(names)+1)
	if wildcard {
		names = append(slices.Clip(names), xds.Wildcard)
	}
	added, denied := x.wants.Add(now, names...)
	for _, n := range added {
		list, listed[n.Name] = append(list, n), true
	}
	t.Replace(i, list)
	x.wants.Drop(now, slices.DeleteFunc(x.wants.Names(), func(name string) bool { return listed[name] })...)
	return denied
}

// noteAsked notes that something is asked for.
func (s *session) noteAsked(now time.Time, st *streamType) {
	if st.asked.IsZero() {
		st.asked = now
	}
	for i := range st.sub.sources {
		switch x := &st.sub.sources[i]; {
		case x.wants.Len() == 0: // who asks again later waits anew
			x.coldFrom = time.Time{}
		case x.coldFrom.IsZero():
			x.coldFrom = now
		}
	}
	s.passOn(st)
}

// requested notes that a request is over.
func (st *streamType) requested(now time.Time) {
	if st.sub == nil {
		return
	}
	st.sub.Requested(now)
	for i, x := range slices.Backward(st.sub.sources) {
		if x.located && x.wants.Len() == 0 {
			x.wants.Close(now)
			st.sub.sources = slices.Delete(st.sub.sources, i, i+1)
			st.sub.Leave(i)
			st.sub.lackedSince = time.Time{} // it is found out anew
		}
	}
}

// settle notes that the client has answered a response.
func (s *session) settle(now time.Time, st *streamType, x *sent) {
	if s.serving.plan.Ack(now, st.typeURL, x.last); st.sub != nil && x.real {
		st.sub.Ack(x.number, !x.nacked)
		for i := range st.sub.sources {
			if !x.nacked {
				st.sub.sources[i].group.Acknowledge()
			}
		}
	}
}

// status fills in what is asked for.
func (t *subscription) status(own *relay.Origin, to *TypeStatus) {
	for i := range t.sources {
		x := &t.sources[i]
		p := PartStatus{Origin: x.group.Origin().Name(), Group: x.group.Key(), Names: x.wants.Len(), Wildcard: x.wants.Wildcard(), Params: x.wants.Params().Key(), Located: x.located}
		if p.Wildcard {
			p.Names--
		}
		to.Names, to.Wildcard = to.Names+p.Names, to.Wildcard || p.Wildcard
		if to.Parts = append(to.Parts, p); len(t.sources) == 1 && x.group.Origin() == own && !p.Located && p.Params == "" {
			to.Parts = nil
		}
	}
}
