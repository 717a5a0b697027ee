package chaos

import (
	"syscall"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// schedules are all kinds of bad days, the short ones first.
var schedules = []schedule{
	{name: "calm", run: func(b *bed) { b.wait(b.between(2*time.Second, 4*time.Second)) }},
	{name: "origin killed", run: originKilled},
	{name: "origin killed and changed", run: originChanged},
	{name: "origin killed and recounted", run: originRecounted, setup: setup{config: resumeNone}},
	{name: "origin rolled back", run: originRolledBack},
	{name: "origin killed and empty", run: originEmpty},
	{name: "origin stopped", run: originStopped},
	{name: "weir killed", run: weirKilled},
	{name: "weir stopped", run: weirStopped},
	{name: "flapping", run: flapping},
	{name: "flapping clients", run: flappingClients},
	{name: "partition of the origin", run: partition},
	{name: "partition one way", run: partitionOneWay},
	{name: "partition of clients", run: partitionClients},
	{name: "cut in the middle", run: cutInTheMiddle},
	{name: "slow network", run: slowNetwork},
	{name: "origin unreachable", run: unreachable},
}

// killOrigin is kill -9; weir sees its connections reset and is refused new ones.
func (b *bed) killOrigin() {
	b.origin.kill()
	b.up.refuse()
}

// startOrigin starts it again with what the truth is.
func (b *bed) startOrigin() {
	b.up.aim(b.origin.start())
	b.up.heal()
}

func originKilled(b *bed) {
	for range 1 + b.rng.IntN(2) {
		b.wait(b.between(300*time.Millisecond, time.Second))
		b.churn.pause()
		b.killOrigin()
		b.wait(b.between(50*time.Millisecond, 2*time.Second))
		b.startOrigin()
		b.churn.resume()
	}
	b.wait(b.between(0, time.Second))
}

func originChanged(b *bed) {
	for range 1 + b.rng.IntN(2) {
		b.wait(b.between(300*time.Millisecond, time.Second))
		b.killOrigin()
		// what changes meanwhile it states when it is back
		b.wait(b.between(50*time.Millisecond, 2*time.Second))
		b.startOrigin()
	}
	b.wait(b.between(0, time.Second))
}

// resumeNone is for an origin that does not know what versions it gave out before.
func resumeNone(c weirtest.Config) { c.Origin().Set("resume", "none") }

func originRecounted(b *bed) {
	b.wait(b.between(300*time.Millisecond, time.Second))
	b.killOrigin()
	b.wait(b.between(50*time.Millisecond, 2*time.Second))
	b.churn.pause()
	b.truth.recount()
	b.origin.forgets = true
	b.startOrigin()
	b.churn.resume()
	b.wait(b.between(500*time.Millisecond, 2*time.Second))
}

func originRolledBack(b *bed) {
	b.wait(b.between(300*time.Millisecond, time.Second))
	b.churn.pause()
	old := b.truth.state()
	b.churn.resume()
	b.wait(b.between(300*time.Millisecond, time.Second))
	b.killOrigin()
	b.churn.pause()
	b.restate(old)
	b.startOrigin()
	b.churn.resume()
	b.wait(b.between(300*time.Millisecond, time.Second))
}

// originEmpty is an origin that comes up with nothing, and a moment later, or too late, with
// everything: nobody loses anything while its removals are held (RELAY-97).
func originEmpty(b *bed) {
	b.wait(b.between(300*time.Millisecond, time.Second))
	b.churn.pause()
	b.converge("before the origin dies", patience)
	all := b.truth.state()
	b.killOrigin()
	b.wait(b.between(50*time.Millisecond, time.Second))
	b.restate(nil)
	b.startOrigin()
	begin := time.Now()
	b.wait(b.between(guardHold/6, guardHold/2))
	if time.Since(begin) < guardHold*3/4 { // else the machine was elsewhere
		for _, r := range b.all {
			if what := r.keepsClusters(all); what != "" {
				b.Errorf("%s does not hold what the origin had, %v after it came back empty: %s", r.name, time.Since(begin), what)
			}
		}
	}
	b.note("empty")
	if b.rng.IntN(2) == 0 {
		b.converge("when the hold is over", guardHold+patience)
		b.note("gone after %v", time.Since(begin).Round(time.Millisecond))
	}
	b.killOrigin()
	b.restate(all)
	b.startOrigin()
	b.converge("when it has everything again", guardHold+patience)
	b.churn.resume()
	b.wait(b.between(300*time.Millisecond, time.Second))
}

// keepsClusters says what a client that wants all clusters lacks of them; the set is large enough
// to be guarded.
func (r *recorder) keepsClusters(state map[string]map[string]resource) string {
	if !r.history.wild[cds] {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range state[cds] {
		if _, ok := r.held[cds][name]; !ok {
			return name + " is gone"
		}
	}
	return ""
}

// restate makes another state the truth; nothing says in which order it came to be.
func (b *bed) restate(state map[string]map[string]resource) {
	for _, s := range []map[string]map[string]resource{b.truth.state(), state} {
		for name := range s[cds] {
			b.truth.tear(name)
		}
	}
	b.truth.restate(state)
}

// stopped is a process that stands still for a while.
func (b *bed) stopped(signal func(syscall.Signal), most time.Duration) {
	b.wait(b.between(300*time.Millisecond, time.Second))
	signal(syscall.SIGSTOP)
	b.wait(b.between(2*time.Second, most))
	signal(syscall.SIGCONT)
	b.wait(b.between(0, time.Second))
}

func originStopped(b *bed) { b.stopped(b.origin.signal, 8*time.Second) }

func weirKilled(b *bed) {
	for range 1 + b.rng.IntN(3) {
		b.wait(b.between(100*time.Millisecond, 2*time.Second))
		b.weir.Kill()
		b.wait(b.between(0, time.Second))
		b.start()
	}
	b.wait(b.between(0, 2*time.Second))
}

func weirStopped(b *bed) { b.stopped(b.weir.Signal, 15*time.Second) }

func flapping(b *bed) {
	for range 8 + b.rng.IntN(8) {
		b.up.refuse()
		b.wait(300 * time.Millisecond)
		b.up.accept()
		b.wait(300 * time.Millisecond)
	}
}

func flappingClients(b *bed) {
	l := pick(b.rng, b.down...)
	for range 8 + b.rng.IntN(8) {
		l.reset()
		b.wait(300 * time.Millisecond)
	}
}

func partition(b *bed) {
	w := pick(b.rng, weather{hold: true}, weather{lose: true})
	b.wait(b.between(300*time.Millisecond, time.Second))
	b.up.both(w)
	b.wait(b.between(2*time.Second, 8*time.Second))
	b.up.heal()
	b.wait(b.between(0, time.Second))
}

func partitionOneWay(b *bed) {
	for range 2 {
		b.wait(b.between(300*time.Millisecond, time.Second))
		b.up.one(pick(b.rng, up, down), pick(b.rng, weather{hold: true}, weather{lose: true}))
		b.wait(b.between(time.Second, 5*time.Second))
		b.up.heal()
	}
	b.wait(b.between(0, time.Second))
}

func partitionClients(b *bed) {
	for range 2 {
		b.wait(b.between(300*time.Millisecond, time.Second))
		l := pick(b.rng, b.down...)
		w := pick(b.rng, weather{hold: true}, weather{lose: true})
		if d := b.rng.IntN(3); d == 2 {
			l.both(w)
		} else {
			l.one(way(d), w)
		}
		b.wait(b.between(time.Second, 5*time.Second))
		l.heal()
	}
	b.wait(b.between(0, time.Second))
}

func cutInTheMiddle(b *bed) {
	for range 5 {
		b.up.one(pick(b.rng, up, down), weather{cut: 1 + b.rng.IntN(3000)})
		pick(b.rng, b.down...).one(pick(b.rng, up, down), weather{cut: 1 + b.rng.IntN(3000)})
		b.wait(b.between(200*time.Millisecond, time.Second))
	}
}

func slowNetwork(b *bed) {
	b.up.both(weather{delay: b.between(0, 100*time.Millisecond)})
	for _, l := range b.down {
		l.one(down, pick(b.rng, weather{}, weather{rate: 5_000 + b.rng.IntN(50_000)}, weather{delay: b.between(0, 200*time.Millisecond)}))
	}
	b.wait(b.between(3*time.Second, 6*time.Second))
}

func unreachable(b *bed) {
	b.wait(b.between(300*time.Millisecond, time.Second))
	b.up.refuse()
	b.wait(b.between(time.Second, 5*time.Second))
	for _, l := range b.down {
		l.reset() // everybody comes back while the origin is away
	}
	b.wait(b.between(time.Second, 3*time.Second))
	b.up.heal()
	b.wait(b.between(0, time.Second))
}
