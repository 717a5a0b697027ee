package downstream

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// calmedPeers bounds the peers that are remembered. New connections of a peer that is forgotten
	// do not wait.
	calmedPeers = 4096
	// calmedFor is how long a peer is remembered after one of its connections was sent
	// ENHANCE_YOUR_CALM.
	calmedFor = 10 * time.Second
	// calmedWait is how long a new connection of such a peer waits before it is accepted. The
	// connections wait in parallel. So other clients behind the same address are served a second
	// later, and no more (TestCalmedPeersAreGreetedLater).
	calmedWait = time.Second
)

// calmed remembers the peers that were sent ENHANCE_YOUR_CALM. Frames are counted per connection
// and a new connection starts at zero. Without the wait a peer that reconnects at once would never
// be slowed down.
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

// note records a peer. A peer without an address, as over a Unix socket, is not remembered.
func (c calmed) note(now time.Time, peer netip.Prefix) {
	if peer.IsValid() {
		c.until.Add(peer, now.Add(calmedFor))
	}
}

// pinged reports that grpc cuts off a client that pings too often (ERR-12).
func (s *Server) pinged(c *connection) {
	s.cfg.Metrics.TooManyPings()
	s.limits.pinged(time.Now(), c)
}

// wait is how long a new connection of a peer has to wait.
func (c calmed) wait(now time.Time, peer netip.Prefix) time.Duration {
	if until, ok := c.until.Peek(peer); !ok || !now.Before(until) {
		return 0
	}
	return calmedWait
}

// greetLater delays a new connection whose peer is remembered. The delay ends early when the server
// stops.
func (s *Server) greetLater(peer netip.Prefix) {
	wait := s.calmed.wait(time.Now(), peer)
	if wait == 0 {
		return
	}
	s.greeting.Add(1)
	defer s.greeting.Add(-1)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.quit:
	}
}
