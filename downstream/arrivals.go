package downstream

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// arrivalWait is how long a new stream may wait for its turn. It is short enough that with
	// cold_wait, which comes after it, no client takes silence for absence (RELAY-8).
	arrivalWait = 2 * time.Second
	// arrivalSlack is how much later than foreseen the turn may come, as peers that come after the
	// stream have their turns as well.
	arrivalSlack = 100 * time.Millisecond
)

// errCrowded: too many streams wait already.
var errCrowded = errors.New("too many streams wait to be admitted")

// arrivals admits new streams at a rate. Those that have to wait take turns: peer by peer, of a
// peer connection by connection, and on a connection in the order in which they came. So a stream
// waits for one turn of each other peer and connection, however many streams they open, and one
// that ends before its turn costs no turn (TestResetStreamsStarveNobody, TestTurns). All of them
// share one timer, which is set once for each turn: a timer that is set again while it runs has the
// runtime look through all timers there are (BenchmarkArrivals).
type arrivals struct {
	mu      sync.Mutex // guards what follows; a leaf, held for list work only
	rate    bucket
	waiting int
	peers   ring[peerKey, *peerTurns] // those with streams that wait
	// the same streams in the order in which they came, which is that of their deadlines
	oldest, newest *arrival
	timer          *time.Timer // of the next turn or deadline; it runs only while somebody waits
	due            time.Time   // when it fires; zero: it does not run
}

// peerTurns are the connections of a peer on which streams wait.
type peerTurns struct {
	key   peerKey
	conns ring[*connection, *connTurns]
}

// connTurns are the streams that wait on one connection.
type connTurns struct {
	peer    *peerTurns
	key     *connection
	streams list.List // of *arrival
}

// arrival is one stream that waits.
type arrival struct {
	conn *connTurns
	late time.Time // when it has waited for too long
	// in conn.streams; nil: it does not wait any more. Guarded by arrivals.mu
	at           *list.Element
	older, newer *arrival      // guarded by arrivals.mu
	crowded      bool          // it has waited for too long; set before done is closed
	done         chan struct{} // closed when it is its turn, or it has waited for too long
}

// enter waits for the turn of a stream. The error is errCrowded, or that of ctx.
func (a *arrivals) enter(ctx context.Context, peer peerKey, conn *connection) error {
	if err := ctx.Err(); err != nil {
		return err // it costs no turn
	}
	n, err := a.join(time.Now(), peer, conn)
	if n == nil {
		return err
	}
	select {
	case <-n.done:
		if n.crowded {
			return errCrowded
		}
		return nil
	case <-ctx.Done():
		a.leave(n)
		return ctx.Err()
	}
}

// join admits a stream, puts it in line, or refuses it; the first two without an error, the second
// with an arrival. It locks the line.
func (a *arrivals) join(now time.Time, peer peerKey, conn *connection) (*arrival, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == 0 && a.rate.ready(now) <= 0 {
		a.rate.take(now)
		return nil, nil
	}
	p, c := a.peers.get(peer), (*connTurns)(nil)
	peers, conns, before := a.peers.len(), 1, 0
	if p == nil {
		peers++
	} else if conns, c = p.conns.len(), p.conns.get(conn); c == nil {
		conns++
	} else {
		before = c.streams.Len()
	}
	// It is its turn when all who wait have had one, or sooner: as many of each peer and connection
	// as its own has.
	turns := min(a.waiting, (before+1)*conns*peers-1)
	if a.rate.ready(now)+time.Duration(turns)*a.rate.each > arrivalWait {
		return nil, errCrowded
	}
	if p == nil {
		p = &peerTurns{key: peer}
		a.peers.add(peer, p)
	}
	if c == nil {
		c = &connTurns{peer: p, key: conn}
		p.conns.add(conn, c)
	}
	n := &arrival{conn: c, late: now.Add(arrivalWait + arrivalSlack), older: a.newest, done: make(chan struct{})}
	n.at = c.streams.PushBack(n)
	if a.newest = n; n.older == nil {
		a.oldest = n
	} else {
		n.older.newer = n
	}
	a.waiting++
	a.admit(now)
	return n, nil
}

// leave takes a stream out of the line that has ended. If it was admitted at this very moment, the
// turn is the next one's. It locks the line.
func (a *arrivals) leave(n *arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case n.at != nil:
		a.drop(n)
	case !n.crowded:
		a.rate.giveBack()
	}
	a.admit(time.Now())
}

// set has streams admitted at another rate from now on. It locks the line.
func (a *arrivals) set(perSecond int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rate.set(perSecond)
	a.admit(time.Now())
}

// turn is called when the next turn or deadline comes. It locks the line.
func (a *arrivals) turn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = time.Time{}
	a.admit(time.Now())
}

// admit admits those whose turn it is, refuses those that have waited for too long, and sees to it
// that the next are looked at in time.
func (a *arrivals) admit(now time.Time) {
	for a.waiting > 0 {
		wait := a.rate.ready(now)
		if wait > 0 {
			if n := a.oldest; n.late.After(now) {
				a.alarm(now, min(wait, n.late.Sub(now)))
				return
			}
			a.oldest.crowded = true
			a.drop(a.oldest)
			continue
		}
		a.rate.take(now)
		p := a.peers.next()
		a.drop(p.conns.next().streams.Front().Value.(*arrival))
	}
	if a.timer != nil {
		a.timer.Stop()
		a.due = time.Time{}
	}
}

// alarm has turn called so long after now, or sooner if that is so already.
func (a *arrivals) alarm(now time.Time, wait time.Duration) {
	due := now.Add(wait)
	switch {
	case a.timer == nil:
		a.timer = time.AfterFunc(wait, a.turn)
	case a.due.IsZero() || due.Before(a.due):
		a.timer.Reset(wait)
	default:
		return
	}
	a.due = due
}

// drop takes a stream out of the line, and tells it.
func (a *arrivals) drop(n *arrival) {
	if n.older == nil {
		a.oldest = n.newer
	} else {
		n.older.newer = n.newer
	}
	if n.newer == nil {
		a.newest = n.older
	} else {
		n.newer.older = n.older
	}
	n.older, n.newer = nil, nil
	close(n.done)
	c, p := n.conn, n.conn.peer
	c.streams.Remove(n.at)
	n.at = nil
	a.waiting--
	if c.streams.Len() > 0 {
		return
	}
	if p.conns.remove(c.key); p.conns.len() == 0 {
		a.peers.remove(p.key)
	}
}

// ring is what takes turns. The zero ring is empty.
type ring[K comparable, V any] struct {
	order list.List // of V; the front is next
	at    map[K]*list.Element
}

func (r *ring[K, V]) len() int { return r.order.Len() }

// get is what has a key; the zero V if nothing has.
func (r *ring[K, V]) get(key K) (v V) {
	if e := r.at[key]; e != nil {
		v = e.Value.(V)
	}
	return v
}

// add puts v behind all others.
func (r *ring[K, V]) add(key K, v V) {
	if r.at == nil {
		r.at = map[K]*list.Element{}
	}
	r.at[key] = r.order.PushBack(v)
}

// first is whose turn it is.
func (r *ring[K, V]) first() V { return r.order.Front().Value.(V) }

// next is whose turn it is; it is behind all others then.
func (r *ring[K, V]) next() V {
	e := r.order.Front()
	r.order.MoveToBack(e)
	return e.Value.(V)
}

func (r *ring[K, V]) remove(key K) {
	r.order.Remove(r.at[key])
	if delete(r.at, key); len(r.at) == 0 {
		r.at = nil // a map does not shrink
	}
}
