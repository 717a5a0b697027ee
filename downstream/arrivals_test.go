package downstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"

	"google.golang.org/grpc"
)

// TestResetStreamsStarveNobody: a connection that opens and resets streams without end takes no
// turn from clients that come on others, whatever their number: each is served after a turn of its
// own.
func TestResetStreamsStarveNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, func(l *Limits) { l.NewStreamsPerSecond = 20 })
		l.storm(t, time.Minute)
		time.Sleep(5 * time.Second)
		for i := range 8 {
			c := l.open(t, relaytest.ClientConfig{})
			c.Subscribe(eds, "a")
			time.Sleep(time.Second)
			if n := l.asking(); c.Err() != nil || n != i+1 {
				t.Fatalf("client %d: %d are served after a second of its coming (%v)", i+1, n, c.Err())
			}
		}
	})
}

// TestTurns: streams that wait take turns by peer, those of a peer by connection, and those of a
// connection as they came.
func TestTurns(t *testing.T) {
	type from struct {
		peer, conn, streams int
	}
	for name, row := range map[string]struct {
		crowd   []from
		late    from // comes when the crowd waits
		seconds float64
	}{
		"behind its own connection": {[]from{{1, 1, 10}}, from{1, 1, 1}, 1.1},
		"beside one connection":     {[]from{{1, 1, 10}}, from{1, 2, 1}, 0.2},
		"beside a peer with many":   {[]from{{1, 1, 1}, {1, 2, 1}, {1, 3, 1}, {1, 4, 1}, {1, 5, 10}}, from{2, 1, 1}, 0.2},
		"behind a proxy":            {[]from{{1, 1, 1}, {1, 2, 10}, {1, 3, 1}}, from{1, 4, 1}, 0.4},
		"beside many peers":         {[]from{{1, 1, 5}, {2, 1, 5}, {3, 1, 5}}, from{4, 1, 1}, 0.4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, conns := &arrivals{rate: newBucket(10)}, map[[2]int]*connection{}
				for range 10 { // those of the first second
					a.rate.take(time.Now())
				}
				ctx, end := context.WithCancel(t.Context())
				come := func(f from) (last chan struct{}) {
					key := [2]int{f.peer, f.conn}
					if conns[key] == nil {
						conns[key] = &connection{}
					}
					for range f.streams {
						admitted := make(chan struct{})
						last = admitted
						go func() {
							if a.enter(ctx, peerKey{identity: string(rune('a' + f.peer))}, conns[key]) == nil {
								close(admitted)
							}
						}()
						synctest.Wait()
					}
					return last
				}
				for _, f := range row.crowd {
					come(f)
				}
				start := time.Now()
				<-come(row.late)
				if took := time.Since(start).Seconds(); took != row.seconds {
					t.Errorf("it waits %v s, want %v", took, row.seconds)
				}
				end()
				synctest.Wait()
				if a.waiting != 0 || a.peers.len() != 0 || a.oldest != nil || a.newest != nil {
					t.Errorf("%d wait of %d peers when all have gone", a.waiting, a.peers.len())
				}
			})
		})
	}
}

// TestTurnsThatComeTooLate: a stream whose turn goes to a peer that came after it is refused when it
// has waited for too long, whenever the next turn is; and those that wait have one timer, which is
// set anew for each turn alone.
func TestTurnsThatComeTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, start := &arrivals{rate: newBucket(1)}, time.Now()
		a.rate.take(start) // that of the first second
		type end struct {
			err   error
			after time.Duration
		}
		come := func(peer string, conn *connection) chan end {
			ended := make(chan end, 1)
			go func() {
				err := a.enter(t.Context(), peerKey{identity: peer}, conn)
				ended <- end{err, time.Since(start)}
			}()
			synctest.Wait()
			return ended
		}
		one, two := &connection{}, &connection{}
		first, second := come("early", one), come("early", one)
		set := func() (*time.Timer, time.Time) {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.timer, a.due
		}
		timer, due := set()
		time.Sleep(time.Second / 2)
		late := come("late", two)
		if other, now := set(); other != timer || now != due {
			t.Errorf("the timer for %v is set for %v by a stream that comes behind others", due.Sub(start), now.Sub(start))
		}
		for _, row := range []struct {
			who   string
			ended chan end
			want  end
		}{
			{"the first of the early peer", first, end{nil, time.Second}},
			{"the late one", late, end{nil, 2 * time.Second}},
			{"the second of the early peer", second, end{errCrowded, arrivalWait + arrivalSlack}},
		} {
			if got := <-row.ended; got != row.want {
				t.Errorf("%s: %v after %v, want %v after %v", row.who, got.err, got.after, row.want.err, row.want.after)
			}
		}
		synctest.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.waiting != 0 || a.peers.len() != 0 || a.oldest != nil || a.newest != nil {
			t.Errorf("%d wait of %d peers when all have gone", a.waiting, a.peers.len())
		}
	})
}

// storm opens and resets streams on one connection, a thousand a second, for so long.
func (l *limited) storm(t *testing.T, lasts time.Duration) {
	t.Helper()
	conn, desc := l.net.Connect(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	ctx, end := context.WithTimeout(t.Context(), lasts)
	done := make(chan struct{})
	t.Cleanup(func() { end(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			one, reset := context.WithCancel(ctx)
			_, _ = conn.NewStream(one, desc, xds.ADS.Method(true)) // it may be refused
			time.Sleep(time.Millisecond)
			reset()
		}
	}()
}

// asking is how many clients have asked for something.
func (l *limited) asking() (n int) {
	synctest.Wait()
	for _, c := range l.server.Clients() {
		n += min(len(c.Types), 1)
	}
	return n
}
