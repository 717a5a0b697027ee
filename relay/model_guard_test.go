package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/gate"
)

// The kinds "guarded" hold mass removals back, in sets of at most a dozen.

func (m *model) guard() gate.GuardConfig {
	if !m.has("guarded") {
		return gate.GuardConfig{}
	}
	return gate.GuardConfig{Share: 0.3, Min: 2, Hold: 10 * time.Second}
}

func (m *model) stepGuard() {
	if !m.has("guarded") {
		return
	}
	o := m.table.Origin("mesh")
	m.alarms += len(o.TakeAlarms())
	switch m.rnd.IntN(200) {
	case 0:
		m.logf("released %d", o.ReleaseGuard(m.now, ""))
	case 1: // the origin restarts with little of what it had
		for _, ty := range modelTypes {
			for _, name := range modelNames {
				if _, ok := m.state[ty][name]; ok && m.rnd.IntN(4) > 0 && m.faults[ty][name].code == 0 {
					delete(m.state[ty], name)
					m.deleted[ty][name] = m.at
				}
			}
		}
		for _, l := range m.lanes {
			m.breakLane(l)
		}
		m.logf("origin restarts")
	}
}
