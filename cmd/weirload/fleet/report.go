package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// Report is the result of a run. Names have units; what was not measured is zero. A delivery is one
// changed resource at one client.
type Report struct {
	Server         string `json:"server"`
	Dialect        string `json:"dialect"`
	TypeURL        string `json:"type_url"`
	Clients        int    `json:"clients"`
	PerConnection  int    `json:"clients_per_connection"`
	NamesPerClient int    `json:"names_per_client"` // 0: everything
	Resources      int    `json:"resources"`
	Deaf           int    `json:"clients_deaf"`
	Mute           int    `json:"clients_mute"`
	Slow           int    `json:"clients_slow"`

	// The storm: from its start to the clients' first states.
	StormClients int     `json:"storm_clients"`
	StormSeconds float64 `json:"storm_seconds"` // to the last of them
	StormP50     float64 `json:"storm_p50_ms"`
	StormP99     float64 `json:"storm_p99_ms"`

	// The return: from when all come back to their first states.
	ReturnSeconds         float64 `json:"return_seconds"` // to the last of them
	ReturnFleetCPUSeconds float64 `json:"return_fleet_cpu_seconds"`
	Resumed               int64   `json:"return_resumed"` // clients whose connections resumed a TLS session

	// The changes: from the start of each to when a client had it.
	Loop               string  `json:"loop"` // closed, open, observed, or empty: there were none
	MeasuredSeconds    float64 `json:"measured_seconds"`
	ChurnSeconds       float64 `json:"churn_seconds"` // open loop: time taken by the plane
	Changes            int     `json:"changes"`       // transactions; observed: stamps seen
	ChangesLost        int     `json:"changes_lost"`  // closed loop: not at all clients
	Deliveries         int64   `json:"deliveries"`
	DeliveriesExpected int     `json:"deliveries_expected"` // 0: unknown
	LatencyP50         float64 `json:"latency_p50_ms"`      // of deliveries
	LatencyP99         float64 `json:"latency_p99_ms"`
	LatencyMax         float64 `json:"latency_max_ms"`
	LastP50            float64 `json:"last_p50_ms"` // of changes: to the last client
	LastP99            float64 `json:"last_p99_ms"`
	LastMax            float64 `json:"last_max_ms"`
	FleetCPUSeconds    float64 `json:"fleet_cpu_seconds"`

	// What the well-behaved clients received in all.
	Responses         int64  `json:"responses"`
	ResourcesReceived int64  `json:"resources_received"`
	Bytes             int64  `json:"bytes"`
	StreamEnds        int64  `json:"stream_ends"`
	LastEnd           string `json:"last_stream_end"`

	// Plane is what the clients of the plane with the control endpoint have cost it since its
	// start; null: there is none.
	Plane   *world.Counts `json:"plane"`
	Servers []Server      `json:"servers"`

	config *Config
}

// Server is what one process of the measured server used.
type Server struct {
	PID               int     `json:"pid"`
	StormCPUSeconds   float64 `json:"storm_cpu_seconds"`
	ReturnCPUSeconds  float64 `json:"return_cpu_seconds"`
	RSSBefore         int64   `json:"rss_before_bytes"` // before the storm
	RSSAfter          int64   `json:"rss_after_bytes"`  // after it, and the pause
	RSSPerClient      float64 `json:"rss_bytes_per_client"`
	CPUSeconds        float64 `json:"cpu_seconds"` // while changes were measured
	CPUPerDelivery    float64 `json:"cpu_us_per_delivery"`
	RSSEnd            int64   `json:"rss_end_bytes"`
	CPUPercentOfACore float64 `json:"cpu_percent_of_a_core"`
	// After the rest, and after a collection: objects and stacks, and what is resident.
	InUse     int64 `json:"in_use_bytes"`
	RSSRested int64 `json:"rss_rested_bytes"`
}

func (r *Report) describe(c *Config) {
	r.Server, r.Dialect, r.TypeURL = c.Server, string(c.Dialect), c.TypeURL
	r.Clients, r.PerConnection, r.NamesPerClient, r.Resources = c.Clients, c.PerConnection, c.Names, c.Resources
	r.Deaf, r.Mute, r.Slow = c.Deaf, c.Mute, c.Slow
}

func (r *Report) weather(storm *histogram, clients int, before, settled, after []usage) {
	r.StormClients, r.StormSeconds = clients, time.Duration(storm.most.Load()).Seconds()
	r.StormP50, r.StormP99 = ms(storm.quantile(0.5)), ms(storm.quantile(0.99))
	for i, pid := range r.config.PIDs {
		s := Server{
			PID: pid, StormCPUSeconds: (settled[i].cpu - before[i].cpu).Seconds(), RSSBefore: before[i].rss, RSSAfter: after[i].rss,
		}
		if clients > 0 {
			s.RSSPerClient = float64(s.RSSAfter-s.RSSBefore) / float64(clients)
		}
		r.Servers = append(r.Servers, s)
	}
}

func (r *Report) measured(b *board, before, after []usage) {
	last := b.lasts()
	if r.Loop == "observed" {
		r.Changes = int(last.count.Load())
	}
	r.Deliveries = b.each.count.Load()
	r.LatencyP50, r.LatencyP99, r.LatencyMax = ms(b.each.quantile(0.5)), ms(b.each.quantile(0.99)), ms(b.each.quantile(1))
	r.LastP50, r.LastP99, r.LastMax = ms(last.quantile(0.5)), ms(last.quantile(0.99)), ms(last.quantile(1))
	for i := range r.Servers {
		s := &r.Servers[i]
		s.CPUSeconds, s.RSSEnd = (after[i].cpu - before[i].cpu).Seconds(), after[i].rss
		s.CPUPercentOfACore = 100 * s.CPUSeconds / r.MeasuredSeconds
		if r.Deliveries > 0 {
			s.CPUPerDelivery = 1e6 * s.CPUSeconds / float64(r.Deliveries)
		}
	}
}

func (r *Report) rested(now []usage, inUse int64) {
	for i := range r.Servers {
		r.Servers[i].RSSRested = now[i].rss
	}
	if len(r.Servers) > 0 {
		r.Servers[0].InUse = inUse
	}
}

// returned replaces processes that were restarted while the clients were gone.
func (r *Report) returned(pids []int, before, after []usage) {
	servers := make([]Server, len(pids))
	for i, pid := range pids {
		if i < len(r.Servers) && r.Servers[i].PID == pid {
			servers[i] = r.Servers[i]
		}
		servers[i].PID, servers[i].ReturnCPUSeconds = pid, (after[i].cpu - before[i].cpu).Seconds()
	}
	r.Servers = servers
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// JSON writes the report.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	what := "everything"
	if r.NamesPerClient > 0 {
		what = fmt.Sprintf("%d of %d names each", r.NamesPerClient, r.Resources)
	}
	row("server", "%s, %s, %s", r.Server, r.Dialect, r.TypeURL)
	row("clients", "%d, %d to a connection, %s", r.Clients, r.PerConnection, what)
	if bad := r.Deaf + r.Mute + r.Slow; bad > 0 {
		row("bad clients", "%d deaf, %d mute, %d slow", r.Deaf, r.Mute, r.Slow)
	}
	row("first states", "%d in %.3f s, p50 %.1f ms, p99 %.1f ms", r.StormClients, r.StormSeconds, r.StormP50, r.StormP99)
	if r.ReturnSeconds > 0 {
		row("all back", "in %.3f s, %.2f s CPU of the fleet, %d resumed a TLS session", r.ReturnSeconds, r.ReturnFleetCPUSeconds, r.Resumed)
	}
	if r.Loop != "" {
		row("changes", "%d in %.2f s (%s loop), %d lost", r.Changes, r.MeasuredSeconds, r.Loop, r.ChangesLost)
		expected := ""
		if r.DeliveriesExpected > 0 {
			expected = fmt.Sprintf(" of %d", r.DeliveriesExpected)
		}
		row("deliveries", "%d%s", r.Deliveries, expected)
		row("latency of deliveries", "p50 %.3f ms, p99 %.3f ms, max %.3f ms", r.LatencyP50, r.LatencyP99, r.LatencyMax)
		row("to the last client", "p50 %.3f ms, p99 %.3f ms, max %.3f ms", r.LastP50, r.LastP99, r.LastMax)
		row("CPU of the fleet", "%.2f s", r.FleetCPUSeconds)
	}
	row("received", "%d responses, %d resources, %d bytes", r.Responses, r.ResourcesReceived, r.Bytes)
	if r.StreamEnds > 0 {
		row("streams ended", "%d, the last with: %s", r.StreamEnds, r.LastEnd)
	}
	if p := r.Plane; p != nil {
		row("asked of the plane", "%d streams, %d requests, %d names, %d bytes; it sent %d bytes, and was refused %d times",
			p.Streams, p.Requests, p.Names, p.BytesIn, p.BytesOut, p.Nacks)
	}
	for _, s := range r.Servers {
		row(fmt.Sprintf("process %d", s.PID), "storm %.2f s CPU; %.1f MiB before, %.1f MiB after, %.1f KiB a client",
			s.StormCPUSeconds, mib(s.RSSBefore), mib(s.RSSAfter), s.RSSPerClient/1024)
		if r.Loop != "" {
			row("", "changes %.2f s CPU (%.0f %% of a core), %.2f us a delivery; %.1f MiB at the end",
				s.CPUSeconds, s.CPUPercentOfACore, s.CPUPerDelivery, mib(s.RSSEnd))
		}
		if s.RSSRested > 0 {
			row("", "%.1f MiB resident after the rest", mib(s.RSSRested))
		}
		if s.InUse > 0 {
			row("", "%.1f MiB in use after a collection", mib(s.InUse))
		}
	}
	return t.Flush()
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
