package page

import (
	"io"
	"net"
	"sync"
	"testing"
)

// wire is a forwarder between a browser and a weir, which can be cut.
type wire struct {
	to string
	l  net.Listener

	mu    sync.Mutex // guards all below
	cut   bool
	conns map[net.Conn]bool
	ended sync.WaitGroup
}

// newWire forwards to an address. tb ends it.
func newWire(tb testing.TB, to string) *wire {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	w := &wire{to: to, l: l, conns: map[net.Conn]bool{}}
	w.ended.Go(w.accept)
	tb.Cleanup(func() { _ = l.Close(); w.set(true); w.ended.Wait() })
	return w
}

func (w *wire) accept() {
	for {
		c, err := w.l.Accept()
		if err != nil {
			return
		}
		w.ended.Go(func() { w.forward(c) })
	}
}

func (w *wire) forward(c net.Conn) {
	other, err := net.Dial("tcp", w.to)
	if err != nil {
		_ = c.Close()
		return
	}
	w.mu.Lock()
	w.conns[c], w.conns[other] = true, true
	cut := w.cut
	w.mu.Unlock()
	if cut {
		_, _ = c.Close(), other.Close()
	}
	w.ended.Go(func() { _, _ = io.Copy(other, c); _, _ = c.Close(), other.Close() })
	_, _ = io.Copy(c, other)
	_, _ = c.Close(), other.Close()
	w.mu.Lock()
	delete(w.conns, c)
	delete(w.conns, other)
	w.mu.Unlock()
}

// set cuts all connections and those that come, or lets them through again.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for c := range w.conns {
			_ = c.Close()
		}
	}
}

// testStreamCut: a page that hears nothing any more says so, and goes on by itself once it can.
func testStreamCut(t *testing.T, s *stage) {
	w := newWire(t, s.weir.Admin)
	p := s.browser.tab(t, w.l.Addr().String())
	p.open("/", "overview")
	p.await("the stream of events is open", `document.documentElement.dataset.live === "open"`)
	evaluate[bool](p, `(window.same = true)`)
	p.expect("net::ERR_") // each attempt to connect
	w.set(true)
	p.await("the page says that it hears nothing", `document.documentElement.dataset.live === "closed"`)
	p.await("and so that people see it", `/not live|no connection|disconnected|reconnect|lost|stale|offline|closed/i.test(document.body.innerText)`)
	p.shot("cut")
	s.origins[2].Stop()
	w.set(false)
	p.await("it hears again", `document.documentElement.dataset.live === "open"`)
	p.await("it shows what has happened meanwhile", originIs(originNames[2], "bad"))
	s.origins[2].Start()
	p.await("it shows what happens", originIs(originNames[2], "good"))
	if !p.is(`window.same === true`) {
		t.Error("the page was loaded anew")
	}
}
