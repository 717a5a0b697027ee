package downstream

import (
	"fmt"
	"slices"
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
			return &request{content: c, from: addressOf("10.0.0.1"), intake: in, ctx: t.Context(), cost: 1 << 20}
		}
		enter := func(req *request) bringing {
			var err error
			if req.parts, err = in.enter(t.Context(), req.from, req.cost); err != nil {
				t.Error(err)
			}
			b, err := pace.enter(t.Context(), req, func(*content) bool { return false })
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

// TestFleetBehindOneAddress: clients of one peer that all come at once, each with a long list of
// its own, are served at the pace of limits.new_names_per_second once its first second is used up,
// and no stream ends. Their ACKs, which repeat the list, wait for nobody: a client whose ACK is not
// taken in is sent nothing new. When all of them come again, they are served at once.
func TestFleetBehindOneAddress(t *testing.T) {
	clients, each, rate := 200, 1_000, 50_000
	if raced { // still more than shortList each: shorter lists do not wait for each other
		clients, each, rate = clients/2, each/5, rate/10
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, func(l *Limits) { l.NewNamesPerSecond, l.StreamsPerConnection = rate, 2*clients })
		conn := l.net.Connect(t)
		fleet, lists := make([]*relaytest.Client, clients), map[string][]string{}
		come := func() {
			for i, c := range fleet {
				id := fmt.Sprint("envoy-", i)
				c.Open(relaytest.Node(id, "edge"))
				c.Request(eds, lists[id]...)
			}
			synctest.Wait()
		}
		for i := range fleet {
			fleet[i] = relaytest.NewClient(t, conn, relaytest.ClientConfig{Dialect: relaytest.SotW})
			for n := range each {
				lists[fmt.Sprint("envoy-", i)] = append(lists[fmt.Sprint("envoy-", i)], fmt.Sprintf("%d-%d", i, n))
			}
		}
		// answered has the origin answer what it was asked by now, and counts the clients whose ACK was
		// taken in, and those whose ACK waits
		answered := func() (acked, wait int) {
			synctest.Wait()
			l.now = time.Now()
			l.answer(eds, "1")
			synctest.Wait()
			for _, c := range l.server.Clients() {
				switch {
				case len(c.Types) == 0 || c.Types[0].SentVersion == "":
				case c.Types[0].AckedVersion == c.Types[0].SentVersion:
					acked++
				default:
					wait++
				}
			}
			return acked, wait
		}
		complete := func() bool {
			return !slices.ContainsFunc(fleet, func(c *relaytest.Client) bool { return c.Count(eds) != each })
		}
		// served waits until all are, and returns how long it took
		served := func() time.Duration {
			t.Helper()
			for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
				acked, wait := answered()
				if wait > 0 {
					t.Fatalf("after %v the ACKs of %d clients wait", time.Since(start), wait)
				}
				if took := time.Since(start); acked == clients && complete() || took > 10*time.Second {
					return took
				}
			}
		}
		waited := func() float64 { return counted(t, l.reg, "weir_limit_rejections_total", "new_names_per_second") }
		come()
		most := time.Duration(clients*each/rate-1)*time.Second + time.Second/2 // the rest is the wait for more of a change
		if took := served(); took > most || took < most/2 {
			t.Errorf("all are served after %v, want at most %v, and not at once", took, most)
		}
		time.Sleep(time.Second) // the last one's names are paid for
		before := waited()
		come()
		if took := served(); took > time.Second/2 || waited() != before {
			t.Errorf("when all come again they are served after %v, and %v requests waited", took, waited()-before)
		}
		for i, c := range fleet {
			if c.Err() != nil || c.Count(eds) != each {
				t.Fatalf("client %d holds %d resources, and ended with %v", i, c.Count(eds), c.Err())
			}
		}
	})
}
