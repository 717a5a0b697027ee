package admin

import (
	"fmt"
	"time"

	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
)

// Why a group is held at a state, and what ends that.

// keyShown is as much of a group's key as commands need.
const keyShown = 12

// heldBecause says who holds a group, at what, and what ends it; "": nobody who is known does.
func (o *Origin) heldBecause(now time.Time, group string) string {
	key, tier := relay.CutTier(group)
	if text := o.rolledBecause(group, key); text != "" {
		return text
	}
	for i := range o.Canary {
		if s := &o.Canary[i]; s.Group == key {
			return o.gatedBecause(now, tier, s)
		}
	}
	return ""
}

// rolledBecause says who has rolled a group back; "": nobody.
func (o *Origin) rolledBecause(group, key string) string {
	if o.Rollback == nil {
		return ""
	}
	for i := range o.Rollback.Groups {
		g := &o.Rollback.Groups[i]
		if g.Group != group && g.Group != key {
			continue
		}
		ends := "weir rollforward " + o.Name
		if !o.Rollback.Whole {
			ends += " --group " + key[:min(keyShown, len(key))]
		}
		return fmt.Sprintf("%s rolled it back to %s, which %s ends", g.By, g.state(), ends)
	}
	return ""
}

// gatedBecause says what a canary gate keeps a tier of a group for.
func (o *Origin) gatedBecause(now time.Time, tier relay.Tier, s *canary.Status) string {
	act := fmt.Sprintf("POST /origins/%s/canary?group=%s&action=", o.Name, s.Group)
	switch s.Phase {
	case gate.Stopped.String():
		return fmt.Sprintf("the candidate was stopped at the canaries (%s); the next change of the origin is tried by itself, %sretry tries this one again, and %spromote gives it to all",
			short(s.Why), act, act)
	case gate.Baking.String():
		if tier == relay.Canary {
			return "a candidate is tried on the canaries, of which this is one, and what is newer waits for its end: " + progress(now, s)
		}
		return "a candidate is tried on the canaries first: " + progress(now, s)
	case gate.Settling.String():
		return "the origin has changed it just now, and canaries are given it first, once the origin is quiet"
	case gate.Paused.String():
		return "the canary gate is paused: " + short(s.Why)
	}
	return ""
}
