package downstream

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/node"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// originLoads is a stream of load reports at an origin that takes all there is, until the test ends
// it.
type originLoads struct {
	ctx  context.Context
	ends chan error
}

func (*originLoads) Send([]byte) error { return nil }

func (o *originLoads) CloseSend() error {
	o.ends <- io.EOF
	return nil
}

func (o *originLoads) Recv() ([]byte, error) {
	select {
	case err := <-o.ends:
		return nil, err
	case <-o.ctx.Done():
		return nil, status.FromContextError(o.ctx.Err()).Err()
	}
}

// TestEndsOfLoadReportsAreCounted: each end of a stream of load reports is counted by why, as those
// of other streams are, whoever ended it.
func TestEndsOfLoadReportsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		origins := make(chan *originLoads, 1)
		refused := error(nil)
		l := newLive(t, relaytest.Memory(), func(cfg *Config, _ *ListenerConfig) {
			cfg.Metrics = metrics.New(registry)
			cfg.Via = "here"
			cfg.Limits.RequestBytes = 100
			cfg.LoadReports = func(ctx context.Context, _ *relay.Origin, _ []string, who string, _ []byte) (LoadStream, error) {
				if who != "anonymous" {
					t.Errorf("the client is %q", who)
				}
				o := &originLoads{ctx, make(chan error, 1)}
				if refused == nil {
					origins <- o
				}
				return o, refused
			}
		})
		counted := map[string]float64{}
		want := func(reason string) {
			t.Helper()
			synctest.Wait()
			counted[reason]++
			for of, n := range counted {
				if got := testutil.ToFloat64(counter(t, registry, "weir_streams_ended_total", of)); got != n {
					t.Errorf("%v streams have ended by %q, want %v", got, of, n)
				}
			}
		}
		open := func(md metadata.MD) *relaytest.Client {
			return l.open(t, relaytest.ClientConfig{Method: relaytest.LoadMethod, Metadata: md, Patience: time.Minute})
		}
		reports := func() (*relaytest.Client, *originLoads) {
			c := open(nil)
			c.SendRaw(nil)
			return c, <-origins
		}
		ends := func(c *relaytest.Client, code codes.Code, reason string) {
			t.Helper()
			if got := c.AwaitEnd("the stream ends"); got != code {
				t.Errorf("%s: the client is told %v, want %v", reason, got, code)
			}
			want(reason)
		}

		c, _ := reports()
		c.Cancel()
		want("client")
		c, _ = reports()
		c.HalfClose()
		ends(c, codes.OK, "client")
		c = open(nil)
		c.HalfClose()
		ends(c, codes.InvalidArgument, "bad_request")
		ends(open(nil), codes.DeadlineExceeded, "first_request")
		c, o := reports()
		o.ends <- status.Error(codes.Unavailable, "the origin is away")
		ends(c, codes.Unavailable, "unavailable")
		c, _ = reports()
		c.SendRaw(make([]byte, 101))
		ends(c, codes.ResourceExhausted, "limit")
		c = open(metadata.Pairs(node.ViaKey, "here"))
		ends(c, codes.FailedPrecondition, "refused")
		refused = status.Error(codes.Unimplemented, "no reports")
		c = open(nil)
		c.SendRaw(nil)
		ends(c, codes.Unimplemented, "refused")
		refused = nil
		c, _ = reports()
		go l.server.Drain(context.Background(), time.Second)
		ends(c, codes.Unavailable, "drain")
	})
}
