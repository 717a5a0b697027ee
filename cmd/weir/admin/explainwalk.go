package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// The walk from a client's subscription to the origin and back, in sentences.

// typeName is a type as people say it.
func typeName(typeURL string) string {
	if short := metrics.ShortName(typeURL); short != "other" {
		return strings.ToUpper(short)
	}
	return typeURL
}

func (e *explained) add(what, text string, at time.Time) {
	e.Steps = append(e.Steps, step{what, text, at})
}

// conclude states what was found.
func (e *explained) conclude(is state, format string, args ...any) {
	e.State, e.Headline = is, fmt.Sprintf(format, args...)
}

// wait adds what is waited for.
func (e *explained) wait(all []metrics.Wait) {
	for _, w := range all {
		e.Waits = append(e.Waits, wait{w.Reason.String(), w.Since, w.Until, sentence(w)})
	}
}

// sentence is what is waited for in words.
func sentence(w metrics.Wait) string {
	if w.Text == "" {
		return w.Reason.Meaning()
	}
	return w.Reason.Meaning() + ": " + w.Text
}

// notAsked explains a stream that does not ask for the type.
func (e *explained) notAsked(now time.Time, x *downstream.Explained, typeURL string) {
	e.wait(x.Waits)
	var asks []string
	for i := range x.Types {
		asks = append(asks, typeName(x.Types[i].TypeURL))
	}
	switch {
	case typeURL == "" && len(x.Waits) > 0, len(asks) == 0 && len(x.Waits) > 0:
		e.conclude(stateWaiting, "%s", headlineOf(now, x.Waits[0], ""))
	case len(asks) == 0:
		e.conclude(stateNotSubscribed, "the client is not subscribed to anything on this stream")
	default:
		e.conclude(stateNotSubscribed, "the client is not subscribed to %s on this stream: it asks for %s", typeName(typeURL), strings.Join(asks, ", "))
	}
	e.add("subscribed", e.Headline, x.Since)
}

// ofType explains a type as a whole, in short.
func (e *explained) ofType(now time.Time, x *downstream.Explained, t *downstream.TypeStatus) {
	what := typeName(t.TypeURL)
	all := e.told(now, slices.Concat(x.Waits, t.Waits))
	e.wait(all)
	switch {
	case t.Nacking:
		e.conclude(stateRejected, "the client rejected %s %s ago: %s", what, since(now, t.LastNack.At), t.LastNack.Message)
	case len(all) > 0:
		e.conclude(stateWaiting, "%s", headlineOf(now, foremost(all), what))
	case t.Responses == 0:
		e.conclude(stateCurrent, "the client was sent nothing of %s, and nothing waits", what)
	case t.ByName.Absent > 0 && t.ByName.Absent == t.ByName.All && !t.Wildcard:
		e.conclude(stateAbsent, "%s", absentNames(what, t.ByName))
	case t.ByName.Absent > 0:
		e.conclude(stateCurrent, "the client has acknowledged all of %s that weir knows of; %s", what, absentNames("", t.ByName))
	default:
		e.conclude(stateCurrent, "the client has acknowledged all of %s that weir knows of", what)
	}
}

// absentNames says how many names do not exist.
func absentNames(what string, n relay.Names) string {
	verb := "do"
	if n.Absent == 1 {
		verb = "does"
	}
	return fmt.Sprintf("%d of %s %s not exist at the origin", n.Absent, namesOf(what, n.All), verb)
}

// namesOf is a count of names of a type.
func namesOf(what string, n int) string { return Plural(n, strings.TrimSpace(what+" name")) }

// Plural is a count of things, such as "1 name" or "2 names".
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// walk explains a name at one subscription, or the type as a whole if name is empty. p is nil if
// there is no subscription.
func (e *explained) walk(now time.Time, x *downstream.Explained, p *downstream.ExplainedPart, name string) {
	what := strings.TrimSpace(typeName(x.Type.TypeURL) + " " + name)
	e.add("stream", fmt.Sprintf("the client speaks %s to the listener of origin %s", x.Dialect, x.Origin), x.Since)
	if p == nil {
		e.refused(x, what)
		return
	}
	e.add("group", "it is in group "+ShortKey(e.Group.Key)+" of origin "+e.Group.Origin+": "+strings.Join(e.Group.Why, ", "), time.Time{})
	if name == "" {
		if p.AskedAs == "" && p.ByName.Asked > 0 {
			p.AskedAs = namesOf("", p.ByName.Asked)
		}
		e.upstream(now, p)
		e.ofType(now, x, x.Type)
		return
	}
	subscribed := p.Named != "" || len(p.Sets) > 0
	if !subscribed || p.Denied {
		switch {
		case x.Refused != "" || p.Denied:
			e.refused(x, what)
		default:
			e.conclude(stateNotSubscribed, "the client is not subscribed to %s: it names %d others", what, x.Type.Names)
			e.add("subscribed", e.Headline, time.Time{})
		}
		return
	}
	e.subscription(p, name)
	e.upstream(now, p)
	e.origin(p)
	e.cache(p)
	e.client(x, p)
	waits := e.told(now, relevant(x, p))
	e.wait(waits)
	e.verdict(now, p, what, waits)
}

// refused concludes that the name is not asked for.
func (e *explained) refused(x *downstream.Explained, what string) {
	text := cmp.Or(x.Refused, "no rule allows it to the client")
	switch {
	case x.Limited:
		e.conclude(stateWaiting, "%s was refused: %s", what, text)
		e.wait(slices.DeleteFunc(slices.Clone(x.Type.Waits), func(w metrics.Wait) bool { return w.Reason != metrics.WaitLimit }))
	case x.Denied || x.Refused == "":
		e.conclude(stateDenied, "%s is denied to %s: %s", what, cmp.Or(x.Identity, "this client"), text)
		e.wait([]metrics.Wait{{Reason: metrics.WaitPermission, Text: text}})
	default:
		e.conclude(stateNotAsked, "no origin is asked for %s: %s", what, text)
	}
	e.add("permission", e.Headline, time.Time{})
}

// subscription says how the client is subscribed.
func (e *explained) subscription(p *downstream.ExplainedPart, name string) {
	text := "the client asks for it by name"
	switch {
	case p.Named == "":
		text = "the client has it with " + strings.Join(p.Sets, ", ")
	case xds.NameKey(p.Named) != xds.NameKey(name):
		text = "the client asks for it as " + p.Named
	case len(p.Sets) > 0:
		text += ", and with " + strings.Join(p.Sets, ", ")
	}
	if p.Params != "" {
		text += ", for parameters " + p.Params
	}
	e.add("subscribed", text, time.Time{})
}

// upstream says what the origin is asked for, and on which stream.
func (e *explained) upstream(now time.Time, p *downstream.ExplainedPart) {
	origin := p.Group.Origin().Name()
	switch {
	case p.Unserved:
		e.add("asked", "origin "+origin+" is not asked for the type (origins[].types)", time.Time{})
		return
	case p.AskedAs != "":
		e.add("asked", "origin "+origin+" is asked for "+p.AskedAs+" for all clients of the group", p.AskedAt)
	default:
		e.add("asked", "origin "+origin+" is not asked for it now", time.Time{})
	}
	if p.Lane == nil {
		return
	}
	lane := "main"
	if p.Lane.Side() {
		lane = "side"
	}
	if !p.Opened.IsZero() {
		text := "the " + lane + " stream of the group to the origin is open"
		if s := e.origins.of(origin).silenceOf(e.Group.Key); s != nil {
			text += "; " + s.because()
		}
		e.add("lane", text, p.Opened)
		return
	}
	p.Away = e.told(now, []metrics.Wait{p.Away})[0]
	e.add("lane", "no "+lane+" stream of the group to the origin is open: "+headlineOf(now, p.Away, ""), p.Away.Since)
}

// origin says what the origin stated last.
func (e *explained) origin(p *downstream.ExplainedPart) {
	switch {
	case p.Rejected != nil:
		e.add("origin", "weir rejected what the origin sent of it last: "+p.Rejected.Reason, p.Rejected.At)
	case p.Error != nil && p.Error.Own:
		e.add("origin", p.Error.Message, p.ErrorAt)
	case p.Error != nil:
		e.add("origin", "the origin answers with an error: "+p.Error.Message, p.ErrorAt)
	case p.Absent:
		e.add("origin", "the origin says that it does not exist", p.HeardAt)
	case p.Timeout:
		e.add("origin", "the origin has been silent about it for longer than clients wait", p.AskedAt)
	}
	switch {
	case p.Variant != nil && !p.Fallback:
		text := "the origin sent it"
		if v := p.ResponseVersion(); v != "" && e.shows(p) {
			text = "the origin sent version " + v
		}
		if p.Source != "" {
			text += " from " + p.Source
		}
		e.add("origin", text, p.Variant.Received())
	case p.Variant == nil && !p.HeardAt.IsZero():
		e.add("origin", "the origin answered last for other names of the type", p.HeardAt)
	case p.Variant == nil:
		e.add("origin", "the origin has said nothing of it", time.Time{})
	}
}

// shows reports whether versions may be seen (RELAY-76).
func (e *explained) shows(p *downstream.ExplainedPart) bool {
	return p.Variant == nil || !xds.IsSecret(p.Variant.From.TypeURL)
}

// cache says what is held.
func (e *explained) cache(p *downstream.ExplainedPart) {
	if p.Variant == nil {
		e.add("cache", "weir holds nothing of it", time.Time{})
		return
	}
	text := "weir holds it"
	if e.shows(p) {
		text = "weir holds version " + p.Variant.Version()
		if key := p.Variant.Constraints.Key(); key != "" {
			text += " for " + key
		}
	}
	switch {
	case p.Fallback:
		text += ", of the fallback " + p.Source
	case p.Revived:
		text += ", retired, and served while the origin is away"
	case p.Held:
		text += ", no longer at the origin"
	case p.Restored:
		text += ", restored from the snapshot and not confirmed"
	case !p.Live:
		text += ", stale: no open stream to the origin vouches for it"
	}
	e.add("cache", text, p.Variant.Received())
}

// client says what the client was sent, and what it answered.
func (e *explained) client(x *downstream.Explained, p *downstream.ExplainedPart) {
	it := &p.Item
	version := ""
	if it.Version != "" {
		version = " version " + it.Version
	}
	switch {
	case it.Status == 0 || it.Status == relay.ItemNotSent:
		e.add("sent", "the client was not sent it on this stream", time.Time{})
		return
	case it.Unjudged:
		e.add("sent", "the client was sent"+version, p.SentAt)
		e.add("answered", "the client has not answered", time.Time{})
	case it.Status == relay.ItemRefused:
		e.add("sent", "the client was sent"+version, time.Time{})
		e.add("answered", "the client rejected it: "+p.Nack.Message, p.Nack.At)
	case it.Version == "" && p.Variant == nil:
		e.add("sent", "the client was sent that it does not exist", time.Time{})
	default:
		e.add("sent", "the client has"+cmp.Or(version, " it"), x.SentAt)
		e.add("answered", "the client has acknowledged it, or says that it holds it", x.AckedAt)
	}
}
