package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
)

// The cause, in one sentence.

// relevant are the waits that keep the client from the newest of a name. Those of a stream and a
// type matter if it has not got it yet.
func relevant(x *downstream.Explained, p *downstream.ExplainedPart) (all []metrics.Wait) {
	all = append(all, p.Waits...)
	it := &p.Item
	if it.Status == relay.ItemRefused || it.Status == relay.ItemSynced {
		return all
	}
	cold := slices.ContainsFunc(p.Waits, func(w metrics.Wait) bool { return downstream.OfName(w.Reason) })
	for _, w := range slices.Concat(x.Waits, x.Type.Waits) {
		switch {
		case downstream.OfName(w.Reason), w.Reason == metrics.WaitNack, w.Reason == metrics.WaitColdWait && !cold:
		case it.Unjudged && w.Reason != metrics.WaitAck && w.Reason != metrics.WaitStalled:
		default:
			all = append(all, w)
		}
	}
	return all
}

// causes are reasons in the order in which they are named as the cause, if there are several.
var causes = []metrics.WaitReason{
	metrics.WaitStalled, metrics.WaitFreeze, metrics.WaitHold, metrics.WaitGuard, metrics.WaitQuarantine, metrics.WaitBackoff, metrics.WaitConnect, metrics.WaitQueue,
	metrics.WaitPoll, metrics.WaitBadPart, metrics.WaitConfirm, metrics.WaitSettle, metrics.WaitHost, metrics.WaitOrigin, metrics.WaitError,
	metrics.WaitAsk, metrics.WaitBatch, metrics.WaitGather, metrics.WaitLimit, metrics.WaitColdWait, metrics.WaitClusters, metrics.WaitEndpoints,
	metrics.WaitEarlierSet, metrics.WaitOrder, metrics.WaitNames, metrics.WaitRemoval, metrics.WaitAck,
}

// foremost is the wait that is named as the cause.
func foremost(all []metrics.Wait) metrics.Wait {
	return slices.MinFunc(all, func(a, b metrics.Wait) int { return rank(a.Reason) - rank(b.Reason) })
}

func rank(r metrics.WaitReason) int {
	if i := slices.Index(causes, r); i >= 0 {
		return i
	}
	return len(causes)
}

// verdict concludes what is the case with a name that the client is subscribed to.
func (e *explained) verdict(now time.Time, p *downstream.ExplainedPart, what string, waits []metrics.Wait) {
	it := &p.Item
	version := what
	if it.Version != "" {
		version = what + " version " + it.Version
	}
	switch {
	case it.Status == relay.ItemRefused:
		e.conclude(stateRejected, "the client rejected %s %s ago: %s", version, since(now, p.Nack.At), p.Nack.Message)
	case it.Unjudged && foremost(waits).Reason == metrics.WaitAck:
		e.conclude(stateWaiting, "waits for the client to acknowledge %s, sent %s ago", version, since(now, p.SentAt))
	case len(waits) > 0:
		e.conclude(stateWaiting, "%s", headlineOf(now, foremost(waits), what))
	case p.Unserved:
		e.conclude(stateNotAsked, "origin %s is not asked for the type (origins[].types)", e.Group.Origin)
	case p.Rejected != nil:
		e.conclude(stateWaiting, "weir rejected what the origin sent of %s %s ago, and keeps what it held: %s", what, since(now, p.Rejected.At), p.Rejected.Reason)
	case p.Variant == nil && p.Error != nil && (!p.Error.Own || p.Error.Expired):
		e.conclude(stateAbsent, "the origin has no %s: %s", what, p.Error.Message)
	case p.Variant == nil && (p.Error != nil || p.Absent):
		e.conclude(stateAbsent, "the origin says that %s does not exist", what)
	case p.Variant == nil && p.Timeout:
		e.conclude(stateAbsent, "the origin does not answer for %s", what)
	case p.Variant == nil && it.Status != 0:
		e.conclude(stateAbsent, "weir knows of no %s", what)
	case p.Variant == nil:
		e.conclude(stateAbsent, "the origin sent no %s for %s", what, strings.Join(p.Sets, ", "))
	case !p.Live && p.Opened.IsZero():
		e.conclude(stateCurrent, "the client has %s, the newest that weir knows of; it is stale, since the origin is away: %s", version, headlineOf(now, p.Away, ""))
	default:
		e.conclude(stateCurrent, "the client has %s, the newest that weir knows of", version)
	}
}

// headlineOf is a wait as a sentence that names the cause, and until when it lasts.
func headlineOf(now time.Time, w metrics.Wait, what string) string {
	text := sentence(w)
	if what != "" {
		text = what + " waits: " + text
	}
	if !w.Since.IsZero() {
		text += fmt.Sprintf(", since %s ago", since(now, w.Since))
	}
	if w.Until.After(now) {
		text += fmt.Sprintf(", for %s more at most", w.Until.Sub(now).Round(time.Millisecond))
	}
	return text
}

// since is how long ago a time is, as people say it.
func since(now, at time.Time) string {
	d := max(now.Sub(at), 0)
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Why a group is held at a state, and what ends that.

// heldBecause says who holds a group, at what, and what ends it; "": nobody who is known does.
func (o *Origin) heldBecause(now time.Time, group string) string {
	key, tier := relay.CutTier(group)
	if text := o.rolledBecause(group, key); text != "" {
		return text
	}
	for i := range o.Canary {
		if s := &o.Canary[i]; s.Group == key {
			return o.gatedBecause(now, tier, s)
		}
	}
	return ""
}

// rolledBecause says who has rolled a group back; "": nobody.
func (o *Origin) rolledBecause(group, key string) string {
	if o.Rollback == nil {
		return ""
	}
	for i := range o.Rollback.Groups {
		g := &o.Rollback.Groups[i]
		if g.Group != group && g.Group != key {
			continue
		}
		ends := "weir rollforward " + o.Name
		if !o.Rollback.Whole {
			ends += " --group " + ShortKey(key)
		}
		return fmt.Sprintf("%s rolled it back to %s; %s ends that", g.By, g.state(), ends)
	}
	return ""
}

// gatedBecause says what a canary gate keeps a tier of a group for.
func (o *Origin) gatedBecause(now time.Time, tier relay.Tier, s *canary.Status) string {
	act := fmt.Sprintf("POST /origins/%s/canary?group=%s&action=", o.Name, s.Group)
	switch s.Phase {
	case gate.Stopped.String():
		return fmt.Sprintf("the candidate was stopped at the canaries (%s); the next change of the origin is tried by itself, %sretry tries this one again, and %spromote gives it to all",
			short(s.Why), act, act)
	case gate.Baking.String():
		if tier == relay.Canary {
			return "a candidate is tried on the canaries, of which this is one, and what is newer waits for its end: " + progress(now, s)
		}
		return "a candidate is tried on the canaries first: " + progress(now, s)
	case gate.Settling.String():
		return "the origin has changed it just now, and canaries are given it first, once the origin is quiet"
	case gate.Paused.String():
		return "the canary gate is paused: " + short(s.Why)
	}
	return ""
}
