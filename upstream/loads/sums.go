package loads

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Most is how many clusters, localities, endpoints, metrics and kinds of drops are kept at a time. They
// are named by clients, so there has to be an end: what is beyond is lost, and Add says how much.
const Most = 100_000

// Sums is what clients have reported since it was taken last.
type Sums struct {
	since    time.Time
	size     int // of what Most bounds
	clusters map[clusterKey]*cluster
}

// New is a Sums of a time that begins now.
func New(now time.Time) *Sums { return &Sums{since: now, clusters: map[clusterKey]*cluster{}} }

// Reporter is one client: what it said last of how things stand.
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
	drops      map[string]uint64
}

type localityKey struct {
	region, zone, subZone string
	priority              uint32
}

type locality struct {
	sum       *endpointv3.UpstreamLocalityStats // but for what follows
	progress  uint64
	active    uint64
	metrics   metrics
	endpoints map[string]*endpoint
}

type endpoint struct {
	sum      *endpointv3.UpstreamEndpointStats // but for what follows
	progress uint64
	metrics  metrics
}

type metrics map[string]*endpointv3.EndpointLoadMetricStats

// Add takes in a client's report; a nil Reporter is one that is gone. Lost is how many requests were not
// taken in, for Most.
func (s *Sums) Add(from *Reporter, report []*endpointv3.ClusterStats) (lost uint64) {
	if from != nil {
		s.Leave(from)
	}
	for _, in := range report {
		c := s.cluster(in)
		if c == nil {
			lost += Requests([]*endpointv3.ClusterStats{in})
			continue
		}
		c.dropped += in.GetTotalDroppedRequests()
		for _, d := range in.GetDroppedRequests() {
			if _, known := c.drops[d.GetCategory()]; known || s.room() {
				c.drops[d.GetCategory()] += d.GetDroppedCount()
			}
		}
		for _, in := range in.GetUpstreamLocalityStats() {
			if l := s.locality(c, in); l == nil {
				lost += in.GetTotalIssuedRequests()
			} else {
				s.addLocality(from, l, in)
			}
		}
	}
	return lost
}

// Leave ends what a client said of how things stand. What it counted stays.
func (s *Sums) Leave(r *Reporter) {
	for _, g := range r.gauges {
		*g.of -= g.n
	}
	r.gauges = r.gauges[:0]
}

// Take is the report of all that was added since the last Take, in the order of names.
func (s *Sums) Take(now time.Time) []*endpointv3.ClusterStats {
	var report []*endpointv3.ClusterStats
	interval := durationpb.New(now.Sub(s.since))
	s.since = now
	order := func(a, b clusterKey) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.service, b.service))
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.clusters), order) {
		c := s.clusters[key]
		out := &endpointv3.ClusterStats{
			ClusterName: key.name, ClusterServiceName: key.service, TotalDroppedRequests: c.dropped, LoadReportInterval: interval,
		}
		for _, category := range slices.Sorted(maps.Keys(c.drops)) {
			out.DroppedRequests = append(out.DroppedRequests,
				&endpointv3.ClusterStats_DroppedRequests{Category: category, DroppedCount: c.drops[category]})
		}
		for _, at := range slices.SortedFunc(maps.Keys(c.localities), localityKey.compare) {
			out.UpstreamLocalityStats = append(out.UpstreamLocalityStats, c.localities[at].take())
		}
		report = append(report, out)
	}
	s.restart()
	return report
}

// GiveBack takes in again what was taken last, or a part of it, as it could not be told.
func (s *Sums) GiveBack(report []*endpointv3.ClusterStats) {
	if len(report) > 0 {
		s.since = s.since.Add(-report[0].GetLoadReportInterval().AsDuration())
		s.Add(nil, report)
	}
}

// Requests is how many requests a report tells of that were issued or dropped.
func Requests(report []*endpointv3.ClusterStats) (n uint64) {
	for _, c := range report {
		n += c.GetTotalDroppedRequests()
		for _, l := range c.GetUpstreamLocalityStats() {
			n += l.GetTotalIssuedRequests()
		}
	}
	return n
}

// restart keeps nothing but how things stand.
func (s *Sums) restart() {
	s.size = 0
	for key, c := range s.clusters {
		c.dropped, c.drops = 0, map[string]uint64{}
		for key, l := range c.localities {
			l.sum = &endpointv3.UpstreamLocalityStats{Locality: l.sum.GetLocality(), Priority: l.sum.GetPriority()}
			l.metrics = metrics{}
			for key, e := range l.endpoints {
				e.sum = &endpointv3.UpstreamEndpointStats{Address: e.sum.GetAddress(), Metadata: e.sum.GetMetadata()}
				e.metrics = metrics{}
				if e.progress == 0 {
					delete(l.endpoints, key)
				}
			}
			if s.size += len(l.endpoints); l.progress == 0 && l.active == 0 && len(l.endpoints) == 0 {
				delete(c.localities, key)
			}
		}
		if s.size += len(c.localities); len(c.localities) == 0 {
			delete(s.clusters, key)
		}
	}
	s.size += len(s.clusters)
}

// room takes a place of Most, if there is one.
func (s *Sums) room() bool {
	if s.size >= Most {
		return false
	}
	s.size++
	return true
}

func (s *Sums) cluster(in *endpointv3.ClusterStats) *cluster {
	key := clusterKey{in.GetClusterName(), in.GetClusterServiceName()}
	c := s.clusters[key]
	if c == nil && s.room() {
		c = &cluster{localities: map[localityKey]*locality{}, drops: map[string]uint64{}}
		s.clusters[key] = c
	}
	return c
}

func (a localityKey) compare(b localityKey) int {
	return cmp.Or(cmp.Compare(a.region, b.region), cmp.Compare(a.zone, b.zone), cmp.Compare(a.subZone, b.subZone),
		cmp.Compare(a.priority, b.priority))
}

func (s *Sums) locality(c *cluster, in *endpointv3.UpstreamLocalityStats) *locality {
	at := in.GetLocality()
	key := localityKey{at.GetRegion(), at.GetZone(), at.GetSubZone(), in.GetPriority()}
	l := c.localities[key]
	if l == nil && s.room() {
		l = &locality{
			sum:     &endpointv3.UpstreamLocalityStats{Locality: at, Priority: in.GetPriority()},
			metrics: metrics{}, endpoints: map[string]*endpoint{},
		}
		c.localities[key] = l
	}
	return l
}

func (s *Sums) addLocality(from *Reporter, l *locality, in *endpointv3.UpstreamLocalityStats) {
	sum := l.sum
	sum.TotalSuccessfulRequests += in.GetTotalSuccessfulRequests()
	sum.TotalErrorRequests += in.GetTotalErrorRequests()
	sum.TotalIssuedRequests += in.GetTotalIssuedRequests()
	sum.TotalNewConnections += in.GetTotalNewConnections()
	sum.TotalFailConnections += in.GetTotalFailConnections()
	addUnnamed(&sum.CpuUtilization, in.GetCpuUtilization())
	addUnnamed(&sum.MemUtilization, in.GetMemUtilization())
	addUnnamed(&sum.ApplicationUtilization, in.GetApplicationUtilization())
	from.stands(&l.progress, in.GetTotalRequestsInProgress())
	from.stands(&l.active, in.GetTotalActiveConnections())
	s.addMetrics(l.metrics, in.GetLoadMetricStats())
	for _, in := range in.GetUpstreamEndpointStats() {
		s.addEndpoint(from, l, in)
	}
}

func (s *Sums) addEndpoint(from *Reporter, l *locality, in *endpointv3.UpstreamEndpointStats) {
	key := addressKey(in.GetAddress())
	e := l.endpoints[key]
	if e == nil {
		if !s.room() {
			return
		}
		e = &endpoint{sum: &endpointv3.UpstreamEndpointStats{Address: in.GetAddress()}, metrics: metrics{}}
		l.endpoints[key] = e
	}
	if in.GetMetadata() != nil {
		e.sum.Metadata = in.GetMetadata()
	}
	e.sum.TotalSuccessfulRequests += in.GetTotalSuccessfulRequests()
	e.sum.TotalErrorRequests += in.GetTotalErrorRequests()
	e.sum.TotalIssuedRequests += in.GetTotalIssuedRequests()
	from.stands(&e.progress, in.GetTotalRequestsInProgress())
	s.addMetrics(e.metrics, in.GetLoadMetricStats())
}

// addressKey is one text for addresses that are the same.
func addressKey(a *corev3.Address) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(a)
	if err != nil {
		return "" // not of what came over the wire
	}
	return string(b)
}

func (s *Sums) addMetrics(to metrics, in []*endpointv3.EndpointLoadMetricStats) {
	for _, m := range in {
		sum := to[m.GetMetricName()]
		if sum == nil {
			if !s.room() {
				continue
			}
			sum = &endpointv3.EndpointLoadMetricStats{MetricName: m.GetMetricName()}
			to[m.GetMetricName()] = sum
		}
		sum.NumRequestsFinishedWithMetric += m.GetNumRequestsFinishedWithMetric()
		sum.TotalMetricValue += m.GetTotalMetricValue()
	}
}

func addUnnamed(to **endpointv3.UnnamedEndpointLoadMetricStats, in *endpointv3.UnnamedEndpointLoadMetricStats) {
	if in == nil {
		return
	}
	if *to == nil {
		*to = &endpointv3.UnnamedEndpointLoadMetricStats{}
	}
	(*to).NumRequestsFinishedWithMetric += in.GetNumRequestsFinishedWithMetric()
	(*to).TotalMetricValue += in.GetTotalMetricValue()
}

// stands notes a client's share of a number that tells how things stand.
func (r *Reporter) stands(of *uint64, n uint64) {
	if r == nil || n == 0 {
		return
	}
	*of += n
	r.gauges = append(r.gauges, gauge{of, n})
}

func (l *locality) take() *endpointv3.UpstreamLocalityStats {
	out := l.sum
	out.TotalRequestsInProgress, out.TotalActiveConnections = l.progress, l.active
	out.LoadMetricStats = l.metrics.take()
	for _, key := range slices.Sorted(maps.Keys(l.endpoints)) {
		e := l.endpoints[key]
		e.sum.TotalRequestsInProgress, e.sum.LoadMetricStats = e.progress, e.metrics.take()
		out.UpstreamEndpointStats = append(out.UpstreamEndpointStats, e.sum)
	}
	return out
}

func (m metrics) take() (out []*endpointv3.EndpointLoadMetricStats) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[name])
	}
	return out
}
