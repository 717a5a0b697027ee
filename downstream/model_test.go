package downstream

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest/seed"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

var (
	fixedSeed = flag.Uint64("seed", 0, "seed of the model; 0: WEIR_SEED, or a new one; it is printed")
	steps     = flag.Int("steps", 10_000, "steps of the model, over all pairs of dialects")
)

// TestModel plays random steps of an origin, the streams to it, clients and the network between, in
// all pairs of dialects, and judges every response when it leaves (model_judge_test.go). Now and
// then all comes to rest; then every client must hold what the origin has, as far as its dialect
// can say it. Half of the streams gather changes (order.go). In every other world there are two
// more origins, one of each dialect, with the names of their own authorities; each is away now and
// then.
func TestModel(t *testing.T) {
	s := seed.Of(t, *fixedSeed)
	for i := range 8 {
		pair := []struct{ origin, client string }{{"delta", "delta"}, {"delta", "sotw"}, {"sotw", "delta"}, {"sotw", "sotw"}}[i%4]
		t.Run([]string{"", "three origins, "}[i/4]+pair.origin+" origin "+pair.client+" clients", func(t *testing.T) {
			m := newModelWorld(t, s, i)
			m.play(*steps / 4)
			t.Logf("%d responses were judged, %d streams opened", m.judged, m.ids)
			if least := *steps / 32; m.judged < least {
				t.Errorf("only %d responses were judged", m.judged)
			}
		})
	}
}

// play takes steps, and rests now and then.
func (m *model) play(steps int) {
	for m.at = range steps {
		m.step()
		if err := m.rig.table.Check(); err != nil {
			m.fail("%v", err)
		}
		if m.at%80 == 79 {
			m.quiet()
		}
	}
}

// TestKeptWhileGathering: a cluster that is kept may go while changes are gathered, and something
// that was taken waits to be written. The writer looked for it without end until the window was
// over.
func TestKeptWhileGathering(t *testing.T) {
	newModel(t, rand.New(rand.NewPCG(3015, 0)), false, true, false).play(480)
	newModel(t, rand.New(rand.NewPCG(3036, 1)), false, false, false).play(960)
}

// model is one world.
type model struct {
	t       *testing.T
	rnd     *rand.Rand
	delta   bool // most clients
	at      int
	rig     *rig
	control *control   // of the listener's own origin
	others  []*control // of the others
	away    map[*control]bool
	clients []*modelClient
	ids     int
	serial  int         // of bodies
	seq     int         // of responses the table has taken
	times   []time.Time // when, by number
	calm    bool
	judged  int
	log     []string

	facts    map[string]map[string]*fact // by type and name
	contents map[string]string           // of what was sent whole, by type and version
}

// fact is what is known of one name of one type.
type fact struct {
	deleted int            // step of the last deletion; -1: never
	made    map[string]int // body: step
	// What the table was told, by kind: from the answer to `*`, and by name.
	body    [2]string
	changed [2]int            // number of the response that changed it last
	stated  [2]map[string]int // body: number of the response that brought it last
	again   bool              // a body was stated again after another
}

const (
	byStar = iota
	byName
)

var modelTypes = []string{cds, eds, lds, xds.ScopedRouteType, rds, odd}

func newModel(t *testing.T, rnd *rand.Rand, sotw, delta, several bool) *model {
	m := &model{
		t: t, rnd: rnd, delta: delta, facts: map[string]map[string]*fact{}, times: []time.Time{zero}, contents: map[string]string{}, away: map[*control]bool{},
	}
	origins := []relay.OriginConfig{{Name: "mesh", SotW: sotw}}
	if several {
		origins = append(origins, relay.OriginConfig{Name: "east", Authorities: []string{"east"}},
			relay.OriginConfig{Name: "west", Authorities: []string{"west"}, SotW: true})
	}
	m.rig = newRigOf(t, origins...)
	for _, o := range origins {
		c := newControl(t, m.rig.table.Origin(o.Name), o.SotW)
		c.hidden = hidden
		c.pieces = func(n int) int { return 1 + rnd.IntN(min(3, n)) }
		c.applied = m.applied
		if o.Name == "mesh" {
			m.control = c
		} else {
			m.others = append(m.others, c)
		}
	}
	return m
}

// hidden names are no members of `*`.
func hidden(name string) bool { return name[0] == 'h' || xds.IsNewStyle(name) }

// name is one of the names of a type there are; mostly of the listener's own origin.
func (m *model) name(typeURL string) string {
	if len(m.others) == 0 || m.rnd.IntN(5) < 3 {
		return []string{"a", "b", "c", "d", "h", "hh"}[m.rnd.IntN(6)]
	}
	return long(typeURL, []string{"//east/a", "//east/b", "//west/a", "//west/b"}[m.rnd.IntN(4)])
}

// controls are those of all origins.
func (m *model) controls() []*control { return append([]*control{m.control}, m.others...) }

// of is the control plane that has a name.
func (m *model) of(name string) *control {
	for _, c := range m.others {
		if strings.HasPrefix(name, "xdstp://"+c.origin.Name()+"/") {
			return c
		}
	}
	return m.control
}

// now is the body a name has; "": it does not exist.
func (m *model) now(typeURL, name string) string { return m.of(name).state[typeURL][name] }

func (m *model) typeURL() string { return modelTypes[m.rnd.IntN(len(modelTypes))] }

func (m *model) logf(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf("[%d %v] ", m.at, m.rig.now.Sub(zero))+fmt.Sprintf(format, args...))
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	log := m.log[max(0, len(m.log)-600):]
	m.t.Fatalf("step %d: %s\n%s", m.at, fmt.Sprintf(format, args...), strings.Join(log, "\n"))
}

func (m *model) fact(typeURL, name string) *fact {
	if m.facts[typeURL] == nil {
		m.facts[typeURL] = map[string]*fact{}
	}
	f := m.facts[typeURL][name]
	if f == nil {
		f = &fact{deleted: -1, made: map[string]int{}, stated: [2]map[string]int{{}, {}}}
		m.facts[typeURL][name] = f
	}
	return f
}

func (m *model) step() {
	var c *modelClient
	if len(m.clients) > 0 {
		c = m.clients[m.rnd.IntN(len(m.clients))]
	}
	switch k := m.rnd.IntN(100); {
	case k < 16:
		m.change()
	case k < 20 || c == nil:
		m.open()
	case k < 22:
		m.leave(c)
	case k < 36:
		m.wish(c)
	case k < 50:
		m.arrive(c)
	case k < 64:
		m.turn(c)
	case k < 75:
		m.receive(c)
	case k < 78:
		m.answerOne(c)
	case k < 80:
		if m.rnd.IntN(2) == 0 {
			m.oddRequest(c)
		} else {
			m.forgets(c)
		}
	case k < 95:
		m.lane()
	default:
		m.wait(time.Duration(m.rnd.IntN(1000)) * time.Millisecond << m.rnd.IntN(5))
	}
}

// change is the origin's: something comes, changes, goes, or goes back to what it was.
func (m *model) change() {
	typeURL := m.typeURL()
	name := m.name(typeURL)
	f := m.fact(typeURL, name)
	m.serial++
	body := fmt.Sprint("x", m.serial)
	if typeURL == eds && m.rnd.IntN(3) == 0 {
		body = fmt.Sprint("none", m.serial)
	}
	if typeURL == cds && m.rnd.IntN(3) > 0 {
		body = fmt.Sprint("eds", m.serial)
	}
	switch m.rnd.IntN(8) {
	case 0, 1:
		if m.now(typeURL, name) == "" {
			return
		}
		body = ""
		f.deleted = m.at
		// its endpoints are emptied with it
		if typeURL == cds && m.now(eds, name) != "" && m.rnd.IntN(2) == 0 {
			empty := fmt.Sprint("none", m.serial)
			m.fact(eds, name).made[empty] = m.at
			m.of(name).set(eds, name, empty)
			m.logf("origin %s eds %s=%s", m.of(name).origin.Name(), name, empty)
		}
	case 2:
		if len(f.made) > 0 {
			body = slices.Sorted(maps.Keys(f.made))[m.rnd.IntN(len(f.made))]
			f.again = true
			break
		}
		fallthrough
	default:
		f.made[body] = m.at
	}
	m.of(name).set(typeURL, name, body)
	m.logf("origin %s %s %s=%s", m.of(name).origin.Name(), scriptType(typeURL), name, body)
}

// lane is a step of a stream to the origin.
func (m *model) lane() {
	all := m.controls()
	c := all[m.rnd.IntN(len(all))]
	if len(all) > 1 && m.rnd.IntN(30) == 0 {
		m.goAway(c, !m.away[c])
	}
	c.takeLanes()
	if len(c.lanes) == 0 || m.away[c] {
		return
	}
	l := c.lanes[m.rnd.IntN(len(c.lanes))]
	switch k := m.rnd.IntN(20); {
	case k < 1:
		m.logf("a lane breaks, %d in flight", len(l.queue))
		c.close(l)
	case k < 8:
		c.ask(m.rig.now, l)
	case k < 14:
		m.produce(c, l)
	default:
		c.deliver(m.rig.now, l)
	}
}

// goAway makes an origin unreachable, or reachable again.
func (m *model) goAway(c *control, away bool) {
	if m.away[c] == away {
		return
	}
	m.logf("%s is away: %v", c.origin.Name(), away)
	m.away[c] = away
	for _, l := range c.lanes {
		c.close(l)
	}
}

func (m *model) produce(c *control, l *controlLane) {
	for _, typeURL := range modelTypes {
		if m.calm || m.rnd.IntN(3) > 0 {
			c.produce(l, typeURL)
		}
	}
}

// applied takes note of what the table was told.
func (m *model) applied(l *controlLane, s *stated, a relay.Applied) {
	m.seq++
	m.times = append(m.times, m.rig.now)
	kind := byName
	if l.types[s.typeURL].wildcard {
		kind = byStar
	}
	if a.Changed == 0 { // nothing new, or the names are on another lane by now
		for _, name := range s.removed {
			// but what clients of the name were sent may have been a retired body
			if kind == byName && l.types[s.typeURL].names[name] {
				m.told(s.typeURL, name, "", kind)
			}
		}
		return
	}
	m.logf("the table takes %s of kind %d: %v -%v full %v", scriptType(s.typeURL), kind, s.bodies, s.removed, s.full)
	for name, body := range s.bodies {
		m.told(s.typeURL, name, body, kind)
	}
	for _, name := range s.removed {
		m.told(s.typeURL, name, "", kind)
	}
	if s.full {
		for name := range m.facts[s.typeURL] {
			if s.bodies[name] == "" && (kind == byStar || l.types[s.typeURL].names[name]) {
				m.told(s.typeURL, name, "", kind)
			}
		}
	}
}

func (m *model) told(typeURL, name, body string, kind int) {
	f := m.fact(typeURL, name)
	if f.body[kind] == body {
		return
	}
	if body != "" {
		f.stated[kind][body] = m.seq
	}
	for _, c := range m.clients {
		c.changed(m, typeURL, name, body, kind)
	}
	f.body[kind], f.changed[kind] = body, m.seq
}

// wait lets time pass, from one deadline to the next. That all of a set has arrived is guessed by
// the pause after it, which is right only if an origin answers in time: what was asked is answered
// first.
func (m *model) wait(d time.Duration) {
	for _, c := range m.controls() {
		for _, l := range c.lanes {
			m.catchUp(c, l)
		}
	}
	m.logf("wait %v", d)
	end := m.rig.now.Add(d)
	for {
		next := m.rig.table.Advance(m.rig.now)
		for _, c := range slices.Clone(m.clients) {
			if len(c.stuck) > 0 {
				continue
			}
			for i := 0; i < 20 && c.dueNow(m.rig.now) && len(c.stuck) == 0; i++ {
				m.turn(c)
			}
			if at := c.deadline; !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		m.warmed()
		if next.IsZero() || !next.Before(end) {
			break
		}
		m.rig.now = later(m.rig.now, next)
	}
	m.rig.now = end
	m.rig.table.Advance(end)
	for _, c := range m.clients {
		if len(c.stuck) > 0 || c.dueNow(end) {
			continue
		}
		if batch, err := c.take(end); len(batch) > 0 || err != nil {
			for _, r := range batch {
				m.logf("client %d would be sent %s: %v", c.id, scriptType(r.kind.typeURL), decode(m.t, r, c.delta).words)
			}
			m.fail("client %d's writer was not woken: %d responses, %v", c.id, len(batch), err)
		}
	}
}

// catchUp has the origin answer what was asked on a lane.
func (m *model) catchUp(c *control, l *controlLane) {
	late := slices.ContainsFunc(l.queue, func(s *stated) bool { return s.first })
	for _, ty := range l.types {
		late = late || !ty.answered
	}
	if !l.open || !late {
		return
	}
	for _, typeURL := range modelTypes {
		c.produce(l, typeURL)
	}
	for len(l.queue) > 0 {
		c.deliver(m.rig.now, l)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// quiet lets all come to rest, half a minute and until nobody has been told anything for three
// seconds, and compares. Who waits for a name gets another half.
func (m *model) quiet() {
	m.calm = true
	for _, c := range m.controls() {
		m.goAway(c, false)
	}
	// A name that came back to a SotW origin, and of which that says nothing for 15 s, is decided by
	// a new stream, which is opened for that once a minute.
	rounds := 10
	if slices.ContainsFunc(m.controls(), func(c *control) bool { return c.sotw }) {
		rounds = 26
	}
	for i, said := 0, 0; i < rounds || m.judged != said || i < 20 && m.waiting(); i++ {
		if i == 40 {
			m.fail("the clients are told something all the time")
		}
		said = m.judged
		for range 5 {
			for _, c := range m.controls() {
				c.serve(m.rig.now)
			}
			m.flowAll()
		}
		m.wait(3 * time.Second)
		// what is told now may be followed by more, a cluster that was kept by its removal say
		// (ORD-10)
		if i >= rounds-1 {
			m.flowAll()
		}
	}
	m.calm = false
	for _, c := range slices.Clone(m.clients) {
		if c.closed {
			continue
		}
		before := m.judged
		for range 3 {
			c.began = false // whatever wakes it
			m.flow(c)
		}
		if m.judged != before {
			m.fail("client %d is told more though all is quiet", c.id)
		}
		for _, typeURL := range modelTypes {
			m.compare(c, typeURL)
		}
		for name := range c.warm {
			if e := c.served[eds]; e != nil && e.wants(name) && m.now(eds, name) != "" {
				m.fail("client %d was sent cluster %s, and is owed its endpoints (WARM-1)", c.id, name)
			}
		}
	}
}

// waiting reports whether a client may not be told something because a name is still asked: for 15 s
// on each stream, and a lane that is opened anew begins again (ABS-2). Who came back with the name
// waits for nothing, and is told all the same that it is gone.
func (m *model) waiting() bool {
	for _, c := range m.controls() {
		for _, l := range c.lanes {
			if l.open && m.rig.now.Before(l.since.Add(18*time.Second)) {
				return true
			}
		}
	}
	return slices.ContainsFunc(m.clients, func(c *modelClient) bool {
		return slices.ContainsFunc(c.session.types, func(st *streamType) bool { return !st.sub.None() && st.sub.Standing().Waiting })
	})
}

func (m *model) flowAll() {
	for _, c := range slices.Clone(m.clients) {
		m.flow(c)
	}
}

// flow lets one client do all that can be done now.
func (m *model) flow(c *modelClient) {
	for range 50 {
		if c.closed || len(c.toServer)+len(c.toClient)+len(c.stuck) == 0 && !c.waits() && !c.dueNow(m.rig.now) {
			return
		}
		for len(c.toServer) > 0 && !c.closed {
			m.arrive(c)
		}
		m.turn(c)
		m.turn(c)
		for len(c.toClient) > 0 {
			m.receive(c)
		}
		for _, typeURL := range modelTypes {
			m.answer(c, typeURL)
		}
	}
	m.fail("client %d does not come to rest", c.id)
}

// compare is what a client must hold when all is quiet.
func (m *model) compare(c *modelClient, typeURL string) {
	w := c.wishes[typeURL]
	if w == nil {
		return
	}
	want, got := map[string]string{}, maps.Clone(w.held)
	for _, c := range m.controls() {
		for name, body := range c.state[typeURL] {
			if w.wants(name) {
				want[name] = body
			}
		}
	}
	// Neither a SotW origin nor a SotW client has words for the end of a grouped resource (DEL-3).
	sotwSays := xds.FullState(typeURL) || w.wildcard && len(w.names) == 0
	maps.DeleteFunc(got, func(name string, _ string) bool {
		dumb := m.of(name).sotw && !sotwSays || !c.delta && !w.wildcard && !xds.SentWhole(typeURL)
		return dumb && m.now(typeURL, name) == ""
	})
	if !maps.Equal(want, got) {
		standing := relay.Standing{}
		for _, st := range c.session.types {
			if st.typeURL == typeURL && !st.sub.None() {
				standing = st.sub.Standing()
			}
		}
		m.fail("client %d (delta %v) of %s (`*` %v, names %v) holds %v, and the origin has %v: %+v", c.id, c.delta, scriptType(typeURL),
			w.wildcard, slices.Sorted(maps.Keys(w.names)), got, want, standing)
	}
}
