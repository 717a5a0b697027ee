package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// leaseFor is how long an answer may last. Who wants more asks again, with what admits it.
	leaseFor = 10 * time.Minute
	// leaseEvery is how often the callers of answers that go on are judged again, also while
	// nothing is sent.
	leaseEvery = time.Second
)

// overdue ends an answer after leaseFor.
var overdue = &refusal{http.StatusServiceUnavailable, "", fmt.Sprintf("%v is as long as an answer lasts: ask again", leaseFor)}

// lease is the admission of one request while it is answered. It ends when its caller is not
// admitted any more: the token or a session has ended, or the client certificate is not trusted.
type lease struct {
	// Set once by admit.
	admin   *Admin
	request *http.Request
	ctx     context.Context // ends with the lease; its cause is a *refusal
	end     context.CancelCauseFunc

	unread atomic.Int64 // since when the token cannot be read, in Unix nanoseconds; 0: it can
}

// leases are those of the requests that are being answered. The zero value is ready for use.
type leases struct {
	mu  sync.Mutex // guards all; held for map work only
	all map[*lease]struct{}
}

type leaseKey struct{}

// admit begins the lease of a request. The caller calls done when it is answered.
func (a *Admin) admit(r *http.Request, by caller) (l *lease, done func()) {
	ctx, cancel := context.WithTimeoutCause(context.WithValue(r.Context(), callerKey{}, by), leaseFor, overdue)
	l = &lease{admin: a, request: r}
	l.ctx, l.end = context.WithCancelCause(ctx)
	a.leases.mu.Lock()
	if a.leases.all == nil {
		a.leases.all = make(map[*lease]struct{})
	}
	a.leases.all[l] = struct{}{}
	a.leases.mu.Unlock()
	return l, func() {
		a.leases.mu.Lock()
		delete(a.leases.all, l)
		a.leases.mu.Unlock()
		l.end(nil)
		cancel()
	}
}

// recheck judges all callers again.
func (a *Admin) recheck() {
	a.leases.mu.Lock()
	all := slices.Collect(maps.Keys(a.leases.all))
	a.leases.mu.Unlock()
	for _, l := range all {
		_ = l.over() // it has ended the lease, then
	}
}

// over judges the caller again. It returns why nothing more may be sent; nil: something may.
func (l *lease) over() *refusal {
	if l.ctx.Err() == nil {
		switch _, refused := l.admin.judgeAgain(l.request); {
		case refused == nil:
			l.unread.Store(0)
		case refused != unreadable || !l.beingWritten(time.Now()):
			l.admin.cfg.Counts.AdminRefusal(refused.reason)
			l.end(refused)
		}
	}
	return l.why()
}

// beingWritten reports whether the token cannot be read only since a moment, as while its file is
// being written.
func (l *lease) beingWritten(now time.Time) bool {
	l.unread.CompareAndSwap(0, now.UnixNano())
	return now.UnixNano()-l.unread.Load() < int64(leaseEvery)
}

// why returns why the lease has ended; nil: it has not, or the client has left.
func (l *lease) why() *refusal {
	why, _ := errors.AsType[*refusal](context.Cause(l.ctx))
	return why
}

// leaseOf returns the lease of a request or call; nil: it has none.
func leaseOf(ctx context.Context) *lease {
	l, _ := ctx.Value(leaseKey{}).(*lease)
	return l
}
