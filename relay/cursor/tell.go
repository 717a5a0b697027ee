package cursor

import (
	"bytes"
	"slices"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// What a response says of one name.

// present is about a name that the client is to have.
func (k *take) present(p *part, o *outcome, same, claimed bool, due why, to *found) {
	if o.proven = claimed && same; o.proven { // it needs no answer (DELTA-11)
		due &^= asked | demanded
	}
	if due&left != 0 && k.Delta && p.covered(o.name) {
		due |= asked // DELTA-9
	}
	o.answered = everything
	if to.body == nil && !to.known { // that is no answer yet
		due, o.answered = due&^(asked|demanded), o.answered&^(asked|demanded)
	}
	renewed := k.TTL && same && (claimed && o.is.Timed() || o.was != nil && !o.was.Expires().Equal(o.is.Expires()))
	switch cured := o.told != nil && to.body != nil && to.err == nil; {
	case !same || due&(asked|demanded) != 0 || due&parent != 0 && k.Delta || cured:
		k.send(p, o)
	case renewed:
		k.renew(p, o)
	}
	switch {
	case o.sent:
		o.answered = everything
	case due&parent != 0 && !k.Delta: // it waits for a request (WARM-2)
		o.answered &^= parent
	}
}

func (k *take) send(p *part, o *outcome) {
	to := &k.a.Bodies
	if p.Located {
		to = &k.a.Located.Bodies
		k.replace(o)
	}
	to.Changed = append(to.Changed, o.is)
	k.wrote, o.sent, o.told = true, true, nil
}

// renew is about a body that has another end: a client that has accepted it is sent a heartbeat,
// and one that has rejected it nothing (TTL-10). That it ends no more takes the body (TTL-8).
func (k *take) renew(p *part, o *outcome) {
	has := func(s state.Set) bool {
		v := s.Get(o.name).Body()
		return v != nil && v.Digest == o.is.Digest
	}
	refused := func(r refusal) bool { return has(r.of(k.source(p))) }
	switch {
	case slices.ContainsFunc(k.refusals, refused):
	case k.Whole(): // a list has all bodies (TTL-11)
		k.wrote = true
	case (o.proven || has(p.accepted)) && o.is.Timed():
		to := &k.a.Bodies
		if p.Located {
			to = &k.a.Located.Bodies
		}
		to.Heartbeats, k.wrote, o.renewed = append(to.Heartbeats, o.is), true, true
	default:
		k.send(p, o)
	}
}

// remove takes away what the client has, or says that there is none.
func (k *take) remove(p *part, o *outcome) {
	if k.instead(p, o.name) {
		return
	}
	if o.told != nil && !p.Ends(o.told) { // that was of what there was
		o.told = nil
	}
	if k.wrote = k.wrote || k.Delta || k.Whole(); k.Delta {
		spelt := p.spelt[o.name]
		if o.was != nil && spelt == "" && !p.names.has(o.name) { // as it was sent
			spelt = o.was.Spelling()
		}
		k.takeAway(p, xds.Spelling(o.name, spelt), o.was)
		o.removed = true
	}
}

// takeAway adds a removal to a delta response; was is what the client has, if that is known.
func (k *take) takeAway(p *part, spelt string, was *xds.Variant) {
	if k.wrote = true; p.Located {
		k.a.Located.Gone = append(k.a.Located.Gone, goneOf(spelt, was, p))
	} else {
		k.a.Removed = append(k.a.Removed, spelt)
	}
}

// absent is about a name that the client does not have, and is not to have.
func (k *take) absent(p *part, o *outcome, due why, to *found) {
	switch {
	case due&left != 0: // what it dropped
		has := func(of string) bool { // what it was an alias of: that is the answer then
			return p.held.Get(of).Known() || k.find(p, k.Parts[p.Group].To, of, nil).body != nil
		}
		if o.answered = left; to.known && !slices.ContainsFunc(k.resources(p, o.name), has) && k.Delta && p.covered(o.name) {
			k.remove(p, o)
		}
	case !p.names.has(o.name):
		o.answered = everything
	case to.alias: // what it stands for is the answer
		if o.answered = parent; k.answers(p, k.known(p, o.name).Besides().Alias) {
			o.answered = everything
		}
	case (!to.known || to.stale) && due&silent == 0: // nobody says so now (RELAY-38)
		comes := k.Only == plan.Everything && k.Parts[p.Group].To != nil && !to.known && !to.doubted && !p.covered(o.name)
		o.kept = !comes // otherwise a state will differ
		if o.answered = parent | silent | unreached; due&unreached != 0 && due.waits() {
			o.told = k.unreachable(p, o.name, p.spelt[o.name])
		}
	case k.Delta && (due != 0 || k.stoodFor(p, o.name) || k.noticed(p, o.name, to) || o.told != nil && !p.Ends(o.told) && (to.err == nil || p.Ends(to.err))):
		o.answered = everything
		notice := k.notice(p, to)
		demands := due&demanded != 0 && xds.IsVirtualHost(k.TypeURL) && !p.Located
		if demands || notice != nil {
			k.a.Unresolved, k.wrote = append(k.a.Unresolved, Unresolved{xds.Spelling(o.name, p.spelt[o.name]), notice}), true
		}
		if demands || notice == nil {
			k.remove(p, o)
		}
	default:
		o.answered = everything
	}
}

// unreachable tells that the origin of a name cannot be reached (RELAY-8).
func (k *take) unreachable(p *part, name, spelt string) *xds.NameError {
	err := *k.Unreachable(name)
	err.Spelt = spelt
	k.tell(p, err)
	return &err
}

// stoodFor reports whether a name that does not exist now was an alias of what the client keeps.
func (k *take) stoodFor(p *part, name string) bool {
	of := p.asked.Get(name).Besides().Alias
	return k.Only == plan.Everything && of != "" && p.held.Get(of).Known() && k.find(p, k.Parts[p.Group].To, of, nil).body != nil
}

// noticed reports whether the origin has other words for the absence of a name than before, or for
// that of what it was an alias of.
func (k *take) noticed(p *part, name string, to *found) bool {
	is, was := k.notice(p, to), p.asked.Get(name).Besides()
	if k.Only != plan.Everything || is == nil {
		return false
	}
	return was.Alias != "" || was.Notice != nil && !bytes.Equal(is.Delta(), was.Notice.Delta())
}

// notice are the origin's words for an absence; nil: there are none, or what they are about is in
// the response otherwise (DELTA-20).
func (k *take) notice(p *part, to *found) *xds.Variant {
	if to.notice == nil || p.held.Get(to.notice.Name).Known() {
		return nil
	}
	return to.notice
}

// say adds the error of a name, once. If its body is in the response, the error follows in one of
// its own (ABS-9, ABS-11).
func (k *take) say(p *part, o *outcome, to *found) {
	err := to.err
	gone := o.was != nil && o.is == nil
	switch {
	case err == nil:
		if gone {
			o.told = nil
		}
	case o.is == nil && p.Ends(err) && k.instead(p, o.name): // ABS-11
		o.told = err
	case k.Whole() && o.is != nil: // a list that tells it would have to leave the body out
	case err.Same(o.told), err.Own && k.Delta, to.stale && !(err.Expired && gone), o.is != nil && p.Ends(err):
	case o.sent, o.renewed, !k.Delta && k.errorBytes > mostErrorBytes:
		o.again, k.a.More = true, k.Only == plan.Everything
	default:
		spelt := *err
		if p.names.has(o.name) { // it may be of what an alias stands for
			spelt.Name, spelt.Spelt = o.name, p.spelt[o.name]
		}
		o.told = err
		k.tell(p, spelt)
		if k.Delta && p.Ends(err) && !o.removed && !o.claimed && o.is == nil && !p.names.has(o.name) {
			k.remove(p, o)
		}
	}
}

// tell adds an error. Of a name with parameters it says for which (DYN-13).
func (k *take) tell(p *part, err xds.NameError) {
	if p.Located {
		err.Located = true
		_, err.About = k.exact(p)
	}
	k.a.Errors, k.wrote = append(k.a.Errors, &err), true
	k.errorBytes += err.Size()
}

// mostErrorBytes is about how many bytes of errors one response has in state of the world, which
// cannot be cut: more come with the next one (TRANS-10).
const mostErrorBytes = 128 << 10

// withholds reports whether the client could not be told the end of a body (RELAY-51).
func (k *take) withholds(v *xds.Variant) bool {
	return k.Withhold && v.Timed() && !k.TTL && !k.Delta && !k.Whole()
}

const failedPrecondition = 9

func (k *take) withhold(p *part, o *outcome) {
	o.is, o.answered = nil, everything
	if o.told == nil || o.told.Code != failedPrecondition {
		const text = "it has a TTL, the client does not support TTLs, and the origin's ttl_unsupported is withhold"
		o.told = xds.NewNameError(o.name, failedPrecondition, text)
		k.tell(p, *o.told)
	}
}
