package chaos

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// way is one of the two directions of a link.
type way int

const (
	up   way = iota // from who dialled to the server
	down            // from the server to who dialled
)

// weather is what happens to the bytes that go one way.
type weather struct {
	hold  bool          // they wait, and so does the news that the sender has gone
	lose  bool          // they vanish; nobody is told
	delay time.Duration // each piece waits so long
	rate  int           // bytes a second; 0: as fast as it goes
	// the connection that brings the total of all to this is reset in the middle; 0: none
	cut int
}

// link is a place to dial instead of a server, and a network between the two that can be made bad.
// Safe for concurrent use.
type link struct {
	// Set once by newLink.
	tb   testing.TB
	addr string

	running sync.WaitGroup // accept loops and pumps

	mu       sync.Mutex // guards all below
	target   string
	listener net.Listener // nil while refusing
	wires    map[*wire]struct{}
	weather  [2]weather
	changed  chan struct{} // closed and replaced at every change of the weather
	closed   bool
}

// wire is one connection through a link.
type wire struct {
	link *link
	ends [2]*net.TCPConn // by the way that leads to it: up the server's, down the dialler's
	gone chan struct{}   // closed when both ends are
	once sync.Once
	lost bool // bytes of it vanished, so it can never be whole again; guarded by link.mu
}

var hosts atomic.Uint32

// host is a loopback address of this link alone, so that nobody takes its port while it refuses.
func host() string {
	n := hosts.Add(1)
	return net.IPv4(127, byte(1+os.Getpid()%250), byte(100+n>>8), byte(n)).String()
}

// newLink opens a link to target in fair weather. tb closes it.
func newLink(tb testing.TB, target string) *link {
	tb.Helper()
	l := &link{tb: tb, addr: host() + ":0", target: target, wires: map[*wire]struct{}{}, changed: make(chan struct{})}
	l.accept()
	tb.Cleanup(l.close)
	return l
}

// aim makes new connections go to another server.
func (l *link) aim(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

// change edits the weather of both ways.
func (l *link) change(edit func(*[2]weather)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	edit(&l.weather)
	close(l.changed)
	l.changed = make(chan struct{})
}

// both gives both ways the same weather.
func (l *link) both(w weather) { l.change(func(ws *[2]weather) { ws[up], ws[down] = w, w }) }

// one gives one way a weather of its own.
func (l *link) one(d way, w weather) { l.change(func(ws *[2]weather) { ws[d] = w }) }

// heal makes the weather fair, accepts again, and resets what cannot go on.
func (l *link) heal() {
	l.both(weather{})
	l.mu.Lock()
	var broken []*wire
	for w := range l.wires {
		if w.lost {
			broken = append(broken, w)
		}
	}
	l.mu.Unlock()
	for _, w := range broken {
		w.reset()
	}
	l.accept()
}

// reset cuts every connection without a word of farewell; new ones are accepted.
func (l *link) reset() {
	for _, w := range l.live() {
		w.reset()
	}
}

func (l *link) live() []*wire {
	l.mu.Lock()
	defer l.mu.Unlock()
	live := make([]*wire, 0, len(l.wires))
	for w := range l.wires {
		live = append(live, w)
	}
	return live
}

// refuse cuts every connection and refuses new ones, as a host on which nothing listens.
func (l *link) refuse() {
	l.mu.Lock()
	listener := l.listener
	l.listener = nil
	l.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
	l.reset()
}

// accept takes connections again after refuse.
func (l *link) accept() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil || l.closed {
		return
	}
	listener, err := net.Listen("tcp", l.addr)
	if err != nil {
		l.tb.Errorf("link: %v", err)
		return
	}
	l.listener, l.addr = listener, listener.Addr().String()
	l.running.Go(func() { l.serve(listener) })
}

// close ends everything.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.refuse()
	l.running.Wait()
}

// serve accepts until the listener is closed.
func (l *link) serve(listener net.Listener) {
	for {
		c, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // descriptors are short, some schedules see to that
			continue
		}
		l.running.Go(func() { l.connect(c.(*net.TCPConn)) })
	}
}

// connect makes a wire of an accepted connection and runs it.
func (l *link) connect(c *net.TCPConn) {
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		reset(c)
		return
	}
	w := &wire{link: l, ends: [2]*net.TCPConn{up: server.(*net.TCPConn), down: c}, gone: make(chan struct{})}
	l.mu.Lock()
	refused := l.listener == nil
	l.wires[w] = struct{}{}
	l.mu.Unlock()
	if refused {
		w.reset()
		return
	}
	l.running.Go(func() { w.pump(down) })
	w.pump(up)
}

// reset ends the wire at both ends at once.
func (w *wire) reset() {
	w.once.Do(func() {
		close(w.gone)
		reset(w.ends[up])
		reset(w.ends[down])
		w.link.mu.Lock()
		defer w.link.mu.Unlock()
		delete(w.link.wires, w)
	})
}

// reset closes a connection with RST rather than FIN.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // it may be closed already
	_ = c.Close()
}

// pump carries bytes one way until an end is closed; the other way may go on after an orderly end.
func (w *wire) pump(d way) {
	from, to := w.ends[1-d], w.ends[d]
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !w.carry(d, buf[:n]) {
			w.reset()
			return
		}
		if err == nil {
			continue
		}
		if _, ok := w.await(d, true); ok && to.CloseWrite() == nil && d == up {
			return // the other way ends by itself
		}
		w.reset()
		return
	}
}

// carry delivers a piece as the weather has it; false: the wire has to end.
func (w *wire) carry(d way, piece []byte) bool {
	for len(piece) > 0 {
		now, ok := w.await(d, false)
		if !ok {
			return false
		}
		n := len(piece)
		pause := now.delay
		if now.rate > 0 {
			n = min(n, max(1, now.rate/50))
			pause += time.Second * time.Duration(n) / time.Duration(now.rate)
		}
		last := false
		if now.cut > 0 {
			n, last = w.spend(d, n)
		}
		if !w.sleep(pause) {
			return false
		}
		if !now.lose {
			if _, err := w.ends[d].Write(piece[:n]); err != nil {
				return false
			}
		}
		if last {
			return false
		}
		piece = piece[n:]
	}
	return true
}

// await waits while bytes are held, and gives the weather; false: the wire has ended. The news of
// an end does not pass where bytes are lost.
func (w *wire) await(d way, end bool) (weather, bool) {
	for {
		w.link.mu.Lock()
		now, changed := w.link.weather[d], w.link.changed
		w.lost = w.lost || now.lose
		w.link.mu.Unlock()
		if !now.hold && !(end && now.lose) {
			return now, true
		}
		select {
		case <-changed:
		case <-w.gone:
			return weather{}, false
		}
	}
}

// spend takes n bytes off what may pass before the cut; last: with these it is reached.
func (w *wire) spend(d way, n int) (most int, last bool) {
	w.link.mu.Lock()
	defer w.link.mu.Unlock()
	left := &w.link.weather[d].cut
	if *left == 0 { // somebody else's bytes reached it
		return n, false
	}
	n = min(n, *left)
	*left -= n
	return n, *left == 0
}

// sleep waits, or reports that the wire has ended.
func (w *wire) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.gone:
		return false
	}
}

// String names the link in failures.
func (l *link) String() string { return fmt.Sprintf("link %s", l.addr) }
