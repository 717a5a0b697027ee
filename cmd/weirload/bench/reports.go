package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

const (
	reportStreams  = 100 // streams of load reports on one connection
	reportClusters = 5   // clusters in a client's report, with one locality each
	reporterRate   = 500 // reporters that connect per second
)

// loadSink is the yardstick of load reports: it asks for an interval, reads reports, counts and
// drops them.
type loadSink struct {
	loadstats.UnimplementedLoadReportingServiceServer
	interval time.Duration
}

// StreamLoadStats implements the service.
func (l loadSink) StreamLoadStats(wire loadstats.LoadReportingService_StreamLoadStatsServer) error {
	if err := wire.RecvMsg(dropped{}); err != nil {
		return err
	}
	answer := &loadstats.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(l.interval)}
	if err := wire.Send(answer); err != nil {
		return err
	}
	for {
		if err := wire.RecvMsg(dropped{}); err != nil {
			return err
		}
	}
}

// reports measures what a server spends on clients that report their load in the interval that it
// asks for.
func (c *comparison) reports(ctx context.Context, sc *scenario, subject string) (result, error) {
	var spent time.Duration
	var reports int64
	err := c.on(ctx, sc, subject, func(ctx context.Context, s *server) error {
		r, err := newReporters(ctx, s.xds, sc.clients, sc.interval)
		if err != nil {
			return err
		}
		defer r.end()
		if err := pass(ctx, sc.interval); err != nil { // the last client has begun to report
			return err
		}
		before, err := fleet.CPUTime(s.pids[0])
		if err != nil {
			return err
		}
		sent := r.sent.Load()
		if err := pass(ctx, sc.span); err != nil {
			return err
		}
		after, err := fleet.CPUTime(s.pids[0])
		spent, reports = after-before, r.sent.Load()-sent
		return errors.Join(err, r.failed())
	})
	if err != nil {
		return nil, err
	}
	if least := int64(float64(sc.clients) * sc.span.Seconds() / sc.interval.Seconds() / 2); reports < max(least, 1) {
		return nil, fmt.Errorf("%d reports were sent in %v, less than %d", reports, sc.span, max(least, 1))
	}
	return result{
		"cpu_percent":       100 * spent.Seconds() / sc.span.Seconds(),
		"cpu_us_per_report": float64(spent.Microseconds()) / float64(reports),
	}, nil
}

// pass waits for d. If ctx ends first, that is an error.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reporters are clients that report their load, with one goroutine each.
type reporters struct {
	interval     time.Duration // between two reports of each
	first, later []byte        // messages of each

	cancel context.CancelFunc
	conns  []*grpc.ClientConn
	all    sync.WaitGroup
	sent   atomic.Int64 // reports
	err    atomic.Pointer[error]
}

// newReporters opens n streams, and returns when each was sent the interval.
func newReporters(ctx context.Context, addr string, n int, interval time.Duration) (*reporters, error) {
	first, later, err := encodeReports(interval)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &reporters{interval: interval, first: first, later: later, cancel: cancel}
	answered := make(chan struct{}, n)
	pace := time.NewTicker(time.Second / reporterRate)
	defer pace.Stop()
	for i := range n {
		if i%reportStreams == 0 {
			conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{&world.Counter{}})))
			if err != nil {
				r.end()
				return nil, err
			}
			r.conns = append(r.conns, conn)
		}
		conn := r.conns[len(r.conns)-1]
		r.all.Go(func() { r.fail(ctx, r.report(ctx, conn, answered)) })
		<-pace.C
	}
	for range n {
		select {
		case <-answered:
		case <-time.After(time.Minute):
			err = errors.Join(r.failed(), errors.New("a stream of load reports was not answered within a minute"))
			r.end()
			return nil, err
		}
	}
	return r, nil
}

// report is one client.
func (r *reporters) report(ctx context.Context, conn *grpc.ClientConn, answered chan<- struct{}) error {
	stream, err := loadstats.NewLoadReportingServiceClient(conn).StreamLoadStats(ctx)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(mem.BufferSlice{mem.SliceBuffer(r.first)}); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	answered <- struct{}{}
	if asked := answer.GetLoadReportingInterval().AsDuration(); asked != r.interval {
		return fmt.Errorf("reports are asked for each %v, not each %v", asked, r.interval)
	}
	wait := time.NewTimer(rand.N(r.interval))
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wait.C:
		}
		wait.Reset(r.interval)
		if err := stream.SendMsg(mem.BufferSlice{mem.SliceBuffer(r.later)}); err != nil {
			return stream.RecvMsg(dropped{}) // it returns the reason
		}
		r.sent.Add(1)
	}
}

// fail keeps the first error, unless it is due to the end of ctx.
func (r *reporters) fail(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		r.err.CompareAndSwap(nil, &err)
	}
}

func (r *reporters) failed() error {
	if err := r.err.Load(); err != nil {
		return fmt.Errorf("a stream of load reports: %w", *err)
	}
	return nil
}

func (r *reporters) end() {
	r.cancel()
	for _, conn := range r.conns {
		_ = conn.Close()
	}
	r.all.Wait()
}

// encodeReports encodes a client's first and further messages, which are the same for all clients.
func encodeReports(interval time.Duration) (first, later []byte, err error) {
	hello := &loadstats.LoadStatsRequest{Node: &corev3.Node{Id: "reporter", Cluster: "reporters"}}
	report := &loadstats.LoadStatsRequest{}
	for i := range reportClusters {
		report.ClusterStats = append(report.ClusterStats, &endpointv3.ClusterStats{
			ClusterName: fmt.Sprintf("cluster-%d", i), ClusterServiceName: fmt.Sprintf("service-%d", i),
			LoadReportInterval: durationpb.New(interval),
			UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{
				Locality:                &corev3.Locality{Region: "region", Zone: "zone", SubZone: "sub-zone"},
				TotalSuccessfulRequests: 900, TotalErrorRequests: 100, TotalRequestsInProgress: 10, TotalIssuedRequests: 1000,
			}},
		})
	}
	first, err = proto.Marshal(hello)
	if err != nil {
		return nil, nil, err
	}
	later, err = proto.Marshal(report)
	return first, later, err
}
