package downstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestStreamsEndWithTheCertificate: streams of clients with certificates end at random times in the
// last tenth of the certificate's life, those of load reports too, with a status by which they come
// again; the reason is counted and logged. What is opened then on the same connection is refused,
// and the connection closed, so that the client shows what it has next on another one.
func TestStreamsEndWithTheCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ours, theirs := certificates(t) // from an hour ago to an hour from now
		ours.ClientAuth, ours.ClientCAs = tls.RequireAndVerifyClientCert, theirs.RootCAs
		theirs.Certificates = ours.Certificates
		reg := prometheus.NewRegistry()
		core, logs := observer.New(zap.InfoLevel)
		l := newLive(t, relaytest.Memory(), func(c *Config, lc *ListenerConfig) {
			c.Metrics, c.Log, lc.TLS = metrics.New(reg), zap.New(core), ours
			c.LoadReports = silentLoads
		})
		dial := func() *grpc.ClientConn {
			return l.net.Connect(t, grpc.WithTransportCredentials(credentials.NewTLS(theirs)))
		}
		const many = 40
		clients, conns := make([]*relaytest.Client, many), make([]*grpc.ClientConn, many)
		for i := range clients {
			conns[i] = dial()
			clients[i] = relaytest.NewClient(t, conns[i], relaytest.ClientConfig{Patience: 3 * time.Hour})
			clients[i].Open(relaytest.Node("envoy-1", "edge"))
			clients[i].Subscribe(eds, "a")
		}
		loads := relaytest.NewClient(t, conns[0], relaytest.ClientConfig{Method: relaytest.LoadMethod, Patience: 3 * time.Hour})
		loads.Open(nil)
		loads.SendRaw(nil)
		l.asked(t, many)
		l.say(eds, "a=1")
		for _, c := range clients {
			c.Expect(eds, "the resource")
		}
		time.Sleep(time.Until(begin.Add(48*time.Minute - time.Second)))
		if n := len(l.server.Clients()); n != many || loads.Err() != nil {
			t.Fatalf("%d streams before the last tenth, want %d; load reports: %v", n, many, loads.Err())
		}
		refused := make(chan string, 1)
		go func() {
			clients[0].AwaitEnd("the stream ends")
			again := relaytest.NewClient(t, conns[0], relaytest.ClientConfig{Patience: time.Minute})
			again.Open(relaytest.Node("envoy-1", "edge"))
			again.AwaitEnd("on the same connection")
			refused <- again.Err().Error()
		}()
		var ends []time.Duration
		for open := many; open > 0; open = len(l.server.Clients()) {
			time.Sleep(time.Second)
			for range open - len(l.server.Clients()) {
				ends = append(ends, time.Since(begin))
			}
			if time.Since(begin) > time.Hour+10*time.Second { // virtual time has no other end
				t.Fatalf("%d streams outlive the certificate", open)
			}
		}
		if last := ends[len(ends)-1]; last > time.Hour+2*time.Second {
			t.Errorf("the last stream ended after %v", last)
		}
		if spread := ends[many*3/4] - ends[many/4]; spread < 2*time.Minute {
			t.Errorf("half of the streams end within %v of one another", spread)
		}
		for _, c := range append(slices.Clone(clients), loads) {
			if code := c.AwaitEnd("the stream ends"); code != codes.Unavailable {
				t.Errorf("it ends with %v", c.Err())
			}
		}
		if n := counted(t, reg, "weir_streams_ended_total", "certificate"); n != many+2 {
			t.Errorf("%v ends are counted, want %d", n, many+2)
		}
		if why := <-refused; !strings.Contains(why, "the certificate that opened the connection ends") {
			t.Errorf("a stream on the old connection: %s", why)
		}
		line := logs.FilterField(zap.String("reason", "certificate")).All()
		if len(line) == 0 || line[0].ContextMap()["identity"] != "dns:weir" {
			t.Errorf("the log has %v", line)
		}
		synctest.Wait()
		time.Sleep(2 * turnAway)
		for i, conn := range conns {
			if conn.GetState() == connectivity.Ready {
				t.Errorf("connection %d is still there", i)
			}
		}
	})
}

// silentLoads is an origin that takes load reports and says nothing.
func silentLoads(ctx context.Context, _ *relay.Origin, _ []string, _ string, _ []byte) (LoadStream, error) {
	return &originLoads{ctx, make(chan error, 1)}, nil
}

// TestTrustEnd: the chain that is good for longest counts, and of it what ends first.
func TestTrustEnd(t *testing.T) {
	now := time.Unix(1e9, 0)
	cert := func(from, to time.Duration) *x509.Certificate {
		return &x509.Certificate{NotBefore: now.Add(from), NotAfter: now.Add(to)}
	}
	leaf, ca, short := cert(-time.Hour, 9*time.Hour), cert(-time.Hour, 99*time.Hour), cert(-time.Hour, 5*time.Hour)
	for name, row := range map[string]struct {
		chains      [][]*x509.Certificate
		first, last time.Duration // when it may be
	}{
		"one":               {[][]*x509.Certificate{{leaf, ca}}, 8 * time.Hour, 9 * time.Hour},
		"authority is old":  {[][]*x509.Certificate{{leaf, short}}, 4 * time.Hour, 5 * time.Hour},
		"two chains":        {[][]*x509.Certificate{{leaf, short}, {leaf, ca}}, 8 * time.Hour, 9 * time.Hour},
		"in its last tenth": {[][]*x509.Certificate{{cert(-95*time.Minute, 5*time.Minute), ca}}, 270 * time.Second, 5 * time.Minute},
		"has ended":         {[][]*x509.Certificate{{cert(-2*time.Hour, -time.Second), ca}}, -time.Second, -time.Second},
	} {
		first, last := 1000*time.Hour, -1000*time.Hour
		for range 1000 {
			d := trustEnd(now, credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: row.chains}}).Sub(now)
			first, last = min(first, d), max(last, d)
		}
		if window := row.last - row.first; first < row.first || last > row.last || last-first < window*9/10 {
			t.Errorf("%s: from %v to %v, want %v to %v", name, first, last, row.first, row.last)
		}
	}
	for _, info := range []credentials.AuthInfo{nil, credentials.TLSInfo{}} {
		if at := trustEnd(now, info); !at.IsZero() {
			t.Errorf("without a certificate it ends at %v", at)
		}
	}
}

// TestNothingMoreOnAnOldConnection: whatever comes on a connection whose certificate has ended is
// refused before it counts: a stream, a poll, or load reports.
func TestNothingMoreOnAnOldConnection(t *testing.T) {
	r := newRig(t)
	s, err := New(Config{Table: r.table, Instance: "here"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		until time.Time
		want  error
	}{{time.Now().Add(-time.Second), errExpired}, {time.Now().Add(time.Hour), nil}, {time.Time{}, nil}} {
		c := &connection{until: row.until}
		st := &stream{conn: c, session: newSession(r.set, true, time.Now(), nil)}
		if err := s.enter(st); !errors.Is(err, row.want) || c.streams > 0 != (row.want == nil) {
			t.Errorf("a stream: %v, want %v; %d streams", err, row.want, c.streams)
		}
		if err := s.enterLoads(&loadStream{conn: c}); !errors.Is(err, row.want) {
			t.Errorf("load reports: %v, want %v", err, row.want)
		}
	}
	if err := s.enter(&stream{session: newSession(r.set, true, time.Now(), nil)}); err != nil {
		t.Errorf("without a connection: %v", err)
	}
}
