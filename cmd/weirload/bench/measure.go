package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/mtls"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// result has the figures of one run, by key.
type result map[string]float64

// start runs a subject with the scenario's resources.
func (c *comparison) start(ctx context.Context, sc *scenario, subject string) (*server, error) {
	kind := subject
	if subject == weir {
		kind = sc.origin
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var more []string
	if sc.mode == reporting {
		more = append(more, "--report-interval", sc.interval.String())
	}
	if subject != weir {
		more = append(more, c.security(sc).Arguments()...)
	}
	s, err := startPlane(ctx, self, kind, &sc.world, more...)
	if err != nil || subject != weir {
		return s, err
	}
	config := s.config()
	if sc.tls {
		files := map[string]any{"cert": c.tls.Cert, "key": c.tls.Key, "client_ca": c.tls.CA}
		if sc.tickets {
			if files["tickets"], err = c.ticketKeys(); err != nil {
				return nil, errors.Join(err, s.stop())
			}
		}
		config["listeners"].([]any)[0].(map[string]any)["tls"] = files
	}
	if sc.mode == reporting {
		config["origins"].([]any)[0].(map[string]any)["lrs"] = "aggregate"
	}
	if sc.mode == returning { // handshakes are measured, not the pace at which streams are admitted
		config["limits"] = map[string]any{"connections": 2 * sc.clients, "connections_per_peer": 2 * sc.clients, "new_streams_per_second": 100_000}
	}
	return s, s.before(c.programs.weir, c.dir, config)
}

// security has the certificates of a scenario's clients, and of a subject other than weir.
func (c *comparison) security(sc *scenario) mtls.Files {
	if !sc.tls {
		return mtls.Files{}
	}
	return c.tls
}

// on starts a subject, runs a measurement on it, and stops it.
func (c *comparison) on(ctx context.Context, sc *scenario, subject string, measure func(context.Context, *server) error) error {
	s, err := c.start(ctx, sc, subject)
	if err != nil {
		return err
	}
	return s.with(func(ctx context.Context) error { return measure(ctx, s) })
}

// config returns the configuration of a scenario's fleet.
func (c *comparison) config(sc *scenario, subject string, s *server) *fleet.Config {
	cfg := &fleet.Config{
		TLS:    c.security(sc),
		Server: s.xds, Control: s.control, Dialect: fleet.Dialect(sc.dialect), Clients: sc.clients,
		Names: sc.world.NamesPerClient, Resources: sc.world.Resources, PIDs: s.pids,
	}
	switch sc.mode {
	case openLoop:
		cfg.Rate, cfg.For = sc.rate, sc.span
	case storm:
		cfg.Idle = sc.settle
	default:
		cfg.Changes = sc.changesOf(subject)
	}
	return cfg
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
	case reporting:
		return c.reports(ctx, sc, subject)
	case returning:
		return c.returns(ctx, sc)
	}
	var r *fleet.Report
	err := c.on(ctx, sc, subject, func(ctx context.Context, s *server) (err error) {
		r, err = c.programs.fleet(ctx, c.config(sc, subject, s), sc.world.Kind)
		return err
	})
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

// idleRate is how many clients connect per second if only their memory is measured.
const idleRate = 500

// idle compares a server with one client, for which it has fetched everything, with the same server
// with all clients.
func (c *comparison) idle(ctx context.Context, sc *scenario, subject string) (result, error) {
	var bytes, rss [2]float64
	err := c.on(ctx, sc, subject, func(ctx context.Context, s *server) (err error) {
		for i, clients := range []int{1, sc.clients} {
			var r *fleet.Report
			cfg := c.config(sc, subject, s)
			cfg.Clients, cfg.Changes, cfg.ConnectRate = clients, 0, idleRate
			if r, bytes[i], err = c.fleetAndMemory(ctx, cfg, sc.world.Kind, s.pprof); err != nil {
				return err
			}
			rss[i] = float64(r.Servers[0].RSSRested)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	more := float64(sc.clients-1) * 1024
	return result{"in_use_kib_per_client": (bytes[1] - bytes[0]) / more, "rss_kib_per_client": (rss[1] - rss[0]) / more}, nil
}

// shield compares what weir's origin is asked for one client with what it is asked for all of them.
func (c *comparison) shield(ctx context.Context, sc *scenario) (result, error) {
	var counts [2]world.Counts
	var r *fleet.Report
	for i, clients := range []int{1, sc.clients} {
		err := c.on(ctx, sc, weir, func(ctx context.Context, s *server) (err error) {
			cfg := c.config(sc, weir, s)
			cfg.Clients = clients
			if r, err = c.programs.fleet(ctx, cfg, sc.world.Kind); err != nil {
				return err
			}
			counts[i], err = (&world.Client{Addr: s.control}).Counts(ctx)
			return err
		})
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

// neighbours compares the latency of clients beside bad ones with that of as many clients alone.
func (c *comparison) neighbours(ctx context.Context, sc *scenario) (result, error) {
	var latency [2]float64
	for i, bad := range []int{0, 1} {
		err := c.on(ctx, sc, weir, func(ctx context.Context, s *server) error {
			cfg := c.config(sc, weir, s)
			cfg.Deaf, cfg.Mute, cfg.Slow = bad, bad, bad
			r, err := c.programs.fleet(ctx, cfg, sc.world.Kind)
			if err != nil {
				return fmt.Errorf("with %d bad clients of each kind: %w", bad, err)
			}
			latency[i] = r.LatencyP50
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if latency[0] <= 0 {
		return nil, fmt.Errorf("a latency of %v ms", latency[0])
	}
	return result{"latency_ms_without": latency[0], "latency_ms_with": latency[1], "latency_ratio": latency[1] / latency[0]}, nil
}
