package farm

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// small is a farm of three tiers that a test has time for.
func small(clients int) Config {
	lan := Link{Latency: 500 * time.Microsecond, BitsPerSecond: 10e9}
	return Config{
		Clients: clients, Tiers: []int{2, 3, 6}, Resources: 50, Bytes: 300, Cores: 2,
		Links: []Link{lan, lan, lan, {Latency: 5 * time.Millisecond, BitsPerSecond: 1e9}},
		Costs: UsualCosts, Over: 2 * time.Second, Changes: 5, Every: time.Second,
	}
}

// TestFarm: 10,000 clients of three tiers get every change, once a replica of each of two tiers is
// lost, too. Nobody ever loses anything that it held, and nobody is told of what is older.
func TestFarm(t *testing.T) {
	cfg := small(10_000)
	cfg.Kill = []int{2, 3, 1}
	cfg.Seed = rand.Uint64()
	t.Logf("seed %d", cfg.Seed)
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.LostResources != 0 || r.WentBack != 0 {
		t.Errorf("%d resources were taken away from clients, and %d went back", r.LostResources, r.WentBack)
	}
	if len(r.Stages) != 5 {
		t.Fatalf("%d stages", len(r.Stages))
	}
	for i, s := range r.Stages[1:] {
		if s.each.n != int64(cfg.Clients*cfg.Changes) || s.last.n != int64(cfg.Changes) {
			t.Errorf("%s: %d deliveries, %d changes to all", s.Name, s.each.n, s.last.n)
		}
		if least := 6500 * time.Microsecond; s.P50 < least || s.P99 < s.P50 || s.Max < s.P99 {
			t.Errorf("%s: p50 %v, p99 %v, max %v: the links alone take %v", s.Name, s.P50, s.P99, s.Max, least)
		}
		killed := i > 0
		// The three streams of tier 2 may all be at the one weir of tier 1 that stays.
		if few := killed && cfg.Kill[i-1] == 1; killed != (s.Lost > 0) && !few || killed != (s.InSync > 0) {
			t.Errorf("%s: %d streams lost, in sync after %v", s.Name, s.Lost, s.InSync)
		}
	}
	// Each change is sent once to each of the tier below, as one resource, and not more.
	well := r.Stages[1]
	for i, n := range []int64{2, 3, 6, 10_000} {
		each := well.Traffic[i].Down / n / int64(cfg.Changes)
		if each < int64(cfg.Bytes) || each > 2*int64(cfg.Bytes) {
			t.Errorf("%s: %d bytes a change and stream", r.links()[i], each)
		}
	}
	var b strings.Builder
	if err := r.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + b.String())
	for _, want := range []string{"10,000 clients, tiers of 2, 3, 6 weirs", "| all is well | ", "| one of 3 weirs of tier 2 is killed | ", "| tier 3 to the clients | 5ms | 1 | "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// TestFarmIsRepeatable: one seed gives one result.
func TestFarmIsRepeatable(t *testing.T) {
	var first string
	for range 2 {
		cfg := small(500)
		cfg.Kill, cfg.Seed = []int{3}, 7
		r, err := Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		r.Real, r.ClientBytes = 0, 0
		var b strings.Builder
		if err := r.Markdown(&b); err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = b.String()
		} else if b.String() != first {
			t.Errorf("once it was\n%s\nand then\n%s", first, b.String())
		}
	}
}

// TestFarmSeesLoss: a client that loses a resource, or is left behind, fails the run.
func TestFarmSeesLoss(t *testing.T) {
	m, err := newSim(small(1))
	if err != nil {
		t.Fatal(err)
	}
	m.clients[0].state = m.library.state(append(m.origin.stamps[:0:0], m.origin.stamps...))
	if err := m.check(); err != nil {
		t.Fatal(err)
	}
	full := m.clients[0].state
	lesser := m.library.after(full, &content{removed: []int{3}})
	if lesser.to.held != full.held-1 || lesser.removed != 1 {
		t.Errorf("a removal leaves %d of %d", lesser.to.held, full.held)
	}
	if older := m.library.after(m.library.after(full, &content{items: []item{{2, 9}}}).to, &content{items: []item{{2, 5}}}); older.back != 1 {
		t.Errorf("%d went back", older.back)
	}
	m.clients[0].state = lesser.to
	if m.check() == nil {
		t.Error("a client without a resource is in sync")
	}
	m.clients[0].state, m.lostResources = full, 1
	if m.check() == nil {
		t.Error("a loss on the way is no failure")
	}
}

// TestQueueing: cores do one task after the other, and a link sends one message after the other.
func TestQueueing(t *testing.T) {
	cfg := small(0)
	cfg.Cores, cfg.Links[3] = 2, Link{Latency: time.Second, BitsPerSecond: 8 * 1000}
	m, err := newSim(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var ends []time.Duration
	for range 4 {
		m.tiers[2][0].cpu.submit(&work{10 * time.Millisecond, func() { ends = append(ends, m.clock.now) }})
	}
	for m.clock.step() {
	}
	if want := []time.Duration{10, 10, 20, 20}; len(ends) != 4 || ends[1] != want[1]*time.Millisecond || ends[3] != want[3]*time.Millisecond {
		t.Errorf("four tasks of two cores end at %v, want %v ms", ends, want)
	}
	began, c := m.clock.now, &client{sim: m, state: m.library.none}
	s := &stream{server: m.tiers[2][0], client: c}
	body := packet{kind: response, size: 1000 - 5 - 9, content: &content{}}
	m.tiers[2][0].down.send(s, body)
	m.tiers[2][0].down.send(s, body)
	m.clock.step()
	if got := m.clock.now - began; got != 2*time.Second {
		t.Errorf("1,000 bytes arrive after %v", got)
	}
	for m.clock.step() && m.clock.now-began < 3*time.Second {
	}
	if got := m.clock.now - began; got != 3*time.Second {
		t.Errorf("the second arrives after %v", got)
	}
}

type work struct {
	cost time.Duration
	done func()
}

func (w *work) begin() time.Duration { return w.cost }
func (w *work) finish()              { w.done() }

func TestHistogram(t *testing.T) {
	var h histogram
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	for q, want := range map[float64]float64{0.5: 500, 0.99: 990, 1: 1000} {
		if got := float64(h.quantile(q)) / 1e6; math.Abs(got/want-1) > 0.011 {
			t.Errorf("the quantile %v is %v ms, want %v", q, got, want)
		}
	}
}
