package downstream

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// served is one type of one stream as of the requests that have arrived and the responses that have
// been taken.
type served struct {
	wildcard bool
	legacy   bool
	names    map[string]bool
	told     map[string]string // name: body; "?": the client holds something else
	toldAt   map[string]int    // number of the response the table had taken last
	owed     map[string]bool   // names to be answered whatever is held
	// SotW: when they were asked for
	owedFrom map[string]time.Time
	starts   bool            // no response was taken
	heard    bool            // SotW: the client has repeated a nonce
	owedAll  bool            // `*` is to be answered
	touched  bool            // the subscription changed: one more response may follow
	asked    time.Time       // when a request did that, that was not answered since
	dropped  map[string]bool // unsubscribed under `*`: answered by a resource or a removal (DELTA-9)
	// SotW, sent whole: how often a response said that a name is not there, and nothing else
	absent map[string]int
	left   bool // `*` was left: what only it held may go, though the named kind is about to have it
	// told names: number of the first response that changed them and is not told
	pending map[string]int
	news    map[string]int // the same of all names, and of removals
	flight  []*inFlight
	behind  bool // a held answer is older than the last request
	// SotW: the list went without what `*` has, which is still to be answered (FED-5, SOTW-10)
	waived  bool
	shifted map[string]bool // had with "*", and now by name: may be sent once more
	late    map[string]bool // the same, of a removal that waits (ORD-2)
	lame    map[string]bool // unsubscribed while an answer with it was held
	// SotW: had by name, and left to a `*` that was not answered yet
	gaveUp map[string]bool
}

type inFlight struct {
	nonce  string
	at     time.Time // when it was written
	oldest int       // number of the oldest change in it
}

// warmth is the wait for the endpoints of a cluster that was sent (WARM-1).
type warmth struct {
	judged bool // SotW: the Cluster response has a verdict
	since  time.Time
	// when there were endpoints at last; zero: there have been ever since. They are a change like
	// any other, and may be gathered
	came time.Time
}

func (s *served) wants(name string) bool { return s.names[name] || s.wildcard && !hidden(name) }

// kind is where the stream-type has a name from; -1: from both.
func (s *served) kind(name string) int {
	switch {
	case s.names[name] && s.wildcard:
		return -1
	case s.names[name]:
		return byName
	}
	return byStar
}

// before is wants as of now.
func (s *served) before() func(string) bool {
	was := &served{wildcard: s.wildcard, names: maps.Clone(s.names)}
	return was.wants
}

// moved forgets what was pending of a name that is had in another way now: that may be older, and
// is still to come.
func (s *served) moved(wasWild bool, was map[string]bool) {
	maps.DeleteFunc(s.pending, func(name string, _ int) bool {
		return s.wildcard != wasWild || s.names[name] != was[name]
	})
	if wasWild && !s.wildcard {
		for name := range s.names {
			s.shifted[name] = true
		}
	}
}

// spent: the endpoints of a cluster follow it.
func (c *modelClient) spent(name string) {
	if c.warm[name] != nil {
		c.again[name] = 2
	} else if c.again[name] > 0 {
		c.again[name]--
	}
	delete(c.warm, name)
}

// touch notes that the subscription changed.
func (s *served) touch(m *model) {
	if !s.touched || s.asked.IsZero() {
		s.touched, s.asked = true, m.rig.now
	}
}

func (s *served) forget() {
	for name := range s.told {
		if !s.names[name] && !s.wildcard {
			delete(s.told, name)
			delete(s.pending, name)
		}
	}
	maps.DeleteFunc(s.owed, func(name string, _ bool) bool { return !s.names[name] })
}

// hears is a request that arrives.
func (c *modelClient) hears(m *model, req proto.Message) {
	switch r := req.(type) {
	case *discoveryv3.DiscoveryRequest:
		c.hearsList(m, r)
	case *discoveryv3.DeltaDiscoveryRequest:
		c.hearsDelta(m, r)
	}
}

func (c *modelClient) enter(typeURL string) (s *served, first bool) {
	if s = c.served[typeURL]; s != nil {
		return s, false
	}
	s = &served{
		legacy: !noLegacy(typeURL), names: map[string]bool{}, told: map[string]string{}, toldAt: map[string]int{},
		owed: map[string]bool{}, dropped: map[string]bool{}, starts: true, lame: map[string]bool{}, shifted: map[string]bool{}, late: map[string]bool{}, absent: map[string]int{}, owedFrom: map[string]time.Time{}, gaveUp: map[string]bool{}, pending: map[string]int{}, news: map[string]int{}, touched: true,
	}
	c.served[typeURL] = s
	return s, true
}

func (c *modelClient) hearsList(m *model, r *discoveryv3.DiscoveryRequest) {
	s, first := c.enter(r.TypeUrl)
	if !first && r.ResponseNonce == "" && s.heard { // it has forgotten the type (NONCE-12)
		was := s
		delete(c.served, r.TypeUrl)
		s, _ = c.enter(r.TypeUrl)
		s.legacy, first = was.legacy, true
	}
	if first {
		s.touch(m)
	}
	before := s.before()
	s.heard = s.heard || c.nonces[r.ResponseNonce]
	if n := len(s.flight); n > 0 && s.flight[n-1].nonce == r.ResponseNonce {
		s.flight = nil
		if r.TypeUrl == cds {
			for _, w := range c.warm {
				if !w.judged {
					w.judged, w.since = true, m.rig.now
				}
			}
		}
	}
	if len(r.ResourceNames) > 0 {
		s.legacy = false
	}
	if first && r.VersionInfo != "" { // it says that it holds something
		for name, body := range c.wishes[r.TypeUrl].held {
			s.told[name] = body
		}
	}
	wildcard := s.legacy || slices.Contains(r.ResourceNames, xds.Wildcard)
	names := map[string]bool{}
	for _, name := range r.ResourceNames {
		if name == xds.Wildcard {
			continue
		}
		names[name] = true
		if !s.names[name] {
			s.owed[name], s.owedFrom[name] = true, m.rig.now
			delete(s.absent, name)
		}
	}
	if wildcard != s.wildcard || !maps.Equal(names, s.names) {
		s.touch(m)
		if r.ResponseNonce == "" { // it is answered at once (NONCE-12)
			s.flight = nil
		}
	}
	s.owedAll = wildcard && (s.owedAll || !s.wildcard)
	s.left = s.left || s.wildcard && !wildcard
	wasWild, was := s.wildcard, s.names
	s.wildcard, s.names = wildcard, names
	for name := range was {
		s.gaveUp[name] = s.gaveUp[name] || s.owedAll && !names[name]
	}
	s.moved(wasWild, was)
	s.forget()
	for name := range s.told {
		if !s.wants(name) {
			delete(s.told, name)
			delete(s.pending, name)
		}
	}
	c.keepHeld(r.TypeUrl, s, before)
}

// keepHeld: an answer that waits for its turn leaves as it was taken, with names that were
// unsubscribed since.
func (c *modelClient) keepHeld(typeURL string, s *served, before func(string) bool) {
	for _, st := range c.session.types {
		if st.typeURL == typeURL && st.rest != nil {
			for name := range st.rest.names {
				s.late[name] = true
			}
		}
		if st.typeURL == typeURL && st.held != nil {
			s.behind = true
			for _, v := range st.held.Variants {
				s.lame[v.Name] = s.lame[v.Name] || before(v.Name)
			}
			for _, name := range st.held.Removed {
				s.lame[name] = s.lame[name] || before(name)
			}
		}
	}
}

func (c *modelClient) hearsDelta(m *model, r *discoveryv3.DeltaDiscoveryRequest) {
	s, first := c.enter(r.TypeUrl)
	if first {
		s.touch(m)
	}
	defer c.keepHeld(r.TypeUrl, s, s.before())
	defer s.moved(s.wildcard, maps.Clone(s.names))
	s.flight = slices.DeleteFunc(s.flight, func(f *inFlight) bool { return f.nonce == r.ResponseNonce })
	if first {
		for name, version := range r.InitialResourceVersions {
			s.told[name] = c.wishes[r.TypeUrl].held[name]
			if version == "not ours" || s.told[name] == "" {
				s.told[name] = "?"
			}
		}
		if s.legacy && len(r.ResourceNamesSubscribe) == 0 {
			s.wildcard, s.owedAll = true, true
		}
	}
	for _, name := range r.ResourceNamesSubscribe {
		s.touch(m)
		if name == xds.Wildcard {
			s.wildcard, s.owedAll = true, true
			continue
		}
		_, claimed := r.InitialResourceVersions[name]
		s.owed[name] = !first || !claimed
		s.names[name] = true
	}
	for _, name := range r.ResourceNamesUnsubscribe {
		if name == xds.Wildcard {
			s.left = s.left || s.wildcard
			s.wildcard, s.owedAll = false, false
			s.forget()
			continue
		}
		if s.wildcard {
			s.dropped[name] = true
			s.touch(m)
		}
		delete(s.names, name)
		delete(s.pending, name)
		s.forget()
	}
}

// holds reports whether an answer that waits for its turn has a name.
func (c *modelClient) holds(typeURL, name string) bool {
	return slices.ContainsFunc(c.session.types, func(st *streamType) bool {
		return st.typeURL == typeURL && st.held != nil &&
			(slices.Contains(st.held.Removed, name) || slices.ContainsFunc(st.held.Variants, func(v *xds.Variant) bool { return v.Name == name }))
	})
}

// changed is told what the table was told.
func (c *modelClient) changed(m *model, typeURL, name, body string, kind int) {
	s := c.served[typeURL]
	if w := c.warm[name]; typeURL == eds && w != nil && body != "" && m.fact(eds, name).body[kind] == "" {
		w.came = m.rig.now
	}
	if s == nil || !s.wants(name) {
		return
	}
	if of := s.kind(name); of >= 0 && of != kind {
		return
	}
	switch listed := s.wildcard || xds.SentWhole(typeURL); {
	case s.news[name] != 0 && c.holds(typeURL, name): // an answer that was taken leaves as it is
	case body == s.told[name], body == "" && !c.delta && !listed: // of a removal SotW says nothing then (RELAY-16)
		delete(s.news, name)
	case s.news[name] == 0:
		s.news[name] = m.seq
	}
	if s.told[name] == "" {
		return
	}
	// it may wait as a removal does, while others go (ORD-10)
	emptied := typeURL == eds && strings.HasPrefix(body, "none")
	switch {
	case body == "" || body == s.told[name] || emptied:
		delete(s.pending, name)
	case s.pending[name] == 0:
		s.pending[name] = m.seq
	}
}

// judge looks at a response that was taken.
func (m *model) judge(c *modelClient, msg *message) {
	s := c.served[msg.typeURL]
	m.logf("client %d is sent %s N=%s: %v", c.id, scriptType(msg.typeURL), msg.nonce, msg.words)
	m.judged++
	if s == nil {
		m.fail("client %d never asked for it", c.id)
	}
	if c.nonces[msg.nonce] || msg.nonce == "" {
		m.fail("client %d: the nonce is not unique (NONCE-1)", c.id)
	}
	c.nonces[msg.nonce] = true
	c.lists[msg.nonce] = !c.delta && (s.wildcard || xds.SentWhole(msg.typeURL))
	bodies, removed := msg.contents()
	// removals are a message of their own
	if n := len(s.flight); !c.delta || len(bodies) > 0 || n == 0 || !s.flight[n-1].at.Equal(m.rig.now) {
		m.judgeFlight(c, s, msg.typeURL)
	}
	m.judgeSoon(c, msg.typeURL, bodies)
	s.flight = append(s.flight, &inFlight{msg.nonce, m.rig.now, m.oldest(s, msg.typeURL, bodies, removed)})
	m.judgeOrder(c, msg.typeURL, bodies)
	m.judgeGone(c, s, msg.typeURL, bodies, removed)
	older := len(bodies) == 0 && s.waited(removed)
	news := m.judgeBodies(c, s, msg.typeURL, bodies)
	news = news || len(msg.words) > len(bodies)+len(removed) // errors
	if c.delta {
		news = m.judgeRemoved(c, s, msg.typeURL, bodies, removed) || news
	} else {
		news = m.judgeWhole(c, s, msg, bodies, news)
	}
	if !news && !s.touched && !s.owedAll && !s.behind && !s.waived {
		m.fail("client %d is told nothing new of %s (SOTW-7, DELTA-8)", c.id, scriptType(msg.typeURL))
	}
	if msg.typeURL == cds {
		m.judgeClusters(c, s, bodies)
	}
	s.starts = false
	byStarAlone := false // something is in it that can only be of `*`
	for name, body := range bodies {
		byStarAlone = byStarAlone || s.kind(name) == byStar && !s.dropped[name]
		s.told[name], s.toldAt[name] = body, m.seq
		if !s.behind {
			delete(s.owed, name)
		}
		delete(s.shifted, name)
		delete(s.pending, name)
		if s.news[name] = m.fact(msg.typeURL, name).after(s.kind(name), body); s.news[name] == 0 {
			delete(s.news, name)
		}
		if msg.typeURL == eds {
			c.spent(name)
		}
	}
	if s.behind {
		s.behind = false // what was asked since is still to be answered
		return
	}
	if older && len(s.dropped) > 0 {
		return // so is the name that was dropped meanwhile (DELTA-9)
	}
	s.waived = !c.delta && (s.owedAll || s.waived) && m.awaitsStar(c, msg.typeURL)
	s.owedAll = s.owedAll && c.delta && len(msg.words) > 0 && !byStarAlone
	s.touched, s.left = false, false
	if !s.owedAll {
		maps.Copy(s.late, s.dropped) // a removal may still wait
		clear(s.dropped)
	}
	clear(s.lame)
	clear(s.gaveUp)
}

// awaitsStar reports whether nothing is known yet of the origin's `*`, while others have their say.
func (m *model) awaitsStar(c *modelClient, typeURL string) bool {
	for _, st := range c.session.types {
		if st.typeURL != typeURL || st.sub.Len() < 2 {
			continue
		}
		for i := range st.sub.Len() {
			part := st.sub.Part(i)
			if standing := part.Standing(); part.Group().Origin() == m.control.origin && standing.Wildcard && standing.Waiting {
				return true
			}
		}
	}
	return false
}

// waited reports whether removals are those of an answer that was taken before the last request, and
// split: they follow what else was in it (ORD-2).
func (s *served) waited(removed []string) bool {
	return len(removed) > 0 && !slices.ContainsFunc(removed, func(name string) bool { return !s.late[name] && !s.lame[name] })
}

// overdue: the time is over that a listener or a route may be held, and so what came before it
// leaves unanswered (ORD-5).
func (m *model) overdue(c *modelClient) bool {
	from := m.rig.now.Add(-m.rig.cfg.Timing.OrderHold)
	for typeURL, s := range c.served {
		if !late(typeURL) {
			continue
		}
		if s.asks() && !s.asked.After(from) {
			return true
		}
		for name, at := range s.news {
			// lame: it is held, and was unsubscribed since.
			if (s.wants(name) || s.lame[name]) && !m.times[at].After(from) {
				return true
			}
		}
	}
	return false
}

// asks: a request is still to be answered.
func (s *served) asks() bool { return s.touched || s.owedAll || len(s.owed) > 0 || s.behind }

// arrives: the members of a set are told as they come, before it has settled (RELAY-7).
func (c *modelClient) arrives(typeURL string) bool {
	return slices.ContainsFunc(c.session.types, func(st *streamType) bool {
		return st.typeURL == typeURL && !st.sub.None() && st.sub.Standing().Arriving
	})
}

// judgeFlight: one response in flight (NONCE-10), but for Clusters when a written one waits for
// endpoints, and for the pieces of a set that arrives, which count as one.
func (m *model) judgeFlight(c *modelClient, s *served, typeURL string) {
	n := len(s.flight)
	if n == 0 || !m.rig.now.Before(s.flight[n-1].at.Add(m.rig.cfg.Timing.OrderHold)) || m.overdue(c) || c.arrives(typeURL) {
		return
	}
	if typeURL == cds && len(c.lacks) > 0 {
		c.soon = maps.Clone(c.lacks)
		return
	}
	m.fail("client %d: two responses in flight, the former for %v (NONCE-10)", c.id, m.rig.now.Sub(s.flight[n-1].at))
}

// judgeSoon: what a Cluster response went before its turn for follows it.
func (m *model) judgeSoon(c *modelClient, typeURL string, bodies map[string]string) {
	if c.soon != nil && typeURL != cds {
		waited := func(name string) bool { return c.soon[name] }
		if typeURL != eds || !slices.ContainsFunc(slices.Collect(maps.Keys(bodies)), waited) {
			m.fail("client %d: two Cluster responses in flight, and no endpoints follow that one waits for (NONCE-10)", c.id)
		}
		c.soon = nil
	}
	for name := range bodies {
		switch typeURL {
		case cds:
			c.lacks[name] = true
		case eds:
			delete(c.lacks, name)
		}
	}
}

// judgeBodies: what is sent was asked for, was stated, is not older than what was sent, and is not
// sent for nothing.
func (m *model) judgeBodies(c *modelClient, s *served, typeURL string, bodies map[string]string) (news bool) {
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		body, f := bodies[name], m.fact(typeURL, name)
		was := s.told[name]
		if !s.wants(name) && !s.lame[name] {
			m.fail("client %d did not ask for %s (SOTW-12)", c.id, name)
		}
		if f.stated[byStar][body]+f.stated[byName][body] == 0 {
			m.fail("client %d: no origin stated %s=%s", c.id, name, body)
		}
		if kind := s.kind(name); kind >= 0 && !f.again && was != "" && was != "?" && f.made[body] < f.made[was] && !s.left && !s.touched {
			m.fail("client %d: %s goes back from %s to %s (EC-4)", c.id, name, was, body)
		}
		fresh := was != body || s.owed[name] || s.shifted[name] || s.dropped[name] || typeURL == eds && (c.warm[name] != nil || c.again[name] > 0) ||
			max(f.changed[byStar], f.changed[byName]) > s.toldAt[name]
		news = news || fresh
		if whole := !c.delta && (s.wildcard || xds.SentWhole(typeURL)); !fresh && !whole && !s.owedAll && !s.behind {
			m.fail("client %d has %s %s=%s, and is sent it again (SOTW-3, DELTA-8)", c.id, scriptType(typeURL), name, body)
		}
	}
	return news
}

// loses: a name that the client has is taken from it. The origin must have taken it from all, after
// it made what is lost.
func (m *model) loses(c *modelClient, s *served, typeURL, name string) {
	// behind: it was subscribed again while the answer to that waited for its turn. The answer leaves
	// all the same, before the one to the new request, as it does if that comes a moment later.
	if !s.wants(name) || s.dropped[name] && (!s.names[name] || s.behind) {
		return
	}
	was := s.told[name]
	if was == "" || was == "?" || s.left {
		return
	}
	f := m.fact(typeURL, name)
	if kind := s.kind(name); kind >= 0 && f.stated[kind][was] == 0 {
		// it had it in the way that it gave up, and the stream of the other has yet to bring it
		// (RELAY-25)
		return
	}
	if f.deleted < f.made[was] {
		m.fail("client %d loses %s=%s, which the origin has had ever since", c.id, name, was)
	}
}

func (m *model) judgeRemoved(c *modelClient, s *served, typeURL string, bodies map[string]string, removed []string) (news bool) {
	seen := map[string]bool{}
	for _, name := range removed {
		if seen[name] || bodies[name] != "" {
			m.fail("client %d: %s is listed twice (DELTA-20)", c.id, name)
		}
		seen[name] = true
		if !s.wants(name) && !s.dropped[name] && s.told[name] == "" && !s.lame[name] && !s.late[name] {
			m.fail("client %d is told that %s went, and did not ask for it (DEL-6)", c.id, name)
		}
		if s.told[name] == "" && !s.owed[name] && !s.dropped[name] && !s.lame[name] && !s.late[name] && !(typeURL == eds && (c.warm[name] != nil || c.again[name] > 0)) {
			m.fail("client %d is told again that %s is not there (DEL-5)", c.id, name)
		}
		// or else it is older than the request that is to be answered
		if !s.behind && !s.late[name] {
			delete(s.owed, name)
		}
		delete(s.late, name)
		m.loses(c, s, typeURL, name)
		delete(s.told, name)
		delete(s.pending, name)
		delete(s.news, name)
		if typeURL == eds {
			c.spent(name)
		}
	}
	return len(removed) > 0
}

// judgeWhole: what is not in a response that is sent whole is lost, and one version stands for one
// content (VER-4). news: there is something else new in it.
func (m *model) judgeWhole(c *modelClient, s *served, msg *message, bodies map[string]string, news bool) bool {
	if !s.wildcard && !xds.SentWhole(msg.typeURL) {
		if len(msg.words) == 0 {
			m.fail("client %d is sent an empty response (SOTW-9)", c.id)
		}
		return news
	}
	for _, name := range slices.Sorted(maps.Keys(s.told)) {
		if bodies[name] == "" {
			m.loses(c, s, msg.typeURL, name)
			delete(s.told, name)
			delete(s.pending, name)
			delete(s.news, name)
			news = true
		}
	}
	content := fmt.Sprint(bodies)
	key := msg.typeURL + msg.version
	if was, known := m.contents[key]; known && was != content {
		m.fail("client %d: one version is of %s and of %s (VER-4)", c.id, was, content)
	}
	m.contents[key] = content
	if msg.typeURL == eds && (len(c.warm) > 0 || len(c.again) > 0) {
		for name := range m.facts[eds] {
			if bodies[name] == "" && (c.warm[name] != nil || c.again[name] > 0) {
				c.spent(name) // WARM-7
				news = true
			}
		}
	}
	others := news
	for name := range s.owed {
		f := m.fact(msg.typeURL, name)
		gone := m.now(msg.typeURL, name) == "" || f.body[byStar]+f.body[byName] == ""
		if bodies[name] == "" && gone && s.absent[name] < 4 {
			news = true // told to be absent, as far as this can be told
			if !others {
				// a list that goes for another reason is no answer: the origin may not have been
				// silent for 15 s (ABS-5)
				s.absent[name]++
			}
		}
	}
	if len(bodies) == 0 && !news && len(msg.words) == 0 && !s.owedAll && !s.touched {
		m.fail("client %d is sent an empty set of %s for nothing (SOTW-9)", c.id, scriptType(msg.typeURL))
	}
	return news
}

// judgeOrder: nothing leaves that is newer than a change of an earlier type which has not left
// (RELAY-84).
func (m *model) judgeOrder(c *modelClient, typeURL string, bodies map[string]string) {
	newest, of := 0, ""
	for name, body := range bodies {
		f, s := m.fact(typeURL, name), c.served[typeURL]
		if f.again || s.told[name] == body || s.kind(name) < 0 {
			continue
		}
		if at := f.taken(s, name, body); at > newest {
			newest, of = at, name
		}
	}
	for _, earlier := range modelTypes {
		if xds.CompareTypes(earlier, typeURL) >= 0 {
			continue
		}
		s := c.served[earlier]
		// it may have to settle, which not all types wait for
		if s == nil || s.owedAll || s.starts {
			continue
		}
		waits := late(typeURL) && m.rig.now.Before(s.asked.Add(m.rig.cfg.Timing.ColdWait))
		if listed := !c.delta && (s.wildcard || xds.SentWhole(earlier)); listed && len(s.owed) > 0 && !waits {
			// a list that waits for a name, which only listeners and routes wait for (RELAY-7), and
			// not for ever (ORD-8)
			continue
		}
		for name, at := range s.pending {
			if at < newest {
				m.fail("client %d: %s %s (taken by the table as %d) leaves before %s %s (as %d) (RELAY-84)", c.id, scriptType(typeURL), of,
					newest, scriptType(earlier), name, at)
			}
		}
	}
}

// brought is the number of the response that brought a body last, to who has the name from a kind;
// -1: from both.
func (f *fact) brought(kind int, body string) int {
	if kind >= 0 && f.stated[kind][body] != 0 {
		return f.stated[kind][body]
	}
	return max(f.stated[byStar][body], f.stated[byName][body])
}

// after is the number of the first response that has brought another body since: an answer that was
// held leaves as it was taken, and what came meanwhile has waited since then. 0: none has, or it is
// as it was again.
func (f *fact) after(kind int, body string) (first int) {
	told := f.brought(kind, body)
	for k, stated := range f.stated {
		if kind >= 0 && k != kind || f.body[k] == body {
			continue
		}
		for _, at := range stated {
			if at > told && (first == 0 || at < first) {
				first = at
			}
		}
	}
	return first
}

// taken is the number of the response that brought a body which is sent now. An answer that was
// held while its name was unsubscribed has the body as of the way in which the client had the name
// then: it may be older than the same body in the way in which it has the name now.
func (f *fact) taken(s *served, name, body string) int {
	at := f.stated[s.kind(name)][body]
	if s.lame[name] {
		for _, of := range f.stated {
			if of[body] != 0 && of[body] < at {
				at = of[body]
			}
		}
	}
	return at
}

// since is the number of the response with which a body came. To state it again is no change, and
// the answer may be from before (ORD-5: later clusters do not prolong its hold). Who has it in both
// ways, or had when the answer was taken, has it as of the first.
func (f *fact) since(s *served, name, body string) (at int) {
	kind := s.kind(name)
	for k := range f.body {
		if (kind < 0 || kind == k || s.behind) && f.body[k] == body && (at == 0 || f.changed[k] < at) {
			at = f.changed[k]
		}
	}
	if at == 0 {
		return f.brought(kind, body)
	}
	return at
}

// oldest is the number of the oldest change in a response. What answers a request, or has a body
// that was there before, is as new as that. A removal is as new as the response that it leaves in:
// it comes last (ORD-2), so what came before it left does not wait for its verdict.
func (m *model) oldest(s *served, typeURL string, bodies map[string]string, removed []string) int {
	oldest := math.MaxInt
	for name, body := range bodies {
		f := m.fact(typeURL, name)
		if s.asks() || f.again {
			return math.MaxInt
		}
		if s.told[name] != body {
			oldest = min(oldest, f.brought(s.kind(name), body))
		}
	}
	if len(removed) > 0 {
		oldest = min(oldest, m.seq)
	}
	return oldest
}

// judgeHold: listeners and routes do not leave while clusters wait for a verdict that came no
// later, unless what they say came order_hold ago (ORD-5).
func (m *model) judgeHold(c *modelClient, s *served, typeURL string, bodies map[string]string) {
	came, newest, hold := m.rig.now, 0, m.rig.cfg.Timing.OrderHold
	for name, body := range bodies {
		f := m.fact(typeURL, name)
		at := f.brought(s.kind(name), body)
		newest = max(newest, f.since(s, name, body))
		if s.pending[name] != 0 {
			at = s.pending[name]
		}
		// news: it may have gone meanwhile, of which the client was not told either
		for _, at := range []int{at, f.stated[byStar][body], f.stated[byName][body], s.news[name]} {
			if t := m.times[at]; at != 0 && s.told[name] != body && t.Before(came) {
				came = t
			}
		}
	}
	if s.asks() && s.asked.Before(came) {
		came = s.asked
	}
	cl := c.served[cds]
	if cl == nil || !m.rig.now.Before(came.Add(hold)) {
		return
	}
	for _, f := range cl.flight {
		if f.oldest <= newest && m.rig.now.Before(f.at.Add(hold)) {
			m.fail("client %d: %s leaves while clusters wait for a verdict (ORD-5)", c.id, scriptType(typeURL))
		}
	}
}

// judgeGone: what goes, goes after every change before it that could still refer to it: in delta of
// any related type (ORD-2), in SotW of what refers to clusters (ORD-3). A route does not go while a
// Cluster response waits for its verdict (ORD-5).
func (m *model) judgeGone(c *modelClient, s *served, typeURL string, bodies map[string]string, removed []string) {
	if late(typeURL) && len(bodies) > 0 {
		m.judgeHold(c, s, typeURL, bodies)
	}
	after := []string{lds, xds.ScopedRouteType, rds}
	if c.delta {
		if !removedLast(typeURL) {
			return
		}
		after = append(after, cds, eds)
	} else if removed = nil; typeURL == cds {
		for name := range s.told {
			if bodies[name] == "" && s.wants(name) {
				removed = append(removed, name)
			}
		}
	}
	for _, name := range removed {
		f, kind := m.fact(typeURL, name), s.kind(name)
		if s.told[name] == "" || kind < 0 || f.body[kind] != "" || s.dropped[name] || s.late[name] || s.lame[name] || s.shifted[name] {
			continue
		}
		if s.gaveUp[name] {
			continue // it was kept until the name was dropped (ORD-10), and `*` never brought it
		}
		for _, other := range after {
			o := c.served[other]
			if other == typeURL || o == nil || o.owedAll || o.starts || m.inVain(c, o, other) {
				continue
			}
			for n, at := range o.pending {
				if at < f.changed[kind] {
					m.fail("client %d: %s %s goes (taken by the table as %d) before %s %s is told (as %d) (ORD-2, ORD-3)", c.id,
						scriptType(typeURL), name, f.changed[kind], scriptType(other), n, at)
				}
			}
		}
	}
}

// inVain reports whether a list has waited for a name for cold_wait: it holds nothing more (ORD-8).
func (m *model) inVain(c *modelClient, s *served, typeURL string) bool {
	if c.delta || !s.wildcard && !xds.SentWhole(typeURL) {
		return false
	}
	for name := range s.owed {
		if !m.rig.now.Before(s.owedFrom[name].Add(m.rig.cfg.Timing.ColdWait)) {
			return true
		}
	}
	return false
}

// judgeClusters notes which endpoints have to follow (WARM-1).
func (m *model) judgeClusters(c *modelClient, s *served, bodies map[string]string) {
	maps.DeleteFunc(c.warm, func(name string, _ *warmth) bool { return s.told[name] == "" && bodies[name] == "" })
	for name, body := range bodies {
		// One that was listed on this stream is not new because it is asked for in another way, by
		// name beside `*` say. It may count as new all the same, as it may to a client that came
		// back.
		if was := s.toldAt[name] > 0 || !s.owed[name]; s.told[name] == body && was && !c.delta {
			c.again[name] = 2
			continue
		}
		c.again[name] = 2
		delete(c.warm, name)
		if body[0] == 'e' && !xds.IsNewStyle(name) { // NAME-8
			c.warm[name] = &warmth{judged: c.delta, since: m.rig.now}
		}
	}
}

// firstNews is the first of the changes that the client was not sent yet; 0: there is none.
func (s *served) firstNews() (first int) {
	for _, at := range s.news {
		if first == 0 || at < first {
			first = at
		}
	}
	return first
}

// warmed: endpoints that are owed have followed in time (WARM-2, WARM-3).
func (m *model) warmed() {
	for _, c := range m.clients {
		e := c.served[eds]
		if e == nil || e.starts || e.owedAll || len(c.stuck) > 0 || len(e.flight) > 0 || c.closed {
			continue
		}
		for name, w := range c.warm {
			kind := e.kind(name)
			if kind < 0 {
				kind = byName
			}
			if m.of(name).sotw && m.now(eds, name) == "" {
				continue // asked anew, such an origin says nothing of it (RELAY-12)
			}
			if !e.wants(name) || e.owed[name] || !w.judged || e.told[name] == "" || m.fact(eds, name).body[kind] == "" {
				continue
			}
			from, hold := w.since, m.rig.cfg.Timing.OrderHold
			if !w.came.IsZero() {
				from = later(from, w.came.Add(c.window))
			}
			if cl := c.served[cds].flight; len(cl) > 0 {
				from = later(from, cl[len(cl)-1].at).Add(hold) // newer clusters, which go first
			} else if at := c.served[cds].firstNews(); at > 0 {
				// newer clusters, which are gathered until the window is over that the last write began
				from = later(from, later(m.times[at], c.wrote).Add(c.window))
			}
			if late := m.rig.now.Sub(from.Add(hold)); late > 0 && !c.dueNow(m.rig.now) {
				m.fail("client %d was sent cluster %s, and its endpoints are late by %v (WARM-1)", c.id, name, late)
			}
		}
	}
}

// left notes that a response was written.
func (c *modelClient) left(m *model, msg *message) {
	c.wrote = m.rig.now
	for _, f := range c.served[msg.typeURL].flight {
		if f.nonce == msg.nonce {
			f.at = m.rig.now
		}
	}
	for _, w := range c.warm {
		if msg.typeURL == cds && c.delta {
			w.since = m.rig.now
		}
	}
}

// ended is a stream that the server ends.
func (m *model) ended(c *modelClient, err error) {
	m.logf("client %d's stream ends: %v", c.id, err)
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		if len(c.served) > 0 {
			m.fail("client %d asked, and its stream ends: %v", c.id, err)
		}
	case codes.Unavailable:
		if len(c.nonces) > 0 {
			m.fail("client %d was served, and its stream ends: %v (RELAY-8)", c.id, err)
		}
	default:
		m.fail("client %d: %v", c.id, err)
	}
	c.close(m.rig.now)
	m.clients = slices.DeleteFunc(m.clients, func(x *modelClient) bool { return x == c })
}
