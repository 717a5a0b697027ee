package admin

import (
	"fmt"
	"time"
)

// Why a group is held at a state, and what ends that.

// keyShown is as much of a group's key as commands need.
const keyShown = 12

// heldBecause says who holds a group, since when and at what, and what ends it; "": nobody who is
// known does.
func (o *Origin) heldBecause(now time.Time, group string) string {
	if o.Rollback == nil {
		return ""
	}
	for i := range o.Rollback.Groups {
		g := &o.Rollback.Groups[i]
		if g.Group != group {
			continue
		}
		ends := fmt.Sprintf("weir rollforward %s", o.Name)
		if !o.Rollback.Whole {
			ends += " --group " + group[:min(keyShown, len(group))]
		}
		return fmt.Sprintf("%s rolled it back to %s, which %s ends", g.By, g.state(), ends)
	}
	return ""
}
