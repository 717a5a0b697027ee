package downstream

import (
	"container/list"
	"context"
	"sync"
)

// rounds has a number of parts. Whoever does some work holds a number of them meanwhile. Those that
// wait have their turns peer by peer, and those of one peer in the order in which they came. So
// nobody waits for more than one turn of each other peer (TestTurnsGoRoundByPeer,
// TestIntakeGoesRoundByPeer). Nobody is overtaken once it has the turn, however many parts it
// needs.
type rounds struct {
	mu    sync.Mutex // guards what follows; a leaf, held for list work only
	free  int64      // number of parts that nobody holds
	peers ring[peerKey, *list.List]
}

// round is one that waits.
type round struct {
	peer  peerKey
	parts int64
	at    *list.Element // among those of its peer; nil: it has the turn. Guarded by rounds.mu
	turn  chan struct{} // closed when it has the turn
}

// enter waits for a turn of a peer with so many parts. peer may be nil, for nobody. The error is
// that of ctx, and then no parts are held. It locks the line.
func (r *rounds) enter(ctx context.Context, peer *peerKey, parts int64) error {
	if !r.enterUnless(ctx.Done(), peer, parts) {
		return ctx.Err()
	}
	return nil
}

// enterUnless is enter until over is closed. It reports whether the parts are held. It locks the
// line.
func (r *rounds) enterUnless(over <-chan struct{}, peer *peerKey, parts int64) bool {
	n := r.join(peer, parts)
	if n == nil {
		return true
	}
	select {
	case <-n.turn:
		return true
	case <-over:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.at == nil {
		r.free += parts // it has got the turn at this very moment
	} else {
		r.dropName(n)
	}
	r.next()
	return false
}

// join takes a turn if nobody waits and enough parts are free; then it returns nil. Otherwise it
// waits in line. It locks the line.
func (r *rounds) join(peer *peerKey, parts int64) *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peers.len() == 0 && parts <= r.free {
		r.free -= parts
		return nil
	}
	n := &round{parts: parts, turn: make(chan struct{})}
	if peer != nil {
		n.peer = *peer
	}
	waiting := r.peers.get(n.peer)
	if waiting == nil {
		waiting = list.New()
		r.peers.add(n.peer, waiting)
	}
	n.at = waiting.PushBack(n)
	return n
}

// leave gives parts back, for the next in line. It locks the line.
func (r *rounds) leave(parts int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += parts
	r.next()
}

// next lets those enter that have the turn, as far as there are parts.
func (r *rounds) next() {
	for r.peers.len() > 0 {
		n := r.peers.first().Front().Value.(*round)
		if n.parts > r.free {
			return
		}
		r.free -= n.parts
		r.peers.next()
		r.dropName(n)
		close(n.turn)
	}
}

func (r *rounds) dropName(n *round) {
	waiting := r.peers.get(n.peer)
	waiting.Remove(n.at)
	n.at = nil
	if waiting.Len() == 0 {
		r.peers.remove(n.peer)
	}
}
