package downstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
)

// live is a server on a network, over a table driven by hand whose time is the clock's.
type live struct {
	*rig
	server *Server
	net    *relaytest.Net
}

func newLive(t *testing.T, n *relaytest.Net, change func(*Config, *ListenerConfig)) *live {
	t.Helper()
	return newLiveOf(t, n, newRig(t), change)
}

func newLiveOf(t *testing.T, n *relaytest.Net, r *rig, change func(*Config, *ListenerConfig)) *live {
	t.Helper()
	lc := ListenerConfig{Origin: r.origin}
	cfg := Config{Table: r.table, Instance: "here"}
	if change != nil {
		change(&cfg, &lc)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := n.Listen()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, lc) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil && !errors.Is(err, errStopped) { // a short test ends before Serve begins
			t.Errorf("serve: %v", err)
		}
	})
	return &live{rig: r, server: s, net: n}
}

// open is a client with an open stream.
func (l *live) open(t *testing.T, cfg relaytest.ClientConfig, opts ...grpc.DialOption) *relaytest.Client {
	t.Helper()
	c := relaytest.NewClient(t, l.net.Connect(t, opts...), cfg)
	c.Open(relaytest.Node("envoy-1", "edge"))
	return c
}

// say has the origin answer now. Whatever was asked has reached the table by then: see asked.
func (l *live) say(typeURL string, words ...string) {
	l.now = time.Now()
	l.says(typeURL, words...)
}

// settle lets the set of a type be complete.
func (l *live) settle() {
	l.now = time.Now().Add(time.Minute)
	l.table.Advance(l.now)
}

// asked waits until n names and wildcards are subscribed.
func (l *live) asked(t *testing.T, n int) {
	t.Helper()
	await(t, "the requests reach the table", func() bool {
		sum := 0
		for _, c := range l.server.Clients() {
			for _, typ := range c.Types {
				sum += typ.Names
				if typ.Wildcard {
					sum++
				}
			}
		}
		return sum == n
	})
}

// patience is the end of hope, not a delay: on a busy machine under the race detector, requests of
// many megabytes take a while.
const patience = 30 * time.Second

// await looks until done, for things that nothing announces.
func await(t *testing.T, sentence string, done func() bool) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-timeout.C:
			t.Fatalf("not in time: %s", sentence)
		}
	}
}

// TestConversation: one client, one resource, one change, over each kind of network and in both
// dialects.
func TestConversation(t *testing.T) {
	serverTLS, clientTLS := certificates(t)
	for _, row := range []struct {
		name string
		net  func(t *testing.T) *relaytest.Net
		tls  bool
	}{
		{"tcp", func(*testing.T) *relaytest.Net { return relaytest.TCP() }, false},
		{"unix", func(t *testing.T) *relaytest.Net { return relaytest.Unix(filepath.Join(t.TempDir(), "s")) }, false},
		{"tls", func(*testing.T) *relaytest.Net { return relaytest.TCP() }, true},
	} {
		for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			t.Run(row.name+" "+string(dialect), func(t *testing.T) {
				var opts []grpc.DialOption
				l := newLive(t, row.net(t), func(_ *Config, lc *ListenerConfig) {
					if row.tls {
						lc.TLS = serverTLS
						opts = append(opts, grpc.WithTransportCredentials(credentials.NewTLS(clientTLS)))
					}
				})
				c := l.open(t, relaytest.ClientConfig{Dialect: dialect}, opts...)
				c.Subscribe(eds, "a", "b")
				l.asked(t, 2)
				l.say(eds, "a=1", "b=1")
				c.AwaitNames(eds, "both resources arrive", "a", "b")
				l.say(eds, "a=2")
				c.Await(0, func(s *relaytest.State) bool { return strings.Contains(s.Body(eds, "a"), "2") }, "the change arrives")
				await(t, "the client is in sync", func() bool {
					all := l.server.Clients()
					return len(all) == 1 && all[0].Types[0].UnsyncedSince.IsZero() && all[0].Types[0].Responses == 2
				})
				c.CheckClean()
				c.HalfClose()
				if code := c.AwaitEnd("the stream ends with the client's half"); code != codes.OK {
					t.Errorf("it ends with %v (STREAM-8)", code)
				}
				await(t, "the stream is gone", func() bool { return len(l.server.Clients()) == 0 })
			})
		}
	}
}

// TestVanishedClient: a stream that is cut off is let go of within a second (STREAM-8).
func TestVanishedClient(t *testing.T) {
	l := newLive(t, relaytest.TCP(), nil)
	c := l.open(t, relaytest.ClientConfig{})
	c.Subscribe(eds, "a")
	l.asked(t, 1)
	start := time.Now()
	c.Cancel()
	await(t, "the stream is gone", func() bool { return len(l.server.Clients()) == 0 })
	// through real sockets, on a machine that may be loaded
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("that took %v", d)
	}
}

// TestSilentPeerIsFound: a client behind a dead router is gone in under a minute, whether it has
// all it is owed or more is being written to it than anybody takes (ERR-12).
func TestSilentPeerIsFound(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLive(t, relaytest.Memory(), nil)
			c := l.open(t, relaytest.ClientConfig{})
			c.Subscribe(eds, "a")
			l.asked(t, 1)
			l.say(eds, "a=1")
			c.Expect(eds, "the resource")
			synctest.Wait()
			l.net.Blackhole(true)
			for i := range 59 {
				if busy {
					l.say(eds, "a="+string(rune('0'+i))+strings.Repeat("x", 1<<20))
				}
				time.Sleep(time.Second)
			}
			synctest.Wait()
			if n := len(l.server.Clients()); n != 0 {
				t.Errorf("%d streams are open", n)
			}
		})
	}
}

// TestQuietDay: a client with nothing to hear and nothing to say keeps its stream, whether it has
// answered or not.
func TestQuietDay(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLive(t, relaytest.Memory(), nil)
			c := l.open(t, relaytest.ClientConfig{ManualACK: silent})
			c.Subscribe(eds, "a")
			l.asked(t, 1)
			l.say(eds, "a=1")
			c.Expect(eds, "the resource")
			c.WantIdle(24 * time.Hour)
			l.say(eds, "a=2")
			c.Expect(eds, "the change on the next day")
			c.CheckClean()
		})
	}
}

// TestEndsBlockedStream: a client that never reads blocks the writer in the transport, and the
// reader waits for a request that does not come. The watchdog ends the stream all the same (ERR-9),
// and the client finds out why when it reads at last.
func TestEndsBlockedStream(t *testing.T) {
	reg := prometheus.NewRegistry()
	l := newLive(t, relaytest.TCP(), func(c *Config, _ *ListenerConfig) {
		c.Metrics = metrics.New(reg)
		c.Timing.SendStall, c.Timing.OrderHold = time.Second, time.Millisecond
	})
	c := l.open(t, relaytest.ClientConfig{NeverRead: true})
	c.Subscribe(eds, "a")
	l.asked(t, 1)
	body := strings.Repeat("x", 1<<20)
	l.say(eds, "a=1"+body)
	await(t, "the first is written", func() bool {
		clients := l.server.Clients()
		// none: it has stalled already
		return len(clients) == 0 || clients[0].Types[0].Responses == 1
	})
	l.say(eds, "a=2"+body)
	await(t, "the stream is gone", func() bool { return len(l.server.Clients()) == 0 })
	c.Read()
	if code := c.AwaitEnd("the client reads at last"); code != codes.Unavailable || !strings.Contains(c.Err().Error(), "send_stall") {
		t.Errorf("the stream ended with %v", c.Err())
	}
	want := "weir_downstream_stalled_total"
	if n := counted(t, reg, want, "send_stall"); n != 1 {
		t.Errorf("%s is %v", want, n)
	}
}

// counted is the value of a counter with one label, or, for "", with none.
func counted(t *testing.T, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			if label == "" || m.Label[0].GetValue() == label {
				return m.Counter.GetValue()
			}
		}
	}
	return 0
}

// TestSlowClientDelaysNobody: one client does not read; the other is served meanwhile (ORD-6,
// RELAY-85).
func TestSlowClientDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), nil)
		slow, quick := l.open(t, relaytest.ClientConfig{NeverRead: true}), l.open(t, relaytest.ClientConfig{})
		slow.Subscribe(eds, "a")
		quick.Subscribe(eds, "a")
		l.asked(t, 2)
		body := strings.Repeat("x", 1<<20)
		for i := range 10 {
			l.say(eds, "a="+string(rune('0'+i))+body)
			quick.Expect(eds, "the change arrives")
			time.Sleep(6 * time.Second)
		}
		all := l.server.Clients()
		if n := min(all[0].Types[0].Responses, all[1].Types[0].Responses); n > 2 {
			t.Errorf("%d responses are in flight to a client that does not read", n)
		}
		slow.Read()
		slow.Await(0, func(s *relaytest.State) bool { return strings.Contains(s.Body(eds, "a"), "9x") }, "it catches up with the last")
		if n := len(slow.Responses(eds)); n > 3 {
			t.Errorf("%d responses came, want what was in flight and the last state", n)
		}
	})
}

// TestStreamLimit: streams beyond the limit are refused by its name, and room is made by one that
// ends (ERR-7).
func TestStreamLimit(t *testing.T) {
	reg := prometheus.NewRegistry()
	l := newLive(t, relaytest.TCP(), func(c *Config, _ *ListenerConfig) {
		c.Limits.Streams = 1
		c.Metrics = metrics.New(reg)
	})
	first := l.open(t, relaytest.ClientConfig{})
	first.Subscribe(eds, "a")
	l.asked(t, 1)
	second := l.open(t, relaytest.ClientConfig{})
	if code := second.AwaitEnd("one too many"); code != codes.ResourceExhausted || !strings.Contains(second.Err().Error(), "limits.streams") {
		t.Errorf("refused with %v", second.Err())
	}
	if n := counted(t, reg, "weir_limit_rejections_total", "streams"); n != 1 {
		t.Errorf("%v refusals are counted", n)
	}
	first.Cancel()
	await(t, "the first is gone", func() bool { return len(l.server.Clients()) == 0 })
	second.Open(relaytest.Node("envoy-2", "edge"))
	second.Subscribe(eds, "a")
	l.asked(t, 1)
}

// TestRequestLimit: a request that is too large ends its stream, by the name of the limit
// (TRANS-10, ERR-7).
func TestRequestLimit(t *testing.T) {
	reg := prometheus.NewRegistry()
	l := newLive(t, relaytest.TCP(), func(c *Config, _ *ListenerConfig) {
		c.Limits.RequestBytes = 1000
		c.Metrics = metrics.New(reg)
	})
	c := l.open(t, relaytest.ClientConfig{})
	c.Subscribe(eds, strings.Repeat("x", 1000))
	if code := c.AwaitEnd("too large"); code != codes.ResourceExhausted || !strings.Contains(c.Err().Error(), "limits.request_bytes") {
		t.Errorf("ended with %v", c.Err())
	}
	c.Open(nil)
	// grpc refuses it without reading it, and in its own words
	c.Subscribe(eds, strings.Repeat("x", 3000))
	if code := c.AwaitEnd("far too large"); code != codes.ResourceExhausted {
		t.Errorf("ended with %v", c.Err())
	}
	await(t, "both are counted", func() bool { return counted(t, reg, "weir_limit_rejections_total", "request_bytes") == 2 })
}

// TestLargeRequest: the first request of a large client is taken (TRANS-10).
func TestLargeRequest(t *testing.T) {
	l := newLive(t, relaytest.TCP(), nil)
	c := l.open(t, relaytest.ClientConfig{})
	held := map[string]string{}
	for i := range 17 {
		held[strings.Repeat(string(rune('a'+i)), 60_000)] = strings.Repeat("v", 1<<20)
	}
	c.SubscribeWith(eds, held, slices.Collect(func(yield func(string) bool) {
		for name := range held {
			if !yield(name) {
				return
			}
		}
	})...)
	l.asked(t, 17)
}

// TestSaysHowItStands: Clients and Picture show what the stream has.
func TestSaysHowItStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), nil)
		began := time.Now()
		delta := l.open(t, relaytest.ClientConfig{ManualACK: true})
		delta.Subscribe(eds, "a", "b")
		l.asked(t, 2)
		sotw := l.open(t, relaytest.ClientConfig{Dialect: relaytest.SotW})
		sotw.Subscribe(cds)
		l.asked(t, 3)
		l.say(eds, "a=1")
		delta.Expect(eds, "the resource")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		all := l.server.Clients()
		if len(all) != 2 || all[0].Stream >= all[1].Stream || all[0].Peer == "" || all[0].NodeID != "envoy-1" || all[0].NodeCluster != "edge" {
			t.Fatalf("%+v", all)
		}
		if d := all[0].Types[0]; all[0].Dialect != "delta" || d.Names != 2 || d.InFlightSince.Sub(began) > time.Second {
			t.Errorf("%+v", all[0])
		}
		if s := all[1].Types[0]; all[1].Dialect != "sotw" || !s.Wildcard || s.Names != 0 {
			t.Errorf("%+v", all[1])
		}
		var p metrics.Picture
		l.server.Picture(time.Now(), &p)
		if endpoints, want := p.Ages[metrics.AgeKey{Origin: "mesh", Type: "eds"}], (metrics.Ages{1, 1}); endpoints == nil || *endpoints != want {
			t.Errorf("who lacks endpoints: %v, want %v", endpoints, want)
		}
		if p.Unsynced != 2 || p.Lag < 3*time.Second || p.Lag > 4*time.Second || len(p.Dialects) != 2 {
			t.Errorf("%+v", p)
		}
		if d := p.Dialects[0]; d.Dialect != "delta" || d.Streams != 1 || d.Subscriptions[eds] != 2 {
			t.Errorf("%+v", d)
		}
		if d := p.Dialects[1]; d.Dialect != "sotw" || d.Streams != 1 || d.Subscriptions[cds] != 1 {
			t.Errorf("%+v", d)
		}
		delta.ACK(eds)
		synctest.Wait()
		p = metrics.Picture{}
		if l.server.Picture(time.Now(), &p); p.Unsynced != 1 || p.Lag < 3*time.Second {
			t.Errorf("after the ACK, with clusters that were never answered: %+v", p)
		}
		for typeName, want := range map[string]metrics.Ages{"eds": {}, "cds": {1, 1}} {
			if got := p.Ages[metrics.AgeKey{Origin: "mesh", Type: typeName}]; got == nil || *got != want {
				t.Errorf("after the ACK, who lacks %s: %v, want %v", typeName, got, want)
			}
		}
		l.settle()
		sotw.Cancel()
		delta.Cancel()
	})
}

// TestCounts: what is sent and answered is counted under its type and dialect.
func TestCounts(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := metrics.New(reg)
	r := newRigWith(t, relay.Config{Metrics: m, Origins: []relay.OriginConfig{{Name: "mesh"}}})
	l := newLiveOf(t, relaytest.TCP(), r, func(c *Config, _ *ListenerConfig) { c.Metrics = m })
	c := l.open(t, relaytest.ClientConfig{ManualACK: true})
	c.Subscribe(eds, "a")
	l.asked(t, 1)
	l.say(eds, "a=1")
	c.Expect(eds, "the resource")
	c.NACK(eds, "no")
	l.say(eds, "a=2")
	c.Expect(eds, "the change")
	c.ACK(eds)
	await(t, "the ACK arrives", func() bool { return l.server.Clients()[0].Types[0].InFlightSince.IsZero() })
	if err := testutil.GatherAndCompare(reg, strings.NewReader(""), "nothing"); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			labels := f.GetName()
			for _, l := range m.Label {
				labels += " " + l.GetValue()
			}
			switch {
			case m.Counter != nil:
				got[labels] = m.Counter.GetValue()
			case m.Histogram != nil:
				got[labels] = float64(m.Histogram.GetSampleCount())
			case m.Gauge != nil:
				got[labels] = m.Gauge.GetValue()
			}
		}
	}
	for name, want := range map[string]float64{
		"weir_downstream_responses_total delta eds": 2, "weir_downstream_nacks_total delta eds": 1,
		"weir_propagation_seconds mesh sent eds": 2, "weir_propagation_seconds mesh acked eds": 1,
		"weir_streams_opened_total delta": 1, "weir_streams_opened_total sotw": 0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	for _, name := range []string{
		"weir_downstream_bytes_total delta eds", "weir_largest_message_bytes to_client", "weir_largest_message_bytes from_client",
	} {
		if got[name] == 0 {
			t.Errorf("%s is 0", name)
		}
	}
}

// TestHealthAndReflection: both are on the listener, beside discovery; what is not served says so
// (TRANS-12).
func TestHealthAndReflection(t *testing.T) {
	l := newLive(t, relaytest.TCP(), nil)
	conn := l.net.Connect(t)
	answer, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || answer.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health says %v, %v", answer, err)
	}
	v1, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range append(slices.Clone(xds.Services), xds.ADS) {
		if err := v1.Send(&reflectionv1.ServerReflectionRequest{
			MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service.Name},
		}); err != nil {
			t.Fatal(err)
		}
		if r, err := v1.Recv(); err != nil || len(r.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("reflection v1 says %v, %v of %s", r, err, service.Name)
		}
	}
	if _, there := l.server.listeners[0].grpc.GetServiceInfo()["grpc.reflection.v1alpha.ServerReflection"]; !there {
		t.Error("reflection v1alpha is not served")
	}
	err = conn.Invoke(t.Context(), "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs",
		&healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("another service: %v (TRANS-12)", err)
	}
}

// certificates is a server certificate for any name, and what a client needs to believe it.
func certificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "weir"}, DNSNames: []string{"weir"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: pool, ServerName: "weir"}
}
