package downstream

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/weir-xds/weir/metrics"
)

const (
	// shortList is how many names a request may have without waiting for other requests of its
	// peer.
	shortList = 100
	// nameBurst bounds the unused allowance that a peer may save up, as a time at the full rate.
	nameBurst = time.Second
	// namePeers bounds the peers that are remembered. A peer that is forgotten begins with a full
	// burst.
	namePeers = 4096
)

// namePace limits how many names that no client asks for yet one peer may bring in a second, on all
// its streams together (limits.new_names_per_second). Each such name is asked of the origin, and
// its answers are applied one after the other. A request is applied whole, however long it is. The
// peer's next request with names waits until the peer has no debt. So a client that asks for
// 100,000 names at its start does not wait, and names that others have already cost nothing.
// Requests without names, such as delta ACKs, never wait (TestNewNamesArePaced). Nor do requests
// that repeat their list, as SotW ACKs do (TestFleetBehindOneAddress).
type namePace struct {
	mu    sync.Mutex // guards what follows; a leaf
	peers *simplelru.LRU[peerKey, *peerNames]
	rate  int // names a second; math.MaxInt32: any number
}

// peerNames is the account of one peer.
type peerNames struct {
	turn chan struct{} // one slot, taken by the long list that is being applied
	// paid is the time at which everything brought so far is paid for; later than now: the peer has
	// a debt. Guarded by namePace.mu.
	paid time.Time
}

// bringing is a request with names that is being applied. The zero value is a request that is not
// counted.
type bringing struct {
	peer *peerNames
	turn bool // it has the peer's turn
	over bool // it waited for a debt
}

func newNamePace(perSecond int) *namePace {
	return &namePace{peers: newLRU[*peerNames](namePeers), rate: perSecond}
}

// set changes the rate for names that are brought from now on. It locks the pace.
func (p *namePace) set(perSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = perSecond
}

// of is the account of a peer; nil: the peer is not counted. It locks the pace.
func (p *namePace) of(who *peerKey) *peerNames {
	p.mu.Lock()
	defer p.mu.Unlock()
	if who == nil || p.rate == math.MaxInt32 {
		return nil
	}
	n, ok := p.peers.Get(*who)
	if !ok {
		n = &peerNames{turn: make(chan struct{}, 1)}
		p.peers.Add(*who, n)
	}
	return n
}

// debt is how long it takes a peer to pay for what it brought. It locks the pace.
func (p *namePace) debt(n *peerNames, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return n.paid.Sub(now)
}

// settle waits until a peer has no debt, and reports whether it had one. The error is that of ctx.
func (p *namePace) settle(ctx context.Context, n *peerNames) (over bool, err error) {
	for {
		wait := p.debt(n, time.Now())
		if wait <= 0 {
			return over, nil
		}
		over = over || wait >= leastPause
		if !sleep(ctx, wait) {
			return over, ctx.Err()
		}
	}
}

// enter waits until a request may be applied, unless it repeats the names of its stream. While it
// waits, the request's share of the intake is free for others. A caller that enters has to leave.
// The error is that of ctx, or errNotEntered.
func (p *namePace) enter(ctx context.Context, in *request, repeats func(*content) bool) (b bringing, err error) {
	if in.content == nil || in.names.n+len(in.locators) == 0 {
		return b, nil
	}
	// With in.turn it has waited before it was inflated.
	if b.peer = p.of(in.from); b.peer == nil || in.turn {
		return b, nil
	}
	if in.names.n <= shortList && p.debt(b.peer, time.Now()) <= 0 || repeats(in.content) {
		return b, nil
	}
	select {
	case b.peer.turn <- struct{}{}:
		b.turn = true
		if p.debt(b.peer, time.Now()) <= 0 {
			return b, nil
		}
	default:
	}
	in.waits.begin(metrics.WaitNewNames, time.Now(), time.Time{})
	defer in.waits.end()
	had := in.parts > 0
	in.intake.leave(in.parts)
	in.parts = 0
	if !b.turn {
		select {
		case b.peer.turn <- struct{}{}:
			b.turn = true
		case <-ctx.Done():
			return b, ctx.Err()
		}
	}
	if b.over, err = p.settle(ctx, b.peer); err == nil && had {
		err = in.takeIn()
	}
	if err != nil {
		p.leave(b, 0)
		b = bringing{}
	}
	return b, err
}

// leave counts the names that a request brought. It locks the pace.
func (p *namePace) leave(b bringing, names int) {
	if b.peer == nil {
		return
	}
	if names > 0 {
		now := time.Now()
		p.mu.Lock()
		if earliest := now.Add(-nameBurst); b.peer.paid.Before(earliest) {
			b.peer.paid = earliest
		}
		b.peer.paid = b.peer.paid.Add(time.Duration(float64(names) / float64(p.rate) * float64(time.Second)))
		p.mu.Unlock()
	}
	if b.turn {
		<-b.peer.turn
	}
}

// settled waits for a peer's debt before a compressed message is inflated. How many names it has is
// not known yet, and after inflating it has a turn that others wait for.
func (p *namePace) settled(ctx context.Context, in *request) error {
	n := p.of(in.from)
	if n == nil {
		return nil
	}
	if now := time.Now(); p.debt(n, now) > 0 {
		in.waits.begin(metrics.WaitNewNames, now, time.Time{})
		defer in.waits.begin(metrics.WaitIntake, now, time.Time{})
	}
	_, err := p.settle(ctx, n)
	return err
}
