package downstream

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
)

// waiting is what the streams of a server wait for as a whole, in the order they were opened.
func (l *live) waiting() string {
	synctest.Wait()
	var all []string
	now := time.Now()
	for _, c := range l.server.Clients() {
		for _, w := range c.Waits {
			text := w.Reason.String()
			if !w.Until.IsZero() {
				text += "+" + w.Until.Sub(now).Round(time.Millisecond).String()
			}
			all = append(all, text)
		}
	}
	return strings.Join(all, " ")
}

// numbered are so many names.
func numbered(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

// TestStreamWaits brings streams into each wait that is not one of a type, in virtual time.
func TestStreamWaits(t *testing.T) {
	limits := func(change func(*Limits)) func(*Config, *ListenerConfig) {
		return func(cfg *Config, _ *ListenerConfig) { change(&cfg.Limits) }
	}
	for _, row := range []struct {
		want   string
		change func(*Config, *ListenerConfig)
		play   func(t *testing.T, l *live)
	}{
		{"first_request+30s", nil, func(t *testing.T, l *live) {
			conn := l.net.Connect(t)
			c := relaytest.NewClient(t, conn, relaytest.ClientConfig{})
			c.Open(relaytest.Node("envoy-1", "edge"))
		}},
		{"first_request+29.5s arrival+1.5s", limits(func(x *Limits) { x.NewStreamsPerSecond = 1 }), func(t *testing.T, l *live) {
			for range 2 {
				l.open(t, relaytest.ClientConfig{})
			}
			time.Sleep(500 * time.Millisecond)
		}},
		{"pace+1s", limits(func(x *Limits) { x.RequestsPerSecond = 1 }), func(t *testing.T, l *live) {
			c := l.open(t, relaytest.ClientConfig{})
			for range 3 {
				c.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds})
			}
		}},
		{"new_names", limits(func(x *Limits) { x.NewNamesPerSecond = 10 }), func(t *testing.T, l *live) {
			c := l.open(t, relaytest.ClientConfig{})
			c.Subscribe(eds, numbered("a", 500)...)
			synctest.Wait()
			c.Subscribe(eds, numbered("b", 500)...)
		}},
		{"write_stalled+9m59s", nil, func(t *testing.T, l *live) {
			c := l.open(t, relaytest.ClientConfig{NeverRead: true})
			c.Subscribe(cds, "*")
			l.asked(t, 1)
			long := strings.Repeat("x", 64<<10)
			var words []string
			for i := range 100 {
				words = append(words, fmt.Sprintf("c%d=%s", i, long))
			}
			l.say(cds, words...)
			l.settle()
			time.Sleep(time.Second)
		}},
	} {
		t.Run(strings.ReplaceAll(row.want, "+", " "), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLive(t, relaytest.Memory(), row.change)
				row.play(t, l)
				if got := l.waiting(); got != row.want {
					t.Errorf("it waits for %s, want %s", got, row.want)
				}
			})
		})
	}
}

// TestPollWaits: a poll for what is not known, and one for what has not changed.
func TestPollWaits(t *testing.T) {
	hold := func(cfg *Config, _ *ListenerConfig) { cfg.Timing.RESTHold = 20 * time.Second }
	restTest(t, hold, func(p *polling) {
		first := p.later("/v3/discovery:listeners", pollOf())
		time.Sleep(300 * time.Millisecond)
		if got := p.waiting(); got != "rest_wait+500ms" {
			t.Errorf("the first poll waits for %s", got)
		}
		<-first
		a := p.filled()
		held := p.later(clustersPath, pollOf(`"versionInfo": "`+a.version()+`"`))
		time.Sleep(time.Second)
		if got := p.waiting(); got != "rest_hold+19s" {
			t.Errorf("the second poll waits for %s", got)
		}
		<-held
	})
}

// TestIntakeWaits: a long request that is not taken in yet, and a stream that no writer has come to.
func TestIntakeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.table.Measured(0, 64<<20)
		in, s := newIntake(r.table), newSession(r.set, true, r.now, relay.NewSubscriber())
		parts, err := in.enter(t.Context(), nil, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		req := s.newRequest()
		req.ctx, req.intake, req.waits = t.Context(), in, &s.reading
		go req.read(mem.BufferSlice{mem.SliceBuffer(make([]byte, 1<<20))})
		synctest.Wait()
		if w := s.reading.add(nil); len(w) != 1 || w[0].Reason != metrics.WaitIntake {
			t.Errorf("it waits for %v", w)
		}
		in.leave(parts)
		synctest.Wait()
		if w := s.reading.add(nil); len(w) != 0 {
			t.Errorf("it still waits for %v", w)
		}
	})
	p := hasClusters(newRig(t).client(true))
	p.says(cds, "a=2")
	st := &stream{session: p.session, server: &Server{}}
	st.turn.call()
	if w := st.waits(p.now); len(w) != 1 || w[0].Reason != metrics.WaitWriter {
		t.Errorf("it waits for %v", w)
	}
	p.gets("the writer comes", "cds a=2")
	if w := st.waits(p.now); len(w) != 0 {
		t.Errorf("it still waits for %v", w)
	}
}

// TestCalmedConnectionsWait: a connection of a peer that was told to calm down is counted while it
// waits to be accepted.
func TestCalmedConnectionsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), nil)
		peer := netip.MustParsePrefix("10.0.0.1/32")
		l.server.calmed.note(time.Now(), peer)
		go l.server.greetLater(peer)
		synctest.Wait()
		count := func() int {
			var p metrics.Picture
			l.server.Picture(time.Now(), &p)
			return p.Waiting[metrics.WaitCalmed]
		}
		if n := count(); n != 1 {
			t.Errorf("%d connections wait", n)
		}
		time.Sleep(calmedWait)
		synctest.Wait()
		if n := count(); n != 0 {
			t.Errorf("%d connections still wait", n)
		}
	})
}
