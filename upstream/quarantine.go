package upstream

import (
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"go.uber.org/zap"
)

// longestRest is the longest pause between two attempts to ask for a type in quarantine (RELAY-92).
const longestRest = 10 * time.Minute

// suspects logs that the next stream leaves out some types.
func (l *lane) suspects(s *stream, err error, r *relay.StreamRejection) {
	typeURLs, how := r.Suspects, "they are left out, and tried apart from the others"
	if r.Cold {
		how = "it has answered nothing yet, and each type is tried apart from the others until one is answered"
	}
	l.origin.rateLimitedLog.warn(time.Now(), "suspects", "the origin ended the stream just after it was asked for types it never answered: "+how,
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

// restAfter returns how long a type backs off after a number of refusals in a row.
func (o *Origin) restAfter(failures int) time.Duration {
	w := waits{cfg: o.cfg.Backoff, failures: failures - 1}
	w.cfg.Max = longestRest
	return min(w.next(), longestRest)
}
