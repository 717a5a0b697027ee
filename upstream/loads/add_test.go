package loads

import (
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// fiveClusters is a report as gRPC makes it, of five clusters.
func fiveClusters() *loadstats.LoadStatsRequest {
	report := &loadstats.LoadStatsRequest{}
	for i := range 5 {
		report.ClusterStats = append(report.ClusterStats, &endpointv3.ClusterStats{
			ClusterName: fmt.Sprint("cluster-", i), ClusterServiceName: fmt.Sprint("service-", i),
			LoadReportInterval: durationpb.New(10 * time.Second),
			UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{
				Locality:                &corev3.Locality{Region: "region", Zone: "zone", SubZone: "sub-zone"},
				TotalSuccessfulRequests: 900, TotalErrorRequests: 100, TotalRequestsInProgress: 10, TotalIssuedRequests: 1000,
			}},
		})
	}
	return report
}

// BenchmarkAdd: a report of five clusters that are known, read and added.
func BenchmarkAdd(b *testing.B) {
	wire, err := proto.Marshal(fiveClusters())
	if err != nil {
		b.Fatal(err)
	}
	s, r := New(time.Unix(0, 0)), &Reporter{}
	b.ReportAllocs()
	for b.Loop() {
		report, err := Read(wire)
		if err != nil {
			b.Fatal(err)
		}
		s.Add(r, report)
	}
}

// TestAddAllocatesNothing: of a report whose clusters are known nothing is made.
func TestAddAllocatesNothing(t *testing.T) {
	s, r, wire := New(time.Unix(0, 0)), &Reporter{}, report(t, everyNumber(t)).wire
	n := testing.AllocsPerRun(100, func() {
		report, _ := Read(wire)
		s.Add(r, report)
	})
	if n != 0 {
		t.Errorf("%v objects are made of a report, want none", n)
	}
}
