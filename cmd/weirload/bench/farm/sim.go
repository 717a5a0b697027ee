package farm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// Config is a farm and what happens to it.
type Config struct {
	Clients   int    `json:"clients"`
	Tiers     []int  `json:"tiers"` // weirs of each, from the origin's side
	Resources int    `json:"resources"`
	Bytes     int    `json:"resource_bytes"`
	Cores     int    `json:"cores"`        // of each weir
	Shared    int    `json:"shared_cores"` // > 0: all processes have these in common instead
	Links     []Link `json:"links"`        // to each tier from the one above, and to the clients
	Costs     Costs  `json:"costs"`
	// Over is the time in which the clients come.
	Over time.Duration `json:"clients_come_over"`
	// Changes is how many there are while all is well, and again around each loss. They come Every
	// so often; 0: each when all clients have the one before.
	Changes int           `json:"changes"`
	Every   time.Duration `json:"every"`
	// Kill has the tiers of which one replica is lost, one after the other, each at a random moment.
	Kill []int  `json:"kill"`
	Seed uint64 `json:"seed"`
}

// sim is a farm that runs.
type sim struct {
	cfg     Config
	clock   clock
	random  *rand.Rand
	library *library
	origin  *origin
	tiers   [][]*weir
	clients []client
	shared  *cpu
	err     error

	filled  int
	fill    histogram
	behind  int // changes that a client has still to hear of, of all clients
	orphans int // clients and lanes without a stream that had one
	// changes are all so far, and stage is what happens now.
	changes int
	stage   *Stage

	lostResources, wentBack int
	traffic                 []Traffic
}

// change is one change by the origin.
type change struct {
	at    instant
	stamp world.Stamp
	left  int // clients that have not got it
	stage *Stage
}

// longest bounds each part of a run, in virtual time.
const longest = 5 * time.Minute

// Run simulates the farm.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	m, err := newSim(cfg)
	if err != nil {
		return nil, err
	}
	r := &Report{Config: cfg}
	return r, errors.Join(m.run(ctx, r), m.err)
}

func newSim(cfg Config) (*sim, error) {
	if len(cfg.Tiers) == 0 || len(cfg.Links) != len(cfg.Tiers)+1 {
		return nil, fmt.Errorf("a farm of %d tiers needs %d kinds of links, and has %d", len(cfg.Tiers), len(cfg.Tiers)+1, len(cfg.Links))
	}
	w, err := world.New(world.Options{Kind: world.Clusters, Resources: cfg.Resources, Bytes: cfg.Bytes})
	if err != nil {
		return nil, err
	}
	m := &sim{
		cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, cfg.Seed)), library: newLibrary(w),
		clients: make([]client, cfg.Clients), traffic: make([]Traffic, len(cfg.Links)),
	}
	if cfg.Shared > 0 {
		m.shared = newCPU(&m.clock, cfg.Shared)
	}
	m.origin = newOrigin(m)
	upper := []server{m.origin}
	for i, n := range cfg.Tiers {
		tier := make([]*weir, n)
		for k := range tier {
			parents := make([]server, 0, len(upper))
			first := k * len(upper) / n
			for _, at := range m.random.Perm(len(upper)) {
				if at != first {
					parents = append(parents, upper[at])
				}
			}
			if tier[k], err = newWeir(m, i+1, append([]server{upper[first]}, parents...)); err != nil {
				return nil, err
			}
		}
		m.tiers = append(m.tiers, tier)
		upper = nil
		for _, w := range tier {
			upper = append(upper, w)
		}
	}
	for _, k := range cfg.Kill {
		if k < 1 || k > len(m.tiers) || len(m.tiers[k-1]) < 2 {
			return nil, fmt.Errorf("kill: tier %d has no two weirs", k)
		}
	}
	return m, nil
}

// edge is the tier that the clients go to.
func (m *sim) edge() []*weir { return m.tiers[len(m.tiers)-1] }

func (m *sim) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

// until lets time pass until done.
func (m *sim) until(ctx context.Context, what string, done func() bool) error {
	end := m.clock.now + longest
	for n := 0; !done(); n++ {
		switch {
		case m.err != nil:
			return m.err
		case !m.clock.step():
			return fmt.Errorf("%s: nothing more happens at %v; %d of %d clients have all, %d are behind, %d streams are missing",
				what, m.clock.now, m.filled, m.cfg.Clients, m.behind, m.orphans)
		case m.clock.now > end:
			return fmt.Errorf("%s: not within %v", what, longest)
		case n%10_000 == 0 && ctx.Err() != nil:
			return ctx.Err()
		}
	}
	return nil
}

// run is the scenario: the clients come, the origin changes resources, and replicas are lost.
func (m *sim) run(ctx context.Context, r *Report) error {
	began := time.Now()
	for i := range m.clients {
		m.clients[i] = client{sim: m, state: m.library.none}
		m.clock.at(time.Duration(m.random.Float64()*float64(m.cfg.Over)), &m.clients[i])
	}
	m.stage = m.begin("the clients come")
	if err := m.until(ctx, "the clients come", func() bool { return m.filled == m.cfg.Clients }); err != nil {
		return err
	}
	m.stage.end(m)
	r.Filled, r.FillP50, r.FillP99 = m.clock.now, m.fill.quantile(0.5), m.fill.quantile(0.99)
	r.Stages = append(r.Stages, m.stage)
	r.measureMemory(m)
	if err := m.pause(ctx); err != nil {
		return err
	}
	for _, kill := range append([]int{0}, m.cfg.Kill...) {
		if err := m.churn(ctx, kill); err != nil {
			return err
		}
		r.Stages = append(r.Stages, m.stage)
	}
	r.LostResources, r.WentBack = m.lostResources, m.wentBack
	r.Virtual, r.Real = m.clock.now, time.Since(began)
	return m.check()
}

// pause lets three seconds pass, in which what is under way arrives.
func (m *sim) pause(ctx context.Context) error {
	const rest = 3 * time.Second
	over := false
	m.clock.at(m.clock.now+rest, call(func() { over = true }))
	return m.until(ctx, "a pause", func() bool { return over })
}

// call is an actor that is a function.
type call func()

func (f call) act() { f() }

// check compares what each client holds with what the origin has.
func (m *sim) check() error {
	wrong := 0
	for i := range m.clients {
		for k, stamp := range m.clients[i].state.stamps {
			if stamp != m.origin.stamps[k] {
				wrong++
				break
			}
		}
	}
	if wrong > 0 || m.lostResources > 0 {
		return fmt.Errorf("at the end %d clients differ from the origin; %d resources were taken away from clients", wrong, m.lostResources)
	}
	return nil
}
