package main

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/seed"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay"
)

// freezes says who keeps the clients of which origins at what they have: the configuration file,
// an operator, or both. An origin is frozen while one of them says so, and the table is told the
// sum.
type freezes struct {
	table *relay.Table

	mu sync.Mutex // guards of; the table's locks come after it
	of map[string]freeze
}

// freeze is who keeps the clients of an origin at what they have.
type freeze struct {
	file time.Time // since when the configuration file does; zero: it does not
	order
}

// order is what an operator last said of an origin, to this replica or to a sibling. Zero: nothing.
type order struct {
	frozen time.Time // since when an operator keeps the clients; zero: none does
	// changed is when an operator last froze or unfroze it, also if it was so already. Invariant:
	// it is not zero if frozen is not.
	changed time.Time
}

// newest returns the last of the orders of operators, of this replica's and those that others know.
// If two are of the same time, the freeze is: it takes nothing away.
//
// The times are of the clocks of the replicas that were told. So it is assumed that these differ by
// less than the time between two orders for one origin.
func newest(own order, others []order) order {
	for _, o := range others {
		if o.changed.After(own.changed) || o.changed.Equal(own.changed) && own.frozen.IsZero() && !o.frozen.IsZero() {
			own = o
		}
	}
	return own
}

// by lists who keeps the clients: config, operator.
func (f freeze) by() (names []string) {
	if !f.file.IsZero() {
		names = append(names, "config")
	}
	if !f.frozen.IsZero() {
		names = append(names, "operator")
	}
	return names
}

// get returns the freeze of an origin. It locks.
func (f *freezes) get(origin string) freeze {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[origin]
}

// set replaces the freeze of an origin, and tells the table. f.mu is held.
func (f *freezes) set(origin string, to freeze) {
	f.of[origin] = to
	switch part := f.table.Origin(origin); {
	case part == nil: // a reload has just removed it
	case !to.file.IsZero():
		part.Freeze(to.file) // in effect only if nobody has frozen it before
	case !to.frozen.IsZero():
		part.Freeze(to.frozen)
	default:
		part.Unfreeze()
	}
}

// configure puts into force what a configuration says, in which the table's parts may be new. It
// returns the origins that are frozen by it, and are not any more. It locks.
func (f *freezes) configure(cfg *config.Config, now time.Time) (begun, ended []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.of
	f.of = make(map[string]freeze, len(cfg.Origins))
	for i := range cfg.Origins {
		o := &cfg.Origins[i]
		to := before[o.Name]
		switch {
		case o.Freeze && to.file.IsZero():
			to.file = now
			begun = append(begun, o.Name)
		case !o.Freeze && !to.file.IsZero():
			to.file = time.Time{}
			ended = append(ended, o.Name)
		}
		f.set(o.Name, to)
	}
	return begun, ended
}

// join puts orders into force that others know, or that were kept, where they are newer. It returns
// the order that is in force then, and whether it is another one than before. It locks.
func (f *freezes) join(origin string, orders []order) (_ order, changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := f.of[origin]
	last := newest(to.order, orders)
	changed = to.frozen.IsZero() != last.frozen.IsZero()
	to.order = last
	f.set(origin, to)
	return last, changed
}

// operate freezes an origin on behalf of an operator, or ends that. It returns an answer of one
// line and whether anything has changed, or why it is refused. It locks.
func (f *freezes) operate(origin string, on bool, now time.Time) (said string, changed bool, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := f.of[origin]
	switch was := to; {
	case on && !was.frozen.IsZero():
		said = origin + " was frozen already"
	case on && !was.file.IsZero():
		to.frozen, changed = now, true
		said = origin + " was frozen already, by the configuration file; now by your order too, until weir unfreeze"
	case on:
		to.frozen, changed = now, true
		said = origin + " is frozen"
	case !was.file.IsZero():
		return "", false, fmt.Errorf("the configuration file freezes %s: write freeze: false there", origin)
	case was.frozen.IsZero():
		said = origin + " was not frozen"
	default:
		to.frozen, changed = time.Time{}, true
		said = "unfroze " + origin
	}
	to.changed = now // siblings that start later go by the last order
	f.set(origin, to)
	return said, changed, nil
}

// release ends that an operator has an origin frozen, whatever the file says. It locks.
func (f *freezes) release(origin string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := f.of[origin]
	to.order = order{changed: now}
	f.set(origin, to)
}

// freezeAsConfigured puts freeze: of the configuration's origins into force.
func (p *process) freezeAsConfigured(cfg *config.Config, now time.Time) {
	begun, ended := p.freezes.configure(cfg, now)
	for _, name := range begun {
		p.log.Warn("the configuration file froze the origin: clients keep their current resources", zap.String("origin", name))
	}
	for _, name := range ended {
		by := p.freezes.get(name).by()
		p.log.Warn("the configuration file no longer freezes the origin", zap.String("origin", name), zap.Strings("still_frozen_by", by))
	}
}

// obey has orders for an origin obeyed that were given before this process serves.
func (p *process) obey(origin string, orders []order, because string) {
	switch last, changed := p.freezes.join(origin, orders); {
	case !changed:
	case last.frozen.IsZero():
		p.log.Warn("unfroze the origin", zap.String("origin", origin), zap.Time("since", last.changed), zap.String("because", because))
	default:
		p.log.Warn("the origin is frozen: clients keep the restored resources",
			zap.String("origin", origin), zap.Time("since", last.frozen), zap.String("because", because))
	}
}

// obeySiblings has the orders obeyed that siblings know. Those that were kept with a seed are for
// when no sibling speaks of the origin.
func (p *process) obeySiblings(heads []seed.Answer, seeded map[string]snapshot.Origin) {
	for _, r := range p.active.Load().origins {
		var orders []order
		var back []snapshot.Order
		because := "as siblings say"
		said := saidOf(heads, r.name)
		for _, o := range said {
			p.recallGates(r.name, o.Gates)
			orders, back = append(orders, order{o.Frozen, o.Acted()}), append(back, o.Rollbacks...)
		}
		if o, is := seeded[r.name]; is && len(said) == 0 {
			p.recallGates(r.name, o.Gates)
			orders, back, because = []order{{o.Frozen, o.FrozenChanged}}, o.Rollbacks, "as where the seed is from"
		}
		p.obey(r.name, orders, because)
		p.obeyOrders(r.name, back, because)
	}
}

// saidOf is what siblings say of an origin.
func saidOf(heads []seed.Answer, origin string) (all []*seed.Origin) {
	for i := range heads {
		for j := range heads[i].Head.Origins {
			if o := &heads[i].Head.Origins[j]; o.Name == origin {
				all = append(all, o)
			}
		}
	}
	return all
}
