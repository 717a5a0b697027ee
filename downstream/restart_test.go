package downstream

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	"github.com/weir-xds/weir/relay"
)

// disk is what a snapshot of a table keeps, with the bodies as they are written down.
type disk struct {
	images []relay.TypeImage
	bodies map[*xds.Variant]xds.BodyImage
}

func snapshot(t *relay.Table, now time.Time) *disk {
	d := &disk{bodies: map[*xds.Variant]xds.BodyImage{}}
	for x := range t.Images(func(*relay.TypeImage) uint64 { return 0 }) {
		d.images = append(d.images, x)
		for i := range x.Sets {
			d.write(x.Sets[i].Members, now)
		}
		for i := range x.Names {
			d.write(x.Names[i].Variants, now)
		}
	}
	return d
}

func (d *disk) write(vs []*xds.Variant, now time.Time) {
	for _, v := range vs {
		d.bodies[v] = v.Image(now, now)
	}
}

// restore puts it all into a new table.
func (d *disk) restore(tb testing.TB, t *relay.Table, now time.Time) {
	tb.Helper()
	for _, x := range d.images {
		again := func(vs []*xds.Variant) []*xds.Variant {
			vs = slices.Clone(vs)
			for i, v := range vs {
				var err error
				if vs[i], err = t.RestoreBody(now, now, x.Origin, x.TypeURL, d.bodies[v]); err != nil {
					tb.Fatal(err)
				}
			}
			return vs
		}
		x.Sets, x.Names = slices.Clone(x.Sets), slices.Clone(x.Names)
		for i := range x.Sets {
			x.Sets[i].Members = again(x.Sets[i].Members)
		}
		for i := range x.Names {
			x.Names[i].Variants = again(x.Names[i].Variants)
		}
		if err := t.Restore(now, x); err != nil {
			tb.Fatal(err)
		}
	}
}

// restart is the end of the process, and its next begin with the last snapshot. The origins go on;
// every client's stream is gone.
func (s *script) restart() {
	cfg := relay.Config{Gather: s.gather}
	for _, c := range s.controls() {
		cfg.Origins = append(cfg.Origins, relay.OriginConfig{Name: c.origin.Name(), SotW: c.sotw, Authorities: []string{c.origin.Name()}})
	}
	old := s.rig
	s.rig = newRigWith(s.t, cfg)
	s.rig.now = old.now
	s.rig.configure(func(c *Config, _ *ListenerConfig) { c.Rules = old.cfg.Rules })
	for _, c := range s.controls() {
		c.origin, c.lanes = s.rig.table.Origin(c.origin.Name()), nil
	}
	s.disk.restore(s.t, s.rig.table, s.rig.now)
}
