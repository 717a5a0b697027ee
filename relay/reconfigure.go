package relay

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/node"
)

// routes is which origins there are and what each is asked for. It is replaced as a whole, so that
// no name is ever judged by half of the old and half of the new.
type routes struct {
	list        []*Origin          // as configured
	origins     map[string]*Origin // by name
	authorities map[string]*Origin // by the authorities of xdstp names (FED-1)
}

// Authority is the origin that is asked for xdstp names of the authority; nil if none is (FED-1,
// FED-2).
func (t *Table) Authority(authority string) *Origin { return t.routes.Load().authorities[authority] }

// SecretsFrom reports whether any origin that a client stream of own's may have names of has
// secrets enabled, in dedicated groups or by identity.
func (t *Table) SecretsFrom(own *Origin) (dedicated, byIdentity bool) {
	count := func(o *Origin) {
		dedicated = dedicated || o.Secrets() && !o.SecretsByIdentity()
		byIdentity = byIdentity || o.SecretsByIdentity()
	}
	for _, o := range t.routes.Load().authorities {
		count(o)
	}
	count(own)
	return dedicated, byIdentity
}

// Federated reports whether names of one client stream may belong to other origins than the one
// given.
func (t *Table) Federated(own *Origin) bool {
	for _, o := range t.routes.Load().authorities {
		if o != own {
			return true
		}
	}
	return false
}

// Next is a configuration that is checked and not in force. Between Prepare and Commit whatever
// else depends on it can be opened, so that what fails there leaves all as it was.
type Next struct {
	table     *Table
	cfg       Config
	routes    *routes
	unchanged []*Origin // parts that stay, and their configurations
	cfgs      []*OriginConfig
}

// Prepare checks a configuration for a table that may be in use. The error joins all problems. The
// caller sees to it that nothing else is prepared before Commit, or before this is forgotten.
//
// An origin of a name that is known keeps its part of the table, with all that is in it, if what
// changes matters to what comes alone (see live). Otherwise it gets a part that is empty, and the
// one before ends.
func (t *Table) Prepare(cfg Config) (*Next, error) {
	errs := []error{cfg.check()}
	n := &Next{table: t, cfg: cfg, routes: &routes{origins: map[string]*Origin{}, authorities: map[string]*Origin{}}}
	if old := t.cfg.Load(); old != nil && old.Name != n.cfg.Name {
		errs = append(errs, fmt.Errorf("name: is part of what origins know this relay by, and cannot become %q", n.cfg.Name))
	}
	r := n.routes
	for i := range cfg.Origins {
		oc := new(OriginConfig)
		*oc = cfg.Origins[i]
		if oc.Name == "" {
			errs = append(errs, fmt.Errorf("origins[%d].name: is empty", i))
		}
		if r.origins[oc.Name] != nil {
			errs = append(errs, fmt.Errorf("origins[%d].name: %q is used twice", i, oc.Name))
		}
		if err := node.CheckGroupBy(oc.GroupBy); err != nil {
			errs = append(errs, fmt.Errorf("origins[%d].group_by: %w", i, err))
		}
		if err := checkParams(oc); err != nil {
			errs = append(errs, fmt.Errorf("origins[%d].%w", i, err))
		}
		o := t.Origin(oc.Name)
		if o != nil && live(o.config(), oc) {
			n.unchanged, n.cfgs = append(n.unchanged, o), append(n.cfgs, oc)
		} else {
			o = newOrigin(t, oc, cfg.Metrics.Origin(oc.Name))
		}
		r.list = append(r.list, o)
		r.origins[oc.Name] = o
		for j, authority := range oc.Authorities {
			if other := r.authorities[authority]; other != nil {
				errs = append(errs, fmt.Errorf("origins[%d].authorities[%d]: %q is already one of %s's", i, j, authority, other.name))
				continue
			}
			r.authorities[authority] = o
		}
	}
	return n, errors.Join(errs...)
}

// live reports whether a part of the table can go on under another configuration: if nothing
// differs but what is looked at when a response comes, or when a name is routed. All else is in the
// keys of groups, in what is held or in its versions.
func live(old, next *OriginConfig) bool {
	a, b := *old, *next
	for _, c := range []*OriginConfig{&a, &b} {
		// What holds is of a dialect's stream, and that is opened anew.
		c.SotW, c.NoResume = false, false
		c.AbsenceTransient, c.DropOnDataError, c.AbsenceKeeps, c.NACKReport = false, false, nil, false
		c.Authorities, c.Guard, c.Untailored = nil, gate.GuardConfig{}, false
		c.Canary = nil // clients come again, for their groups; those stay (Change.Regrouped)
		if len(c.GroupBy) == 0 {
			c.GroupBy = nil
		}
		if len(c.Types) == 0 {
			c.Types = nil
		}
		if len(c.FromNode) == 0 {
			c.FromNode = nil
		}
		c.Limits = OriginLimits{}
		c.Urgent = nil // looked at when a response comes
	}
	return reflect.DeepEqual(a, b)
}

// Origin is the part of the table that an origin will have; nil if there is none of that name. It
// may be configured for, but not be run before Commit.
func (n *Next) Origin(name string) *Origin { return n.routes.origins[name] }

// Commit puts the configuration into force. Nobody may run lanes of an origin whose part ends, or
// whose dialect changes. What retired of an origin whose part ends is forgotten: the next of that
// name may be another (FED-4).
func (n *Next) Commit(now time.Time) *Change {
	t := n.table
	c := &Change{before: t.routes.Load(), after: n.routes, dialects: map[*Origin]bool{}, regrouped: map[*Origin]bool{}}
	for i, o := range n.unchanged {
		if o.config().SotW != n.cfgs[i].SotW {
			c.dialects[o] = true
		}
		if !o.config().Canary.Equal(n.cfgs[i].Canary) {
			c.regrouped[o] = true
		}
		o.set(n.cfgs[i])
	}
	t.cfg.Store(&n.cfg)
	t.routes.Store(n.routes)
	t.retired.bound(n.cfg.RetiredEntries, n.cfg.RetiredBytes)
	t.expireHistory(t.past.Bound(n.cfg.History, now, t.Revision()))
	if c.before == nil {
		return c
	}
	for _, o := range c.before.list {
		if c.Ended(o) {
			o.ended.Store(true)
			if next := n.routes.origins[o.name]; next != nil {
				next.frozen.Store(o.frozen.Load()) // an operator ends it, and nothing else
				next.inherit(o)
			}
			t.retired.forget(o.name)
			t.past.Forget(o.name, "")
		}
	}
	return c
}

// Change is what a Commit changed for those who are subscribed.
type Change struct {
	before, after *routes
	dialects      map[*Origin]bool
	regrouped     map[*Origin]bool
}

// Ended reports whether an origin's part is no longer in force: who is subscribed there has to come
// again.
func (c *Change) Ended(o *Origin) bool { return c.after.origins[o.name] != o }

// Moved reports whether names of the authority are another origin's now, or nobody's, or no longer
// nobody's.
func (c *Change) Moved(authority string) bool {
	return c.before.authorities[authority] != c.after.authorities[authority]
}

// Rerouted reports whether names of any authority have moved.
func (c *Change) Rerouted() bool { return !maps.Equal(c.before.authorities, c.after.authorities) }

// Dialect reports whether an origin is asked in another dialect from now on.
func (c *Change) Dialect(o *Origin) bool { return c.dialects[o] }

// Regrouped reports whether clients of an origin may belong in other groups from now on, since
// other ones are canaries.
func (c *Change) Regrouped(o *Origin) bool { return c.regrouped[o] }
