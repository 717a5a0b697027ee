package loads

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest/seed"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

func parse(t testing.TB, text string) *endpointv3.ClusterStats {
	t.Helper()
	c := &endpointv3.ClusterStats{}
	if err := prototext.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// report is clusters in a report as it is on the wire.
func report(t testing.TB, clusters ...*endpointv3.ClusterStats) Report {
	t.Helper()
	wire, err := proto.Marshal(&loadstats.LoadStatsRequest{ClusterStats: clusters})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(wire)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// everyNumber has a number of each kind.
func everyNumber(t testing.TB) *endpointv3.ClusterStats {
	t.Helper()
	return parse(t, `
		cluster_name: "c" cluster_service_name: "s" total_dropped_requests: 3
		dropped_requests { category: "lb" dropped_count: 2 } load_report_interval { seconds: 7 }
		upstream_locality_stats {
			locality { region: "r" zone: "z" } priority: 1
			total_successful_requests: 1 total_requests_in_progress: 2 total_error_requests: 3 total_issued_requests: 4
			total_active_connections: 5 total_new_connections: 6 total_fail_connections: 7
			cpu_utilization { num_requests_finished_with_metric: 1 total_metric_value: 0.5 }
			load_metric_stats { metric_name: "m" num_requests_finished_with_metric: 1 total_metric_value: 2 }
			upstream_endpoint_stats {
				address { socket_address { address: "10.0.0.1" port_value: 80 } }
				metadata { fields { key: "k" value { string_value: "v" } } }
				total_successful_requests: 1 total_requests_in_progress: 2 total_error_requests: 3 total_issued_requests: 4
				load_metric_stats { metric_name: "m" num_requests_finished_with_metric: 1 total_metric_value: 2 }
			}
		}`)
}

// TestSums: each kind of number, added over two clients and two reports.
func TestSums(t *testing.T) {
	begin := time.Unix(0, 0)
	s, a, b := New(begin), &Reporter{}, &Reporter{}
	one := everyNumber(t)
	s.Add(a, report(t, one))
	s.Add(b, report(t, one))
	s.Add(a, report(t, one))
	want := parse(t, `
		cluster_name: "c" cluster_service_name: "s" total_dropped_requests: 9
		dropped_requests { category: "lb" dropped_count: 6 } load_report_interval { seconds: 10 }
		upstream_locality_stats {
			locality { region: "r" zone: "z" } priority: 1
			total_successful_requests: 3 total_requests_in_progress: 4 total_error_requests: 9 total_issued_requests: 12
			total_active_connections: 10 total_new_connections: 18 total_fail_connections: 21
			cpu_utilization { num_requests_finished_with_metric: 3 total_metric_value: 1.5 }
			load_metric_stats { metric_name: "m" num_requests_finished_with_metric: 3 total_metric_value: 6 }
			upstream_endpoint_stats {
				address { socket_address { address: "10.0.0.1" port_value: 80 } }
				metadata { fields { key: "k" value { string_value: "v" } } }
				total_successful_requests: 3 total_requests_in_progress: 4 total_error_requests: 9 total_issued_requests: 12
				load_metric_stats { metric_name: "m" num_requests_finished_with_metric: 3 total_metric_value: 6 }
			}
		}`)
	expect(t, "two clients", s.Take(begin.Add(10*time.Second)), want)

	s.Leave(a)
	stands := parse(t, `
		cluster_name: "c" cluster_service_name: "s" load_report_interval { seconds: 5 }
		upstream_locality_stats {
			locality { region: "r" zone: "z" } priority: 1 total_requests_in_progress: 2 total_active_connections: 5
			upstream_endpoint_stats {
				address { socket_address { address: "10.0.0.1" port_value: 80 } } total_requests_in_progress: 2
				metadata { fields { key: "k" value { string_value: "v" } } }
			}
		}`)
	expect(t, "one has left, and the other said nothing new", s.Take(begin.Add(15*time.Second)), stands)
	s.Add(b, Report{})
	s.Take(begin)
	if got := s.Take(begin); len(got) != 0 || s.size != 0 {
		t.Errorf("nothing is left, and it is told %v, and %d things are kept", got, s.size)
	}
}

func expect(t *testing.T, when string, got []*endpointv3.ClusterStats, want ...*endpointv3.ClusterStats) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d clusters are told, want %d: %v", when, len(got), len(want), got)
	}
	for i := range want {
		if !proto.Equal(got[i], want[i]) {
			t.Errorf("%s: it is told\n%s\nwant\n%s", when, prototext.Format(got[i]), prototext.Format(want[i]))
		}
	}
}

// TestSumsAtRandom: whatever clients report, leave and come again, and however often it is taken,
// or taken and given back, what is told of requests is what was reported, and nothing stands when
// all have left.
func TestSumsAtRandom(t *testing.T) {
	rng := seed.Rand(t)
	now := time.Unix(0, 0)
	s := New(now)
	clients := make([]*Reporter, 5)
	var reported, told uint64
	for range 5000 {
		now = now.Add(time.Second)
		i := rng.IntN(len(clients))
		switch rng.IntN(6) {
		case 0:
			if clients[i] != nil {
				s.Leave(clients[i])
				clients[i] = nil
			}
		case 1:
			got := s.Take(now)
			if rng.IntN(3) == 0 {
				s.GiveBack(got)
			} else {
				told += Requests(got)
			}
		default:
			if clients[i] == nil {
				clients[i] = &Reporter{}
			}
			said := []*endpointv3.ClusterStats{{
				ClusterName: fmt.Sprint("c", rng.IntN(4)), TotalDroppedRequests: uint64(rng.IntN(5)),
				UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{
					Locality:            &corev3.Locality{Zone: fmt.Sprint("z", rng.IntN(3))},
					TotalIssuedRequests: uint64(rng.IntN(100)), TotalRequestsInProgress: uint64(rng.IntN(3)),
				}},
				LoadReportInterval: durationpb.New(time.Second),
			}}
			reported += Requests(said)
			s.Add(clients[i], report(t, said...))
		}
	}
	told += Requests(s.Take(now))
	if told != reported {
		t.Errorf("%d requests were reported, and %d told", reported, told)
	}
	for _, c := range clients {
		if c != nil {
			s.Leave(c)
		}
	}
	s.Take(now)
	if got := s.Take(now); len(got) != 0 || s.size != 0 {
		t.Errorf("all have left, and it is told %v, and %d things are kept", got, s.size)
	}
}

// TestSumsHaveAnEnd: clusters that clients make up take a bounded place, and what is lost is said.
func TestSumsHaveAnEnd(t *testing.T) {
	s, r := New(time.Unix(0, 0)), &Reporter{}
	var lost uint64
	for i := range Most + 10 {
		lost += s.Add(r, report(t, &endpointv3.ClusterStats{ClusterName: fmt.Sprint(i), TotalDroppedRequests: 2}))
	}
	if lost != 20 || len(s.clusters) != Most {
		t.Errorf("%d requests are said to be lost, want 20; %d clusters are kept, want %d", lost, len(s.clusters), Most)
	}
	taken := s.Take(time.Unix(0, 0))
	if s.Add(r, report(t, &endpointv3.ClusterStats{ClusterName: "a", TotalDroppedRequests: 2})) != 0 {
		t.Error("there is no room again")
	}
	if lost := s.GiveBack(taken); lost != 2 {
		t.Errorf("of what is given back %d requests are said to be lost, want 2", lost)
	}
}

// Clients choose names, and how long they are: a hundred clusters with names of 8 MiB were kept.
func TestLongNamesAreBounded(t *testing.T) {
	s := New(time.Now())
	for i := range 200 {
		name := strings.Repeat("n", 1<<20) + strconv.Itoa(i)
		s.Add(nil, report(t,
			&endpointv3.ClusterStats{ClusterName: name},
			&endpointv3.ClusterStats{ClusterName: "a", DroppedRequests: []*endpointv3.ClusterStats_DroppedRequests{{Category: name}}},
			&endpointv3.ClusterStats{ClusterName: "a", UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{
				{Locality: &corev3.Locality{Region: name}},
				{LoadMetricStats: []*endpointv3.EndpointLoadMetricStats{{MetricName: name}}},
				{UpstreamEndpointStats: []*endpointv3.UpstreamEndpointStats{{TotalIssuedRequests: 1, Metadata: &structpb.Struct{
					Fields: map[string]*structpb.Value{name: structpb.NewNumberValue(1)},
				}}}},
			}},
		))
	}
	report := s.Take(time.Now())
	if size := proto.Size(&loadstats.LoadStatsRequest{ClusterStats: report}); size > Most*nameUnit {
		t.Errorf("%d bytes were kept", size)
	}
	if s.size < 0 || s.size > Most {
		t.Errorf("%d are counted", s.size)
	}
}
