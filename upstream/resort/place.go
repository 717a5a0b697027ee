package resort

import (
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// place is what is asked of the fallback for one type of one group.
type place struct {
	// Set once.
	typeURL string
	group   *relay.Group

	turn    int    // number of the last look at which it was lacking
	edition uint64 // revision of the question
	sets    map[string]*feed
	names   *feed // nil: no name was asked
	// asked are the subscribed names.
	asked   map[string]bool
	changed bool // something is not asked for any more
}

// feed receives one set, or all names.
type feed struct {
	sub    *relay.Sub
	bodies map[string]*xds.Variant
	whole  bool // a set is used only once it is complete (RELAY-7); names are used one by one
}

func (p *place) feed(m *relay.Subscriber) *feed {
	// An origin with parameters has no such fallback, so the empty map is enough.
	return &feed{
		sub:    p.group.Open(m, relay.SubOptions{TypeURL: p.typeURL, Delta: true}),
		bodies: map[string]*xds.Variant{},
	}
}

// ask subscribes to exactly what is lacking.
func (p *place) ask(now time.Time, m *relay.Subscriber, l *relay.Lack) {
	p.edition = l.Edition
	wanted := make(map[string]bool, len(l.Sets)+len(l.Namespaces))
	join := func(selector string, namespace bool) {
		wanted[selector] = true
		if p.sets[selector] != nil {
			return
		}
		f := p.feed(m)
		if namespace {
			f.sub.Namespaces([]string{selector})
		}
		f.sub.Update(now, []string{selector}, nil)
		p.sets[selector] = f
	}
	for _, selector := range l.Sets {
		join(selector, false)
	}
	for _, selector := range l.Namespaces {
		join(selector, true)
	}
	for selector, f := range p.sets {
		if !wanted[selector] {
			f.sub.Close(now)
			delete(p.sets, selector)
			p.changed = true
		}
	}
	p.askNames(now, m, l.Names)
}

func (p *place) askNames(now time.Time, m *relay.Subscriber, names []string) {
	if p.names == nil && len(names) == 0 {
		return
	}
	if p.names == nil {
		p.names, p.asked = p.feed(m), map[string]bool{}
		p.names.whole = true
	}
	var more, fewer []string
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		if wanted[name] = true; !p.asked[name] {
			more = append(more, name)
		}
	}
	for name := range p.asked {
		if !wanted[name] {
			fewer = append(fewer, name)
			delete(p.names.bodies, xds.NameKey(name))
			p.changed = true
		}
	}
	p.asked = wanted
	if len(more)+len(fewer) > 0 {
		p.names.sub.Update(now, more, fewer)
	}
}

// take takes what has changed. changed: a resource differs, or can be used now. lags: the
// subscription has to start again.
func (p *place) take(now time.Time) (changed, lags bool) {
	changed, p.changed = p.changed, false
	look := func(f *feed) {
		c, l := f.take(now)
		changed, lags = changed || c, lags || l
	}
	for _, f := range p.sets {
		look(f)
	}
	if p.names != nil {
		look(p.names)
	}
	return changed, lags
}

func (f *feed) take(now time.Time) (changed, lags bool) {
	for f.sub.Pending() {
		a := f.sub.Take(now)
		if a == nil {
			lags = lags || f.sub.Standing().Lagging
			continue
		}
		changed = f.whole
		for _, v := range a.Variants {
			f.bodies[v.Name] = v
		}
		for _, name := range a.Removed {
			delete(f.bodies, xds.NameKey(name))
		}
		f.sub.Ack(a.Receipt())
	}
	if !f.whole {
		if s := f.sub.Standing(); !s.Waiting && !s.Arriving && !s.Held {
			f.whole, changed = true, true
		}
	}
	return changed, lags
}

// relief returns what is known and can be used.
func (p *place) relief(from *relay.Origin) *relay.Relief {
	r := &relay.Relief{From: from, Sets: make(map[string][]*xds.Variant, len(p.sets))}
	if p.names != nil {
		r.Names = p.names.list()
	}
	for selector, f := range p.sets {
		if f.whole {
			r.Sets[selector] = f.list()
		}
	}
	return r
}

func (f *feed) list() []*xds.Variant {
	all := make([]*xds.Variant, 0, len(f.bodies))
	for _, v := range f.bodies {
		all = append(all, v)
	}
	return all
}

func (p *place) close(now time.Time) {
	for _, f := range p.sets {
		f.sub.Close(now)
	}
	if p.names != nil {
		p.names.sub.Close(now)
	}
}
