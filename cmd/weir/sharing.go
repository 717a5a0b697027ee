package main

import (
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
)

const (
	// sharingLines is how many groups whose members differ are logged at a look, for one origin.
	sharingLines = 10
	// sharingLook is the interval between two comparisons of groups and clients.
	sharingLook = time.Minute
	// sharingSay is the least time between two log lines about an origin.
	sharingSay = time.Hour
	// sharingLeast is how many clients an origin must have: a few may all differ.
	sharingLeast = 20
)

// sharing warns of group keys that are too fine, and of those that are too coarse. The config file
// alone does not show either, since it depends on the clients' nodes. An origin with nearly as many
// groups as clients has no less load by weir, which costs a stream for each client (RELAY-61). In a
// group whose members differ in what the origin goes by, one is given what is another's.
type sharing struct {
	origins func() []*relay.Origin
	log     *zap.Logger
	said    map[string]time.Time // when it was last logged, by origin
	differ  map[differing]bool   // what was said to differ, and still does
}

// differing is a field in which members of a group differ.
type differing struct{ origin, group, field string }

func newSharing(p *process) *sharing {
	return &sharing{log: p.log, said: map[string]time.Time{}, origins: p.table.Origins}
}

// look compares.
func (s *sharing) look(now time.Time) {
	differ := map[differing]bool{}
	defer func() { s.differ = differ }()
	for _, o := range s.origins() {
		s.lookInside(o, differ)
		groups, clients := inspect.Sharing(o)
		if clients < sharingLeast || 10*groups < 9*clients {
			continue
		}
		if last, ok := s.said[o.Name()]; ok && now.Before(last.Add(sharingSay)) {
			continue
		}
		s.said[o.Name()] = now
		s.log.Warn("nearly every client has its own group, so nothing is shared: remove fields that differ between clients from origins[].group_by; /groups shows the nodes", zap.String("origin", o.Name()), zap.Int("groups", groups), zap.Int("clients", clients))
	}
}

// lookInside says of each group and field once that members differ in it.
func (s *sharing) lookInside(o *relay.Origin, differ map[differing]bool) {
	lines, more := 0, 0
	for _, g := range o.Groups() {
		for _, d := range g.Differing() {
			what := differing{o.Name(), g.Key, d.Field}
			if differ[what] = true; s.differ[what] {
				continue
			}
			if lines++; lines > sharingLines {
				more++
				continue
			}
			level := zap.WarnLevel
			if d.Field == "user_agent_version" {
				level = zap.InfoLevel // any upgrade, one client after the other, does that
			}
			s.log.Log(level, "clients of one group differ in a field that control planes often use, and get the same answer: add it to origins[].group_by if the origin uses it", zap.String("origin", o.Name()), zap.String("group", g.Key),
				zap.String("field", d.Field), zap.Strings("values", d.Values[:]), zap.Strings("nodes", d.IDs[:]))
		}
	}
	if more > 0 {
		s.log.Warn("clients of other groups differ too; weir groups suggest lists them", zap.String("origin", o.Name()), zap.Int("more", more))
	}
}
