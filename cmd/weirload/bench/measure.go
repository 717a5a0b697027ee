package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/bed"
	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/mtls"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// result has the figures of one run, by key.
type result map[string]float64

// start runs a subject with the scenario's resources.
func (c *comparison) start(ctx context.Context, sc *scenario, subject string) (*bed.Bed, error) {
	kind, security := subject, c.security(sc)
	if subject == weir {
		kind, security = sc.origin, mtls.Files{}
	}
	program, command := c.programs.weirload, "origin"
	if kind != yardstick {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		program, command = self, kind
	}
	args := append([]string{command}, sc.world.Arguments()...)
	b, err := bed.Start(ctx, kind, exec.Command(program, append(args, security.Arguments()...)...))
	if err != nil || subject != weir {
		return b, err
	}
	config := b.Config()
	if sc.tls {
		files := map[string]any{"cert": c.tls.Cert, "key": c.tls.Key, "client_ca": c.tls.CA}
		if sc.tickets {
			if files["tickets"], err = ticketKeys(c.dir); err != nil {
				return nil, b.End(err)
			}
		}
		config["listeners"].([]any)[0].(map[string]any)["tls"] = files
	}
	if sc.mode == returning { // handshakes are measured, not the pace at which streams are admitted
		config["limits"] = map[string]any{"connections": 2 * sc.clients, "connections_per_peer": 2 * sc.clients, "new_streams_per_second": 100_000}
	}
	if err := b.Before(c.programs.weir, config); err != nil {
		return nil, b.End(err)
	}
	return b, nil
}

// security has the certificates of a scenario's clients, and of a subject other than weir.
func (c *comparison) security(sc *scenario) mtls.Files {
	if !sc.tls {
		return mtls.Files{}
	}
	return c.tls
}

// on starts a subject, runs a measurement on it, and stops it. Its profiles can be taken meanwhile.
func (c *comparison) on(ctx context.Context, sc *scenario, subject string, measure func(context.Context, *bed.Bed) error) error {
	b, err := c.start(ctx, sc, subject)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.log, "%s, %s: profiles are at http://%s/debug/pprof/\n", sc.name, subject, b.Pprof)
	return b.Run(func(ctx context.Context) error { return measure(ctx, b) })
}

// config returns the configuration of a scenario's fleet.
func (c *comparison) config(sc *scenario, subject string, b *bed.Bed) *fleet.Config {
	cfg := &fleet.Config{
		TLS: c.security(sc), Server: b.XDS, Control: b.Control, Dialect: fleet.Dialect(sc.dialect), TypeURL: sc.world.Kind.TypeURL(),
		Clients: sc.clients, Names: sc.names, Resources: sc.world.Resources, PIDs: b.PIDs,
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

// fleet runs a fleet, of which no client may miss anything.
func (c *comparison) fleet(ctx context.Context, cfg *fleet.Config) (*fleet.Report, error) {
	runtime.GC() // what the last one left is no cost of this one
	f, err := fleet.New(*cfg)
	if err != nil {
		return nil, err
	}
	r, err := f.Run(ctx)
	if err != nil {
		return nil, err
	}
	if r.ChangesLost > 0 || r.StreamEnds > 0 {
		return nil, fmt.Errorf("%d changes did not reach all clients, %d streams ended, the last with: %s", r.ChangesLost, r.StreamEnds, r.LastEnd)
	}
	return r, nil
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
	case returning:
		return c.returns(ctx, sc)
	}
	var r *fleet.Report
	err := c.on(ctx, sc, subject, func(ctx context.Context, b *bed.Bed) (err error) {
		r, err = c.fleet(ctx, c.config(sc, subject, b))
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
	err := c.on(ctx, sc, subject, func(ctx context.Context, b *bed.Bed) error {
		for i, clients := range []int{1, sc.clients} {
			cfg := c.config(sc, subject, b)
			cfg.Clients, cfg.Changes, cfg.ConnectRate, cfg.Rest, cfg.Heap = clients, 0, idleRate, c.pause, b.Pprof
			r, err := c.fleet(ctx, cfg)
			if err != nil {
				return err
			}
			bytes[i], rss[i] = float64(r.Servers[0].InUse), float64(r.Servers[0].RSSRested)
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
		err := c.on(ctx, sc, weir, func(ctx context.Context, b *bed.Bed) (err error) {
			cfg := c.config(sc, weir, b)
			cfg.Clients, cfg.Rest = clients, time.Second/5 // until weir's last ACK is counted
			if r, err = c.fleet(ctx, cfg); err == nil {
				counts[i] = *r.Plane
			}
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
		err := c.on(ctx, sc, weir, func(ctx context.Context, b *bed.Bed) error {
			cfg := c.config(sc, weir, b)
			cfg.Deaf, cfg.Mute, cfg.Slow = bad, bad, bad
			r, err := c.fleet(ctx, cfg)
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

// ticketKeys writes a file with a new key.
func ticketKeys(dir string) (string, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "tickets")
	return file, os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600)
}

// returns compares the return of all clients after a restart of weir with full handshakes, since it
// knows no session, and with resumed ones. Clients and server share the machine, so the time has the
// CPU of both; their shares are separate figures.
func (c *comparison) returns(ctx context.Context, sc *scenario) (result, error) {
	found := result{}
	for name, tickets := range map[string]bool{"full": false, "resumed": true} {
		sc := *sc
		sc.tickets = tickets
		err := c.on(ctx, &sc, weir, func(ctx context.Context, b *bed.Bed) error {
			cfg := c.config(&sc, weir, b)
			cfg.ConnectRate = 2 * idleRate
			cfg.Away = func(context.Context) ([]int, error) {
				err := b.Restart()
				return b.PIDs, err
			}
			r, err := c.fleet(ctx, cfg)
			if err != nil {
				return err
			}
			if want := int64(sc.clients); tickets && r.Resumed != want || !tickets && r.Resumed != 0 {
				return fmt.Errorf("%d of %d clients resumed their sessions; ticket keys: %v", r.Resumed, want, tickets)
			}
			each := 1e6 / float64(sc.clients)
			found["return_s_"+name] = r.ReturnSeconds
			found["server_us_"+name], found["client_us_"+name] = r.Servers[0].ReturnCPUSeconds*each, r.ReturnFleetCPUSeconds*each
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	found["return_ratio"] = found["return_s_resumed"] / found["return_s_full"]
	found["server_ratio"] = found["server_us_resumed"] / max(found["server_us_full"], 1)
	return found, nil
}
