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
	"google.golang.org/protobuf/types/known/structpb"
)

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
				&endpointv3.ClusterStats_DroppedRequests{Category: category, DroppedCount: *c.drops[category]})
		}
		for _, at := range slices.SortedFunc(maps.Keys(c.localities), localityKey.compare) {
			out.UpstreamLocalityStats = append(out.UpstreamLocalityStats, c.localities[at].take(at))
		}
		report = append(report, out)
	}
	s.restart()
	return report
}

func (a clusterKey) compare(b clusterKey) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.service, b.service))
}

func (a localityKey) compare(b localityKey) int {
	return cmp.Or(cmp.Compare(a.region, b.region), cmp.Compare(a.zone, b.zone), cmp.Compare(a.subZone, b.subZone),
		cmp.Compare(a.priority, b.priority))
}

func (l *locality) take(at localityKey) *endpointv3.UpstreamLocalityStats {
	out := &endpointv3.UpstreamLocalityStats{
		Priority:                at.priority,
		TotalSuccessfulRequests: l.successes,
		TotalRequestsInProgress: l.progress,
		TotalErrorRequests:      l.errors,
		TotalIssuedRequests:     l.issued,
		TotalActiveConnections:  l.active,
		TotalNewConnections:     l.opened,
		TotalFailConnections:    l.fails,
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
		TotalSuccessfulRequests: e.successes,
		TotalRequestsInProgress: e.progress,
		TotalErrorRequests:      e.errors,
		TotalIssuedRequests:     e.issued,
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
