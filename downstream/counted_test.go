package downstream

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/relaytest"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// TestConnectionLimits: what is beyond the limits is closed before a byte of it is read, counted by
// its limit, and there is room again when a connection ends, however it does.
func TestConnectionLimits(t *testing.T) {
	for key, limits := range map[string]Limits{
		"connections":          {Connections: 2},
		"connections_per_peer": {ConnectionsPerPeer: 2, Connections: 4},
	} {
		t.Run(key, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			l := newLive(t, relaytest.TCP(), func(cfg *Config, _ *ListenerConfig) {
				cfg.Limits, cfg.Metrics = limits, metrics.New(reg)
			})
			from := func(ip string) net.Conn {
				t.Helper()
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
				c, err := d.DialContext(t.Context(), "tcp", l.net.Addr())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				if _, err := io.WriteString(c, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
					t.Logf("%s is turned away before it has said hello: %v", ip, err)
				}
				return c
			}
			welcome := func(c net.Conn) bool {
				t.Helper()
				if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
					t.Fatal(err)
				}
				_, err := c.Read(make([]byte, 1)) // the server's settings
				return err == nil
			}
			first, second := from("127.0.0.1"), from("127.0.0.1")
			if !welcome(first) || !welcome(second) {
				t.Fatal("two connections are turned away")
			}
			if c := from("127.0.0.1"); welcome(c) {
				t.Error("a third is let in")
			}
			if other := from("127.0.0.2"); welcome(other) != (key == "connections_per_peer") {
				t.Errorf("another peer is let in: %v", key != "connections_per_peer")
			}
			want := map[string]float64{"connections": 2, "connections_per_peer": 1}[key]
			if n := counted(t, reg, "weir_limit_rejections_total", key); n != want {
				t.Errorf("%v are counted, want %v", n, want)
			}
			_ = first.Close()
			await(t, "the end of a connection is noticed", func() bool {
				l.server.conns.mu.Lock()
				defer l.server.conns.mu.Unlock()
				return l.server.conns.peers[peerOf(second.LocalAddr())] == 1
			})
			if c := from("127.0.0.1"); !welcome(c) {
				t.Error("there is room again, and nobody is let in")
			}
		})
	}
}

// TestPeers: whom a connection is counted for.
func TestPeers(t *testing.T) {
	for want, as := range map[string][]net.Addr{
		"10.0.0.1/32": {&net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 1}, &net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.1"), Port: 2}},
		"2001:db8::/64": {
			&net.TCPAddr{IP: net.ParseIP("2001:db8::1")}, &net.TCPAddr{IP: net.ParseIP("2001:db8::2")},
			&net.TCPAddr{IP: net.ParseIP("2001:db8::ffff:0:0:1"), Zone: "eth0"},
		},
		"invalid Prefix": {&net.UnixAddr{Name: "@", Net: "unix"}, &net.TCPAddr{}},
	} {
		for _, a := range as {
			if got := peerOf(a).String(); got != want {
				t.Errorf("%v counts for %s, want %s", a, got, want)
			}
		}
	}
}

// TestIdleConnectionIsToldToGo: without a stream a connection lives for connection_idle, and with
// one for as long as that.
func TestIdleConnectionIsToldToGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), nil)
		conn := l.net.Connect(t, grpc.WithIdleTimeout(0))
		c := relaytest.NewClient(t, conn, relaytest.ClientConfig{})
		c.Open(relaytest.Node("envoy-1", "edge"))
		c.Subscribe(eds, "a")
		l.asked(t, 1)
		l.say(eds, "a=1")
		c.Expect(eds, "the resource")
		time.Sleep(time.Hour)
		if n := l.server.conns.count(); n != 1 || l.net.Accepted() != 1 {
			t.Fatalf("%d connections of %d are open while a stream is, want the first", n, l.net.Accepted())
		}
		c.Cancel()
		time.Sleep(4 * time.Minute)
		if conn.GetState() != connectivity.Ready {
			t.Error("a connection is closed before its time")
		}
		time.Sleep(2 * time.Minute)
		if n := l.server.conns.count(); n != 0 || conn.GetState() != connectivity.Idle {
			t.Errorf("%d connections are open, and the client is %v; want none, and that it was told", n, conn.GetState())
		}
	})
}

// TestIdleConnectionBytes: a connection that says nothing keeps no read buffer, though its net.Conn
// is wrapped: the buffer alone is 32 KiB.
func TestIdleConnectionBytes(t *testing.T) {
	idleConnections(t, nil, nil, 20<<10)
}

// TestIdleTLSConnectionBytes: no more than TLS's own state comes to that, which the test has twice,
// as it is the client, too.
func TestIdleTLSConnectionBytes(t *testing.T) {
	ours, theirs := certificates(t)
	theirs.NextProtos = []string{"h2"}
	idleConnections(t, ours, theirs, 40<<10)
}

// idleConnections opens connections that say nothing, and judges the heap that each keeps.
func idleConnections(t *testing.T, ours, theirs *tls.Config, most uint64) {
	t.Helper()
	const n = 200
	r := newRig(t)
	s, l := serverAndPort(t, r)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, ListenerConfig{Origin: r.origin, TLS: ours}) }()
	before := liveHeap()
	for range n {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if theirs != nil {
			c = tls.Client(c, theirs)
		}
		if _, err := io.WriteString(c, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 9)); err != nil {
			t.Fatal(err)
		}
	}
	if each := (liveHeap() - before) / n; runtime.GOOS == "linux" && uint64(each) > most {
		t.Errorf("an idle connection keeps %d bytes on the heap", each)
	} else {
		t.Logf("%d bytes", each)
	}
	s.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// serverAndPort are a server and a port that it does not listen on yet; connections to it are not
// wrapped by the test.
func serverAndPort(t *testing.T, r *rig) (*Server, net.Listener) {
	t.Helper()
	s, err := New(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}
