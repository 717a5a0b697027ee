package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/inspect"
)

// readiness returns the state behind /readyz. What is required of origins stays true once it is: an
// origin that goes away must not take the cache in front of it out of service. A process that can
// admit nobody is not ready until it can; its clients are still served.
func (p *process) readiness() admin.Readiness {
	states, groups := p.originStates()
	file := p.last.Load()
	r := admin.Readiness{Ready: true, State: "ready", ConfigRefused: file.Refused, ConfigLastGood: file.Accepted}
	var missing []string
	for i := range states {
		o := &states[i]
		if !o.Reached && !p.kept.origins[o.Name] {
			missing = append(missing, o.Name)
		}
		r.Origins = append(r.Origins, admin.OriginReadiness{
			Name: o.Name, Reached: o.Reached, Restored: p.kept.origins[o.Name], RestoredFrom: p.kept.source(o.Name), Connected: o.Connected, Unanswered: unanswered(groups[i]),
		})
	}
	left := time.Until(p.started.Add(p.config().Timing.ReadyWait))
	switch {
	case p.draining.Load():
		r.Ready, r.State = false, "draining"
	case len(missing) > 0 && left > 0 && !p.ready.Load():
		r.Ready, r.State = false, "starting"
		r.Why = fmt.Sprintf("not reached yet: %s; timing.ready_wait ends in %s", strings.Join(missing, ", "), left.Round(time.Second/10))
	case len(missing) > 0:
		r.Why = "timing.ready_wait is over; never reached since the start: " + strings.Join(missing, ", ")
	}
	if why := p.shortage.why(time.Now()); r.Ready && why != "" {
		r.Ready, r.State, r.Why = false, "full", why
	}
	// existing clients are still served
	if r.Ready && r.Why == "" && p.table.Tight() {
		r.Why = "memory is short: names that nobody has asked for yet are refused (limits.memory)"
	}
	if r.Ready {
		p.ready.Store(true) // an origin that a reload adds does not change it
	}
	return r
}

// unanswered returns the types, by short name, that clients wait for.
func unanswered(groups []inspect.GroupStatus) []string {
	var names []string
	seen := make(map[string]bool)
	for i := range groups {
		for j := range groups[i].Types {
			t := &groups[i].Types[j]
			short := metrics.ShortName(t.TypeURL)
			if (t.Waiting > 0 || t.Wildcard && !t.Settled) && !seen[short] {
				seen[short] = true
				names = append(names, short)
			}
		}
	}
	return names
}
