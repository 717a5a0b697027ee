package relay

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"
)

// paramKinds are those of TestConvergence whose origin understands parameters. It divides names
// into variants of which at most one matches a map, in one response, in another way every now and
// then, and sometimes into such as overlap (DYN-9); clients ask with several maps, by name, for
// `*`, and both ways.
var paramKinds = []string{
	"params", "sotw params", "params restarts", "sotw params restarts", "params guarded", "sotw params guarded",
}

// paramModel is the game of such a kind. It judges what model judges, for each map: a client ends
// with what the variant for its map is; it is never told of a body whose constraints its map does
// not match (DYN-8), and never that a name is gone which has had a variant for its map ever since
// the body it holds was made (DYN-10, DYN-13); and one that came back is not told what the origin
// had only before (RELAY-96).
type paramModel struct {
	t       *testing.T
	rnd     *rand.Rand
	kind    string
	sotw    bool
	at      int
	opened  int // clients, ever
	now     time.Time
	table   *Table
	group   *Group
	lanes   []*paramLane
	clients []*paramClient
	ghosts  []*paramClient
	disk    diskImages
	outage  int
	log     []string

	state  map[string]map[string][]paramVariant // by type and name
	bodies int
	made   map[int]int // step at which a body came to be
	lives  lives       // by type, and name and map: -1 is none
	// by body: the constraints it has had, and the step in which it got them
	forms map[int]map[string]int

	splits, merges, others, removals, alarms int // divisions that clients were told, and so on
}

type paramVariant struct {
	text string // its constraints
	set  *constraints.Set
	body int
}

var (
	paramTypes = []string{xds.ClusterType, xds.EndpointType, xds.ScopedRouteType}
	paramMaps  = []string{"", "env=prod", "env=test", "env=prod,v=1", "env=prod,v=2", "v=1", "env=qa,v=2"}
	// exclusive are ways to divide a name: of the variants of one at most one matches a map.
	exclusive = [][]string{
		{""},
		{"env=prod", "env=test"},
		{"!env", "env"},
		{"env=prod,v=1", "env=prod,v=2", "env=test"},
		{"env=prod"},
		{"!v", "v=1", "v=2"},
		{"env=prod,v=1", "env=prod,!v", "env=test,!v"},
		{"v"},
		{"!env,!v", "!env,v", "env,!v", "env,v"},
	}
	// overlapping are mistakes of an origin.
	overlapping = [][]string{{"", "env=prod"}, {"env=prod", "v=1"}, {"env", "env=prod", "env=prod,v=1"}, {"", "env=prod,v=1", "v=2"}}
)

func playParams(t *testing.T, rnd *rand.Rand, kind string) *paramModel {
	m := &paramModel{
		t: t, rnd: rnd, kind: kind, sotw: strings.HasPrefix(kind, "sotw"), now: time.Unix(1e9, 0), made: map[int]int{}, lives: lives{},
		state: map[string]map[string][]paramVariant{}, forms: map[int]map[string]int{},
	}
	for _, ty := range paramTypes {
		m.state[ty] = map[string][]paramVariant{}
	}
	m.start()
	for i := range *steps {
		m.at = i
		m.step()
		if err := m.table.Check(); err != nil {
			m.fatalf("%v", err)
		}
		if i%60 == 59 {
			m.quiet()
		}
	}
	t.Logf("%d splits, %d merges, %d others and %d removals were told, %d mass removals held", m.splits, m.merges, m.others, m.removals, m.alarms)
	if *steps >= 3000 && (m.splits == 0 || m.merges == 0 || m.others == 0 || m.removals == 0 || m.has("guarded") && m.alarms == 0) {
		t.Error("something of this was never seen")
	}
	return m
}

func (m *paramModel) has(what string) bool { return slices.Contains(strings.Fields(m.kind), what) }

func (m *paramModel) start() {
	o := OriginConfig{Name: "mesh", TP2: true, SotW: m.sotw}
	if m.has("guarded") {
		o.Guard = gate.GuardConfig{Share: 0.3, Min: 2, Hold: 10 * time.Second}
	}
	table, err := New(Config{Linger: 5 * time.Second, Gather: 20 * time.Millisecond, Origins: []OriginConfig{o}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.table = table
	m.group, _ = table.Origin("mesh").Group(nil)
	m.lanes = nil
	for _, l := range m.group.lanes {
		m.lanes = append(m.lanes, &paramLane{Lane: l})
	}
}

func (m *paramModel) logf(f string, a ...any) {
	m.log = append(m.log, fmt.Sprintf("[%d] ", m.at)+fmt.Sprintf(f, a...))
}

func (m *paramModel) fatalf(f string, a ...any) {
	m.t.Helper()
	m.t.Fatalf("step %d: %s\n%s", m.at, fmt.Sprintf(f, a...), strings.Join(m.log[max(0, len(m.log)-300):], "\n"))
}

func (m *paramModel) pick(of []string) string { return of[m.rnd.IntN(len(of))] }
func (m *paramModel) name() string            { return fmt.Sprint("n", m.rnd.IntN(6)) }

func (m *paramModel) step() {
	if m.has("guarded") {
		m.alarms += len(m.table.Origin("mesh").TakeAlarms())
	}
	switch k := m.rnd.IntN(100); {
	case m.has("restarts") && m.rnd.IntN(150) == 0:
		m.restart()
	case m.has("restarts") && m.rnd.IntN(40) == 0:
		m.disk.snapshot(m.table, m.now)
		m.logf("snapshot")
	case m.has("guarded") && m.rnd.IntN(150) == 0:
		m.loseMost()
	case k < 22:
		m.change()
	case k < 38:
		if len(m.clients) > 0 {
			m.subscribe(m.clients[m.rnd.IntN(len(m.clients))])
		}
	case k < 46:
		m.open()
	case k < 50:
		m.close()
	case k < 66:
		if len(m.clients) > 0 {
			m.take(m.clients[m.rnd.IntN(len(m.clients))])
		}
	case k < 68:
		m.cut(m.lane())
	case k < 80:
		m.run(m.lane())
	case k < 87:
		m.produceAll(m.lane())
	case k < 95:
		m.deliver(m.lane())
	case k < 96:
		m.outage = m.at + m.rnd.IntN(100)
		for _, l := range m.lanes {
			m.cut(l)
		}
	default:
		m.wait(time.Duration(m.rnd.IntN(4000)) * time.Millisecond)
	}
}

func (m *paramModel) lane() *paramLane { return m.lanes[m.rnd.IntN(len(m.lanes))] }

// change divides a name in another way, in one step: bodies are new, or some are those of what was
// there before.
func (m *paramModel) change() {
	ty, name := m.pick(paramTypes), m.name()
	before := m.state[ty][name]
	var texts []string
	switch k := m.rnd.IntN(10); {
	case k < 2: // none
	case k < 5 && len(before) > 0: // one of them is another body
		v := before[m.rnd.IntN(len(before))]
		m.set(ty, name, before, v.text)
		return
	case k < 6 && !m.has("restarts"): // what a map had before may be what it has still
		texts = overlapping[m.rnd.IntN(len(overlapping))]
	default:
		texts = exclusive[m.rnd.IntN(len(exclusive))]
	}
	old := m.rnd.IntN(4) == 0 && len(before) > 0
	var after []paramVariant
	for _, text := range texts {
		v := paramVariant{text, compile(m.t, text), -1}
		if i := slices.IndexFunc(before, func(x paramVariant) bool { return x.text == text }); i >= 0 && m.rnd.IntN(2) == 0 {
			v.body = before[i].body
		} else if old && m.rnd.IntN(2) == 0 {
			v.body = before[m.rnd.IntN(len(before))].body
		}
		after = append(after, v)
	}
	m.set(ty, name, after, "")
}

// set gives a name its variants. Those without a body, and the one of these constraints, get a new
// one.
func (m *paramModel) set(ty, name string, after []paramVariant, anew string) {
	after = slices.Clone(after)
	for i := range after {
		if v := &after[i]; v.body < 0 || v.text == anew && anew != "" || anew == "" && len(after) == 1 && m.rnd.IntN(2) == 0 {
			v.body = m.bodies
			m.made[v.body] = m.at
			m.bodies++
		}
		if m.forms[after[i].body] == nil {
			m.forms[after[i].body] = map[string]int{}
		}
		m.forms[after[i].body][after[i].text] = m.at
	}
	m.state[ty][name] = after
	m.live(ty, name)
	m.logf("origin %s %s is %v", shortType(ty), name, describeVariants(after))
}

func describeVariants(vs []paramVariant) string {
	var out []string
	for _, v := range vs {
		out = append(out, fmt.Sprintf("{%s}=%d", v.text, v.body))
	}
	return strings.Join(out, " ")
}

// live notes what each map has of a name.
func (m *paramModel) live(ty, name string) {
	for _, p := range paramMaps {
		body := m.chosen(ty, name, p)
		if all := m.lives[ty][name+"|"+p]; len(all) == 0 && body >= 0 || len(all) > 0 && all[len(all)-1].body != body {
			m.lives.note(ty, name+"|"+p, m.at, body)
		}
	}
}

// chosen is the body of the variant that a map is to have of a name (DYN-9); -1: none.
func (m *paramModel) chosen(ty, name, p string) int {
	match := func(v paramVariant) bool { return v.set.Match(params(p)) }
	matching := slices.Collect(filtered(m.state[ty][name], match))
	if len(matching) == 0 {
		return -1
	}
	return slices.MinFunc(matching, func(a, b paramVariant) int {
		if a.set.Keys() != b.set.Keys() {
			return b.set.Keys() - a.set.Keys()
		}
		return strings.Compare(a.set.Key(), b.set.Key())
	}).body
}

func filtered[T any](all []T, f func(T) bool) func(func(T) bool) {
	return func(yield func(T) bool) {
		for _, x := range all {
			if f(x) && !yield(x) {
				return
			}
		}
	}
}

// loseMost: the origin restarts with little of what it had.
func (m *paramModel) loseMost() {
	for _, ty := range paramTypes {
		for _, name := range slices.Sorted(maps.Keys(m.state[ty])) {
			if m.rnd.IntN(4) > 0 {
				m.set(ty, name, nil, "")
			}
		}
	}
	for _, l := range m.lanes {
		m.cut(l)
	}
	m.logf("origin restarts")
}

// wait: a guess about "all has arrived" is only right if the origin answers in time, so what was
// asked is answered first.
func (m *paramModel) wait(d time.Duration) {
	for _, l := range m.lanes {
		m.produceAll(l)
		for len(l.queue) > 0 {
			m.deliver(l)
		}
	}
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
}

func (m *paramModel) quiet() {
	m.logf("quiet")
	for range 12 {
		for range 3 {
			for _, l := range m.lanes {
				l.calm = true
				m.run(l)
				m.produceAll(l)
				for len(l.queue) > 0 {
					m.deliver(l)
				}
				l.calm = false
			}
		}
		m.wait(6 * time.Second)
		for _, c := range m.clients {
			for range 3 {
				m.take(c)
			}
		}
	}
	for _, c := range m.clients {
		m.judgeQuiet(c)
	}
}

func (m *paramModel) restart() {
	m.logf("restart")
	for _, l := range m.lanes {
		l.open, l.queue = false, nil // the stream is gone, and nobody is told
	}
	m.ghosts = append(m.ghosts, m.clients...)
	m.clients = nil
	for _, c := range m.ghosts {
		c.back = modelBack{}
		for name, body := range c.held {
			c.back[name] = m.lives.last(c.typeURL, name+"|"+c.p, body)
		}
	}
	m.start()
	for _, problem := range m.disk.restore(m.table, m.now) {
		m.fatalf("restored: %s", problem)
	}
	var again diskImages
	again.snapshot(m.table, m.now)
	if want, got := m.disk.all(), again.all(); !slices.Equal(want, got) {
		m.fatalf("what was restored is kept as\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if m.rnd.IntN(2) == 0 { // without the origin for a while
		m.outage = m.at + m.rnd.IntN(60)
	}
	for range m.rnd.IntN(10) {
		m.open()
	}
}
