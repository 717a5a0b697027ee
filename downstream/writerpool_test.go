package downstream

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestStuckClientsHoldNoPlaces: more clients than there are places read nothing, and half of them
// acknowledge all the same what they can only guess. Whoever reads has each change at once.
func TestStuckClientsHoldNoPlaces(t *testing.T) {
	for _, compression := range []string{"", "gzip"} {
		t.Run("compression "+compression, func(t *testing.T) { stuckClients(t, compression) })
	}
}

func stuckClients(t *testing.T, compression string) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), func(_ *Config, lc *ListenerConfig) { lc.Compression = compression })
		var slow []*relaytest.Client
		for range 4 * runtime.GOMAXPROCS(0) {
			c := l.open(t, relaytest.ClientConfig{NeverRead: true})
			c.Subscribe(eds, "a")
			slow = append(slow, c)
		}
		quick := l.open(t, relaytest.ClientConfig{})
		quick.Subscribe(eds, "a")
		l.asked(t, len(slow)+1)
		streams := l.server.list()
		random := make([]byte, 1<<19) // it does not get shorter by compression
		for i := range random {
			random[i] = byte(rand.N(256))
		}
		body := hex.EncodeToString(random)
		for change := range 5 {
			l.say(eds, fmt.Sprint("a=", change, body))
			said := time.Now()
			quick.Expect(eds, "the change arrives")
			if d := time.Since(said); d != 0 {
				t.Fatalf("change %d takes %v", change, d)
			}
			for i, c := range slow {
				if i%2 == 0 {
					c.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, ResponseNonce: fmt.Sprint(streams[i].session.prefix, change+1)})
				}
			}
			time.Sleep(6 * time.Second) // longer than order_hold
		}
		stuck := 0
		for _, st := range streams {
			if _, writing := st.writingSince(); writing {
				stuck++
			}
		}
		if stuck != len(slow) {
			t.Errorf("%d streams are stuck, want %d", stuck, len(slow))
		}
	})
}

// TestBusyReadersHoldNoPlaces: more streams than there are places are busy with a long request when
// they get something to write; the others are served meanwhile.
func TestBusyReadersHoldNoPlaces(t *testing.T) {
	l := newLive(t, relaytest.TCP(), nil)
	n := 2 * runtime.GOMAXPROCS(0)
	clients := make([]*relaytest.Client, n+1)
	for i := range clients {
		clients[i] = l.open(t, relaytest.ClientConfig{})
		clients[i].Subscribe(eds, "a")
		l.asked(t, i+1)
	}
	busy := l.server.list()[:n]
	for _, st := range busy {
		st.session.mu.Lock()
	}
	taken := sync.OnceFunc(func() {
		for _, st := range busy {
			st.session.mu.Unlock()
		}
	})
	defer taken()
	// whoever is looked after first, the second change finds all the others busy
	for _, word := range []string{"a=1", "a=2"} {
		l.say(eds, word)
		clients[n].Expect(eds, "the change arrives")
	}
	taken()
	for _, c := range clients[:n] {
		c.Expect(eds, "the change arrives as soon as the request is taken in")
	}
}

// TestTurn: whoever calls is looked after by a look that begins later, and no two looks are at
// once.
func TestTurn(t *testing.T) {
	var turn turn
	var asked, looks, at atomic.Int64
	var seen int64 // owned by the look of the moment
	look := func() {
		for more := true; more; more = turn.again() {
			if at.Add(1) != 1 {
				t.Error("two look at once")
			}
			seen = asked.Load()
			looks.Add(1)
			at.Add(-1)
		}
	}
	var callers, workers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 10_000 {
				asked.Add(1)
				if turn.call() {
					workers.Go(look)
				}
			}
		})
	}
	callers.Wait()
	workers.Wait()
	if n := asked.Load(); seen != n {
		t.Errorf("the last look saw %d of %d calls, after %d looks", seen, n, looks.Load())
	}
	if !turn.call() {
		t.Fatal("nobody may look at what is at rest")
	}
	ended := make(chan struct{})
	go func() { turn.end(); close(ended) }()
	for turn.state.Load() != over {
		runtime.Gosched()
	}
	select {
	case <-ended:
		t.Error("the end does not wait for the look")
	default:
	}
	if turn.call() || turn.again() {
		t.Error("there is another look after the end")
	}
	<-ended
}

// TestBacklogIsWritten: grpc says when it has written a response, and what it has not written
// counts.
func TestBacklogIsWritten(t *testing.T) {
	l := newLive(t, relaytest.TCP(), nil)
	c := l.open(t, relaytest.ClientConfig{NeverRead: true})
	c.Subscribe(eds, "a", "b")
	l.asked(t, 2)
	l.say(eds, "a="+strings.Repeat("x", 1<<20))
	st := l.server.list()[0]
	// it is counted before that, and the backlog is the writer's until it rests
	await(t, "the response is sent", func() bool {
		return l.server.Clients()[0].Types[0].Responses == 1 && st.turn.state.Load() == resting
	})
	if st.backlog.messages.Load() != 1 || st.backlog.admits() {
		t.Error("1 MiB that nobody reads is no backlog")
	}
	c.Read()
	c.Expect(eds, "the response")
	await(t, "it was written", func() bool { return st.backlog.messages.Load() == 0 })
	if !st.backlog.admits() {
		t.Error("there is a backlog after everything was written")
	}
}
