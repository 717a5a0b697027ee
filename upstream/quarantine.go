package upstream

import (
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"go.uber.org/zap"
)

// longestRest is the longest pause between two attempts to ask for a type in quarantine (RELAY-92).
const longestRest = 10 * time.Minute

// accuseAfter is how long an origin must have refused every stream, without any answer, before a
// type is suspected of it.
const accuseAfter = 2 * time.Minute

// mayAccuse reports whether types may be blamed for the end of a group's stream (RELAY-92). An
// origin that has answered nothing yet may be starting, or refuse us altogether. If that has lasted
// for accuseAfter, one type may be the reason on all streams: then one group finds out for all. It
// locks the origin.
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

// suspects logs that the next stream leaves out some types.
func (l *lane) suspects(s *stream, err error, typeURLs []string) {
	l.origin.rateLimitedLog.warn(time.Now(), "suspects", "the origin ended the stream just after it was asked for types it never answered: "+
		"they are left out, and tried apart from the others",
		zap.String("group", l.table.Group().Key()), zap.String("type_url", printable(typeURLs[0])), zap.Int("types", len(typeURLs)),
		zap.String("address", s.conn.server.address), zap.Error(err))
}

// quarantined logs and counts that the origin ended the stream of a type in quarantine, which then
// backs off. The origin responded, so this is no connectivity error.
func (l *lane) quarantined(s *stream, err error, r *relay.StreamRejection) {
	o, now, typeURL := l.origin, time.Now(), l.table.OnlyType()
	o.pool.release(s.slot, noMiss)
	o.counts.Failure(FailureOf(err))
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

// restAfter returns how long a type backs off after a number of refusals in a row. An origin that
// never answered may refuse us altogether; then all types are asked again as soon as after any
// outage.
func (o *Origin) restAfter(failures int) time.Duration {
	w := waits{cfg: o.cfg.Backoff, failures: failures - 1}
	if o.health.everHeard() {
		w.cfg.Max = longestRest
	}
	return min(w.next(), longestRest)
}
