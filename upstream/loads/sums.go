package loads

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Most bounds the clusters, localities, endpoints, metrics and kinds of drops kept at a time, since
// clients name them. What is beyond is lost; Add returns how many requests. A name counts once more
// for each nameUnit bytes that it has.
const Most = 100_000

// nameUnit is longer than nearly all names, in bytes.
const nameUnit = 512

// Sums has what clients have reported since the last Take.
type Sums struct {
	since    time.Time
	size     int // counted against Most
	clusters map[clusterKey]*cluster
}

// New returns an empty Sums for an interval that begins now.
func New(now time.Time) *Sums { return &Sums{since: now, clusters: map[clusterKey]*cluster{}} }

// Reporter has the last values of one client's gauges.
type Reporter struct{ gauges []gauge }

// gauge is a client's share of a number.
type gauge struct {
	of *uint64
	n  uint64
}

type clusterKey struct{ name, service string }

type cluster struct {
	localities map[localityKey]*locality
	dropped    uint64
	drops      map[string]*metric // by category; nil: none. Their numbers are in finished
}

type localityKey struct {
	region, zone, subZone string
	priority              uint32
}

// counts are the numbers of a locality or an endpoint, by field. What is no field counts for
// nothing.
type counts [12]uint64

// The fields of UpstreamLocalityStats that are numbers. UpstreamEndpointStats has the first three,
// and issuedAtEndpoint.
const (
	successes        = 2
	progress         = 3
	errored          = 4
	issuedAtEndpoint = 7
	issued           = 8
	active           = 9
	opened           = 10
	fails            = 11
)

func isGauge(field int) bool { return field == progress || field == active }

// restart clears all but the gauges, in place: clients' gauges point to them.
func (n *counts) restart() {
	for field := range n {
		if !isGauge(field) {
			n[field] = 0
		}
	}
}

// locality has the sums of a locality.
type locality struct {
	named                    bool // the report has a locality, perhaps empty
	counts                   counts
	cpu, memory, application utilization
	metrics                  map[string]*metric // nil: none
	endpoints                map[string]*endpoint
}

// utilization is a metric without a name.
type utilization struct {
	known bool
	metric
}

// metric is a metric with a name chosen by clients.
type metric struct {
	finished uint64
	value    float64
}

// Leave removes a client's gauges. Its counters stay.
func (s *Sums) Leave(r *Reporter) {
	for _, g := range r.gauges {
		*g.of -= g.n
	}
	r.gauges = r.gauges[:0]
}

// GiveBack adds the result of the last Take, or a part of it, again, because it could not be sent.
// lost is as in Add.
func (s *Sums) GiveBack(report []*endpointv3.ClusterStats) (lost uint64) {
	if len(report) == 0 {
		return 0
	}
	s.since = s.since.Add(-report[0].GetLoadReportInterval().AsDuration())
	wire, err := proto.Marshal(&loadstats.LoadStatsRequest{ClusterStats: report})
	if err != nil {
		return Requests(report) // cannot happen: it was decoded from the wire
	}
	return s.Add(nil, Report{wire})
}

// Requests returns the number of requests, issued or dropped, in a report.
func Requests(report []*endpointv3.ClusterStats) (n uint64) {
	for _, c := range report {
		n += c.GetTotalDroppedRequests()
		for _, l := range c.GetUpstreamLocalityStats() {
			n += l.GetTotalIssuedRequests()
		}
	}
	return n
}

// restart clears all but the gauges.
func (s *Sums) restart() {
	s.size = 0
	for key, c := range s.clusters {
		c.dropped, c.drops = 0, nil
		for key, l := range c.localities {
			l.restart()
			if l.counts[progress] == 0 && l.counts[active] == 0 && len(l.endpoints) == 0 {
				delete(c.localities, key)
				continue
			}
			s.size += units(key.bytes())
			for _, e := range l.endpoints {
				s.size += units(e.bytes())
			}
		}
		if len(c.localities) == 0 {
			delete(s.clusters, key)
			continue
		}
		s.size += units(key.bytes())
	}
}

func (l *locality) restart() {
	l.counts.restart()
	l.cpu, l.memory, l.application = utilization{}, utilization{}, utilization{}
	l.metrics = nil
	for key, e := range l.endpoints {
		e.counts.restart()
		if e.metrics = nil; e.counts[progress] == 0 {
			delete(l.endpoints, key)
		}
	}
}

// room counts something with a name of so many bytes towards Most. It returns false if that is
// reached.
func (s *Sums) room(name int) bool {
	if s.size+units(name) > Most {
		return false
	}
	s.size += units(name)
	return true
}

// units returns what a name counts.
func units(name int) int { return 1 + name/nameUnit }

func (k clusterKey) bytes() int  { return len(k.name) + len(k.service) }
func (k localityKey) bytes() int { return len(k.region) + len(k.zone) + len(k.subZone) }
func (e *endpoint) bytes() int   { return 2*len(e.address) + len(e.metadata) } // its key is the address

// Take returns the report of all that was added since the last Take, sorted by names.
func (s *Sums) Take(now time.Time) []*endpointv3.ClusterStats {
	var report []*endpointv3.ClusterStats
	interval := durationpb.New(now.Sub(s.since))
	s.since = now
	for _, key := range slices.SortedFunc(maps.Keys(s.clusters), clusterKey.compare) {
		c := s.clusters[key]
		out := &endpointv3.ClusterStats{
			ClusterName: key.name, ClusterServiceName: key.service, TotalDroppedRequests: c.dropped, LoadReportInterval: interval,
		}
		for _, category := range slices.Sorted(maps.Keys(c.drops)) {
			out.DroppedRequests = append(out.DroppedRequests,
				&endpointv3.ClusterStats_DroppedRequests{Category: category, DroppedCount: c.drops[category].finished})
		}
		for _, at := range slices.SortedFunc(maps.Keys(c.localities), localityKey.compare) {
			out.UpstreamLocalityStats = append(out.UpstreamLocalityStats, c.localities[at].take(at))
		}
		report = append(report, out)
	}
	s.restart()
	return report
}

func (k clusterKey) compare(b clusterKey) int {
	return cmp.Or(cmp.Compare(k.name, b.name), cmp.Compare(k.service, b.service))
}

func (k localityKey) compare(b localityKey) int {
	return cmp.Or(cmp.Compare(k.region, b.region), cmp.Compare(k.zone, b.zone), cmp.Compare(k.subZone, b.subZone),
		cmp.Compare(k.priority, b.priority))
}

func (l *locality) take(at localityKey) *endpointv3.UpstreamLocalityStats {
	out := &endpointv3.UpstreamLocalityStats{
		Priority:                at.priority,
		TotalSuccessfulRequests: l.counts[successes],
		TotalRequestsInProgress: l.counts[progress],
		TotalErrorRequests:      l.counts[errored],
		TotalIssuedRequests:     l.counts[issued],
		TotalActiveConnections:  l.counts[active],
		TotalNewConnections:     l.counts[opened],
		TotalFailConnections:    l.counts[fails],
		CpuUtilization:          l.cpu.take(),
		MemUtilization:          l.memory.take(),
		ApplicationUtilization:  l.application.take(),
		LoadMetricStats:         takeMetrics(l.metrics),
	}
	if l.named {
		out.Locality = &corev3.Locality{Region: at.region, Zone: at.zone, SubZone: at.subZone}
	}
	for _, key := range slices.Sorted(maps.Keys(l.endpoints)) {
		out.UpstreamEndpointStats = append(out.UpstreamEndpointStats, l.endpoints[key].take())
	}
	return out
}

func (u *utilization) take() *endpointv3.UnnamedEndpointLoadMetricStats {
	if !u.known {
		return nil
	}
	return &endpointv3.UnnamedEndpointLoadMetricStats{NumRequestsFinishedWithMetric: u.finished, TotalMetricValue: u.value}
}

func (e *endpoint) take() *endpointv3.UpstreamEndpointStats {
	out := &endpointv3.UpstreamEndpointStats{
		TotalSuccessfulRequests: e.counts[successes],
		TotalRequestsInProgress: e.counts[progress],
		TotalErrorRequests:      e.counts[errored],
		TotalIssuedRequests:     e.counts[issuedAtEndpoint],
		LoadMetricStats:         takeMetrics(e.metrics),
	}
	// Read has checked that both decode.
	if e.address != nil {
		out.Address = &corev3.Address{}
		_ = proto.Unmarshal(e.address, out.Address)
	}
	if e.metadata != nil {
		out.Metadata = &structpb.Struct{}
		_ = proto.Unmarshal(e.metadata, out.Metadata)
	}
	return out
}

func takeMetrics(of map[string]*metric) (out []*endpointv3.EndpointLoadMetricStats) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		m := of[name]
		out = append(out, &endpointv3.EndpointLoadMetricStats{
			MetricName: name, NumRequestsFinishedWithMetric: m.finished, TotalMetricValue: m.value,
		})
	}
	return out
}
