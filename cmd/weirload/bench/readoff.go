package main

import (
	"fmt"
	"math"
	"strings"
)

// fleetPlan is a fleet to be planned by the formulas.
type fleetPlan struct {
	clients, groups, resources, bytes float64
	changes                           float64 // a second, that every client is sent
}

// tier is one tier that the fleet needs.
type tier struct {
	replicas  float64 // a spare one is among them
	decided   string
	resident  float64 // of each, if one of them is lost
	cores     float64 // used, of each, if one of them is lost
	firstFill float64 // seconds of all cores of the others until the clients of a lost one have been served
}

// fleets are the rows of the table.
func fleets() []fleetPlan {
	var all []fleetPlan
	for _, size := range []struct{ clients, groups float64 }{{100, 1}, {10_000, 1}, {10_000, 20}, {1_000_000, 1}, {1_000_000, 20}, {1_000_000, 200}} {
		for _, changes := range []float64{0.1, 1} {
			all = append(all, fleetPlan{size.clients, size.groups, 1000, 436, changes})
		}
	}
	return all
}

// residentOf is the resident memory of a weir with so many clients, and what is sent whole besides,
// which is held encoded while clients come.
func (f *formulas) residentOf(p *fleetPlan, clients float64) float64 {
	m := f.memory
	use := m.of(0) + m.of(1)*clients + p.groups*m.of(2) + p.groups*p.resources*m.of(3) + p.resources*p.bytes*m.of(4) + p.resources*(p.bytes+around)
	return f.resident.of(0) + f.resident.of(1)*use
}

// coresOf is the CPU that a weir with so many clients uses.
func (f *formulas) coresOf(p *fleetPlan, clients float64) float64 {
	c := f.changing
	return p.changes * (p.groups*c.of(0) + clients*c.of(1)) / 1e6
}

// size returns the least number of replicas that carry so many clients when one of them is lost.
func (f *formulas) size(p *fleetPlan, clients float64, each *replica) tier {
	t := tier{decided: "one is enough"}
	const most = 1000
	for n := 1.0; ; n++ {
		share := clients / n
		t.replicas, t.resident, t.cores = n+1, f.residentOf(p, share), f.coresOf(p, share)
		switch {
		case n >= most:
		case share > each.streams:
			t.decided = "streams"
			continue
		case t.cores > each.cores*each.full:
			t.decided = "CPU"
			continue
		case t.resident > each.bytes*each.full:
			t.decided = "memory"
			continue
		}
		sent := p.resources * (p.bytes + around) / 1024
		t.firstFill = clients / (n + 1) * (f.connecting.of(0) + sent*f.connecting.of(1)) / 1e6 / n / each.cores
		return t
	}
}

// tiers returns the tiers of a fleet, from the clients' side: there is one more as long as the last
// has more streams at the origin than that may have, and another tier has fewer.
func (f *formulas) tiers(p *fleetPlan, each *replica, bound float64) []tier {
	all := []tier{f.size(p, p.clients, each)}
	for {
		streams := all[len(all)-1].replicas * p.groups
		next := f.size(p, streams, each)
		if streams <= bound || next.replicas >= all[len(all)-1].replicas {
			return all
		}
		all = append(all, next)
	}
}

// readOff writes the table.
func (f *formulas) readOff(b *strings.Builder, each *replica, bound float64) {
	fmt.Fprintf(b, "Replicas of %g cores and %.0f GiB, filled to %.0f %% when one of them is lost, at most %.0f streams each; the origin bears %.0f streams. "+
		"%.0f clusters of %.0f bytes in each group, delta.\n\n", each.cores, each.bytes/(1<<30), 100*each.full, each.streams, bound, fleets()[0].resources, fleets()[0].bytes)
	b.WriteString("| clients | groups | changes/s to all | deliveries/s | replicas, from the clients to the origin | decided by | cores used, in all | resident, each | rejoin after a loss, CPU | streams at the origin |\n" +
		"| ---: | ---: | ---: | ---: | --- | --- | ---: | ---: | ---: | ---: |\n")
	for _, p := range fleets() {
		all := f.tiers(&p, each, bound)
		var replicas, resident []string
		cores := 0.0
		for _, t := range all {
			replicas = append(replicas, fmt.Sprintf("%.0f", t.replicas))
			resident = append(resident, gib(t.resident))
			cores += t.cores * (t.replicas - 1)
		}
		edge, top := all[0], all[len(all)-1]
		fmt.Fprintf(b, "| %.0f | %.0f | %g | %s | %s | %s | %s | %s | %s s | %.0f |\n", p.clients, p.groups, p.changes, significant(p.clients*p.changes),
			strings.Join(replicas, " + "), edge.decided, significant(cores), strings.Join(resident, ", "), significant(edge.firstFill), math.Round(top.replicas*p.groups))
	}
}

func gib(bytes float64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.0f MiB", bytes/mebi)
	}
	return fmt.Sprintf("%.1f GiB", bytes/(1<<30))
}
