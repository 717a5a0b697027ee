package relaytest

import (
	"net"
	"testing"
	"time"
)

// TestListensAgain: although a copy of the closed listener is open for a while, as in a process
// that is being started.
func TestListensAgain(t *testing.T) {
	n := TCP()
	first, err := n.Listen()
	if err != nil {
		t.Fatal(err)
	}
	copied, err := first.(*netListener).Listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	time.AfterFunc(100*time.Millisecond, func() { _ = copied.Close() })
	again, err := n.Listen()
	if err != nil {
		t.Fatal(err)
	}
	if again.Addr().String() != first.Addr().String() {
		t.Errorf("it listens on %v, and did on %v", again.Addr(), first.Addr())
	}
	_ = again.Close()
}
