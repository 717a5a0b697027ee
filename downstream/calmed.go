package downstream

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// calmedPeers bounds the peers that are remembered. One that is forgotten is greeted at once.
	calmedPeers = 4096
	// calmedFor is how long a peer is remembered after one of its connections was told to calm
	// down.
	calmedFor = 10 * time.Second
	// calmedWait is how long a new connection of such a peer waits before it is greeted. The
	// connections wait side by side, so whoever else is behind the same address is served a second
	// later, and no more (TestCalmedPeersAreGreetedLater).
	calmedWait = time.Second
)

// calmed remembers the peers that were told to calm down. A connection counts for itself, and so a
// new one begins with clean counts: without the wait a peer that dials again at once is never
// slowed down.
type calmed struct {
	until *lru.Cache[netip.Prefix, time.Time]
}

func newCalmed() calmed {
	until, err := lru.New[netip.Prefix, time.Time](calmedPeers)
	if err != nil {
		panic(err) // our own bug: the size is positive
	}
	return calmed{until}
}

// note remembers a peer. Who has no address, as over a Unix socket, is not remembered.
func (c calmed) note(now time.Time, peer netip.Prefix) {
	if peer.IsValid() {
		c.until.Add(peer, now.Add(calmedFor))
	}
}

// wait says how long a new connection of a peer is to wait.
func (c calmed) wait(now time.Time, peer netip.Prefix) time.Duration {
	if until, ok := c.until.Peek(peer); !ok || !now.Before(until) {
		return 0
	}
	return calmedWait
}

// greetLater has a new connection wait, if its peer was told to calm down. The server's end ends
// the wait.
func (s *Server) greetLater(peer netip.Prefix) {
	wait := s.calmed.wait(time.Now(), peer)
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.quit:
	}
}
