package downstream

import (
	"container/list"
	"context"
	"sync"
)

// rounds lets one at a time do something. Those that wait have their turns peer by peer, and those
// of one peer in the order in which they came: nobody waits for more than one turn of each other
// peer (TestTurnsGoRoundByPeer). The zero rounds is free.
type rounds struct {
	mu    sync.Mutex // guards what follows; a leaf, held for list work only
	taken bool       // somebody has the turn. Invariant: or nobody waits
	peers ring[peerKey, *list.List]
}

// round is one that waits.
type round struct {
	peer peerKey
	at   *list.Element // among those of the peer; nil: it has the turn. Guarded by rounds.mu
	turn chan struct{} // closed when it has the turn
}

// enter waits for a turn of a peer, nil for nobody. The error is that of ctx, and then there is
// none.
func (r *rounds) enter(ctx context.Context, peer *peerKey) error {
	n := r.join(peer)
	if n == nil {
		return nil
	}
	select {
	case <-n.turn:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.at == nil {
		r.nextLocked() // it has got the turn at this very moment
	} else {
		r.removeLocked(n)
	}
	return ctx.Err()
}

// join takes the turn if it is free, which returns nil, or waits in line.
func (r *rounds) join(peer *peerKey) *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.taken {
		r.taken = true
		return nil
	}
	n := &round{turn: make(chan struct{})}
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

// leave gives the turn to the next.
func (r *rounds) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nextLocked()
}

func (r *rounds) nextLocked() {
	if r.peers.len() == 0 {
		r.taken = false
		return
	}
	n := r.peers.next().Front().Value.(*round)
	r.removeLocked(n)
	close(n.turn)
}

func (r *rounds) removeLocked(n *round) {
	waiting := r.peers.get(n.peer)
	waiting.Remove(n.at)
	n.at = nil
	if waiting.Len() == 0 {
		r.peers.remove(n.peer)
	}
}
