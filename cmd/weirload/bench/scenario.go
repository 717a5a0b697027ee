package main

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// The subjects, in order of measuring.
const (
	weir      = "weir"
	snapshot  = "snapshot"
	linear    = "linear"
	yardstick = "bare"
)

var subjects = []string{weir, snapshot, linear, yardstick}

// scenario is one thing to measure.
type scenario struct {
	name, title string
	world       world.Options
	names       int // of a client; 0: it asks for everything
	dialect     string
	clients     int
	origin      string   // of weir: another subject
	only        []string // subjects; empty: all
	rounds      int      // at most; 0: as many as the command says
	mode        mode
	changes     int           // closed loop: number of changes
	rate        int           // open loop: changes a second
	span        time.Duration // open loop
	settle      time.Duration // storm: before memory is read
	tickets     bool          // with tls: weir has a file of ticket keys
	tls         bool          // 1.3, with certificates on both sides; weir's origin speaks plain text
	slow        slower
	figures     []figure
}

// mode is the kind of a scenario.
type mode int

const (
	closedLoop mode = iota // a change, then the next when all have it
	openLoop
	storm      // all connect at once
	idle       // all are connected, and nothing happens
	shield     // weir with one client, then with all: the load of its origin
	neighbours // weir without bad clients, then with them
	returning  // weir is restarted, and all come back at once: with full handshakes, and with resumed ones
)

// slower reduces a scenario for subjects that would take minutes.
type slower struct {
	subjects []string
	rounds   int // 0: all
	changes  int // 0: all
}

// figure is one number of a run, with weir's targets.
type figure struct {
	key     string
	title   string
	unit    string
	digits  int // after the decimal point
	targets []target
}

// target is the most that weir's figure may be.
type target struct {
	of    string  // subject to compare with; "": none
	minus bool    // subtract instead of dividing
	most  float64 // the ratio, the difference or the figure
}

// targets returns targets for ratios; 0 is none.
func targets(bare, linears, snapshots float64) []target {
	all := []target{{of: yardstick, most: bare}, {of: linear, most: linears}, {of: snapshot, most: snapshots}}
	return slices.DeleteFunc(all, func(t target) bool { return t.most == 0 })
}

func cpu(t []target) figure {
	return figure{key: "cpu_us_per_delivery", title: "server CPU per delivery", unit: "us", digits: 1, targets: t}
}

// scenarios are those of the comparison. Clusters have the size that service meshes send.
//
// weir's origin is the snapshot cache, which most control planes use. The exceptions are where the
// origin's own time for a change would count as weir's: latencies, and 100 changes a second, for
// each of which the snapshot cache makes a snapshot of everything. The yardstick is one where what
// the origin is asked has to be counted.
//
// What costs the writing and reading of bytes, and their memory, is measured with TLS, too.
func scenarios() []scenario {
	all := plainScenarios()
	for i := range all {
		sc := all[i]
		var bare float64
		switch sc.name {
		case "sotw", "delta", "eds":
			bare = 1.10
		case "storm":
			bare = 1.5
		case "idle":
			bare = 1.25
		default:
			continue
		}
		sc.name, sc.title, sc.tls = sc.name+"-tls", "TLS: "+sc.title, true
		sc.figures = slices.Clone(sc.figures)
		for f := range sc.figures {
			sc.figures[f].targets = nil
		}
		sc.figures[0].targets = targets(bare, 0, 0)
		all = append(all, sc)
	}
	return append(all, scenario{
		name: "return", title: "TLS: weir is restarted and all come back at once, each on a connection of its own, `*` of 10 clusters", tls: true,
		world: world.Options{Kind: world.Clusters, Resources: 10, Bytes: 436}, dialect: "delta", clients: 10_000,
		origin: linear, only: []string{weir}, rounds: 1, mode: returning,
		figures: []figure{
			{key: "return_s_full", title: "full handshakes: until the last is served", unit: "s", digits: 2},
			{key: "return_s_resumed", title: "resumed sessions: until the last is served", unit: "s", digits: 2},
			{key: "return_ratio", title: "their quotient", digits: 2, targets: []target{{most: 0.5}}},
			{key: "server_us_full", title: "full handshakes: server CPU per client", unit: "us"},
			{key: "server_us_resumed", title: "resumed sessions: server CPU per client", unit: "us"},
			{key: "server_ratio", title: "their quotient", digits: 2},
			{key: "client_us_full", title: "full handshakes: CPU of a client", unit: "us"},
			{key: "client_us_resumed", title: "resumed sessions: CPU of a client", unit: "us"},
		},
	})
}

func plainScenarios() []scenario {
	const bytes, larger = 436, 540 // 600 bytes in a response
	clusters := world.Options{Kind: world.Clusters, Resources: 1000, Bytes: bytes}
	return []scenario{
		{
			name: "sotw", title: "SotW, `*` of 1,000 clusters, 436 KB, one changes", world: clusters, dialect: "sotw",
			clients: 500, origin: snapshot, changes: 20, slow: slower{subjects: []string{snapshot}, changes: 2},
			figures: []figure{cpu(targets(1.25, 0.25, 0.05))},
		},
		{
			name: "delta", title: "delta, `*` of 1,000 clusters, one of 600 bytes changes", dialect: "delta",
			world:   world.Options{Kind: world.Clusters, Resources: 1000, Bytes: larger},
			clients: 1000, origin: linear, changes: 60, slow: slower{subjects: []string{snapshot, linear}, changes: 10},
			figures: []figure{
				cpu(targets(1.35, 0.15, 0.10)),
				{key: "latency_last_ms", title: "from the change to the last client, median", unit: "ms", digits: 1, targets: targets(1.5, 0, 0)},
			},
		},
		{
			name: "eds", title: "delta, 50 of 5,000 endpoints a client, 100 changes a second", dialect: "delta",
			world: world.Options{Kind: world.Endpoints, Resources: 5000, Bytes: larger}, names: 50,
			clients: 2000, origin: linear, mode: openLoop, rate: 100, span: 4 * time.Second,
			// The snapshot cache cannot make 100 snapshots of 5,000 resources a second here.
			only:    []string{weir, linear, yardstick},
			figures: []figure{cpu(targets(1.30, 0.40, 0))},
		},
		{
			name: "storm", title: "SotW, all connect at once, `*` of 1,000 clusters, 436 KB", world: clusters, dialect: "sotw",
			clients: 2000, origin: snapshot, mode: storm, settle: 2 * time.Second, slow: slower{subjects: []string{snapshot}, rounds: 1},
			figures: []figure{
				{key: "storm_s", title: "until the last has everything", unit: "s", digits: 2, targets: targets(1.5, 0.5, 0)},
				{key: "rss_kib_per_client", title: "resident memory per client afterwards", unit: "KiB"},
			},
		},
		{
			name: "idle", title: "delta, idle, each on a connection of its own, `*` of 1,000 clusters", world: clusters, dialect: "delta",
			// Half a minute each.
			clients: 1000, origin: snapshot, mode: idle, rounds: 1,
			figures: []figure{
				{
					key: "rss_kib_per_client", title: "resident memory per client after a collection", unit: "KiB", digits: 1,
					targets: append(targets(1.25, 0, 0), target{most: 40}),
				},
				{key: "in_use_kib_per_client", title: "memory in use per client", unit: "KiB", digits: 1},
			},
		},
		{
			name: "one", title: "delta, one client, `*` of 1,000 clusters, one changes", world: clusters, dialect: "delta",
			clients: 1, origin: linear, changes: 300,
			figures: []figure{{
				key: "latency_ms", title: "from the change to the client, median", unit: "ms", digits: 2,
				targets: []target{{of: linear, minus: true, most: 1}},
			}},
		},
		{
			name: "shield", title: "delta, `*` of 1,000 clusters, one changes: what the origin of weir sees more of than with one client",
			world: clusters, dialect: "delta", clients: 1000, origin: yardstick, only: []string{weir}, mode: shield, changes: 20,
			figures: []figure{
				{key: "more_requests", title: "requests", targets: []target{{most: 0}}},
				{key: "more_names", title: "names", targets: []target{{most: 0}}},
				{key: "more_bytes", title: "bytes", targets: []target{{most: 0}}},
				{key: "origin_ms_per_change", title: "its CPU for a change", unit: "ms", digits: 1},
			},
		},
		{
			name: "neighbours", title: "delta, `*` of 1,000 clusters, one changes, beside one client that reads nothing, one that ACKs nothing, one at 10 KB/s",
			world: clusters, dialect: "delta", clients: 997, origin: linear, only: []string{weir}, mode: neighbours, changes: 40,
			figures: []figure{
				{key: "latency_ms_with", title: "from the change to a client, median", unit: "ms", digits: 1},
				{key: "latency_ms_without", title: "the same without them", unit: "ms", digits: 1},
				{key: "latency_ratio", title: "their quotient", digits: 2, targets: []target{{most: 1.3}}},
			},
		},
	}
}

// measures reports whether a subject takes part in a round, counted from 0.
func (sc *scenario) measures(subject string, round int) bool {
	if sc.rounds > 0 && round >= sc.rounds {
		return false
	}
	if len(sc.only) > 0 && !slices.Contains(sc.only, subject) {
		return false
	}
	return sc.slow.rounds == 0 || round < sc.slow.rounds || !slices.Contains(sc.slow.subjects, subject)
}

func (sc *scenario) changesOf(subject string) int {
	if sc.slow.changes > 0 && slices.Contains(sc.slow.subjects, subject) {
		return sc.slow.changes
	}
	return sc.changes
}
