package real

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// loadSink is the load reporting service of a control plane. It asks for reports of all clusters
// and adds up what is reported.
type loadSink struct {
	loadstats.UnimplementedLoadReportingServiceServer

	mu      sync.Mutex       // guards all below
	streams int              // that were opened
	done    map[string]int64 // requests by cluster, successful or not
}

// reportEvery is the interval that the service asks for.
const reportEvery = time.Second

// StreamLoadStats takes the reports of one stream.
func (s *loadSink) StreamLoadStats(stream loadstats.LoadReportingService_StreamLoadStatsServer) error {
	for first := true; ; first = false {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.take(req.GetClusterStats(), first)
		if !first {
			continue
		}
		err = stream.Send(&loadstats.LoadStatsResponse{
			SendAllClusters: true, LoadReportingInterval: durationpb.New(reportEvery),
		})
		if err != nil {
			return err
		}
	}
}

func (s *loadSink) take(stats []*endpoint.ClusterStats, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first {
		s.streams++
	}
	for _, c := range stats {
		for _, l := range c.GetUpstreamLocalityStats() {
			s.done[c.GetClusterName()] += int64(l.GetTotalSuccessfulRequests() + l.GetTotalErrorRequests())
		}
	}
}

// requests is how many requests of a cluster were reported.
func (s *loadSink) requests(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[name]
}

// opened is how many streams of reports there were.
func (s *loadSink) opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams
}

// reporting are the clients that report loads. gRPC does where the Cluster says so, Envoy where its
// bootstrap does.
func reporting() []program {
	return []program{grpcGo, grpcJava, grpcCore, loadEnvoy{envoy{pinned("ENVOY_NEWEST"), relaytest.Delta, true}}}
}

// loadEnvoy is an Envoy that reports loads to its control plane.
type loadEnvoy struct{ envoy }

// Start runs Envoy in a folder of its own.
func (e loadEnvoy) Start(tb testing.TB, id, server string, t *tally) client {
	tb.Helper()
	b := e.bootstrap(id, server)
	api := e.api()
	api.ApiType = core.ApiConfigSource_GRPC
	b["cluster_manager"] = map[string]any{"load_stats_config": tree(api)}
	return startEnvoy(tb, e.envoy, b, t, func(c *http.Client) (string, error) { return get(c, "/") })
}

// TestLoadReports: what real clients report through weir adds up, at the control plane, to the
// requests that they made, passed through and aggregated (LRS-1 to LRS-6). Two clients report; of
// aggregated reports the control plane sees one stream.
func TestLoadReports(t *testing.T) {
	for _, mode := range []string{"pass", "aggregate"} {
		for _, p := range reporting() {
			t.Run(fmt.Sprint(mode, " ", p.Name()), func(t *testing.T) {
				t.Parallel()
				loadsAddUp(t, p, mode)
			})
		}
	}
}

func loadsAddUp(t *testing.T, p program, mode string) {
	o := snapshotDelta
	o.weir = map[string]any{"lrs": mode}
	b := newBed(t, row{program: p, origin: o})
	w := b.mesh.world()
	body := &cluster.Cluster{}
	if err := w[relaytest.ClusterType][firstCluster].UnmarshalTo(body); err != nil {
		t.Fatal(err)
	}
	body.LrsServer = &core.ConfigSource{ConfigSourceSpecifier: &core.ConfigSource_Self{Self: &core.SelfConfigSource{}}}
	patient := &route.RouteConfiguration{} // a request that is held does not fail
	if err := w[relaytest.RouteType][routes].UnmarshalTo(patient); err != nil {
		t.Fatal(err)
	}
	for _, r := range patient.VirtualHosts[0].Routes {
		r.GetRoute().Timeout = durationpb.New(0)
	}
	b.plane.Publish(w.put(relaytest.Body(body), relaytest.Body(patient)))
	b.startWeir()
	b.startClient()
	b.program.Start(t, "another", b.front.Addr(), b.tally)
	b.tally.More(t, 200, "two clients are at work")
	// Envoy counts from the moment when its stream of reports is answered.
	made, reported := b.reported()
	if reported > made {
		t.Errorf("%d requests were reported, of %d", reported, made)
	}
	b.tally.More(t, 500, "they go on")
	madeAll, reportedAll := b.reported()
	if got, want := reportedAll-reported, madeAll-made; got != want {
		t.Errorf("%d requests were reported, of %d", got, want)
	}
	want := 2
	if mode == "aggregate" {
		want = 1
	}
	if got := b.plane.loads.opened(); got != want {
		t.Errorf("the control plane had %d streams of reports, want %d", got, want)
	}
	t.Logf("%d requests, %d reported, %d streams", madeAll, reportedAll, b.plane.loads.opened())
	b.tally.Check(t)
}

// reported has the first backend hold all requests until everything that was answered before is
// reported, and tells how many that were and how many of them were reported.
func (b *bed) reported() (made, reported int64) {
	b.Helper()
	b.backends[0].hold.Lock()
	defer b.backends[0].hold.Unlock()
	read := func() (int64, int64) { return int64(b.tally.total()), b.plane.loads.requests(firstCluster) }
	for since := time.Now(); time.Since(since) < 3*reportEvery; pause() {
		if m, r := read(); m != made || r != reported {
			made, reported, since = m, r, time.Now()
		}
	}
	return made, reported
}
