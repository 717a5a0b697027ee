package tracing

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// longestText bounds the texts of an attribute, in bytes.
const longestText = 256

// update is an update while it is followed.
type update struct {
	*relay.Traced
	span trace.Span

	clients, acked, nacked, gone int // those who were sent it, and what they did
	ackedFirst, ackedLast        time.Time
	last                         time.Time         // when something happened
	waits                        map[uint64]uint64 // streams that have not answered, with the number of the answer
	unsent                       int               // who has still to be sent it, at the last look
	quiet                        int               // how many looks have found nobody to wait for
}

// note takes an event in.
func (u *update) note(e *downstream.Event) {
	number, waits := u.waits[e.Stream]
	switch {
	case e.Kind == downstream.EventSent:
		if !waits && u.in(e) {
			u.clients++
			u.waits[e.Stream] = e.Number
			u.last = e.At
		}
		return
	case !waits:
		return
	case e.Kind == downstream.EventEnded:
		u.gone++
	case e.TypeURL != u.TypeURL || e.Number < number:
		return
	case e.Kind == downstream.EventNacked:
		u.nacked++
	default:
		if u.acked++; u.ackedFirst.IsZero() {
			u.ackedFirst = e.At
		}
		u.ackedLast = e.At
	}
	delete(u.waits, e.Stream)
	u.last = e.At
}

// in reports whether an answer has the update.
func (u *update) in(e *downstream.Event) bool {
	return e.TypeURL == u.TypeURL && (e.Source == nil || e.Source == u.Source) && e.First <= u.Revision && u.Revision <= e.Rev
}

// over reports whether the update need not be followed any longer. Between the take of an answer
// and its event the client is in neither number, so it takes two looks.
func (u *update) over(enough bool) bool {
	if u.quiet++; u.unfinished() > 0 {
		u.quiet = 0
	}
	return enough || u.quiet >= 2
}

// unfinished is how many clients lack the update.
func (u *update) unfinished() int { return len(u.waits) + u.unsent }

// end ends the span. Times are in seconds since the receipt.
func (u *update) end(now time.Time) {
	origin := u.Source.Origin().Name()
	u.span.SetAttributes(
		attribute.String("weir.origin", origin), attribute.String("weir.group", clip(u.Source.Key())),
		attribute.String("weir.type", metrics.ShortName(u.TypeURL)), attribute.Int64("weir.revision", int64(u.Revision)), //nolint:gosec // a count
		attribute.Int("weir.resources", u.Resources), attribute.Int("weir.removed", u.Removed), attribute.Int("weir.changed", u.Changed),
		attribute.Int("weir.clients", u.clients+u.unsent), attribute.Int("weir.acked", u.acked), attribute.Int("weir.nacked", u.nacked),
		attribute.Int("weir.gone", u.gone),
	)
	if !xds.IsSecret(u.TypeURL) { // it may be a digest of them (RELAY-76)
		u.span.SetAttributes(attribute.String("weir.origin_version", clip(u.Version)))
	}
	if u.acked > 0 {
		u.span.SetAttributes(attribute.Float64("weir.acked_first", u.ackedFirst.Sub(u.Came).Seconds()),
			attribute.Float64("weir.acked_last", u.ackedLast.Sub(u.Came).Seconds()))
	}
	at := u.last
	switch n := u.unfinished(); {
	case n > 0:
		u.span.SetAttributes(attribute.Int("weir.unfinished", n))
		at = now
	case at.IsZero():
		at = u.Came // it reached nobody
	}
	u.span.End(trace.WithTimestamp(at))
}

func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), longestText)], "") }
