package downstream

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
)

// limited is a server with limits, in virtual time, and what it counts and logs.
type limited struct {
	*live
	reg  *prometheus.Registry
	logs *observer.ObservedLogs
}

func newLimited(t *testing.T, change func(*Limits)) *limited {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	l := &limited{reg: prometheus.NewRegistry(), logs: logs}
	l.live = newLive(t, relaytest.Memory(), func(c *Config, _ *ListenerConfig) {
		change(&c.Limits)
		c.Metrics, c.Log = metrics.New(l.reg), zap.New(core)
	})
	return l
}

// refuses looks at the end of a stream that a limit refused: words that name it, one metric, and
// one line a minute.
func (l *limited) refuses(t *testing.T, c *relaytest.Client, key string, n int) {
	t.Helper()
	code := c.AwaitEnd("refused by limits." + key)
	if words := fmt.Sprintf("limits.%s %d is reached: ", key, n); code != codes.ResourceExhausted || !strings.Contains(c.Err().Error(), words) {
		t.Errorf("refused with %v, want %q", c.Err(), words)
	}
	synctest.Wait()
	if counted(t, l.reg, "weir_limit_rejections_total", key) == 0 {
		t.Errorf("limits.%s counts nothing", key)
	}
	if lines := l.logs.FilterField(zap.String("limit", key)).Len(); lines != 1 {
		t.Errorf("limits.%s takes %d lines", key, lines)
	}
}

// TestRefusedClientsAreLetGo: a client that is refused comes again over the connection it has. One
// with only refused streams is closed in a moment, so that a load balancer chooses anew; one with a
// stream that is served is not (ERR-7).
func TestRefusedClientsAreLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, func(l *Limits) { l.Streams = 1 })
		served := l.open(t, relaytest.ClientConfig{})
		served.Subscribe(eds, "a")
		l.asked(t, 1)
		conn := l.net.Connect(t)
		before := l.net.Accepted()
		var lived time.Duration
		for start := time.Now(); l.net.Accepted() < before+2; time.Sleep(100 * time.Millisecond) {
			c := relaytest.NewClient(t, conn, relaytest.ClientConfig{})
			c.Open(relaytest.Node("envoy-2", "edge"))
			c.AwaitEnd("it is refused")
			if status.Code(c.Err()) == codes.ResourceExhausted {
				l.refuses(t, c, "streams", 1)
			}
			if lived = time.Since(start); lived > time.Minute {
				t.Fatal("it comes again for ever over the same connection")
			}
		}
		if lived < turnAway {
			t.Errorf("the connection was closed after %v, want %v to read why", lived, turnAway)
		}
		served.WantIdle(0)
		if n := len(l.server.Clients()); n != 1 {
			t.Errorf("%d streams are left, want the one that is served", n)
		}
		// On the connection of a stream that is served another is refused, and the connection
		// stays.
		half := relaytest.NewClient(t, l.net.Connect(t), relaytest.ClientConfig{})
		half.Open(nil)
		half.AwaitEnd("it is refused")
		served.Cancel()
		synctest.Wait()
		half.Open(nil)
		half.Subscribe(eds, "b")
		l.asked(t, 1)
		time.Sleep(5 * time.Second)
		half.WantIdle(0)
		if n := len(l.server.Clients()); n != 1 {
			t.Errorf("%d streams: a connection with a stream was closed", n)
		}
	})
}

// TestStreamLimitServesWholeClients: a client with a stream for each type is served whole or
// refused whole. An eighth more than limits.streams is for connections that have a stream.
func TestStreamLimitServesWholeClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, func(l *Limits) { l.Streams = 8 })
		conn := l.net.Connect(t)
		for range 9 {
			c := relaytest.NewClient(t, conn, relaytest.ClientConfig{})
			c.Open(nil)
			synctest.Wait()
		}
		if n := len(l.server.Clients()); n != 9 {
			t.Errorf("%d streams are served, want 8 and one of a connection that has some", n)
		}
		for _, c := range []*relaytest.Client{l.open(t, relaytest.ClientConfig{}), relaytest.NewClient(t, conn, relaytest.ClientConfig{})} {
			if c.Err() == nil {
				c.Open(nil)
			}
			l.refuses(t, c, "streams", 8)
		}
	})
}

// TestArrivals: streams that come too fast wait for their turn, and are refused beyond two seconds
// of them; who comes again is served.
func TestArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, func(l *Limits) { l.NewStreamsPerSecond = 10 })
		conn, start := l.net.Connect(t), time.Now()
		var clients []*relaytest.Client
		for range 60 {
			c := relaytest.NewClient(t, conn, relaytest.ClientConfig{Dialect: relaytest.Delta})
			c.Open(relaytest.Node("envoy", "edge"))
			c.Subscribe(eds, "a")
			clients = append(clients, c)
			synctest.Wait()
		}
		served := func() (n int) {
			synctest.Wait()
			for _, c := range l.server.Clients() {
				n += len(c.Types)
			}
			return n
		}
		if n := served(); n != 10 {
			t.Errorf("%d are served at once, want those of one second", n)
		}
		refused := 0
		for _, c := range clients {
			if c.Err() != nil {
				l.refuses(t, c, "new_streams_per_second", 10)
				refused++
			}
		}
		if refused != 30 {
			t.Errorf("%d of 60 are refused, want all but 10 and what waits up to two seconds", refused)
		}
		time.Sleep(time.Second)
		if n := served(); n != 20 {
			t.Errorf("%d are served after a second, want 20", n)
		}
		for time.Since(start) < time.Minute && served() < 60 {
			time.Sleep(500 * time.Millisecond)
			for _, c := range clients {
				if c.Err() != nil {
					c.Open(relaytest.Node("envoy", "edge"))
					c.Subscribe(eds, "a")
				}
			}
		}
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("it took %v until all were served, want five seconds and a little", took)
		}
		if n := l.net.Accepted(); n != 1 {
			t.Errorf("there were %d connections: who only has to wait is not sent away", n)
		}
	})
}

// TestArrivalsEnd: a stream that waits for its turn ends with the server, or with its client.
func TestArrivalsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, func(l *Limits) { l.NewStreamsPerSecond = 1 })
		_, waits, leaves := l.open(t, relaytest.ClientConfig{}), l.open(t, relaytest.ClientConfig{}), l.open(t, relaytest.ClientConfig{})
		synctest.Wait()
		if n := len(l.server.Clients()); n != 3 {
			t.Fatalf("%d streams, want one and two that wait", n)
		}
		leaves.Cancel()
		synctest.Wait()
		if n := len(l.server.Clients()); n != 2 {
			t.Errorf("%d streams: who left still waits", n)
		}
		start := time.Now()
		l.server.Stop()
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("the stop took %v", took)
		}
		if code := waits.AwaitEnd("the stop"); code != codes.Unavailable {
			t.Errorf("who waited is told %v", waits.Err())
		}
	})
}

// TestIdentities: streams are counted by what the client's certificate says, and the others are not
// counted.
func TestIdentities(t *testing.T) {
	r := newRig(t)
	s, err := New(Config{Table: r.table, Instance: "here", Limits: Limits{StreamsPerIdentity: 2}})
	if err != nil {
		t.Fatal(err)
	}
	set := newSettings(s.cfg, ListenerConfig{Origin: r.origin})
	enter := func(who string) (*stream, error) {
		st := &stream{session: newSession(set, false, zero, relay.NewSubscriber())}
		st.session.from.identity = who
		return st, s.enter(st)
	}
	var last *stream
	for range 2 {
		for _, who := range []string{"a", "b", "", ""} {
			if last, err = enter(who); err != nil {
				t.Errorf("%q: %v", who, err)
			}
		}
		last.session.from.identity = ""
	}
	first, err := enter("a")
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "limits.streams_per_identity 2 is reached") {
		t.Errorf("the third: %v", err)
	}
	_ = first
	for st := range s.streams {
		if st.session.from.identity == "a" {
			s.leave(st)
			break
		}
	}
	if _, err := enter("a"); err != nil {
		t.Errorf("after one left: %v", err)
	}
	for st := range s.streams {
		s.leave(st)
	}
	if len(s.crowd) != 0 {
		t.Errorf("%v is left of them", s.crowd)
	}
}

func requestOf(typeURL string, nack bool) *discoveryv3.DiscoveryRequest {
	r := &discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: []string{"a"}}
	if nack {
		r.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: "no"}
	}
	return r
}

// TestFastClientIsReadSlowly: requests beyond the rate wait to be read, on that stream alone, and
// the stream does not end; ACKs of a relay, ten thousand a second, are no such rate (ERR-7).
func TestFastClientIsReadSlowly(t *testing.T) {
	for _, row := range []struct {
		key   string
		nacks bool
		rate  int
		takes time.Duration // for 1,000 requests
	}{
		{"requests_per_second", false, 200, 4 * time.Second},
		{"nacks_per_second", true, 125, 7 * time.Second},
		{"", false, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimited(t, func(l *Limits) {
				switch row.key {
				case "requests_per_second":
					l.RequestsPerSecond = row.rate
				case "nacks_per_second":
					l.NACKsPerSecond = row.rate
				}
			})
			conn := l.net.Connect(t)
			fast := relaytest.NewClient(t, conn, relaytest.ClientConfig{Dialect: relaytest.SotW})
			fast.Open(relaytest.Node("envoy-1", "edge"))
			start, sent := time.Now(), atomic.Bool{}
			count := 1000
			if row.key == "" {
				count = 10_000
			}
			go func() {
				for range count - 1 {
					fast.Send(requestOf(eds, row.nacks))
				}
				fast.Send(requestOf(cds, row.nacks))
				sent.Store(true)
			}()
			other := relaytest.NewClient(t, conn, relaytest.ClientConfig{Dialect: relaytest.SotW})
			time.Sleep(2 * time.Second)
			other.Open(relaytest.Node("envoy-2", "edge"))
			other.Subscribe(eds, "c")
			synctest.Wait()
			if n := len(l.server.Clients()); n != 2 || len(l.server.Clients()[1].Types) != 1 {
				t.Errorf("%d streams: another on the same connection is not served at once", n)
			}
			for len(l.server.Clients()[0].Types) < 2 {
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				if time.Since(start) > time.Minute {
					t.Fatal("the last request was never read")
				}
			}
			if took := time.Since(start).Truncate(time.Second); row.key != "" && took != row.takes || row.key == "" && took > 2*time.Second {
				t.Errorf("%s: %d requests took %v, want %v", row.key, count, took, row.takes)
			}
			if fast.Err() != nil || !sent.Load() {
				t.Errorf("the stream ended: %v", fast.Err())
			}
			lines := l.logs.FilterField(zap.String("limit", row.key)).Len()
			if n := counted(t, l.reg, "weir_limit_rejections_total", row.key); row.key != "" && (n == 0 || lines != 1) {
				t.Errorf("%s: %v are counted, and %d lines written", row.key, n, lines)
			}
		})
	}
}
