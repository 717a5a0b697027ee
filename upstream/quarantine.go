package upstream

import (
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"go.uber.org/zap"
)

// longestRest is the longest wait between two attempts to ask a type that is in quarantine
// (RELAY-92).
const longestRest = 10 * time.Minute

// accuseAfter is for how long an origin must have refused every stream, and answered none, for that
// to be put down to a type.
const accuseAfter = 2 * time.Minute

// mayAccuse reports whether the end of a stream of a group may be put down to types. An origin that
// has answered nothing yet may be starting, or refuse us altogether (RELAY-92). Should it have
// refused every stream for accuseAfter, one type may be what it refuses all of them for: one group
// finds out for all. It locks the origin.
func (o *Origin) mayAccuse(now time.Time, g *relay.Group) bool {
	if o.health.everHeard() {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refusedSince.IsZero() {
		o.refusedSince = now
	}
	if o.accuser == nil && now.Sub(o.refusedSince) >= accuseAfter {
		o.accuser = g
	}
	return o.accuser == g
}

// suspects says that the next stream goes without some types.
func (l *lane) suspects(s *stream, err error, typeURLs []string) {
	l.origin.rateLimitedLog.warn(time.Now(), "suspects", "the origin ended the stream just after it was asked for types it never answered: "+
		"they are left out, and tried apart from the others",
		zap.String("group", l.table.Group().Key()), zap.String("type_url", printable(typeURLs[0])), zap.Int("types", len(typeURLs)),
		zap.String("address", s.conn.server.address), zap.Error(err))
}

// quarantined has a type rest whose own stream the origin ended. The origin was there, so this is
// no connectivity error.
func (l *lane) quarantined(s *stream, err error, r *relay.StreamRejection) {
	o, now, typeURL := l.origin, time.Now(), l.table.OnlyType()
	o.pool.release(s.slot, noMiss)
	wait := o.restAfter(r.Failures)
	l.table.RetryAt(now.Add(wait), printable(err.Error()))
	if !r.First {
		l.log.Debug("the type stays in quarantine", zap.String("type_url", printable(typeURL)), zap.Duration("wait", wait), zap.Error(err))
		return
	}
	o.counts.Type(typeURL).Quarantined()
	others := "and no other type is answered at the moment"
	if o.health.answering() {
		others = "and all other types go on"
	}
	o.rateLimitedLog.warn(now, "quarantine "+metrics.ShortName(typeURL), "the origin ends each stream on which it is asked for this type: it is in "+
		"quarantine, its clients wait, "+others+"; see origins[].types if the origin is not to be asked for it",
		zap.String("group", l.table.Group().Key()), zap.String("type_url", printable(typeURL)),
		zap.String("address", s.conn.server.address), zap.Error(err))
}

// restAfter is how long a type rests after so many refusals in a row. An origin that never answered
// anything may refuse us altogether, and then all types are to be back as soon as after any other
// outage.
func (o *Origin) restAfter(failures int) time.Duration {
	w := waits{cfg: o.cfg.Backoff, failures: failures - 1}
	if o.health.everHeard() {
		w.cfg.Max = longestRest
	}
	return min(w.next(), longestRest)
}
