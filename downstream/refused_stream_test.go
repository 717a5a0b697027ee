package downstream

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// TestResetStreamIsNotTakenIn: a stream that its client reset before its turn came to be served
// makes no session, and is counted as ended by the client.
func TestResetStreamIsNotTakenIn(t *testing.T) {
	reg := prometheus.NewRegistry()
	s, ln := newServing(t, newRig(t))
	s.cfg.Metrics = metrics.New(reg)
	ctx, reset := context.WithCancel(t.Context())
	reset()
	w := &idleWire{ctx: grpc.NewContextWithServerTransportStream(ctx, idleTransport{})}
	if err := s.serve(ln, w, &xds.ADS, true, false); status.Code(err) != codes.Canceled {
		t.Errorf("it ends with %v", err)
	}
	if n := counted(t, reg, "weir_streams_ended_total", "client"); n != 1 {
		t.Errorf("%v streams are counted as ended by their clients", n)
	}
	if _, taken := s.Full(); taken != 0 {
		t.Errorf("%d streams were taken in", taken)
	}
}
