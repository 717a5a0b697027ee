package cursor

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

const (
	lds = xds.ListenerType
	rds = xds.RouteType
)

// TestStreams: cursors by the plan of a stream serve a client that acknowledges when it likes,
// while its origin changes, and its tier is held and follows. No route is ever without its cluster
// and endpoints, and in the end the client has all.
func TestStreams(t *testing.T) {
	playing, answers := uint64(0), 0
	defer func() {
		if t.Failed() {
			t.Logf("again: go test ./relay/cursor -run TestStreams -seeds 1 -seed %d -tell", playing)
		}
	}()
	for i := range *seeds {
		playing = *seed + uint64(i)
		answers += playStream(t, playing)
	}
	t.Logf("%d seeds from %d on, %d responses", *seeds, *seed, answers)
}

// streamer is a client with a stream, and the origin behind it.
type streamer struct {
	t       *testing.T
	r       *rand.Rand
	now     time.Time
	line    *state.Timeline
	rev     uint64
	cfg     plan.Config
	stream  *plan.Stream
	byNames bool // endpoints are asked for by the clusters' names
	cursors map[string]*Cursor
	asked   map[string]bool
	version map[string]string            // of the last list
	has     map[string]map[string]string // by type and name: what it refers to
	nonce   uint64
	unacked []sentTo
	answers int
}

type sentTo struct {
	typeURL       string
	nonce, number uint64
	due           time.Time
}

func playStream(t *testing.T, seed uint64) int {
	r := rand.New(rand.NewPCG(seed, 9))
	s := &streamer{t: t, r: r, now: zero, line: state.NewTimeline(zero, state.Config{Bounds: func() (int64, time.Duration) { return 1 << 30, time.Hour }}), byNames: r.IntN(2) == 0}
	s.cfg = plan.Config{Delta: r.IntN(2) == 0, Hold: 500 * ms, Cold: 2 * time.Second}
	s.line.Connect(0, state.Lane{Open: true})
	s.change()
	s.has, s.version = map[string]map[string]string{cds: {}, eds: {}, lds: {}, rds: {}}, map[string]string{}
	s.connect()
	for range 120 {
		switch x := r.IntN(12); {
		case x < 5:
			s.change()
		case x == 5:
			s.line.Hold(s.now, state.Rest, s.line.Newest())
		case x == 6:
			if old := s.line.States(); len(old) > 0 {
				s.line.Hold(s.now, state.Rest, pick(r, old).State)
			}
		case x < 9:
			s.line.Hold(s.now, state.Rest, nil)
		case x == 9 && r.IntN(4) == 0:
			s.connect()
		}
		s.turn()
		s.now = s.now.Add(time.Duration(r.IntN(150)) * ms)
	}
	s.line.Hold(s.now, state.Rest, nil)
	for range 40 {
		s.turn()
		s.now = s.now.Add(200 * ms)
	}
	for _, typeURL := range []string{cds, eds, lds, rds} {
		x, _ := s.line.Newest().Of(typeURL, "*")
		want := map[string]string{}
		for e := range x.Members.All() {
			want[e.Name()] = refersTo(e.Body())
		}
		if typeURL == eds && s.byNames {
			maps.DeleteFunc(want, func(name, _ string) bool { return s.has[cds][name] == "" })
			maps.DeleteFunc(s.has[eds], func(name, _ string) bool { return s.has[cds][name] == "" }) // it has no use for it
		}
		if !maps.Equal(want, s.has[typeURL]) {
			t.Fatalf("in the end it has %v of %s, and there is %v", s.has[typeURL], typeURL, want)
		}
	}
	return s.answers
}

// change makes a next state in which each route has its cluster and endpoints.
func (s *streamer) change() {
	changes := map[string][]state.Edit{}
	add := func(typeURL, name, refers string) {
		changes[typeURL] = append(changes[typeURL], say(like{typeURL: typeURL, name: name, payload: fmt.Sprint(refers, " ", s.rev)}))
	}
	s.rev++
	routes, _ := s.line.Newest().Of(rds, "*")
	route, cluster := fmt.Sprint("r", s.r.IntN(3)), fmt.Sprint("c", s.r.IntN(9))
	add(cds, cluster, cluster)
	add(eds, cluster, cluster)
	add(rds, route, cluster)
	if old := routes.Members.Get(route).Body(); old == nil {
		add(lds, route, route)
	} else if was := refersTo(old); was != cluster { // its cluster goes, if nobody else uses it
		used := false
		for e := range routes.Members.All() {
			used = used || e.Name() != route && refersTo(e.Body()) == was
		}
		if !used {
			changes[cds] = append(changes[cds], state.Edit{Name: was})
			changes[eds] = append(changes[eds], state.Edit{Name: was})
		}
	}
	var all []state.Change
	for _, typeURL := range []string{cds, eds, lds, rds} {
		all = append(all, state.Change{TypeURL: typeURL, Selector: "*", Edits: changes[typeURL], Status: firm})
		if typeURL == eds { // as they are asked for by name
			edits := slices.Clone(changes[eds])
			for i, e := range edits {
				if !e.Entry.Known() {
					edits[i] = gone(e.Name)
				}
			}
			all = append(all, state.Change{TypeURL: eds, Edits: edits})
		}
	}
	s.line.Publish(s.now, s.rev, all...)
}

func refersTo(v *xds.Variant) string {
	_, payload, _ := xds.AnyParts(v.Any())
	to, _, _ := strings.Cut(string(payload), " ")
	return to
}

// connect begins a stream, with what the client has or with nothing.
func (s *streamer) connect() {
	old := s.line.States()
	states := []*state.State{s.line.Newest()}
	for _, k := range old {
		states = append(states, k.State)
	}
	known := func(typeURL string) bool { // a list on the way between two states says nothing (RELAY-43)
		return typeURL == eds && s.byNames || slices.ContainsFunc(states, func(x *state.State) bool {
			all, _ := x.Of(typeURL, "*")
			return all.Members.Sum().TreeVersion() == s.version[typeURL]
		})
	}
	if s.r.IntN(2) == 0 || !s.cfg.Delta && !(known(cds) && known(eds) && known(lds) && known(rds)) {
		s.version = map[string]string{}
		s.has = map[string]map[string]string{cds: {}, eds: {}, lds: {}, rds: {}}
	}
	s.stream, s.cursors, s.unacked, s.asked = plan.New(s.cfg, 1), map[string]*Cursor{}, nil, map[string]bool{}
	for _, typeURL := range []string{cds, eds, lds, rds} {
		cfg := Config{TypeURL: typeURL, Delta: s.cfg.Delta, Patience: 15 * time.Second, Cold: s.cfg.Cold, Began: s.now, States: states}
		if cfg.Holds = len(s.has[typeURL]) > 0; !cfg.Delta {
			cfg.Version = s.version[typeURL]
			cfg.Holds = cfg.Version != ""
		}
		c := New(cfg)
		c.Open(Source{Ends: ends})
		if typeURL != eds || !s.byNames {
			c.Subscribe(0, All)
		}
		if s.cfg.Delta {
			for name := range s.has[typeURL] {
				c.Claim(0, name, "", xds.Digest{})
			}
		}
		c.Requested(s.now)
		s.cursors[typeURL] = c
	}
	s.names()
}

// names asks for the endpoints of the clusters that the client has.
func (s *streamer) names() {
	if !s.byNames {
		return
	}
	c := s.cursors[eds]
	for name := range s.has[cds] {
		if !s.asked[name] {
			c.Subscribe(0, Name{Name: name})
			s.asked[name] = true
		}
	}
	for name := range s.asked {
		if s.has[cds][name] == "" {
			c.Unsubscribe(0, name)
			delete(s.asked, name)
			delete(s.has[eds], name)
		}
	}
	c.Requested(s.now)
}

// turn acknowledges what is due, and writes what may be written.
func (s *streamer) turn() {
	for i := 0; i < len(s.unacked); {
		if a := s.unacked[i]; !a.due.After(s.now) {
			s.unacked = slices.Delete(s.unacked, i, i+1)
			s.stream.Ack(s.now, a.typeURL, a.nonce)
			s.cursors[a.typeURL].Ack(a.number, true)
			s.names()
			continue
		}
		i++
	}
	for range 3 { // what is written leads to requests
		var asks []plan.Ask
		for _, typeURL := range []string{cds, eds, lds, rds} {
			asks = append(asks, s.cursors[typeURL].Ask())
		}
		s.stream.Next(s.now, []*state.Target{s.line.Target(state.Rest)}, asks, s.take)
		s.names()
	}
}

func (s *streamer) take(step plan.Step) uint64 {
	a := s.cursors[step.TypeURL].Take(s.now, step)
	if a == nil {
		return 0
	}
	s.answers++
	s.nonce++
	has := s.has[step.TypeURL]
	if s.version[step.TypeURL] = a.Version; a.Whole {
		clear(has)
		for e := range a.All[0].All() {
			has[e.Name()] = refersTo(e.Body())
		}
	}
	for _, v := range a.Changed {
		has[v.Name] = refersTo(v)
	}
	for _, name := range a.Removed {
		delete(has, name)
	}
	if *tell {
		s.t.Logf("%v: %s %s", s.now.Sub(zero), step.TypeURL, wordsOf(a))
	}
	for route, cluster := range s.has[rds] {
		if s.has[cds][cluster] == "" || s.has[eds][cluster] == "" && !s.byNames {
			s.t.Fatalf("%v: route %s has no cluster %s (ORD-3): %v", s.now.Sub(zero), route, cluster, s.has)
		}
	}
	delay := time.Duration(s.r.IntN(3)) * 200 * ms
	if s.r.IntN(10) == 0 {
		delay = time.Hour // never
	}
	s.unacked = append(s.unacked, sentTo{step.TypeURL, s.nonce, a.Number, s.now.Add(delay)})
	return s.nonce
}
