package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest/seed"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/upstream/loads"

	"github.com/prometheus/client_golang/prometheus"
)

// collector is an origin's part in load reports: it adds up what it is told.
type collector struct {
	interval time.Duration

	mu       sync.Mutex // guards what follows
	streams  int
	nodes    map[string]bool // of the first messages
	requests uint64
	reports  int
	open     map[int]chan error // streams that are open: what ends them
}

func (c *collector) serve(wire grpc.ServerStream) error {
	end := make(chan error, 1)
	c.mu.Lock()
	c.streams++
	id := c.streams
	c.open[id] = end
	c.mu.Unlock()
	defer func() { c.mu.Lock(); delete(c.open, id); c.mu.Unlock() }()
	over := make(chan error, 1)
	go func() { over <- c.read(wire) }()
	select {
	case err := <-end:
		return err
	case err := <-over:
		return err
	}
}

func (c *collector) read(wire grpc.ServerStream) error {
	for first := true; ; first = false {
		var b []byte
		if err := wire.RecvMsg(&b); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		r := &loadstats.LoadStatsRequest{}
		if err := proto.Unmarshal(b, r); err != nil {
			return err
		}
		c.mu.Lock()
		if first {
			c.nodes[r.GetNode().GetId()] = true
		} else {
			c.reports++
		}
		c.requests += loads.Requests(r.GetClusterStats())
		c.mu.Unlock()
		if first {
			answer := &loadstats.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(c.interval)}
			if err := wire.SendMsg(answer); err != nil {
				return err
			}
		}
	}
}

// end ends all streams.
func (c *collector) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range c.open {
		select {
		case end <- err:
		default:
		}
	}
}

func (c *collector) seen() (streams, reports int, requests uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams, c.reports, c.requests
}

func newCollector(interval time.Duration) *collector {
	return &collector{interval: interval, nodes: map[string]bool{}, open: map[int]chan error{}}
}

func loadReport(t *testing.T, node *corev3.Node, n uint64) []byte {
	t.Helper()
	r := &loadstats.LoadStatsRequest{Node: node}
	if n > 0 {
		r.ClusterStats = []*endpointv3.ClusterStats{{
			ClusterName: "a",
			UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{
				Locality: &corev3.Locality{Zone: "z"}, TotalIssuedRequests: n,
			}},
		}}
	}
	b, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// share is a client of an aggregate.
type share struct {
	*LoadShare
	leave context.CancelFunc
	err   chan error // what Recv ended with
	told  chan time.Duration
}

func (w *world) share(id string) *share {
	w.t.Helper()
	return w.shareOf("", id)
}

// shareOf is share of a client of an identity.
func (w *world) shareOf(who, id string) *share {
	w.t.Helper()
	synctest.Wait() // until Run is under way
	ctx, cancel := context.WithCancel(w.t.Context())
	first := loadReport(w.t, relaytest.Node(id, "edge"), 0)
	s, err := w.up.AggregateLoads(ctx, nil, who, first)
	if err != nil {
		w.t.Fatal(err)
	}
	sh := &share{s, cancel, make(chan error, 1), make(chan time.Duration, 100)}
	go func() {
		for {
			m, err := s.Recv()
			if err != nil {
				sh.err <- err
				return
			}
			r := &loadstats.LoadStatsResponse{}
			if err := proto.Unmarshal(m, r); err != nil {
				w.t.Error(err)
			}
			sh.told <- r.GetLoadReportingInterval().AsDuration()
		}
	}()
	if err := s.Send(first); err != nil {
		w.t.Fatal(err)
	}
	return sh
}

// TestAggregateCountsOnce: over a hundred ends of the origin's stream, and as many of clients'
// streams, the origin is told each request once, on one stream at a time, in its own interval, with
// the group's node (LRS-6).
func TestAggregateCountsOnce(t *testing.T) {
	c := newCollector(10 * time.Second)
	in(t, options{config: noJitter, origin: relaytest.OriginConfig{Loads: c.serve}}, func(w *world) {
		rng := seed.Rand(t)
		var clients []*share
		for i := range 10 {
			clients = append(clients, w.share(fmt.Sprint("client-", i)))
		}
		synctest.Wait()
		for i, s := range clients {
			if d := <-s.told; d != c.interval {
				t.Errorf("client %d is told an interval of %v, want the origin's, %v", i, d, c.interval)
			}
		}
		reported := uint64(0)
		for round := range 1000 {
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
			i := rng.IntN(len(clients))
			switch round % 10 {
			case 0:
				synctest.Wait()
				time.Sleep(2 * reportDoubt)
				synctest.Wait()
				if rng.IntN(2) == 0 {
					c.end(nil)
				} else {
					c.end(status.Error(codes.Unavailable, "restart"))
				}
			case 5:
				clients[i].leave()
				synctest.Wait()
				clients[i] = w.share(fmt.Sprint("client-", i))
			default:
				n := uint64(rng.IntN(100))
				if err := clients[i].Send(loadReport(t, nil, n)); err != nil {
					t.Fatal(err)
				}
				reported += n
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		streams, reports, requests := c.seen()
		if requests != reported {
			t.Errorf("clients reported %d requests, and the origin was told of %d", reported, requests)
		}
		if streams < 90 || streams > 110 {
			t.Errorf("the origin saw %d streams for a hundred ends", streams)
		}
		t.Logf("%d requests in %d reports on %d streams", requests, reports, streams)
		if len(c.nodes) != 1 || c.nodes["client-0"] {
			t.Errorf("the origin was told the nodes %v, want the group's", c.nodes)
		}
		for _, s := range clients {
			s.leave()
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		if len(c.open) != 0 {
			t.Error("all clients have left, and the stream is still there")
		}
	})
}

// TestAggregateByIdentity: where groups are of one identity each, so are the reports of a group.
func TestAggregateByIdentity(t *testing.T) {
	c := newCollector(time.Minute)
	grouped := func(rc *relay.Config) { rc.Origins[0].GroupBy = []string{"cluster", "identity"} }
	in(t, options{table: grouped, config: noJitter, origin: relaytest.OriginConfig{Loads: c.serve}}, func(w *world) {
		want := map[string]bool{}
		for i, who := range []string{"uid:1", "anonymous", "uid:1"} {
			g, err := w.table.Origin("mesh").GroupFor(relaytest.Node("client", "edge"), who, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Release(time.Now())
			want[g.Node().GetId()] = true
			defer w.shareOf(who, fmt.Sprint("client-", i)).leave()
		}
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(want) != 2 || !maps.Equal(c.nodes, want) {
			t.Errorf("reports of %v, want %v", c.nodes, want)
		}
	})
}

// TestAggregateTellsWhatIsLeft: when the last client leaves, and when the origin is left, the
// origin is told the rest.
func TestAggregateTellsWhatIsLeft(t *testing.T) {
	for name, end := range map[string]func(w *world, s *share){
		"the last client leaves": func(_ *world, s *share) { s.leave() },
		"the origin is left":     func(w *world, _ *share) { w.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(time.Minute)
			in(t, options{config: noJitter, origin: relaytest.OriginConfig{Loads: c.serve}}, func(w *world) {
				s := w.share("client")
				<-s.told
				if err := s.Send(loadReport(t, nil, 7)); err != nil {
					t.Fatal(err)
				}
				end(w, s)
				synctest.Wait()
				if _, _, n := c.seen(); n != 7 {
					t.Errorf("the origin was told of %d requests, want 7", n)
				}
				s.leave()
				synctest.Wait()
			})
		})
	}
}

// TestAggregateRefused: an origin that cannot be reached, and has never answered, is UNAVAILABLE;
// one without the service is UNIMPLEMENTED; a report that cannot be read ends its client's stream
// alone.
func TestAggregateRefused(t *testing.T) {
	in(t, options{config: noJitter}, func(w *world) {
		s := w.share("client")
		if err := <-s.err; status.Code(err) != codes.Unimplemented {
			t.Errorf("it ended with %v, want UNIMPLEMENTED", err)
		}
		s.leave()
		w.down()
		time.Sleep(time.Minute)
		s = w.share("client")
		if err := <-s.err; status.Code(err) != codes.Unavailable {
			t.Errorf("it ended with %v, want UNAVAILABLE", err)
		}
		s.leave()
	})
	c := newCollector(time.Second)
	in(t, options{config: noJitter, origin: relaytest.OriginConfig{Loads: c.serve}}, func(w *world) {
		bad, good := w.share("bad"), w.share("good")
		<-bad.told
		<-good.told
		if bad.Send([]byte("\xff")) == nil {
			t.Error("a report that cannot be read is taken")
		}
		if err := <-bad.err; status.Code(err) != codes.InvalidArgument {
			t.Errorf("it ended with %v, want INVALID_ARGUMENT", err)
		}
		if err := good.Send(loadReport(t, nil, 3)); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if _, _, n := c.seen(); n != 3 {
			t.Errorf("the origin was told of %d requests, want 3", n)
		}
		bad.leave()
		good.leave()
	})
}

// TestAggregateCountsWhatIsLost: a report whose stream broke just after it may not have arrived.
func TestAggregateCountsWhatIsLost(t *testing.T) {
	c := newCollector(10 * time.Second)
	reg := prometheus.NewRegistry()
	in(t, options{
		config: func(cfg *Config) { noJitter(cfg); cfg.Metrics = metrics.New(reg) },
		origin: relaytest.OriginConfig{Loads: c.serve},
	}, func(w *world) {
		s := w.share("client")
		<-s.told
		if err := s.Send(loadReport(t, nil, 7)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second + reportDoubt/2)
		w.origin.CloseConns()
		synctest.Wait()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		lost := 0.0
		for _, f := range families {
			if f.GetName() == "weir_load_requests_lost_total" {
				lost = f.GetMetric()[0].GetCounter().GetValue()
			}
		}
		if lost != 7 {
			t.Errorf("%v requests are counted as lost, want 7", lost)
		}
		s.leave()
	})
}

// TestLoadReportsKeepNothing: the bytes of a report are the caller's again when it is sent: grpc
// has not written it by then.
func TestLoadReportsKeepNothing(t *testing.T) {
	c := newCollector(time.Minute)
	in(t, options{config: noJitter, origin: relaytest.OriginConfig{Loads: c.serve}}, func(w *world) {
		s, err := w.up.LoadReports(w.t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var buffer []byte
		for range 100 {
			buffer = append(buffer[:0], loadReport(t, nil, 1)...)
			if err := s.Send(buffer); err != nil {
				t.Fatal(err)
			}
			clear(buffer)
		}
		synctest.Wait()
		if _, _, n := c.seen(); n != 100 {
			t.Errorf("the origin was told of %d requests, want 100", n)
		}
	})
}

// TestLoadReportsAwaitRun: the process listens before it speaks to origins, and a client that is
// quick is not sent away.
func TestLoadReportsAwaitRun(t *testing.T) {
	c := newCollector(time.Minute)
	in(t, options{late: true, config: noJitter, origin: relaytest.OriginConfig{Loads: c.serve}}, func(w *world) {
		opened := make(chan error, 2)
		go func() {
			_, err := w.up.LoadReports(w.t.Context(), nil)
			opened <- err
		}()
		go func() {
			_, err := w.up.AggregateLoads(w.t.Context(), nil, "", loadReport(t, relaytest.Node("client", "edge"), 1))
			opened <- err
		}()
		time.Sleep(time.Second)
		if len(opened) > 0 {
			t.Fatalf("a stream is opened before Run, or refused: %v", <-opened)
		}
		w.run()
		synctest.Wait()
		for range 2 {
			if err := <-opened; err != nil {
				t.Errorf("a client that came before Run: %v", err)
			}
		}
	})
}

// TestLoadReportsEndWithTheOrigin: an origin that is spoken to no more keeps no stream and no
// connection, and clients are told to come again.
func TestLoadReportsEndWithTheOrigin(t *testing.T) {
	c := newCollector(time.Minute)
	in(t, options{config: noJitter, origin: relaytest.OriginConfig{Loads: c.serve}}, func(w *world) {
		s, err := w.up.LoadReports(w.t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(loadReport(t, relaytest.Node("client", "edge"), 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		w.stop()
		if _, err := s.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the stream ended with %v, want UNAVAILABLE", err)
		}
		synctest.Wait()
		if len(c.open) != 0 {
			t.Error("the origin still has the stream")
		}
	})
}
