package farm

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// Stage is a part of a run, and what was found in it.
type Stage struct {
	Name string `json:"name"`
	// Of the changes that were made in it, from the origin to each client; and of each change, to
	// the last.
	P50     time.Duration `json:"p50"`
	P99     time.Duration `json:"p99"`
	Max     time.Duration `json:"max"`
	LastP50 time.Duration `json:"last_p50"`
	Changes int           `json:"changes"`
	// Lost is how many lanes, or clients, the loss left without a stream. InSync is from the loss to
	// the first moment at which all had one again, and all changes made so far.
	Lost   int           `json:"lost_streams"`
	InSync time.Duration `json:"in_sync_after"`
	// Traffic is by the kind of link.
	Traffic []Traffic `json:"traffic"`

	each, last histogram
	killed     instant // 0: nothing was
	before     []Traffic
}

// Traffic is bytes on all links of a kind, with frames.
type Traffic struct {
	Down int64 `json:"down_bytes"`
	Up   int64 `json:"up_bytes"`
}

func (m *sim) begin(name string) *Stage {
	return &Stage{Name: name, before: append([]Traffic(nil), m.traffic...)}
}

func (s *Stage) end(m *sim) {
	s.P50, s.P99, s.Max, s.LastP50 = s.each.quantile(0.5), s.each.quantile(0.99), s.each.most, s.last.quantile(0.5)
	for i, t := range m.traffic {
		s.Traffic = append(s.Traffic, Traffic{t.Down - s.before[i].Down, t.Up - s.before[i].Up})
	}
}

// churn has resources changed, and a replica of a tier lost meanwhile; 0: none is.
func (m *sim) churn(ctx context.Context, kill int) error {
	name, span := "all is well", time.Duration(m.cfg.Changes)*m.cfg.Every
	if kill > 0 {
		name = fmt.Sprintf("one of %d weirs of tier %d is killed", len(m.tiers[kill-1]), kill)
		at := span/4 + time.Duration(m.random.Float64()*float64(span)/4)
		m.clock.at(m.clock.now+at, call(func() { m.kill(kill) }))
	}
	m.stage = m.begin(name)
	if m.cfg.Every > 0 {
		for i := range m.cfg.Changes {
			m.clock.at(m.clock.now+time.Duration(i)*m.cfg.Every, call(m.change))
		}
	} else {
		m.change()
	}
	stage := m.stage
	err := m.until(ctx, name, func() bool {
		if stage.Changes == m.cfg.Changes && m.behind == 0 {
			return kill == 0 || stage.InSync > 0
		}
		if m.cfg.Every == 0 && m.behind == 0 {
			m.change()
		}
		return false
	})
	stage.end(m)
	return err
}

// change has the next resource changed.
func (m *sim) change() {
	i := m.changes % m.cfg.Resources
	m.changes++
	m.stage.Changes++
	c := &change{at: m.clock.now, stamp: world.Stamp(m.clock.time().UnixNano()), left: m.cfg.Clients, stage: m.stage}
	m.behind += c.left
	m.library.changes[i] = append(m.library.changes[i], c)
	m.origin.change(i, c.stamp)
}

// gained records that one more client has a change.
func (m *sim) gained(c *change) {
	took := m.clock.now - c.at
	c.stage.each.add(took)
	m.behind--
	if c.left--; c.left == 0 {
		c.stage.last.add(took)
	}
}

// kill ends a weir of a tier.
func (m *sim) kill(tier int) {
	all := m.tiers[tier-1]
	w := all[m.random.IntN(len(all))]
	for !w.alive {
		w = all[m.random.IntN(len(all))]
	}
	m.stage.killed = m.clock.now
	for _, s := range w.streams {
		if !s.ended {
			m.stage.Lost++
		}
	}
	m.orphans += m.stage.Lost // each is told some time later
	for _, s := range w.streams {
		if !s.ended {
			s.client.bereaved()
		}
	}
	w.die()
}

// settled looks whether all are in sync again after a loss.
func (m *sim) settled() {
	if s := m.stage; s.killed > 0 && s.InSync == 0 && m.orphans == 0 && m.behind == 0 {
		s.InSync = m.clock.now - s.killed
	}
}
