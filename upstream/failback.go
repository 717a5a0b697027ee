package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
)

// candidate is the state of a stream to a better server before the lane switches to it (FED-8). It
// is asked the same as the lane's own stream, which stays in use. The lane switches when the first
// response comes, and only then is the table told of the stream. So for the table everything before
// that response came from the old stream, which has ended. What the new stream has not answered yet
// keeps its content.
type candidate struct {
	asked    []relay.Ask
	answered chan struct{} // closed by read at the first response
	adopted  chan struct{} // closed by the lane once it has switched
}

// failBack looks for a server that is preferred to from, opens a stream to it, and sends the stream
// to found. It returns then, or when ctx ends, which is the life of the current stream. The new
// stream lives as long as lane.
func (l *lane) failBack(ctx, lane context.Context, from *server, found chan<- *stream) {
	pool, rest := l.origin.pool, waits{cfg: l.origin.cfg.Backoff}
	for {
		to, alone := pool.seek(ctx, from.at)
		if to == nil {
			return
		}
		s, err := l.try(ctx, lane, to, alone)
		if alone {
			pool.sought(to, s == nil && err == nil)
		}
		switch {
		case err != nil && ctx.Err() == nil:
			l.log.Debug("a preferred server does not answer", zap.String("server", to.address), zap.Error(err))
		case s != nil:
			select {
			case found <- s:
				return
			case <-ctx.Done():
				s.drop()
			}
		}
		if alone {
			continue // the server has its own backoff
		}
		select { // it answers others, but not this lane
		case <-ctx.Done():
			return
		case <-time.After(rest.next()):
		}
	}
}

// try opens a candidate on a server. It returns the stream, running, if the server answers, and
// neither a stream nor an error if the server is silent.
func (l *lane) try(ctx, lane context.Context, to *server, alone bool) (*stream, error) {
	pool := l.origin.pool
	slot, err := l.place(ctx, to, alone)
	if err != nil {
		return nil, err
	}
	lane, cancel := context.WithCancel(lane)
	unhook := context.AfterFunc(ctx, cancel)
	s, err := openStream(lane, l, slot)
	if err == nil {
		slow := time.AfterFunc(proveWithin, cancel) // for a server that does not read
		err = s.apply(time.Now())
		slow.Stop()
	}
	if err != nil {
		cancel()
		return nil, l.missed(ctx, slot, err)
	}
	silent := time.NewTimer(proveWithin)
	defer silent.Stop()
	select {
	case <-s.candidate.answered:
		pool.proved(slot)
	case <-s.done:
		cancel()
		return nil, l.missed(ctx, slot, s.err)
	case <-silent.C:
		// The origin may have nothing of what this lane asks. Then the lane follows the group's
		// other lanes.
		if !l.origin.moved(l.table.Group(), to) {
			cancel()
			s.drop()
			return nil, nil
		}
	}
	if !unhook() { // ctx ended at the same moment
		s.drop()
		return nil, ctx.Err()
	}
	return s, nil
}

// place gets a slot at a better server: at once for the lane that probes the server for all, in the
// queue for those that follow.
func (l *lane) place(ctx context.Context, to *server, alone bool) (*slot, error) {
	pool := l.origin.pool
	if alone {
		slot, wait := pool.take(ctx, to)
		if slot == nil {
			return nil, fmt.Errorf("no connection; the next attempt in %v", wait)
		}
		return slot, nil
	}
	q := &place{group: l.table.Group(), to: to}
	pool.join(q)
	select {
	case slot := <-q.granted:
		if pool.connect(ctx, slot) {
			return slot, nil
		}
	case <-q.missed:
		pool.leave(q)
	case <-ctx.Done():
		pool.leave(q)
	}
	return nil, errors.New("no connection")
}

// missed records that a candidate failed.
func (l *lane) missed(ctx context.Context, sl *slot, err error) error {
	pool := l.origin.pool
	if ctx.Err() != nil {
		pool.release(sl, noMiss)
		return ctx.Err()
	}
	if pool.release(sl, unserved) {
		pool.failed(sl.server, l, err, zap.String("group", l.table.Group().Key()))
	} else {
		pool.counts.Failure(FailureOf(err))
	}
	return err
}

// apply sends the lane's subscriptions on a candidate, and starts the reader. After an error the
// stream has ended.
func (s *stream) apply(now time.Time) error {
	s.candidate = &candidate{
		asked: s.lane.table.Preview(s.sotw), answered: make(chan struct{}), adopted: make(chan struct{}),
	}
	go s.read()
	for i := range s.candidate.asked {
		if err := s.askFor(now, &s.candidate.asked[i]); err != nil {
			s.cancel()
			<-s.done
			if s.err != nil {
				err = s.err // the reader has the reason
			}
			return err
		}
	}
	return nil
}

// await blocks the reader of a candidate at its first response until the lane has switched to the
// stream. That response must decode, and be of a type that was asked. It locks the lane.
func (s *stream) await(raw []byte) error {
	select {
	case <-s.candidate.adopted:
		return nil
	default:
	}
	r, _, _, err := s.parse(raw, nil)
	if err != nil {
		return err
	}
	s.conn.arrivals.Message() // for the others of the connection: this may wait for long
	s.lane.mu.Lock()
	asked := s.types[r.TypeURL] != nil
	s.lane.mu.Unlock()
	if !asked {
		return fmt.Errorf("a response of type %q without a request", printable(r.TypeURL))
	}
	close(s.candidate.answered)
	select {
	case <-s.candidate.adopted:
		return nil
	case <-s.wire.Context().Done():
		return s.wire.Context().Err()
	}
}

// adopt makes a candidate the lane's stream. The table was just told of the stream, and marks as
// asked what the stream asked. It reports whether that is still what has to be asked; if not, the
// lane opens another stream to the same server.
func (s *stream) adopt(now time.Time) bool {
	asks, reopen := s.takeAll(now)
	if reopen || !slices.EqualFunc(bySubject(asks), bySubject(s.candidate.asked), sameSubject) {
		return false
	}
	close(s.candidate.adopted)
	return true
}

// takeAll calls Take until nothing is left: the candidate was asked long lists in one request.
func (s *stream) takeAll(now time.Time) (asks []relay.Ask, reopen bool) {
	asks, reopen = s.lane.table.Take(now, s.sotw)
	for !reopen {
		var more []relay.Ask
		s.lane.table.DoNotWait()
		if more, reopen = s.lane.table.Take(now, s.sotw); len(more) == 0 {
			break
		}
		for _, a := range more {
			i := slices.IndexFunc(asks, func(x relay.Ask) bool { return x.TypeURL == a.TypeURL && !x.Wildcard })
			if i < 0 {
				asks = append(asks, a)
				continue
			}
			x := &asks[i]
			x.Subscribe, x.Unsubscribe, x.All = append(x.Subscribe, a.Subscribe...), append(x.Unsubscribe, a.Unsubscribe...), a.All
			slices.SortFunc(x.Subscribe, func(a, b relay.Name) int {
				return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Params.Key(), b.Params.Key()))
			})
		}
	}
	return asks, reopen
}

// drop ends a stream that the table does not know.
func (s *stream) drop() {
	s.cancel()
	<-s.done
	s.lane.origin.pool.release(s.slot, noMiss)
}

// bySubject sorts the questions of a stream by type.
func bySubject(asks []relay.Ask) []relay.Ask {
	asks = slices.Clone(asks)
	slices.SortStableFunc(asks, func(a, b relay.Ask) int { return xds.CompareTypes(a.TypeURL, b.TypeURL) })
	return asks
}

func sameSubject(a, b relay.Ask) bool {
	return a.TypeURL == b.TypeURL && a.Wildcard == b.Wildcard && sameNames(a.Subscribe, b.Subscribe) &&
		len(a.Unsubscribe)+len(b.Unsubscribe) == 0
}

// moved reports whether another lane of the group has an answered stream to the server. It locks
// each lane.
func (o *Origin) moved(g *relay.Group, to *server) bool {
	return slices.ContainsFunc(o.lanes.List(), func(l *lane) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.table.Group() == g && l.open && l.heard && l.server == to
	})
}
