package relay

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest/seed"
	"github.com/weir-xds/weir/relay/xds"
)

var (
	fixedSeed = flag.Uint64("seed", 0, "seed of the random tests; 0: WEIR_SEED, or a new one; it is printed")
	steps     = flag.Int("steps", 3000, "steps of each random test")
)

func newRand(t *testing.T) *rand.Rand {
	s := newSeed(t)
	return rand.New(rand.NewPCG(s, s))
}

func newSeed(t *testing.T) uint64 {
	return seed.Of(t, *fixedSeed)
}

// TestConvergence drives the table by random steps of an origin and of clients, in all crossings of
// the dialects, for what the random world does not play (TestWorld of package downstream):
// responses in flight, lanes served apart, chunked first answers, bad responses, errors of names,
// TTLs that are renewed by heartbeats or run out, origins without resume or versions, members that
// are not in the wildcard, names in several spellings, clients that return with what they held, a
// stream for each type, streams refused for types never answered, outages in which what had retired
// comes back, mass removals that are held back, bodies that must not be cached, and clients looked
// at only when woken. Besides convergence it judges every removal: the origin must have deleted the
// name after it made the body that the client loses. And it compares what the history says of a
// revision with what the table held then.
//
// The world plays all that needs no such origin or client, which is aliases, collections, permits,
// restarts, and groups that are frozen or held at a state.
func TestConvergence(t *testing.T) {
	played, revivals, heartbeats, returned, repeats, alarms := 0, 0, 0, 0, 0, 0
	for _, k := range modelKinds {
		t.Run(k, func(t *testing.T) {
			rounds, rnd := 1, newRand(t)
			if strings.HasSuffix(k, "ttl") {
				rounds = 2 // what is counted below is rare
			}
			expired := 0
			for i := range rounds {
				m := newModel(t, rnd, k)
				m.play()
				if expired += m.promises.expired; i == rounds-1 && m.ttls() && *steps >= 3000 && expired == 0 {
					t.Errorf("no bodies were lost by expiry")
				}
				revivals, heartbeats, returned = revivals+m.revivals, heartbeats+m.heartbeats, returned+m.promises.returned
				alarms += m.alarms
				if m.sotw {
					repeats += m.repeats
				}
			}
			played++
		})
	}
	for _, k := range paramKinds {
		t.Run(k, func(t *testing.T) { playParams(t, newRand(t), k) })
	}
	if *steps >= 3000 && played >= len(modelKinds) && (revivals == 0 || heartbeats == 0 || returned == 0 || repeats == 0 || alarms == 0) {
		t.Errorf("of what had retired %d bodies were given out, %d heartbeats were told, %d names came back that had expired, lists had %d bodies again, and %d mass removals were held",
			revivals, heartbeats, returned, repeats, alarms)
	}
}

func (m *model) play() {
	t := m.t
	for i := range *steps {
		m.at = i
		m.step()
		if err := m.table.Check(); err != nil {
			t.Fatalf("step %d: %v\n%s", i, err, m.tail())
		}
		m.past.see(m.table)
		if i%3 == 0 {
			if wrong := m.past.check(m.table, m.rnd); wrong != "" {
				t.Fatalf("step %d: %s\n%s", i, wrong, m.tail())
			}
		}
		if i%60 == 59 {
			m.quiet()
			m.forget()
		}
	}
	if *steps >= 3000 && m.past.known < 100 {
		t.Errorf("of %d resources alone it is known what they were, and of %d it is not", m.past.known, m.past.unknown)
	}
	t.Logf("%d resources were found as they had been, and %d not", m.past.known, m.past.unknown)
	t.Logf("%d types were refused, %d bodies had retired, %d heartbeats were told, %d came again", m.refusals, m.revivals, m.heartbeats, m.repeats)
}

var modelKinds = []string{
	"delta", "sotw", "no-resume", "no-versions", "origin's versions", "origin's no-versions", "spellings", "sotw spellings",
	"per type", "sotw per type", "ttl", "sotw ttl",
	"guarded", "sotw guarded", "no-resume guarded", "no-versions guarded",
}

type model struct {
	t        *testing.T
	rnd      *rand.Rand
	kind     string
	sotw     bool
	asOrigin bool // VER-5
	at       int
	serial   int
	opened   int // clients, ever
	now      time.Time
	table    *Table
	group    *Group
	state    map[string]map[string]int
	made     map[int]int               // body: step
	deleted  map[string]map[string]int // type, name: step of the last deletion
	faults   map[string]map[string]modelFault
	faulted  map[string]map[string]int  // step at which a name was in a transient error last
	breaks   int                        // of streams
	stated   map[string]map[string]bool // modelAsked.stated of the last stream that was answered
	lanes    []*modelLane               // the group's two, and those of types that are apart
	subs     []*modelSub
	ghosts   []*modelSub
	log      []string
	calm     bool

	outage   int // the step until which no stream can be opened
	refusals int
	revivals int // bodies given out of those that had retired

	heartbeats int // told to clients
	alarms     int // mass removals that were held
	repeats    int // resources that came again and were passed over
	promises   promises

	lives lives
	past  pastStates
}

type modelLane struct {
	*Lane
	open  bool
	types map[string]*modelAsked
	queue []*flight
}

type flight struct {
	resp  *xds.Response
	first bool // part of a first answer that is not complete
}

type modelAsked struct {
	wildcard bool
	names    map[string]bool
	known    map[string]int // -1: stated absent, -2: refused
	answered bool
	errs     map[string]string // told on the stream, by name
	refused  bool              // a part of a response
	// Of what was delivered of `*`: the names in error on this stream, and those on the last one that
	// was answered of which this one has said nothing.
	stated, statedBefore map[string]bool
}

type modelSub struct {
	*Sub
	id       int
	delta    bool
	lazy     bool
	came     bool // SotW: it came with a version, and was told nothing yet
	wildcard bool
	names    map[string]bool
	held     map[string]int
	versions map[string]string
	version  string
	left     bool
	absent   map[string]bool // its names that were when it left `*`
	unsubbed map[string]bool // may be answered by a removal (DELTA-9)
	errs     map[string]modelTold
	named    map[string]bool   // ever, since it came for `*`
	refused  map[string]bool   // last sent in an answer that it refused
	accepted map[string]string // version it accepted last
	took     time.Time         // when it was last sent anything
}

var (
	modelTypes = []string{xds.ClusterType, xds.EndpointType, xds.ScopedRouteType}
	modelNames = []string{"n0", "n1", "n2", "n3", "n4", "n5"}
)

func newModel(t *testing.T, rnd *rand.Rand, kind string) *model {
	m := &model{
		t: t, rnd: rnd, kind: kind, sotw: strings.HasPrefix(kind, "sotw"), now: time.Unix(1e9, 0), state: map[string]map[string]int{},
		made: map[int]int{}, deleted: map[string]map[string]int{}, faults: map[string]map[string]modelFault{},
		promises: promises{map[promised]time.Time{}, map[promised]map[bool]time.Time{}, map[promised]time.Time{}, map[promised]int{}, time.Time{}, 0, 0},
		stated:   map[string]map[string]bool{},
		faulted:  map[string]map[string]int{}, lives: lives{},
	}
	m.asOrigin = strings.HasPrefix(kind, "origin's")
	m.start()
	for _, ty := range modelTypes {
		m.faulted[ty], m.state[ty], m.deleted[ty], m.faults[ty] = map[string]int{}, map[string]int{}, map[string]int{}, map[string]modelFault{}
	}
	return m
}

// start makes the table.
func (m *model) start() {
	table, err := New(Config{Linger: 5 * time.Second, Gather: 20 * time.Millisecond, History: wholeHistory, Origins: []OriginConfig{
		{Name: "mesh", SotW: m.sotw, NoResume: m.has("no-resume"), OriginVersions: m.asOrigin, PerType: m.has("per"), Guard: m.guard()},
	}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.table = table
	m.group, _ = table.Origin("mesh").Group(nil)
	for _, l := range m.group.lanes {
		m.lanes = append(m.lanes, &modelLane{Lane: l})
	}
}

func (m *model) logf(f string, a ...any) {
	m.log = append(m.log, fmt.Sprintf("[%d] ", m.at)+fmt.Sprintf(f, a...))
}
func (m *model) tail() string { return strings.Join(m.log[max(0, len(m.log)-400):], "\n") }
func (m *model) name() string { return modelNames[m.rnd.IntN(len(modelNames))] }

// has reports whether the kind is one with something besides.
func (m *model) has(what string) bool { return slices.Contains(strings.Fields(m.kind), what) }

// wants reports whether a client is subscribed to a resource in any way, and ways in how many.
func (m *model) wants(c *modelSub, n string) bool { return m.ways(c, n) > 0 }

func (m *model) ways(c *modelSub, n string) (ways int) {
	for _, way := range []bool{c.wildcard && visible(n), c.names[n]} {
		if way {
			ways++
		}
	}
	return ways
}

// spell writes a name in one of the ways that mean it (NAME-4), plain reads it.
func (m *model) spell(name string) string {
	if name == xds.Wildcard || !m.has("spellings") {
		return name
	}
	return fmt.Sprintf([]string{"xdstp://o/T/%s?a=&b=", "xdstp://o/T/%s?b&a", "xdstp://%%6f/%%54/%s?%%61&a=9&b", "xdstp://o/T/%s?a&&b&b"}[m.rnd.IntN(4)], name)
}

func (m *model) spellAll(names ...string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = m.spell(name)
	}
	return all
}

func (m *model) plain(name string) string {
	if u, err := xds.ParseURN(name); err == nil {
		return u.ID
	}
	return name
}

func (m *model) typeURL() string { return modelTypes[m.rnd.IntN(len(modelTypes))] }

func (m *model) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

// visible: n4 and n5 are no members of the wildcard.
func visible(name string) bool {
	return !strings.HasSuffix(name, "n4") && !strings.HasSuffix(name, "n5")
}

func (m *model) step() {
	m.stepGuard()
	switch k := m.rnd.IntN(100); {
	case k < 20:
		m.change()
		m.live()
	case k < 38:
		if len(m.subs) > 0 {
			m.subscribeOne(m.subs[m.rnd.IntN(len(m.subs))])
		}
	case k < 45:
		m.openSub()
	case k < 50:
		m.closeSub()
	case k < 68:
		if len(m.subs) > 0 {
			if c := m.subs[m.rnd.IntN(len(m.subs))]; !c.lazy {
				m.take(c)
			}
		}
	case k < 71:
		m.refuseLane(m.lane())
	case k < 80:
		m.run(m.lane())
	case k < 87:
		m.produceAll(m.lane())
		for range 6 {
			m.renew(m.lane())
		}
	case k < 95:
		m.deliver(m.lane())
	case k < 96:
		m.cutOff()
	default:
		m.wait(time.Duration(m.rnd.IntN(4000)) * time.Millisecond)
	}
}

// lane is any of them.
func (m *model) lane() *modelLane {
	m.adopt()
	return m.lanes[m.rnd.IntN(len(m.lanes))]
}

// cutOff is the beginning of an outage. Some of what clients leave retires in it.
func (m *model) cutOff() {
	m.adopt()
	m.outage = m.at + m.rnd.IntN(100)
	for _, l := range m.lanes {
		m.breakLane(l)
	}
	for range m.rnd.IntN(8) {
		m.closeSub()
	}
	m.wait(time.Duration(m.rnd.IntN(10)) * time.Second)
	for range m.rnd.IntN(8) {
		m.openSub()
		m.run(m.lane())
	}
}

// adopt finds the lanes of types that have their own, and drops those whose type is back on the
// group's (RELAY-92).
func (m *model) adopt() {
	m.lanes = slices.DeleteFunc(m.lanes, func(l *modelLane) bool {
		return l.only != nil && !l.open && (len(l.only.all) == 0 || !l.carries(l.only))
	})
	for _, s := range *m.group.all.Load() {
		if s.sharesLanes() {
			continue
		}
		for _, l := range s.lanes.Load() {
			if !slices.ContainsFunc(m.lanes, func(x *modelLane) bool { return x.Lane == l }) {
				m.lanes = append(m.lanes, &modelLane{Lane: l})
			}
		}
	}
}

// forget makes the table's knowledge of answers that of a process that has just started, so that
// types may become suspect again.
func (m *model) forget() {
	clear(m.table.Origin("mesh").proven)
	for _, s := range *m.group.all.Load() {
		s.proven = false
	}
}

// wait: a guess about "all has arrived" is only right if the origin answers in time, so what was
// asked is answered first.
func (m *model) wait(d time.Duration) {
	for _, l := range m.lanes {
		if !l.open {
			continue
		}
		late := false
		for _, f := range l.queue {
			late = late || f.first
		}
		for _, a := range l.types {
			late = late || !a.answered
		}
		if late {
			m.produceAll(l)
		}
		for _, ty := range modelTypes { // after a refusal
			if a := l.types[ty]; a != nil && !a.answered {
				m.produceAll(l)
			}
		}
		if late {
			for len(l.queue) > 0 {
				m.deliver(l)
			}
		}
	}
	m.deliverAll()
	m.logf("wait %v", d)
	end := m.now.Add(d)
	for {
		next := m.table.Advance(m.now)
		if next.IsZero() || next.After(end) {
			break
		}
		m.now = next
	}
	m.now = end
	m.table.Advance(end)
	m.expire()
	m.judgeAllTimed()
}
