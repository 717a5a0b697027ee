package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// point is one size of a deployment.
type point struct {
	Axis      string `json:"axis"`
	Clients   int    `json:"clients"`
	Resources int    `json:"resources"`
	Bytes     int    `json:"resource_bytes"`
	Names     int    `json:"names_per_client"` // 0: `*`
	Groups    int    `json:"groups"`
	Rate      int    `json:"changes_per_second"` // 0: each when all have the one before
	Dialect   string `json:"dialect"`
}

// String names a point in tables and errors.
func (p *point) String() string {
	names := "`*`"
	if p.Names > 0 {
		names = fmt.Sprint(p.Names, " names")
	}
	return fmt.Sprintf("%s: %d clients, %s of %d resources, %d groups, %s, rate %d", p.Axis, p.Clients, names, p.Resources, p.Groups, p.Dialect, p.Rate)
}

// sample is what was measured at a point: the memory of weir alone. Live is objects and stacks
// after a collection; resident is what the system counts some seconds after that; after the storm
// it is what the system counts then, garbage included.
type sample struct {
	point
	BaseBytes     float64 `json:"live_bytes_without_clients"`
	LiveBytes     float64 `json:"live_bytes"`
	RSSBytes      float64 `json:"rss_bytes"`
	StormRSSBytes float64 `json:"storm_rss_bytes"`
	StormS        float64 `json:"storm_seconds"`
	ConnectUS     float64 `json:"storm_cpu_us_per_client"`
	Deliveries    int64   `json:"deliveries"`
	DeliveryUS    float64 `json:"cpu_us_per_delivery"`
	CorePercent   float64 `json:"cpu_percent_of_a_core"`
	P50MS         float64 `json:"latency_p50_ms"`
	P99MS         float64 `json:"latency_p99_ms"`
	LastMS        float64 `json:"last_p50_ms"`
	// Of the changes: what weir and the fleet used in all, and in which time.
	Changes    int     `json:"changes"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
	FleetCPU   float64 `json:"fleet_cpu_seconds"`
	StormCPU   float64 `json:"storm_cpu_seconds"` // for all but the first client
}

// axes returns the points along each axis. The other axes are as in the middle: 1,000 clients of
// one group, `*` of 1,000 clusters, delta.
func axes() map[string][]point {
	middle := func(axis string, change func(*point)) point {
		p := point{Axis: axis, Clients: 1000, Resources: 1000, Bytes: 436, Groups: 1, Dialect: "delta"}
		change(&p)
		return p
	}
	all := map[string][]point{}
	add := func(axis string, change func(*point)) { all[axis] = append(all[axis], middle(axis, change)) }
	for _, n := range []int{100, 1000, 5000, 10_000} {
		add("clients", func(p *point) { p.Clients = n })
	}
	for _, n := range []int{100, 1000, 10_000, 100_000} {
		add("resources", func(p *point) { p.Resources, p.Clients = n, 100 })
	}
	for _, n := range []int{1, 10, 100, 1000} {
		add("rate", func(p *point) { p.Rate, p.Clients = n, 200 })
	}
	for _, n := range []int{1, 10, 100, 1000} {
		add("groups", func(p *point) { p.Groups = n })
	}
	for _, n := range []int{10, 100, 1000, 5000} {
		add("names", func(p *point) { p.Names, p.Resources, p.Rate = n, 100_000, 1000 })
	}
	for _, n := range []int{100, 500} {
		add("sotw", func(p *point) { p.Dialect, p.Clients = "sotw", n })
	}
	// Clients have consecutive names, and take groups in turn: with three groups each holds all
	// resources. It would not if their number divided that of the rows.
	add("corner", func(p *point) { p.Clients, p.Resources, p.Names, p.Rate = 10_000, 100_000, 100, 1000 })
	add("corner", func(p *point) { p.Clients, p.Resources, p.Names, p.Rate, p.Groups = 10_000, 20_000, 50, 200, 3 })
	add("corner", func(p *point) { p.Resources = 100_000; p.Clients = mostSent / (p.Resources * p.Bytes) })
	return all
}

// mostSent bounds what all clients of `*` together are sent as first states, in bytes.
const mostSent = 8 << 30

// kind returns the type that such clients would subscribe to.
func (p *point) kind() world.Kind {
	if p.Names > 0 {
		return world.Endpoints
	}
	return world.Clusters
}

const (
	// wait is how long the clients are connected before anything changes, so that the end of the
	// storm is not counted as a cost of changes.
	wait = 3 * time.Second
	// longest bounds the time for a point.
	longest = 3 * time.Minute
)

// measure measures weir at one point, with weirload's own origin.
func (p *point) measure(ctx context.Context, with *study) (*sample, error) {
	o := world.Options{Kind: p.kind(), Resources: p.Resources, Bytes: p.Bytes, NamesPerClient: p.Names}
	server, err := startPlane(ctx, with.programs.weirload, "origin", &o)
	if err != nil {
		return nil, err
	}
	config := server.config()
	if p.Groups > 1 {
		config["origins"].([]any)[0].(map[string]any)["group_by"] = []any{"cluster"}
	}
	if err := server.before(with.programs.weir, with.dir, config); err != nil {
		return nil, err
	}
	s := &sample{point: *p}
	err = server.with(func(ctx context.Context) (err error) {
		if s.BaseBytes, err = collect(ctx, server.pprof); err != nil {
			return err
		}
		cfg := &fleet.Config{
			Server: server.xds, Control: server.control, Dialect: fleet.Dialect(p.Dialect), Clients: p.Clients, Names: p.Names,
			Resources: p.Resources, Groups: p.Groups, PIDs: server.pids[:1], Idle: wait, Rate: p.Rate, Patience: 90 * time.Second,
		}
		if cfg.For = 5 * time.Second; with.short {
			cfg.Idle, cfg.For = wait/10, time.Second
		}
		if p.Rate == 0 {
			cfg.Changes, cfg.For = max(5, min(300, cmp.Or(with.most, 100_000)/p.Clients)), 0
		}
		r, bytes, err := with.fleetAndMemory(ctx, cfg, p.kind(), server.pprof)
		if err != nil {
			return err
		}
		s.LiveBytes = bytes
		s.take(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *sample) take(r *fleet.Report) {
	server := &r.Servers[0]
	s.RSSBytes, s.StormRSSBytes, s.StormS, s.Deliveries = float64(server.RSSRested), float64(server.RSSAfter), r.StormSeconds, r.Deliveries
	s.ConnectUS = 1e6 * server.StormCPUSeconds / float64(max(1, r.StormClients))
	s.DeliveryUS, s.CorePercent = server.CPUPerDelivery, server.CPUPercentOfACore
	s.Changes, s.Seconds, s.CPUSeconds, s.FleetCPU, s.StormCPU = r.Changes, r.MeasuredSeconds, server.CPUSeconds, r.FleetCPUSeconds, server.StormCPUSeconds
	s.P50MS, s.P99MS, s.LastMS = r.LatencyP50, r.LatencyP99, r.LastP50
}
