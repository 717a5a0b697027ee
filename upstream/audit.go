package upstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
)

const (
	// auditGrace is how long a difference may be due to a change that reached only one of the
	// streams.
	auditGrace = 5 * time.Second
	// auditMost bounds the comparison of one type. If the origin takes longer, the result is
	// discarded.
	auditMost = 2 * time.Minute
	// driftNames is how many names a log line lists.
	driftNames = 10
)

// Results of comparing a type.
const (
	auditClean     = "clean"
	auditDrift     = "drift"
	auditPostponed = "postponed"
)

var errAuditTooLarge = errors.New("there is more than an audit compares")

// auditor is a stream on which an origin is asked what it holds. Nothing on it is applied.
type auditor struct {
	mu      sync.Mutex // guards what follows
	audit   *relay.Audit
	first   time.Time // time of the first response; zero: none yet
	lastNew time.Time // when a response last brought a new name
}

// audits compares what the table holds with what the origin sends, one type of one lane after the
// other, and begins again after Config.Audit. It ends with ctx.
func (o *Origin) audits(ctx context.Context) {
	for o.cfg.Audit > 0 {
		if !Sleep(ctx, time.Duration(float64(o.cfg.Audit)*(0.8+0.4*rand.Float64()))) {
			return
		}
		for _, l := range o.lanes.List() {
			for _, typeURL := range l.table.Types() {
				select { // one comparison at a time in the process
				case <-ctx.Done():
					return
				case o.cfg.AuditTurn <- struct{}{}:
				}
				l.audit(ctx, typeURL)
				<-o.cfg.AuditTurn
			}
		}
	}
}

// Sleep waits for d. It returns false if ctx has ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// audit compares one type, and reopens the lane if they differ.
func (l *lane) audit(ctx context.Context, typeURL string) {
	a, asks := l.table.Audit(typeURL, l.origin.cfg.SotW)
	if len(asks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, auditMost)
	defer cancel()
	result := l.compare(ctx, a, asks)
	l.origin.counts.Audited(result)
	if result != auditDrift {
		l.log.Debug("audit", zap.String("type_url", printable(typeURL)), zap.String("result", result))
		return
	}
	var names []string
	counts := l.origin.counts.Type(typeURL)
	drift := a.Drift()
	for _, d := range drift {
		counts.Drifted(d.Kind)
		if len(names) < driftNames {
			names = append(names, printable(d.Name)+" ("+d.Kind+")")
		}
	}
	l.log.Warn("the cache differs from the origin's answer on a fresh stream: requesting everything again",
		zap.String("type_url", printable(typeURL)), zap.Int("resources", len(drift)), zap.Strings("names", names))
	l.table.Renew()
}

// compare asks on a stream of its own, waits until the answer is complete, and compares.
// Differences are checked again after auditGrace. It locks the lane.
func (l *lane) compare(ctx context.Context, a *relay.Audit, asks []relay.Ask) (result string) {
	l.mu.Lock()
	answered, server := l.open && l.heard, l.server
	l.mu.Unlock()
	if !answered {
		return auditPostponed
	}
	slot, _ := l.origin.pool.take(ctx, server)
	if slot == nil {
		return auditPostponed
	}
	defer func() { l.origin.pool.release(slot, noMiss) }()
	s, err := openStream(ctx, l, slot)
	if err != nil {
		return auditPostponed
	}
	s.auditor = &auditor{audit: a}
	go s.read()
	defer func() { s.cancel(); <-s.done }()
	for i := range asks {
		if s.askFor(time.Now(), &asks[i]) != nil {
			return auditPostponed
		}
	}
	if !s.listen(func() time.Time { return s.auditor.complete(l.table.LongPause(), s.conn.arrivals) }) {
		return auditPostponed
	}
	for _, last := range []bool{false, true} {
		differences, ok := s.auditor.look()
		switch {
		case !ok:
			return auditPostponed
		case differences == 0:
			return auditClean
		case last:
			return auditDrift
		}
		grace := time.Now().Add(auditGrace)
		if !s.listen(func() time.Time { return grace }) {
			return auditPostponed
		}
	}
	return auditClean
}

// listen acknowledges responses until the time that until returns; zero: not known yet. It reports
// whether the stream lasted that long.
func (s *stream) listen(until func() time.Time) bool {
	for {
		now := time.Now()
		if _, err := s.sendVerdicts(now); err != nil {
			return false
		}
		var due <-chan time.Time
		if at := until(); !at.IsZero() {
			if !at.After(now) {
				return true
			}
			due = time.After(at.Sub(now))
		}
		select {
		case <-s.done:
			return false
		case <-s.verdicts:
		case <-due:
		}
	}
}

// hear handles a response of a stream that is not for the table. An error ends the stream. It locks
// the lane.
func (s *stream) hear(now time.Time, raw []byte) error {
	r, u, reject, err := s.parse(raw, nil)
	if err != nil {
		return err
	}
	if s.prober != nil {
		s.prober.heed(now, &u)
	} else if u.Over || !s.auditor.hear(now, &u) {
		return errAuditTooLarge
	}
	s.lane.mu.Lock()
	t := s.types[r.TypeURL]
	s.lane.mu.Unlock()
	if t == nil {
		return nil
	}
	return s.judge(now, r, &u, reject)
}

// hear records a response. more is false if there is too much to compare. It locks the auditor.
func (x *auditor) hear(now time.Time, u *xds.Update) (more bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	isNew, more := x.audit.Hear(now, u)
	if isNew || x.first.IsZero() {
		x.lastNew = now
	}
	if x.first.IsZero() {
		x.first = now
	}
	return more
}

// complete returns when the answer counts as complete: a pause after its last new name; zero while
// nothing has come. It locks the auditor.
func (x *auditor) complete(pause time.Duration, arrivals *relay.Arrivals) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.first.IsZero() {
		return time.Time{}
	}
	return arrivals.Over(x.lastNew, pause)
}

// look counts the differences. ok is false while they cannot be determined. It locks the auditor.
func (x *auditor) look() (differences int, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.audit.Look()
}
