package downstream

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// arrivalWait bounds how long a new stream waits to be admitted. It is short: cold_wait starts
	// after it, and both together have to end before a client takes silence for absence (RELAY-8).
	arrivalWait = 2 * time.Second
	// arrivalSlack is added to a stream's expected wait. Peers that arrive after the stream take
	// turns in between and push it back a little.
	arrivalSlack = 100 * time.Millisecond
)

// errCrowded says that too many streams already wait to be admitted.
var errCrowded = errors.New("too many streams wait to be admitted")

// arrivals admits new streams at a configured rate. Streams beyond the rate wait in line.
//
// The line is fair: turns go round the peers, within a peer round its connections, and on a
// connection to the oldest stream. So a stream waits for one turn of each other peer and
// connection, however many streams those open. A stream that ends before its turn uses no turn
// (TestResetStreamsStarveNobody, TestTurns).
//
// All waiting streams share one timer, which is set once per turn. Resetting a running timer makes
// the runtime scan all timers (BenchmarkArrivals).
type arrivals struct {
	mu      sync.Mutex // guards what follows; a leaf, held for list work only
	rate    bucket
	waiting int
	peers   ring[peerKey, *peerTurns] // peers with waiting streams
	// The same streams by arrival, which is also the order of their deadlines.
	oldest, newest *arrival
	timer          *time.Timer // for the next turn or deadline; runs only while a stream waits
	due            time.Time   // when the timer fires; zero: it is not set
}

// peerTurns holds the connections of one peer that have waiting streams.
type peerTurns struct {
	key   peerKey
	conns ring[*connection, *connTurns]
}

// connTurns holds the waiting streams of one connection.
type connTurns struct {
	peer    *peerTurns
	key     *connection
	streams list.List // of *arrival
}

// arrival is one waiting stream.
type arrival struct {
	conn *connTurns
	late time.Time // deadline: the stream is refused when it passes
	// position in conn.streams; nil once it has left the line; guarded by arrivals.mu
	at           *list.Element
	older, newer *arrival      // guarded by arrivals.mu
	crowded      bool          // the deadline passed; set before done is closed
	done         chan struct{} // closed when the stream is admitted or its deadline passes
}

// enter waits until the stream is admitted. It returns errCrowded if the line is too long, and the
// error of ctx if that ends first.
func (a *arrivals) enter(ctx context.Context, peer peerKey, conn *connection) error {
	if err := ctx.Err(); err != nil {
		return err // it uses no turn
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

// join admits a stream at once (nil, nil), puts it in line (an arrival), or refuses it (an error).
// It locks the line.
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
	// The stream's turn comes when every waiting stream has had one, or sooner: after each peer and
	// connection has had as many turns as its own has streams in front.
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

// leave removes a stream that ended from the line. If it was admitted at the same moment, its turn
// goes to the next stream. It locks the line.
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

// set changes the rate. It locks the line.
func (a *arrivals) set(perSecond int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rate.set(perSecond)
	a.admit(time.Now())
}

// turn is the timer's function. It locks the line.
func (a *arrivals) turn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = time.Time{}
	a.admit(time.Now())
}

// admit admits the streams whose turn has come, refuses those past their deadline, and sets the
// timer for what comes next.
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

// alarm sets the timer to fire after wait, unless it is set to fire sooner.
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

// drop removes a stream from the line and wakes it.
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

// ring hands out turns among keyed values, round robin. The zero ring is empty.
type ring[K comparable, V any] struct {
	order list.List // of V; the front is next
	at    map[K]*list.Element
}

func (r *ring[K, V]) len() int { return r.order.Len() }

// get returns the value of a key, or the zero V.
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

// first returns the value whose turn is next.
func (r *ring[K, V]) first() V { return r.order.Front().Value.(V) }

// next returns the value whose turn is next and moves it behind all others.
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

// bucket is a token bucket: one token per interval, at most burst of them saved. The zero bucket
// limits nothing. Its owner guards it.
type bucket struct {
	each, burst time.Duration
	full        time.Time // when the bucket will be full again
}

// newBucket returns a full bucket of perSecond tokens a second that saves one second's worth.
func newBucket(perSecond int) bucket {
	return bucket{each: time.Second / time.Duration(perSecond), burst: time.Second}
}

// set changes the rate.
func (b *bucket) set(perSecond int) { b.each = time.Second / time.Duration(perSecond) }

// take takes a token and returns how long to wait until it may be used.
func (b *bucket) take(now time.Time) time.Duration {
	if b.each == 0 {
		return 0
	}
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(b.each)
	return max(0, b.full.Sub(now)-b.burst)
}

// ready returns how long it takes until a token is there. It takes none.
func (b *bucket) ready(now time.Time) time.Duration {
	return max(0, max(0, b.full.Sub(now))+b.each-b.burst)
}

// giveBack returns a token.
func (b *bucket) giveBack() { b.full = b.full.Add(-b.each) }
