package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

func TestBlackHoleIsNoticed(t *testing.T) {
	eager := func(c *Config) { c.Keepalive.Time = 30 * time.Second } // here is no TCP
	in(t, options{origin: relaytest.OriginConfig{Serving: true}, config: eager}, func(w *world) {
		w.origin.Put(opaque, res("a", "1"))
		w.want(opaque, "a")
		w.origin.Await(0, func() bool { return w.origin.Asked(opaque).ACKs == 1 }, "served")
		w.origin.Net().Blackhole(true)
		w.origin.Net().Blackhole(false)
		start := time.Now()
		w.origin.Await(time.Minute, func() bool { return len(w.origin.Streams()) == 2 }, "a dead connection is replaced (ERR-12)")
		if d := time.Since(start); d > time.Minute {
			t.Errorf("it took %v", d)
		}
		proof := w.status().ProofAt
		time.Sleep(10 * time.Minute)
		if !w.status().ProofAt.Equal(proof) {
			t.Error("keepalive counts as proof of life")
		}
	})
}

// TestAgeingConnections: an origin that closes connections at an age, as many do, first by GOAWAY
// and then for good, is not a failing one: streams move, and the origin counts as connected all the
// time.
func TestAgeingConnections(t *testing.T) {
	ageing := relaytest.OriginConfig{Serving: true, Options: []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 30 * time.Minute, MaxConnectionAgeGrace: time.Minute}),
	}}
	in(t, options{origin: ageing}, func(w *world) {
		w.origin.Put(opaque, res("a", "1"))
		w.want(opaque, "a")
		w.origin.Await(0, func() bool { return w.origin.Asked(opaque).ACKs == 1 }, "served")
		for range 24 * 60 {
			time.Sleep(time.Minute)
			if st := w.status(); !st.Connected || st.Failures != 0 {
				t.Fatalf("the origin counts as failing: %+v", st)
			}
		}
		if n := len(w.origin.Streams()); n < 40 || n > 55 {
			t.Errorf("%d streams in a day, want one for each connection of half an hour", n)
		}
		if st := w.status(); st.Connections != 1 || len(w.origin.Open()) != 1 {
			t.Errorf("%d connections with %d streams are left", st.Connections, len(w.origin.Open()))
		}
	})
}

// TestServerThatSaysNothing: a server that takes connections and says nothing, in TLS or before
// HTTP/2, costs one descriptor at a time, for twenty seconds, and the next address is tried.
func TestServerThatSaysNothing(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var open atomic.Int64
		var begins []time.Time
		silent := func(c *Config) {
			c.Addresses = []string{"silent:1", "silent:2"}
			c.NoResume = true
			if secure {
				c.TLS = func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS13} }
			}
			c.Dial = func(context.Context, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				open.Add(1)
				begins = append(begins, time.Now())
				go func() {
					_, _ = io.Copy(io.Discard, theirs) // until ours is closed
					open.Add(-1)
				}()
				return ours, nil
			}
		}
		in(t, options{config: silent}, func(w *world) {
			w.want(opaque, "a")
			for range 10 * 60 {
				time.Sleep(time.Second)
				if n := open.Load(); n > 1 {
					t.Fatalf("%d connections are open at once", n)
				}
			}
			if st := w.status(); st.Failures < 10 || st.Connected {
				t.Errorf("ten minutes later: %+v", st)
			}
			for i := range begins[1:] {
				if d := begins[i+1].Sub(begins[i]); d > connectTimeout+37*time.Second {
					t.Errorf("attempt %d comes %v after the one before", i+1, d)
				}
			}
		})
		if n := open.Load(); n != 0 {
			t.Errorf("%d connections are left open", n)
		}
	}
}

// TestKeepaliveOfADefaultServer: a grpc server whose keepalive enforcement nobody configured keeps
// the connection (ERR-12), by the default interval and where keepalive is off.
func TestKeepaliveOfADefaultServer(t *testing.T) {
	for _, interval := range []time.Duration{0, math.MaxInt64} {
		own := func(c *Config) { c.Keepalive.Time = interval }
		in(t, options{origin: strictOrigin(5 * time.Minute), config: own}, func(w *world) {
			w.origin.Put(opaque, res("a", "1"))
			w.want(opaque, "a")
			time.Sleep(24 * time.Hour)
			if n := len(w.origin.Streams()); n != 1 || len(w.origin.Open()) != 1 {
				t.Errorf("%v: %d streams in a day, want one", interval, n)
			}
		})
	}
}

// strictOrigin is an origin that refuses pings more often than an interval.
func strictOrigin(least time.Duration) relaytest.OriginConfig {
	return relaytest.OriginConfig{Serving: true, Options: []grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: least}),
	}}
}

// TestTooManyPings: a shorter interval is lengthened at once to what servers allow by default, and
// doubled from there.
func TestTooManyPings(t *testing.T) {
	eager := func(c *Config) { c.Keepalive.Time = 30 * time.Second }
	in(t, options{origin: strictOrigin(8 * time.Minute), config: eager}, func(w *world) {
		w.origin.Put(opaque, res("a", "1"))
		w.want(opaque, "a")
		time.Sleep(2 * time.Hour)
		lines := w.lines("timing.keepalive.time")
		if len(lines) != 2 {
			t.Errorf("want the key named at 5 and at 10 min, got %v", lines)
		}
		n := len(w.origin.Streams())
		time.Sleep(12 * time.Hour)
		if m := len(w.origin.Streams()); m != n || len(w.origin.Open()) != 1 {
			t.Errorf("the stream is not stable: %d more in twelve hours", m-n)
		}
	})
}

func TestLanesShareConnectionsUpToTheLimit(t *testing.T) {
	limit := relaytest.OriginConfig{Options: []grpc.ServerOption{grpc.MaxConcurrentStreams(100)}}
	in(t, options{origin: limit}, func(w *world) {
		var groups []func()
		for i := range 300 {
			g := w.groupOf(fmt.Sprint("cluster", i))
			sub := wantOf(g, opaque, "a")
			groups = append(groups, func() { sub.Close(time.Now()); g.Release(time.Now()) })
		}
		w.origin.Await(time.Minute, func() bool { return len(w.origin.Open()) == 300 }, "all lanes are open (RELAY-26)")
		if n := w.dials.Load(); n != 3 {
			t.Errorf("on %d connections, want 3", n)
		}
		for _, end := range groups {
			end()
		}
		time.Sleep(2 * time.Minute)
		if st := w.status(); len(st.Lanes) != 0 || st.Connections != 0 || len(w.origin.Open()) != 0 {
			t.Errorf("nothing is wanted, and %d lanes on %d connections are left", len(st.Lanes), st.Connections)
		}
	})
}
