package rest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream"
	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

const (
	// The pause after responses of a type that were rejected in a row (RELAY-32).
	firstPause, lastPause = time.Second, time.Minute
	// heldAfter is when a poll with a version counts as held by the server until something changes.
	// Such a poll is cancelled when there are new subscriptions.
	heldAfter = time.Second
)

// lane polls for one type of one group, as long as that has subscriptions.
type lane struct {
	// Set once by newLane.
	origin  *Origin
	table   *relay.Lane
	typeURL string
	log     *zap.Logger

	// Owned by run.
	at       *server // the server whose answers the lane is open by; nil: it is closed
	wildcard bool
	names    []string // names asked while it is open
	accepted string   // last accepted version
	known    bool     // a 304 to accepted is a full answer
	nonce    string   // of the last response, accepted or rejected
	reject   error    // to be sent with the next poll
	bad      int      // rejected responses in a row
	failures int      // failed polls in a row
	more     bool     // subscriptions that no poll has had yet

	mu     sync.Mutex // guards what follows; a leaf
	status upstream.LaneStatus
	shown  upstream.TypeStatus
}

func newLane(o *Origin, t *relay.Lane) *lane {
	l := &lane{origin: o, table: t, typeURL: t.OnlyType()}
	l.log = o.log.With(zap.String("group", t.Group().Key()), zap.Bool("side", t.Side()), zap.String("type_url", l.typeURL))
	l.status = upstream.LaneStatus{Group: t.Group().Key(), Side: t.Side(), OnlyType: l.typeURL}
	l.shown.TypeURL = l.typeURL
	o.counts.Type(l.typeURL).Asked()
	return l
}

// run polls until the lane has no subscriptions or ctx ends. Then the lane waits for the next Run
// of the origin.
func (l *lane) run(ctx context.Context) {
	o := l.origin
	defer o.lanes.Remove(l)
	defer o.health.Gone(l)
	for ctx.Err() == nil {
		if l.at == nil && l.table.Release() {
			return
		}
		if !l.table.Wanted() {
			l.close()
			continue
		}
		s, again, changed := o.servers.choose(time.Now(), l.at, l.table.Group().Uncached)
		if s == nil {
			l.table.Missed()
			l.wait(ctx, again, changed)
			continue
		}
		l.rest(ctx, l.poll(ctx, s))
	}
	l.close()
	l.table.Abandon()
}

// wait waits for a time, for a server that answers again, for new subscriptions, or for the end.
func (l *lane) wait(ctx context.Context, until time.Time, changed <-chan struct{}) {
	l.table.Waiting(time.Now(), metrics.WaitBackoff, until, "")
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-changed:
	case <-l.table.Wake():
	}
}

// rest waits until the next poll is due: after d, or soon after there are new subscriptions.
func (l *lane) rest(ctx context.Context, d time.Duration) {
	now := time.Now()
	l.table.Waiting(now, metrics.WaitPoll, now.Add(d), "")
	timer := time.NewTimer(d)
	defer timer.Stop()
	soon := d <= l.origin.cfg.Batch
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-l.table.Wake():
			l.sayLater()
			if !l.table.Wanted() {
				return
			}
			if l.at == nil {
				continue // the next poll has them anyway
			}
			if l.take(time.Now()); !soon && (l.more || l.at == nil) {
				soon = true // further ones do not delay it
				timer.Reset(l.origin.cfg.Batch)
			}
		}
	}
}

// take takes the current subscriptions, while the lane is open.
func (l *lane) take(now time.Time) {
	asks, reopen := l.table.Take(now, true)
	for i := range asks {
		a := &asks[i]
		l.wildcard, l.names = a.Wildcard, namesOf(a.All)
		if a.First || a.Wildcard || len(a.Subscribe) > 0 {
			l.more, l.known = true, false
		}
	}
	if len(asks) > 0 {
		l.show(func() { l.shown.Wildcard, l.shown.Names, l.shown.AskedAt = l.wildcard, len(l.names), now })
	}
	if reopen {
		l.close()
	}
}

func namesOf(all []relay.Name) []string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return names
}

// open opens the lane at a server that has answered. It reports whether the answer was to what the
// table asks now.
func (l *lane) open(now time.Time, s *server, wildcard bool, names []string) bool {
	l.close()
	l.table.Open(now, s.trust)
	l.at = s
	l.turn(true, now)
	l.accepted, l.known, l.nonce, l.wildcard, l.names = "", false, "", false, nil
	l.take(now)
	if l.at == nil || l.wildcard != wildcard {
		return false
	}
	lacks := func(all, some []string) bool {
		return slices.ContainsFunc(some, func(name string) bool { _, has := slices.BinarySearch(all, name); return !has })
	}
	l.more = lacks(names, l.names)
	return !lacks(l.names, names)
}

// close records that the last poll failed, or that there will be no other. What was answered stays
// servable.
func (l *lane) close() {
	if l.at == nil {
		return
	}
	l.table.Close()
	l.origin.servers.left(l.at)
	l.origin.health.Ended()
	l.at = nil
	l.turn(false, time.Now())
}

// poll polls once, and returns how long to wait before the next poll.
func (l *lane) poll(ctx context.Context, s *server) time.Duration {
	o, here := l.origin, l.at == s
	begun := time.Now()
	wildcard, names := l.wildcard, l.names
	if !here {
		asks := l.table.Preview(true)
		if len(asks) == 0 {
			o.servers.gaveUp(s)
			return o.cfg.Batch
		}
		wildcard, names = asks[0].Wildcard, namesOf(asks[0].All)
	}
	m := &discoveryv3.DiscoveryRequest{Node: l.table.Node(), TypeUrl: l.typeURL, ResourceNames: names}
	if wildcard {
		m.ResourceNames = nil // REST-4
	}
	if here {
		m.ResponseNonce = l.nonce
		if l.known || l.reject != nil {
			m.VersionInfo = l.accepted
		}
		if l.reject != nil {
			m.ErrorDetail = &status.Status{Code: int32(codes.InvalidArgument), Message: l.reject.Error()}
		}
		l.more, l.reject = false, nil
	}
	l.show(func() { l.status.Attempts++ })
	a, err := l.ask(ctx, s, m)
	now := time.Now()
	r, err := o.read(ctx, s, m, a, err)
	switch {
	case errors.Is(err, errWantsMore):
		l.take(now)
		return 0
	case ctx.Err() != nil:
		o.servers.gaveUp(s)
		return 0
	case err != nil:
		return l.failed(now, begun, s, err)
	}
	if m.VersionInfo == "" { // else the server may hold it until something changes
		o.counts.Type(l.typeURL).Answered(now.Sub(begun))
	}
	return l.answered(now, s, here, r, wildcard, names)
}

// errWantsMore cancels a poll that the server holds, because of new subscriptions.
var errWantsMore = errors.New("more is wanted")

// ask polls, and cancels the poll if the server holds it and there are new subscriptions.
func (l *lane) ask(ctx context.Context, s *server, m *discoveryv3.DiscoveryRequest) (*answer, error) {
	if m.GetVersionInfo() == "" || m.GetErrorDetail() != nil {
		return l.origin.ask(ctx, s, l.typeURL, l.table.Via(), m)
	}
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		l.watch(done, func() { cancel(errWantsMore) })
	}()
	a, err := l.origin.ask(asking, s, l.typeURL, l.table.Via(), m)
	close(done)
	<-ended
	if err != nil && errors.Is(context.Cause(asking), errWantsMore) {
		return nil, errWantsMore
	}
	return a, err
}

// watch cancels a held poll when there are new subscriptions before it is done.
func (l *lane) watch(done <-chan struct{}, off func()) {
	timer := time.NewTimer(heldAfter)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-timer.C:
	}
	select {
	case <-done:
	case <-l.table.Wake():
		off()
	}
}

// answered handles an answer; r is nil for "not modified".
func (l *lane) answered(now time.Time, s *server, here bool, r *response, wildcard bool, names []string) time.Duration {
	o := l.origin
	o.servers.answered(s, !here)
	news := o.health.Heard(now, l, !here) // before open, which closes the lane first if it was open
	usable := here || l.open(now, s, wildcard, names)
	if !here && l.at != s { // closed meanwhile, so it has to be opened again
		return o.cfg.Batch
	}
	l.failures = 0
	if news {
		l.log.Info("the origin answers", zap.String("url", s.url))
	}
	if r != nil && usable {
		l.apply(now, s, r)
	}
	l.sayLater()
	l.take(now)
	pause := o.cfg.Poll + time.Duration((rand.Float64()-0.5)/5*float64(o.cfg.Poll))
	switch {
	case !usable, l.more, l.at == nil:
		return o.cfg.Batch
	case l.bad > 1:
		return max(pause, min(firstPause<<min(l.bad-2, 10), lastPause))
	}
	return pause
}

// apply applies a response, and records the verdict.
func (l *lane) apply(now time.Time, s *server, r *response) {
	o := l.origin
	if r.loose != "" && !o.loose.Swap(true) {
		l.log.Warn("the origin's JSON is not canonical; reading it as Envoy does", zap.String("url", s.url), zap.String("first", r.loose))
	}
	counts := o.counts.Type(l.typeURL)
	u, reject, err := o.update(l.table, r)
	if err != nil {
		reject = &xds.RejectError{TypeURL: l.typeURL, Reasons: []string{err.Error()}}
		u = xds.Update{TypeURL: l.typeURL, Full: true, Bad: true, Unread: true}
	}
	l.table.Identify(r.identifier)
	l.nonce = r.nonce
	a, ok := l.table.Apply(now, &u)
	if !ok {
		counts.Unrequested(len(u.Resources))
		return
	}
	l.count(now, &a)
	if reject = reject.And(a.Over); reject == nil {
		// If the poll opened the lane, this version does not cover subscriptions made since it
		// began.
		l.accepted, l.known, l.bad = r.version, r.version != "" && !r.timed && !l.more, 0
	} else {
		counts.Nack()
		counts.Rejected(len(reject.Reasons))
		if reject.Limit != "" {
			o.metrics.LimitRejection(reject.Limit)
		}
		if l.bad++; l.lastReason() != reject.Error() {
			l.log.Warn("rejected a response", zap.String("url", s.url), zap.Error(reject))
		}
		l.reject, l.known = reject, false
	}
	l.judged(now, reject)
}

// failed handles a failed poll, and returns how long to wait before the next.
func (l *lane) failed(now, begun time.Time, s *server, err error) time.Duration {
	o, was := l.origin, l.at
	f, _ := errors.AsType[*failure](err)
	o.counts.Failure(f.why())
	if f.looped != "" {
		o.counts.Loop()
		if l.table.Looped(now, f.looped) { // a client's path, whose stream ends (RELAY-88)
			l.close()
			o.servers.gaveUp(s)
			return 0
		}
		if o.mayLog(now, "loop", loopEvery) {
			l.log.Warn("the origin is a relay and refuses the poll: it forms a loop, or passed too many relays",
				zap.Error(err))
		}
	}
	if was != nil && was != s { // a better server was probed, and does not answer
		o.servers.failed(s, begun, f.fault)
		return 0
	}
	if l.close(); was == nil {
		l.table.Missed()
	}
	blamed := o.servers.failed(s, begun, f.fault)
	if o.health.Missed(now, l, err) {
		l.log.Warn("the origin does not answer", zap.Error(err))
	} else {
		l.log.Debug("a poll failed", zap.Error(err))
	}
	if was != nil {
		o.counts.Reconnect()
	}
	if blamed {
		l.failures = 0
		return 0 // there may be another server; if not, choose knows how long to wait
	}
	d := o.cfg.Backoff.Wait(l.failures)
	l.failures++
	return d
}
