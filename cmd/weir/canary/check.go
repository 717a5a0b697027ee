package canary

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/relay/gate"
)

// Check is somebody who knows how the canaries do.
type Check struct {
	// Ask asks whether there is an objection, and why. An error says that there is no answer.
	Ask func(ctx context.Context) (objects bool, why string, err error)
	// Interval is how often it is asked while a candidate settles and bakes, and how long it may
	// take.
	Interval time.Duration
}

// checking is what is known of an origin's check. Run owns it.
type checking struct {
	asking  bool
	asked   time.Time // when it was asked last
	began   time.Time // when that was asked which has been answered
	verdict gate.Verdict
	said    string
	failed  bool // the last one had no answer
}

// answered is an answer of a check.
type answered struct {
	origin  string
	began   time.Time
	verdict gate.Verdict
	said    string
	err     error
}

// check asks the check of an origin, if it is time to, and returns when it will be; zero: nothing
// is tried.
func (g *Gates) check(ctx context.Context, now time.Time, o *Origin) (next time.Time) {
	if o.Check == nil || !g.triesAny(o.Name) {
		delete(g.checks, o.Name)
		return next
	}
	c := g.checks[o.Name]
	if c == nil {
		c = &checking{}
		g.checks[o.Name] = c
	}
	if c.asking {
		return next // the answer wakes
	}
	if next = g.due(o, c); next.After(now) {
		return next
	}
	c.asking, c.asked = true, now
	g.asking.Go(func() { g.ask(ctx, now, o.Name, o.Check) })
	return time.Time{}
}

// due is when to ask the check of an origin: at each interval, and besides when a change is seen,
// to know how things are before it, and when a candidate begins and has baked.
func (g *Gates) due(o *Origin, c *checking) time.Time {
	at := c.asked.Add(o.Check.Interval)
	for of, x := range g.of {
		if of.origin != o.Name || !x.tries() {
			continue
		}
		moments := []time.Time{x.trial.Since}
		if x.trial.Phase == gate.Baking {
			moments = append(moments, o.Policy.BakedAt(x.trial.Since))
		}
		for _, moment := range moments {
			if c.asked.Before(moment) && moment.Before(at) {
				at = moment
			}
		}
	}
	return at
}

// ask asks once, and hands the answer to Run.
func (g *Gates) ask(ctx context.Context, now time.Time, origin string, c *Check) {
	within, stop := context.WithTimeout(ctx, c.Interval)
	defer stop()
	x := answered{origin: origin, began: now}
	objects, why, err := c.Ask(within)
	switch x.said = why; {
	case err != nil:
		x.said, x.err = err.Error(), err
	case objects:
		x.verdict = gate.Objects
	default:
		x.verdict = gate.Fine
	}
	select {
	case g.done <- x:
	case <-ctx.Done():
	}
}

// answered notes an answer. What nobody waits for any more is dropped.
func (g *Gates) answered(x answered) {
	c := g.checks[x.origin]
	if c == nil || !c.asked.Equal(x.began) {
		return
	}
	if x.err != nil && !c.failed {
		g.cfg.Log.Warn("the canary check has no answer", zap.String("origin", x.origin), zap.Error(x.err))
	}
	c.asking, c.began, c.verdict, c.said, c.failed = false, x.began, x.verdict, x.said, x.err != nil
}

// verdict is what the check of an origin says since a time, at which a candidate began, and whether
// it was asked for that after the bake.
func (g *Gates) verdict(o *Origin, since time.Time) (v gate.Verdict, last bool, said string) {
	c := g.checks[o.Name]
	if c == nil || c.began.Before(since) {
		return gate.Unknown, false, ""
	}
	return c.verdict, !c.began.Before(o.Policy.BakedAt(since)), c.said
}

// triesAny reports whether a candidate of an origin is tried, or will be soon.
func (g *Gates) triesAny(origin string) bool {
	for of, x := range g.of {
		if of.origin == origin && x.tries() {
			return true
		}
	}
	return false
}

func (x *group) tries() bool { return x.trial.Phase == gate.Settling || x.trial.Phase == gate.Baking }
