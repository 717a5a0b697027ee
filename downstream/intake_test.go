package downstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestIntake: where memory is limited, only so many bytes of requests are decoded and taken in at a
// time, in the order they came; short ones do not wait for them, and whoever's stream ends waits no
// more.
func TestIntake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 64 << 20
		const most = limit / intakeShare
		r := newRig(t)
		in := newIntake(r.table)
		enter := func(ctx context.Context, bytes int) (entered chan int64) {
			entered = make(chan int64, 1)
			go func() {
				if parts, err := in.enter(ctx, nil, bytes); err == nil {
					entered <- parts
				}
			}()
			synctest.Wait()
			return entered
		}
		wantIn := func(what string, c chan int64) (parts int64) {
			t.Helper()
			synctest.Wait()
			select {
			case parts = <-c:
			default:
				t.Fatalf("%s is not let in", what)
			}
			return parts
		}
		wantOut := func(what string, c chan int64) {
			t.Helper()
			select {
			case <-c:
				t.Fatalf("%s is let in", what)
			default:
			}
		}
		ctx := t.Context()
		for range 3 {
			if parts := wantIn("anything where there is no limit", enter(ctx, 1<<30)); parts != 0 {
				t.Fatalf("it has %d parts", parts)
			}
		}
		r.table.Measured(0, limit)
		first, second := enter(ctx, most/2), enter(ctx, most/2)
		half, other := wantIn("half of it", first), wantIn("the other half", second)
		wantIn("a short one", enter(ctx, freeRequest))
		longest := enter(ctx, 10*most)
		next := enter(ctx, most/2)
		ended, end := context.WithCancel(ctx)
		gone := enter(ended, most/2)
		wantOut("one longer than all there may be", longest)
		end()
		in.leave(half)
		wantOut("it beside another", longest)
		wantOut("who came after it", next)
		in.leave(other)
		whole := wantIn("it alone", longest)
		wantOut("who came after it", next)
		in.leave(whole)
		in.leave(wantIn("who came after it", next))
		wantOut("whose stream has ended", gone)
		in.leave(wantIn("all again", enter(ctx, most)))
	})
}

// TestIntakeHolds: a request is not decoded before it is let in.
func TestIntakeHolds(t *testing.T) {
	wire, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds})
	if err != nil {
		t.Fatal(err)
	}
	rig := newRig(t)
	rig.table.Measured(0, int64(len(wire)*intakeShare*intakeParts/3)) // it has three parts
	in := newIntake(rig.table)
	r := newSession(rig.set, true, time.Now(), relay.NewSubscriber()).newRequest()
	ctx, end := context.WithCancel(t.Context())
	r.ctx, r.intake = ctx, in
	if err := (codec{in}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, r); err != nil || r.err != nil {
		t.Fatal(err, r.err)
	}
	if r.parts != 3 || string(r.typeURL) != eds || in.parts.tryEnter(intakeParts-2) {
		t.Errorf("it has %d parts and is of %q", r.parts, r.typeURL)
	}
	r.done()
	r.leave()
	if !in.parts.tryEnter(intakeParts) {
		t.Fatal("what it had is not given back")
	}
	end()
	if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, r); err != nil || !errors.Is(r.err, errNotEntered) || r.content != nil {
		t.Errorf("one that is not let in is decoded: %v, %v", err, r.err)
	}
}

// tryEnter takes parts if nobody waits and there are so many.
func (r *rounds) tryEnter(parts int64) bool {
	n := r.join(nil, parts)
	if n != nil {
		r.mu.Lock()
		r.dropName(n)
		r.mu.Unlock()
	}
	return n == nil
}

// TestIntakeGoesRoundByPeer: a peer with many long requests has one let in, and then all others that
// wait have one, before its next, however long theirs are.
func TestIntakeGoesRoundByPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 64 << 20
		const most = limit / intakeShare
		r := newRig(t)
		in := newIntake(r.table)
		r.table.Measured(0, limit)
		greedy, other, third := addressOf("10.0.0.1"), addressOf("10.0.0.2"), addressOf("10.0.0.3")
		var order []string
		enter := func(who string, from *peerKey, bytes int) {
			go func() {
				parts, err := in.enter(t.Context(), from, bytes)
				if err != nil {
					t.Error(err)
				}
				order = append(order, who)
				time.Sleep(time.Second)
				in.leave(parts)
			}()
			synctest.Wait()
		}
		enter("greedy", greedy, most)
		for range 3 {
			enter("greedy", greedy, most/2+most/4)
		}
		enter("other", other, most)
		enter("third", third, most)
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"greedy", "greedy", "other", "third", "greedy", "greedy"}; !slices.Equal(order, want) {
			t.Errorf("the turns are %q, want %q", order, want)
		}
		if !in.parts.tryEnter(intakeParts) || in.parts.peers.len() != 0 {
			t.Error("not all parts are given back")
		}
	})
}

// TestLongRequestsAreTakenIn: all of them, one after the other, and what one ended its stream with
// is no reason to wait.
func TestLongRequestsAreTakenIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, func(l *Limits) { l.NameBytes = 1 << 20 })
		l.table.Measured(0, 16<<20)
		// one of these is all that may be decoded at a time
		long := strings.Repeat("x", (16<<20)/intakeShare)
		conn := l.net.Connect(t)
		if !l.server.intake.parts.tryEnter(1) { // somebody is at it
			t.Fatal("there is no room at the beginning")
		}
		for n := range 4 {
			c := relaytest.NewClient(t, conn, relaytest.ClientConfig{Dialect: relaytest.SotW})
			c.Open(relaytest.Node(fmt.Sprint("envoy-", n), "edge"))
			for i := range 4 {
				c.Send(&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: []string{fmt.Sprint(long[:len(long)/2], i), long[len(long)/2:]}})
				if synctest.Wait(); n == 0 && i == 0 {
					if have := l.server.Clients(); len(have) != 1 || len(have[0].Types) > 0 {
						t.Errorf("a request is taken in beside another: %+v", have)
					}
					l.server.intake.parts.leave(1)
				}
			}
			bad := requestOf(cds, false)
			if n == 3 {
				bad.TypeUrl = ""
				bad.VersionInfo = long
			}
			c.Send(bad)
			synctest.Wait()
			if n == 3 {
				c.AwaitEnd("a request without a type")
			} else if have := l.server.Clients(); len(have) != n+1 || len(have[n].Types) != 2 {
				t.Fatalf("stream %d: not all requests are taken in: %+v", n, have)
			}
		}
		if !l.server.intake.parts.tryEnter(intakeParts) {
			t.Error("what is taken in is still counted")
		}
	})
}
