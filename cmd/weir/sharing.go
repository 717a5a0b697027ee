package main

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
)

const (
	// sharingLook is the interval between two comparisons of groups and clients.
	sharingLook = time.Minute
	// sharingSay is the least time between two log lines about an origin.
	sharingSay = time.Hour
	// sharingLeast is how many clients an origin must have: a few may all differ.
	sharingLeast = 20
)

// sharing warns of origins with nearly as many groups as clients: weir then does not reduce their
// load, and costs a stream for each client (RELAY-61). The config file alone does not show that,
// since it depends on the clients' nodes.
type sharing struct {
	origins func() []*relay.Origin
	log     *zap.Logger
	said    map[string]time.Time // when it was last logged, by origin
}

func newSharing(p *process) *sharing {
	return &sharing{log: p.log, said: map[string]time.Time{}, origins: p.table.Origins}
}

// watch compares until ctx ends.
func (s *sharing) watch(ctx context.Context) error {
	tick := time.NewTicker(sharingLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			s.look(now)
		}
	}
}

func (s *sharing) look(now time.Time) {
	for _, o := range s.origins() {
		groups, clients := inspect.Sharing(o)
		if clients < sharingLeast || 10*groups < 9*clients {
			continue
		}
		if last, ok := s.said[o.Name()]; ok && now.Before(last.Add(sharingSay)) {
			continue
		}
		s.said[o.Name()] = now
		s.log.Warn("nearly every client is a group of its own, so nothing is shared: leave out of origins[].group_by what differs from "+
			"client to client; /groups shows the nodes", zap.String("origin", o.Name()), zap.Int("groups", groups), zap.Int("clients", clients))
	}
}
