package downstream

import (
	"net"
	"sync"
	"time"
)

// newcomers are a listener's connections that may still be on their way to HTTP/2: those that came within the time that is given to
// them. The library waits for all of these when it stops, and knows no way to hurry them; closing them does (TestStopWaitsForNobody).
// When a handshake is over is told to nobody, so connections stay in here for up to twice its time.
type newcomers struct {
	mu      sync.Mutex // guards what follows; a leaf, held for list work only
	recent  []net.Conn
	earlier []net.Conn // from before turned
	turned  time.Time
	closed  bool
}

// add takes a connection in; false if none is welcome any more.
func (n *newcomers) add(now time.Time, c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	if now.Sub(n.turned) > handshake {
		n.earlier, n.recent, n.turned = n.recent, nil, now
	}
	n.recent = append(n.recent, c)
	return true
}

// close closes the connections there are, and has all that come refused.
func (n *newcomers) close() {
	n.mu.Lock()
	all := append(n.earlier, n.recent...)
	n.earlier, n.recent, n.closed = nil, nil, true
	n.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // most are closed, or are about to be
	}
}
