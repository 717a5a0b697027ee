package relay

import (
	"strings"

	"github.com/weir-xds/weir/relay/xds"
)

// positions are a client's positions in the sets that it subscribes to: `*`, globs and namespaces.
// They say what the client holds of these sets. Guarded by the shard's lock.
type positions struct {
	first *position // linked by also, `*` first; nil: no set is subscribed to
	more  *overlap  // nil: at most one set is subscribed to
	// again has members that are owed an answer by name (DELTA-9, WARM-3), with the client's
	// spelling. In SotW it has Clusters whose endpoints must follow the next list (WARM-1).
	again map[string]string
}

// overlap is the state of a client that is subscribed to several sets, such as `*` and a glob. Two
// sets may have the same name, with one body or with two. The client is sent the name once. A
// client of one set has no overlap: its position records what it holds.
type overlap struct {
	by map[*set]*position
	// sent is the body last sent of each name that has no record. The zero Digest differs from
	// every body, so the next look at the name sends something.
	sent map[string]xds.Digest
	look bool // the client left a set, so all names in sent have to be looked at
}

// of is the client's position in a set; nil: the client is not subscribed to it.
func (x *positions) of(t *set) *position {
	switch {
	case x.more != nil:
		return x.more.by[t]
	case x.first != nil && x.first.view.set == t:
		return x.first
	}
	return nil
}

// star is the client's position in `*`; nil: the client is not subscribed to it.
func (x *positions) star() *position {
	if x.first != nil && x.first.view.set.kind == wild {
		return x.first
	}
	return nil
}

// alone is the client's position in `*` if it subscribes to no other set; nil: it does not.
func (x *positions) alone() *position {
	if p := x.star(); p != nil && p.also == nil {
		return p
	}
	return nil
}

// selects is the client's position in the collection of that name; nil: the client is not
// subscribed to it.
func (x *positions) selects(name string) *position {
	if x.first == nil {
		return nil
	}
	c := &x.first.view.set.shard.collections
	if t := c.byName[name]; t != nil {
		if p := x.of(t); p != nil {
			return p
		}
	}
	if t := c.barred[name]; t != nil && t.kind != wild {
		return x.of(t)
	}
	return nil
}

// unlink removes a position from the client's list, but not from its view.
func (x *positions) unlink(p *position) {
	if p.prior != nil {
		p.prior.also = p.also
	} else {
		x.first = p.also
	}
	if p.also != nil {
		p.also.prior = p.prior
	}
	p.also, p.prior = nil, nil
	if x.more != nil {
		delete(x.more.by, p.view.set)
	}
	if x.first == nil {
		x.more, x.again = nil, nil
	}
}

// answerAgain makes the client owed an answer for a name that a set covers.
func (x *positions) answerAgain(name, spelt string) {
	if x.again == nil {
		x.again = map[string]string{}
	}
	same := spelt == name
	if name = strings.Clone(name); same { // cloned, since they may be part of a whole request
		spelt = name
	} else {
		spelt = strings.Clone(spelt)
	}
	x.again[name] = spelt
	x.setSent(name, xds.Digest{})
}

// covering calls f with the client's position in each set that may have a resource of that name.
func (x *positions) covering(name string, f func(*position)) {
	switch {
	case x.first == nil:
	case x.more == nil:
		if x.first.view.set.includes(name) {
			f(x.first)
		}
	default:
		if p := x.star(); p != nil {
			f(p)
		}
		x.first.view.set.shard.collections.covering(name, func(t *set) {
			if p := x.more.by[t]; p != nil {
				f(p)
			}
		})
	}
}

func (x *positions) covered(name string) (covered bool) {
	x.covering(name, func(*position) { covered = true })
	return covered
}

// itemOf is the item of a name in the client's sets. If several sets have the name, it is the body
// received last (RELAY-25). The result is nil if none has it. A set that may not be sent yet does
// not count; waits reports that there is one.
func (x *positions) itemOf(name string) (live *item, waits bool) {
	x.covering(name, func(p *position) {
		it := p.view.item(name)
		switch {
		case p.blocked():
			waits = true
		case it == nil || it.dead:
		case live == nil, live.variant.Digest != it.variant.Digest && it.rev > live.rev,
			live.variant.Digest == it.variant.Digest && it.variant.Outlasts(live.variant):
			live = it
		}
	})
	return live, waits
}

// live is itemOf for a caller to whom it makes no difference that a set may not be sent yet.
func (x *positions) live(name string) *item {
	it, _ := x.itemOf(name)
	return it
}

// sent is the body that the client was sent last of a name that has no record. The zero Digest
// differs from every body: the client has another form than the present one, or is owed the name.
// told: it has the name by a set.
func (x *positions) sent(name string) (d xds.Digest, told bool) {
	if x.more != nil {
		d, told = x.more.sent[name]
		return d, told
	}
	p := x.first
	if p == nil || p.fresh {
		return d, false
	}
	it := p.view.item(name)
	if told = p.view.hadAt(it, p.sent); told && it.rev <= p.sent {
		d = it.variant.Digest
	}
	return d, told
}

// setSent records what the client is sent of a name that has no record. Of one set, the position
// says it.
func (x *positions) setSent(name string, d xds.Digest) {
	if x.more != nil {
		x.more.sent[name] = d
	}
}

// dropped records that the client has a name by no set any more.
func (x *positions) dropped(name string) {
	if x.more != nil {
		delete(x.more.sent, name)
	}
}

// spared reports whether a name that the client holds and the set has no body of is in error
// for the moment: then the client keeps what it holds (ABS-8).
func (x *positions) spared(name string) (spared bool) {
	x.covering(name, func(p *position) {
		f := p.view.set.nameErrors.byName[name]
		if !p.sub.delta || f == nil || !p.view.permit.Allows(name) || p.sub.shard.group.origin.ends(f.nameError) {
			return
		}
		if p.spared == nil {
			p.spared = map[string]bool{}
		}
		p.spared[name], spared = true, true
	})
	return spared
}

// behind reports whether a set has changed since the client was sent it.
func (x *positions) behind() bool {
	for p := x.first; p != nil; p = p.also {
		if !p.fresh && p.sent < p.view.contentRev {
			return true
		}
	}
	return false
}

// prune drops what no client of the sets needs any more.
func (x *positions) prune() {
	for p := x.first; p != nil; p = p.also {
		p.view.prune()
	}
}
