package main

import (
	"context"
	"fmt"

	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// result is what one run found, by the keys of figures.
type result map[string]float64

// server is a subject that runs.
type server struct {
	xds, pprof string
	control    string // of the plane: weir's origin, or the subject itself
	pids       []int  // the subject, then weir's origin
	stop       func()
}

// start runs a subject with the scenario's resources.
func (c *comparison) start(ctx context.Context, sc *scenario, subject string) (*server, error) {
	kind := subject
	if subject == weir {
		kind = sc.origin
	}
	plane, ready, err := launchPlane(ctx, kind, sc.world)
	if err != nil {
		return nil, err
	}
	s := &server{xds: ready.XDS, pprof: ready.Control, control: ready.Control, pids: []int{plane.pid()}, stop: plane.stop}
	if subject != weir {
		return s, nil
	}
	w, err := launchWeir(ctx, c.programs.weir, c.dir, ready.XDS)
	if err != nil {
		plane.stop()
		return nil, err
	}
	s.xds, s.pprof, s.pids = w.xds, w.admin, []int{w.pid(), plane.pid()}
	s.stop = func() { w.stop(); plane.stop() }
	return s, nil
}

// config is what the fleet of a scenario is told.
func (sc *scenario) config(subject string, s *server) *fleet.Config {
	c := &fleet.Config{
		Server: s.xds, Control: s.control, Dialect: fleet.Dialect(sc.dialect), Clients: sc.clients,
		Names: sc.world.NamesPerClient, Resources: sc.world.Resources, PIDs: s.pids,
	}
	switch sc.mode {
	case openLoop:
		c.Rate, c.For = sc.rate, sc.span
	case storm:
		c.Idle = sc.settle
	default:
		c.Changes = sc.changesOf(subject)
	}
	return c
}

// measure runs one subject in one scenario, once.
func (c *comparison) measure(ctx context.Context, sc *scenario, subject string) (result, error) {
	switch sc.mode {
	case idle:
		return c.idle(ctx, sc, subject)
	case shield:
		return c.shield(ctx, sc)
	case neighbours:
		return c.neighbours(ctx, sc)
	}
	s, err := c.start(ctx, sc, subject)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	r, err := c.programs.fleet(ctx, sc.config(subject, s), sc.world.Kind, nil)
	if err != nil {
		return nil, err
	}
	return result{
		"cpu_us_per_delivery": r.Servers[0].CPUPerDelivery,
		"latency_ms":          r.LatencyP50,
		"latency_last_ms":     r.LastP50,
		"storm_s":             r.StormSeconds,
		"rss_kib_per_client":  r.Servers[0].RSSPerClient / 1024,
	}, nil
}

// idle compares a server with one client, which has made it fetch what there is, to one with all.
func (c *comparison) idle(ctx context.Context, sc *scenario, subject string) (result, error) {
	s, err := c.start(ctx, sc, subject)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	var bytes [2]float64
	var r *fleet.Report
	for i, clients := range []int{1, sc.clients} {
		cfg := sc.config(subject, s)
		cfg.Clients, cfg.Changes, cfg.Idle, cfg.ConnectRate = clients, 0, sc.settle, idleRate
		collected := make(chan error, 1)
		r, err = c.programs.fleet(ctx, cfg, sc.world.Kind, func() {
			go func() {
				var err error
				bytes[i], err = collect(ctx, s.pprof)
				collected <- err
			}()
		})
		if err != nil {
			return nil, err
		}
		if err := <-collected; err != nil {
			return nil, err
		}
	}
	return result{
		"live_kib_per_client": (bytes[1] - bytes[0]) / float64(sc.clients-1) / 1024,
		"rss_kib_per_client":  r.Servers[0].RSSPerClient / 1024,
	}, nil
}

// idleRate is how many clients connect in a second where only what they leave behind counts.
const idleRate = 500

// shield compares what weir's origin is asked for one client with what it is asked for all.
func (c *comparison) shield(ctx context.Context, sc *scenario) (result, error) {
	var counts [2]world.Counts
	var r *fleet.Report
	for i, clients := range []int{1, sc.clients} {
		err := func() error {
			s, err := c.start(ctx, sc, weir)
			if err != nil {
				return err
			}
			defer s.stop()
			cfg := sc.config(weir, s)
			cfg.Clients = clients
			if r, err = c.programs.fleet(ctx, cfg, sc.world.Kind, nil); err != nil {
				return err
			}
			counts[i], err = (&world.Client{Addr: s.control}).Counts(ctx)
			return err
		}()
		if err != nil {
			return nil, err
		}
	}
	return result{
		"more_requests":        float64(counts[1].Requests - counts[0].Requests),
		"more_names":           float64(counts[1].Names - counts[0].Names),
		"more_bytes":           float64(counts[1].BytesIn + counts[1].BytesOut - counts[0].BytesIn - counts[0].BytesOut),
		"origin_ms_per_change": 1000 * r.Servers[1].CPUSeconds / float64(r.Changes),
	}, nil
}

// neighbours compares the latency of clients beside bad ones with that of as many by themselves.
func (c *comparison) neighbours(ctx context.Context, sc *scenario) (result, error) {
	var latency [2]float64
	for i, bad := range []int{0, 1} {
		err := func() error {
			s, err := c.start(ctx, sc, weir)
			if err != nil {
				return err
			}
			defer s.stop()
			cfg := sc.config(weir, s)
			cfg.Deaf, cfg.Mute, cfg.Slow = bad, bad, bad
			r, err := c.programs.fleet(ctx, cfg, sc.world.Kind, nil)
			if err != nil {
				return fmt.Errorf("with %d bad clients of each kind: %w", bad, err)
			}
			latency[i] = r.LatencyP50
			return nil
		}()
		if err != nil {
			return nil, err
		}
	}
	if latency[0] <= 0 {
		return nil, fmt.Errorf("a latency of %v ms", latency[0])
	}
	return result{"latency_ms_without": latency[0], "latency_ms_with": latency[1], "latency_ratio": latency[1] / latency[0]}, nil
}
