package real

import (
	"io"
	"net"
	"sync"
	"testing"
)

// front is an address that stays while what is behind it changes, as a load balancer has it: it
// takes connections and carries their bytes.
type front struct {
	l    net.Listener
	done sync.WaitGroup

	mu     sync.Mutex // guards all below
	target string     // empty: connections are closed
	open   map[net.Conn]bool
}

func newFront(tb testing.TB, target string) *front {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	f := &front{l: l, target: target, open: map[net.Conn]bool{}}
	f.done.Go(f.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		f.To("")
		f.done.Wait()
	})
	return f
}

// Addr is the address that stays.
func (f *front) Addr() string { return f.l.Addr().String() }

// To ends every connection; new ones go to target.
func (f *front) To(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
	for c := range f.open {
		_ = c.Close()
	}
	clear(f.open)
}

func (f *front) accept() {
	for {
		c, err := f.l.Accept()
		if err != nil {
			return
		}
		f.done.Go(func() { f.carry(c) })
	}
}

// carry joins a connection to one of the target's until either ends.
func (f *front) carry(c net.Conn) {
	defer func() { _ = c.Close() }()
	f.mu.Lock()
	target := f.target
	f.mu.Unlock()
	behind, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = behind.Close() }()
	if !f.keep(target, c, behind) {
		return
	}
	defer f.forget(c, behind)
	f.done.Go(func() {
		_, _ = io.Copy(behind, c)
		_ = behind.Close()
	})
	_, _ = io.Copy(c, behind)
}

// keep notes a pair of connections, unless the target is another one by now.
func (f *front) keep(target string, pair ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.target != target {
		return false
	}
	for _, c := range pair {
		f.open[c] = true
	}
	return true
}

func (f *front) forget(pair ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range pair {
		delete(f.open, c)
	}
}
