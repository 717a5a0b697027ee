package main

import (
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
)

const (
	// goodLook is the interval between looks at which states are good.
	goodLook = 2 * time.Second
	// goodAgain is the interval between looks at the clients of groups of which some lag, or
	// reject.
	goodAgain = 10 * time.Second
	// goodBake is how long a state has to be in force of an origin that a reload has removed.
	goodBake = time.Minute
)

// goods notes which states of groups are good, so that people can go back to them: those that have
// been in force for long enough, and that all clients of the group, of which there is one at least,
// have accepted. It looks at clients only while there is a state to judge: of a group that is quiet
// it costs a few map lookups.
type goods struct {
	// Set once by newGoods.
	table *relay.Table
	stand func(map[downstream.GroupKey]*downstream.Standing)
	bake  func(origin string) time.Duration // how long a state of an origin has to be in force

	// Owned by look.
	of    map[downstream.GroupKey]*candidate
	round uint64
	again time.Time // when the clients are looked at again of groups that were not in sync; zero: none was
}

// candidate is the present state of a group.
type candidate struct {
	revision uint64
	since    time.Time
	judged   bool // it is good
	lagged   bool // its clients were not in sync at the last look
	round    uint64
}

func newGoods(p *process) *goods {
	return &goods{table: p.table, stand: p.server.Stand, bake: p.bake, of: map[downstream.GroupKey]*candidate{}}
}

// bake is how long a state of an origin has to be in force before it is good.
func (p *process) bake(origin string) time.Duration {
	if o := p.config().OriginNamed(origin); o != nil {
		return o.Canary.Bake
	}
	return goodBake
}

// look notes what is good now.
func (g *goods) look(now time.Time) {
	if !g.table.History().On() {
		clear(g.of)
		return
	}
	g.round++
	again := !now.Before(g.again)
	due := map[downstream.GroupKey]*downstream.Standing{}
	for _, o := range g.table.Origins() {
		bake := g.bake(o.Name())
		for _, group := range o.Groups() {
			key := downstream.GroupKey{Origin: o.Name(), Group: group.Key}
			c := g.candidate(o, key, now)
			if !c.judged && now.Sub(c.since) >= bake && (again || !c.lagged) {
				due[key] = &downstream.Standing{}
			}
		}
	}
	for key, c := range g.of {
		if c.round != g.round {
			delete(g.of, key)
		}
	}
	if len(due) > 0 {
		g.judge(now, due)
	}
}

// candidate is the present state of a group, and since when it is known to be that.
func (g *goods) candidate(o *relay.Origin, key downstream.GroupKey, now time.Time) *candidate {
	revision, at := o.StateSince(key.Group)
	c := g.of[key]
	switch {
	case c == nil: // clients have come just now, or the process
		c = &candidate{revision: revision, since: now}
		g.of[key] = c
	case c.revision != revision:
		*c = candidate{revision: revision, since: now}
		if !at.IsZero() {
			c.since = at
		}
	}
	c.round = g.round
	return c
}

// judge notes those states that the clients of their groups have accepted.
func (g *goods) judge(now time.Time, due map[downstream.GroupKey]*downstream.Standing) {
	g.stand(due)
	g.again = now.Add(goodAgain)
	for key, standing := range due {
		c, o := g.of[key], g.table.Origin(key.Origin)
		if c.lagged = !standing.InSync(); c.lagged || o == nil {
			continue
		}
		// What has changed since the clients were looked at is not judged yet.
		if revision, _ := o.StateSince(key.Group); revision == c.revision {
			o.Good(now, key.Group, c.revision)
			c.judged = true
		}
	}
}
