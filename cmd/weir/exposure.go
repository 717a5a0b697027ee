package main

import (
	"fmt"
	"slices"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// exposures say, for each origin with group_by, how many upstream streams its clients can cause at
// most.
func exposures(cfg *config.Config) (lines []string) {
	l := &cfg.Limits
	dedicated := slices.ContainsFunc(cfg.Listeners, func(l config.Listener) bool { return len(l.Dedicated) > 0 })
	for i := range cfg.Origins {
		o := &cfg.Origins[i]
		if o.GRPC == nil || len(o.GroupBy) == 0 && !dedicated {
			continue
		}
		streams := "a stream of its own"
		if !o.GRPC.Aggregated {
			streams = "a stream for each type"
		}
		one := l.GroupsPerPeer
		if one == 0 || l.Groups > 0 && l.Groups < one {
			one = l.Groups
		}
		lines = append(lines, fmt.Sprintf("origin %s: at worst %s groups of clients (limits.groups), each with %s; one peer can open %s of them "+
			"(limits.groups_per_peer), and all together %s a second (limits.new_groups_per_second)", o.Name, orAny(l.Groups), streams,
			orAny(one), orAny(l.NewGroupsPerSecond)))
	}
	return lines
}

func orAny(n int) string {
	if n == 0 {
		return "unlimited"
	}
	return fmt.Sprint(n)
}
