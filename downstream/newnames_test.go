package downstream

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/zap"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestNewNamesArePaced: who brings names that nobody asks for yet, faster than
// limits.new_names_per_second, has its next ones taken in when those are paid for, on all streams of
// the peer together, and no stream ends. A request is taken in whole, names that others have cost
// nothing, requests without names do not wait, and neither does another peer.
func TestNewNamesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, func(l *Limits) { l.NewNamesPerSecond = 1000 })
		greedy, other := l.net.Connect(t), l.net.Connect(t)
		start := time.Now()
		made := func(kind string, n int) []string {
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprint(kind, "-", i)
			}
			return names
		}
		// wantNames has a stream come to so many names after so long, and not before
		wantNames := func(what string, stream, n int, after time.Duration) {
			t.Helper()
			count := func() (n int) {
				synctest.Wait()
				if have := l.server.Clients(); len(have) > stream {
					for _, typ := range have[stream].Types {
						n += typ.Names
					}
				}
				return n
			}
			for count() != n {
				time.Sleep(100 * time.Millisecond)
				if time.Since(start) > time.Minute {
					t.Fatalf("%s: %d names are taken in, want %d", what, count(), n)
				}
			}
			if took := time.Since(start).Round(100 * time.Millisecond); took != after {
				t.Errorf("%s: %d names are taken in after %v, want %v", what, n, took, after)
			}
		}
		delta := relaytest.ClientConfig{Dialect: relaytest.Delta}
		first := relaytest.NewClient(t, greedy, delta)
		first.Open(relaytest.Node("envoy-1", "edge"))
		first.Subscribe(eds, made("a", 5000)...)
		wantNames("a long first request", 0, 5000, 0)

		first.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds}) // without names
		synctest.Wait()
		if n := len(l.server.Clients()[0].Types); n != 2 {
			t.Errorf("a request without names is not taken in: %d types", n)
		}
		honest := relaytest.NewClient(t, other, delta)
		honest.Open(relaytest.Node("envoy-2", "edge"))
		honest.Subscribe(eds, made("a", 5000)...)
		wantNames("another peer", 1, 5000, 0)
		honest.Subscribe(eds, made("b", 500)...)
		wantNames("another peer, which has asked for what others have", 1, 5500, 0)

		second := relaytest.NewClient(t, greedy, delta)
		second.Open(relaytest.Node("envoy-3", "edge"))
		second.Subscribe(eds, made("c", 3000)...)
		wantNames("another stream of the peer", 2, 3000, 4*time.Second) // but for the burst
		first.Subscribe(eds, "d")
		wantNames("the next name", 0, 5001, 7*time.Second)
		for _, c := range []*relaytest.Client{first, second, honest} {
			if c.Err() != nil {
				t.Errorf("a stream ended: %v", c.Err())
			}
		}
		lines := l.logs.FilterField(zap.String("limit", "new_names_per_second")).Len()
		if n := counted(t, l.reg, "weir_limit_rejections_total", "new_names_per_second"); n != 2 || lines != 1 {
			t.Errorf("%v are counted, and %d lines written", n, lines)
		}
	})
}

// TestNewNamesTakeTurns: the long lists of one peer are taken in one after the other, and those that
// wait are not in the intake.
func TestNewNamesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.table.Measured(0, 64<<20)
		pace, in := newNamePace(1000), newIntake(r.table)
		long := func() *request {
			c := &content{}
			c.names.n = 10 * shortList
			return &request{content: c, from: addressOf("10.0.0.1"), intake: in, ctx: t.Context(), size: 1 << 20}
		}
		enter := func(req *request) bringing {
			var err error
			if req.parts, err = in.enter(t.Context(), req.from, req.size); err != nil {
				t.Error(err)
			}
			b, err := pace.enter(t.Context(), req)
			if err != nil {
				t.Error(err)
			}
			return b
		}
		first := long()
		b := enter(first)
		entered := atomic.Int32{}
		for range 3 {
			go func() {
				req := long()
				b := enter(req)
				entered.Add(1)
				if req.parts == 0 {
					t.Error("it is not in the intake when it is taken in")
				}
				pace.leave(b, 0)
				req.leave()
			}()
			synctest.Wait()
		}
		if n := entered.Load(); n > 0 {
			t.Errorf("%d long lists are taken in beside the first", n)
		}
		first.leave()
		if !in.parts.tryEnter(intakeParts) {
			t.Error("who waits for its turn is in the intake")
		} else {
			in.parts.leave(intakeParts)
		}
		pace.leave(b, 3000) // of which 1,000 are the burst
		time.Sleep(1900 * time.Millisecond)
		if synctest.Wait(); entered.Load() > 0 {
			t.Errorf("%d are taken in while there is a debt", entered.Load())
		}
		time.Sleep(200 * time.Millisecond)
		if synctest.Wait(); entered.Load() != 3 {
			t.Errorf("%d are taken in, want 3", entered.Load())
		}
	})
}
