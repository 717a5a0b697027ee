package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
)

// verdict is what is known of a push. mu is held.
func (w *tiersWorld) verdict(n int) *verdictOf {
	v := w.verdicts[n]
	if v == nil {
		v = &verdictOf{acked: map[*tiersClient]bool{}, routes: map[string]string{}}
		w.verdicts[n] = v
	}
	return v
}

// candidate is what is tried, and since when: what the canaries were given last, if the rest have
// something else. mu is held.
func (w *tiersWorld) candidate() (is bool, n int) {
	canaries, rest := w.orders[canary.Canaries], w.orders[canary.Rest]
	if len(canaries) == 0 || len(rest) == 0 {
		return false, -1
	}
	n = canaries[len(canaries)-1].n
	return rest[len(rest)-1].n != n, n
}

// holds takes what a gate holds a tier at.
func (w *tiersWorld) holds(t canary.Tier, at *relay.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold(t, at, false)
}

// hold judges what a tier is held at, by a gate, or as an operator has ordered. mu is held.
func (w *tiersWorld) hold(t canary.Tier, at *relay.State, ordered bool) {
	n := pushOf(at)
	if n < 0 {
		return // it knows nothing
	}
	w.logLocked("%s: held at %d, revision %d, ordered: %v, with %d of the six, routes %v", tierNamed[t], n, at.Revision, ordered,
		sixOf(stateBodies(at, cds)), stateBodies(at, rds))
	if what := w.mixed(n, at); what != "" {
		w.problemf("%s are held at what the origin never had: %s", tierNamed[t], what)
	}
	v, last := w.verdict(n), w.orders[t]
	switch {
	case ordered:
	case t == canary.Canaries:
		v.tried, v.rejected, v.objected = time.Now(), time.Time{}, false
		clear(v.acked)
		clear(v.routes)
	case len(last) == 0, last[len(last)-1].n == n, w.promoting, w.anew:
	default:
		w.judgePromotion(n, v)
		has := stateBodies(at, rds)
		for route, body := range v.routes {
			if has[route] != body {
				w.problemf("the rest are given %d with route %s %q, the canaries have accepted it with %q", n, route, has[route], body)
			}
		}
	}
	if t == canary.Rest && !ordered {
		v.stopped, w.anew = false, false
		w.counts["held the rest"]++
	}
	w.orders[t] = append(w.orders[t], tierAt{n, time.Now(), at})
}

// judgePromotion judges that the rest are given something although no operator said so. mu is held.
func (w *tiersWorld) judgePromotion(n int, v *verdictOf) {
	baked := time.Since(v.tried)
	good := len(v.acked) >= w.policy.Acks && baked >= w.policy.Bake
	late := w.policy.MaxHold > 0 && baked >= w.policy.MaxHold
	switch {
	case v.tried.IsZero():
		w.problemf("the rest are given %d, which no canary was", n)
	case !v.rejected.IsZero():
		w.problemf("the rest are given %d, which a canary has rejected at %v", n, v.rejected.Sub(w.began))
	case v.objected:
		w.problemf("the rest are given %d, to which the check objects", n)
	case !good && !late && !v.retried:
		w.problemf("the rest are given %d, which has baked for %v, and %d canaries have acknowledged it", n, baked, len(v.acked))
	}
	if good {
		w.counts["promoted as good"]++
	}
}

func (w *tiersWorld) problemf(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
	w.logLocked("PROBLEM: "+format, args...)
}

// check fails if there was a problem.
func (w *tiersWorld) check() {
	w.t.Helper()
	w.mu.Lock()
	all := w.problems
	w.mu.Unlock()
	if len(all) > 0 {
		w.fail("%s", strings.Join(all, "\n"))
	}
}

// pushOf is the push that a state is of; -1: it knows no clusters.
func pushOf(at *relay.State) int {
	c0, is := stateBodies(at, cds)["c0"]
	if !is {
		return -1
	}
	return numberIn(c0)
}

// stateBodies are the bodies of a type in a state: the members of `*`, and what was had by name; ""
// if that is known not to exist.
func stateBodies(at *relay.State, typeURL string) map[string]string {
	all := map[string]string{}
	for i := range at.Types {
		t := &at.Types[i]
		if t.TypeURL != typeURL || t.Unknown {
			continue
		}
		for j := range t.Sets {
			for _, v := range t.Sets[j].Members {
				all[v.Name] = tiersTextOf(v.Again().Any)
			}
		}
		for j := range t.Names {
			switch x := &t.Names[j]; {
			case x.Unknown:
			case x.Variant == nil:
				all[x.Name] = ""
			default:
				all[x.Name] = tiersTextOf(x.Variant.Again().Any)
			}
		}
	}
	return all
}

// mixed says what of a state is not as the origin had it with a push; "": nothing. A route that
// the push does not have may be as it was before.
func (w *tiersWorld) mixed(n int, at *relay.State) string {
	push := w.pushes[n]
	for _, typeURL := range []string{cds, lds, rds} {
		has := stateBodies(at, typeURL)
		if typeURL == cds {
			six := sixOf(has)
			for name := range has {
				if push[cds][name] == "" && (w.guards || strings.HasPrefix(name, "m")) {
					delete(has, name)
				}
			}
			if six != 0 && six != 6 {
				return fmt.Sprintf("%d of the six", six)
			}
		}
		if typeURL == rds {
			for name := range push[rds] {
				if body, known := has[name]; (known || w.probed) && body != push[rds][name] && (w.probed || !w.later(name, body)) {
					return fmt.Sprintf("%s %s is %q, push %d has %q", metrics.ShortName(typeURL), name, body, n, push[rds][name])
				}
			}
			continue
		}
		if len(has) > 0 && !maps.Equal(has, push[typeURL]) {
			return fmt.Sprintf("%s are %v, push %d has %v", metrics.ShortName(typeURL), has, n, push[typeURL])
		}
	}
	return ""
}

// later reports whether the origin ever had a route so, or did not have it, as it is if that is asked
// for later.
func (w *tiersWorld) later(name, body string) bool {
	return slices.ContainsFunc(w.pushes, func(push tiersState) bool { return push[rds][name] == body })
}

// rejects notes that a client rejects something.
func (w *tiersWorld) rejects(c *tiersClient, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logLocked("%s rejects: %s", c.id, why)
	if is, n := w.candidate(); c.tier == canary.Canaries && is && c.has(w.pushes[n], why) {
		w.counts["rejections"]++
		v := w.verdict(n)
		v.rejected, v.stopped = time.Now(), true
	}
}

// has reports whether what a client rejects is of a push.
func (c *tiersClient) has(push tiersState, why string) bool {
	for _, typeURL := range []string{cds, lds} {
		for name, body := range push[typeURL] {
			if strings.HasPrefix(why, fmt.Sprintf("%s: %s is", name, body)) {
				return true
			}
		}
	}
	return false
}

// accepts notes that a client has accepted all that its tier is held at, and a canary what is tried.
func (w *tiersWorld) accepts(c *tiersClient) {
	w.mu.Lock()
	defer w.mu.Unlock()
	orders := w.orders[c.tier]
	for _, typeURL := range tiersTypes {
		if typeURL != eds && len(c.unsent[typeURL]) > 0 || len(orders) == 0 {
			return
		}
	}
	push := w.pushes[orders[len(orders)-1].n]
	if !contains(c.held[cds], push[cds]) || !maps.Equal(c.held[lds], push[lds]) {
		return
	}
	if maps.Equal(c.held[rds], push[rds]) {
		c.rested = len(orders) - 1
	}
	if is, n := w.candidate(); is && c.tier == canary.Canaries {
		v := w.verdict(n)
		v.acked[c] = true
		maps.Copy(v.routes, c.held[rds])
	}
}

// isOf judges that what a client is sent of clusters is of a state that its tier was held at.
func (w *tiersWorld) isOf(c *tiersClient, bodies map[string]string) {
	w.mu.Lock()
	orders := slices.Clone(w.orders[c.tier])
	w.mu.Unlock()
	c0, is := bodies["c0"]
	if is && len(orders) > 0 && !slices.ContainsFunc(orders, func(o tierAt) bool { return o.n == numberIn(c0) }) {
		w.fail("%s is sent clusters of %s, at which its tier was never held", c.id, c0)
	}
}

// judge judges what a client has: it is one state, but for the order of a step to the next. Each
// route leads to a cluster that the client has, and listeners and routes are of no later state than
// its clusters.
func (w *tiersWorld) judge(c *tiersClient) {
	w.isOf(c, c.held[cds])
	if c.cluster == proberName {
		return // it has routes that nothing refers to
	}
	w.mu.Lock()
	orders := slices.Clone(w.orders[c.tier])
	w.mu.Unlock()
	if len(orders) == 0 {
		return
	}
	for _, o := range orders[min(c.order, c.listed):] {
		if strings.Contains(fmt.Sprint(w.pushes[o.n]), "bad") {
			return // it goes on from there with what it rejects left out
		}
	}
	clusters, listeners, routes := -1, -1, -1
	for i, o := range orders {
		push := w.pushes[o.n]
		if contains(c.held[cds], push[cds]) {
			clusters = i
		}
		if listeners < 0 && i >= c.listed && len(c.held[lds]) > 0 && maps.Equal(c.held[lds], push[lds]) {
			listeners = i
		}
		if routes < 0 && i >= c.order && len(c.held[rds]) > 0 && contains(push[rds], c.held[rds]) {
			routes = i
		}
	}
	if n := sixOf(c.held[cds]); n != 0 && n != 6 {
		w.fail("%s has %d of six clusters: %v", c.id, n, c.held[cds])
	}
	several := len(orders)-1-c.rested >= 2 // steps, of which a route may come of one that is over
	switch odd := several || w.leftOver(c, orders) || w.firstAnswer(c, orders); {
	case len(c.held[lds]) > 0 && listeners < 0:
		w.fail("%s has listeners of no state: %v", c.id, c.held[lds])
	case len(c.held[rds]) > 0 && routes < 0 && !odd:
		w.fail("%s has routes of no state: %v", c.id, c.held[rds])
	case listeners > clusters, routes > clusters && !odd:
		w.fail("%s has listeners of %d and routes of %d, and clusters %v", c.id, pushAt(orders, listeners), pushAt(orders, routes), c.held[cds])
	case routes < 0, odd:
		w.counts["routes not judged"] += len(c.held[rds])
		return
	}
	for name, to := range c.held[rds] {
		if c.held[cds]["x"+to] == "" {
			w.fail("%s has route %s to x%s, and clusters %v", c.id, name, to, c.held[cds])
		}
	}
	c.order, c.listed = max(c.order, routes), max(c.listed, listeners)
}

func pushAt(orders []tierAt, i int) int {
	if i < 0 {
		return -1
	}
	return orders[i].n
}

// firstAnswer reports whether a state that the client's tier was held at does not know a route that
// it has. The first answer to that is what the origin has by then. After a restart only that is
// known which clients of the tier had asked for.
func (w *tiersWorld) firstAnswer(c *tiersClient, orders []tierAt) bool {
	for name := range c.held[rds] {
		if slices.ContainsFunc(orders[c.order:], func(o tierAt) bool {
			_, known := stateBodies(o.State, rds)[name]
			return !known || o.at.Before(w.restarted)
		}) {
			return true
		}
	}
	return false
}

// leftOver reports whether a state that the client's tier was held at has its route otherwise than
// the push: as a SotW origin has left it over, which cannot say that it is gone; or as it was known
// first, if nobody had asked for it by then.
func (w *tiersWorld) leftOver(c *tiersClient, orders []tierAt) bool {
	for name, body := range c.held[rds] {
		if slices.ContainsFunc(orders[c.order:], func(o tierAt) bool {
			return w.pushes[o.n][rds][name] != body && stateBodies(o.State, rds)[name] == body
		}) {
			return true
		}
	}
	return false
}

// sixOf is how many there are of the clusters that leave together.
func sixOf(clusters map[string]string) (n int) {
	for name := range clusters {
		if strings.HasPrefix(name, "m") {
			n++
		}
	}
	return n
}

// contains reports whether all has what part has.
func contains(all, part map[string]string) bool {
	for name, body := range part {
		if all[name] != body {
			return false
		}
	}
	return true
}

// quiet lets all come to rest, and compares what there is with what should be.
func (w *tiersWorld) quiet() {
	if w.away.Load() {
		w.disconnect()
	}
	if w.at > 0 && w.rnd.IntN(3) > 0 {
		if w.back {
			w.rollforward()
		}
		if w.frozen {
			w.freeze()
		}
	}
	w.logf("quiet")
	w.settle(30*time.Second + 2*(w.policy.MaxHold+30*time.Second))
	w.mu.Lock()
	canaries, rest := w.orders[canary.Canaries], w.orders[canary.Rest]
	v := *w.verdict(w.now)
	w.mu.Unlock()
	if len(rest) == 0 || len(canaries) == 0 {
		w.fail("nothing is held")
	}
	c, r := canaries[len(canaries)-1], rest[len(rest)-1]
	n := 0
	for _, c := range w.clients {
		if c.tier == canary.Canaries {
			n++
		}
	}
	switch {
	case w.back || w.frozen:
		w.counts["quiet: kept"]++
	case c.n == w.now && r.n == w.now:
		w.counts["quiet: newest"]++
	case v.stopped && (c.n == r.n || w.policy.Stay):
		w.counts["quiet: stopped"]++
	case w.policy.MaxHold == 0 && n < w.policy.Needed(n): // this one, or one before it, waits for an operator
		w.counts["quiet: undecided"]++
	default:
		w.fail("the origin has %d, the canaries %d, the rest %d; %d canaries; %+v; the gate: %+v", w.now, c.n, r.n, n, v, w.weir.canaries.Look("mesh"))
	}
	for _, x := range w.clients {
		w.judgeQuiet(x, map[canary.Tier]tierAt{canary.Canaries: c, canary.Rest: r}[x.tier])
	}
}

// judgeQuiet compares what a client has with what its tier is held at.
func (w *tiersWorld) judgeQuiet(c *tiersClient, at tierAt) {
	push := w.pushes[at.n]
	if strings.Contains(fmt.Sprint(push), "bad") {
		return
	}
	want := maps.Clone(push[cds])
	for name, body := range stateBodies(at.State, cds) {
		want[name] = body
	}
	if !maps.Equal(c.held[cds], want) {
		w.fail("%s has clusters %v, and is to have %d: %v", c.id, c.held[cds], at.n, want)
	}
	if !maps.Equal(c.held[lds], push[lds]) {
		w.fail("%s has listeners %v, and is to have %d: %v", c.id, c.held[lds], at.n, push[lds])
	}
	for name := range c.names[eds] {
		if all := w.endpoints[name]; c.held[eds][name] != all[len(all)-1] {
			w.fail("%s has endpoints %v of %s, the origin has %v", c.id, c.held[eds], name, all)
		}
	}
	w.judgeRoutes(c, at)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts["clients found at rest"]++
	c.order, c.listed, c.rested = len(w.orders[c.tier])-1, len(w.orders[c.tier])-1, len(w.orders[c.tier])-1
}

// judgeRoutes compares the route of a client when all is quiet.
func (w *tiersWorld) judgeRoutes(c *tiersClient, at tierAt) {
	push := w.pushes[at.n]
	route := "r" + push[lds]["l0"]
	known, is := stateBodies(at.State, rds)[route]
	if at.at.Before(w.restarted) {
		return // see firstAnswer
	}
	is = is && (known != "" || c.delta) // SotW cannot say that a route is gone
	if body := c.held[rds][route]; w.probed && body != push[rds][route] || is && body != known || body == "" && len(c.names[rds]) == 0 {
		w.fail("%s has routes %v, and is to have %d: %v", c.id, c.held[rds], at.n, push[rds])
	}
}
