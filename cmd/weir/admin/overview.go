package admin

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/gate"
)

// Overview is how a weir stands, in few numbers: the head of the page and of `weir status`. The
// lists have the rest.
type Overview struct {
	At      time.Time `json:"at,omitzero"`
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`

	// Sentence and State are those of Headline, and Findings are all that is wrong.
	Sentence string    `json:"sentence"`
	State    State     `json:"state"`
	Findings []Finding `json:"findings"`

	// Clients are client streams. InSyncPercent is 100 without any.
	Clients       int     `json:"clients"`
	InSyncPercent float64 `json:"in_sync_percent"`
	Unsynced      int     `json:"unsynced"`
	Nacking       int     `json:"nacking"`
	// Young are those that came within the last minute.
	Young int `json:"new_clients"`
	// Ended is how many client streams ended within the last minute.
	Ended int `json:"ended_streams"`
	// WorstLag is for how long Worst has not had the newest configuration. Nil: all have it.
	WorstLag float64 `json:"worst_lag_seconds"`
	Worst    *Worst  `json:"worst,omitempty"`
	// Stuck is the same of those that reject nothing of that type.
	Stuck *Worst `json:"stuck,omitempty"`
	// Rejected is what most of the clients that reject something now reject; nil: none does.
	Rejected *Rejected `json:"rejected,omitempty"`
	// StaleSince is when the first origin was lost that clients have resources of, StaleFor how
	// long ago that is, and Stale how many resources these are.
	StaleSince time.Time `json:"stale_since,omitzero"`
	StaleFor   float64   `json:"stale_seconds"`
	Stale      int       `json:"stale"`
	Held       []Held    `json:"held"` // what clients are not given: frozen, or by the guard

	Ready        Readiness            `json:"ready"`
	Config       ConfigState          `json:"config"`
	Snapshot     *Snapshot            `json:"snapshot,omitempty"`
	Certificates map[string]time.Time `json:"certificates,omitempty"` // next ends of validity, by role
	Memory       Memory               `json:"memory,omitzero"`
	Origins      []OriginOverview     `json:"origins"`
}

// Memory is what the process cannot free by itself, and its limit, in bytes; zero: there is none.
type Memory struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
	// Short: names that nobody has asked for yet are refused.
	Short bool `json:"short,omitempty"`
}

// Worst is the client that has not had the newest configuration for longest.
type Worst struct {
	NodeID string    `json:"node_id"`
	Peer   string    `json:"peer"`
	Origin string    `json:"origin"`
	Group  string    `json:"group"`
	Type   string    `json:"type"`
	Since  time.Time `json:"since"`
	// Unanswered: clients wait for the origin's answer for this type.
	Unanswered bool `json:"unanswered,omitempty"`
	// Unacknowledged: it has not answered what it was sent.
	Unacknowledged bool `json:"unacknowledged,omitempty"`
}

// Rejected is what clients reject now.
type Rejected struct {
	Origin   string `json:"origin"`
	Type     string `json:"type"`
	Resource string `json:"resource,omitempty"`
	Message  string `json:"message"`
	NodeID   string `json:"node_id"` // one of them
	Clients  int    `json:"clients"` // that reject something of that type now
}

// Held is what clients of an origin are not given. By is config, or one of the constants below.
type Held struct {
	Origin    string    `json:"origin"`
	By        string    `json:"by"`
	Resources int       `json:"resources"`
	Since     time.Time `json:"since,omitzero"`
	Until     time.Time `json:"until,omitzero"`
}

// What keeps something from clients.
const (
	byOperator = "operator" // who has frozen it
	byGuard    = "guard"
	byRollback = "rollback"
	byCanary   = "canary" // the gate, from those that are no canaries
)

// OriginOverview is an origin with its groups, the worst first.
type OriginOverview struct {
	Origin
	State   State           `json:"state"`
	Clients int             `json:"clients"`
	Worst   []GroupOverview `json:"worst_groups"`
	LeftOut int             `json:"groups_left_out,omitempty"`
	// Gates counts the canary gates by phase. Of them, and of the groups that are rolled back, the
	// overview has as many as of groups, those first that wait for somebody.
	Gates map[string]int `json:"canary_phases,omitempty"`

	full *Origin // with all of them; nil: the embedded one has all
}

// GroupOverview is a group with clients. Unsynced and Nacking count its clients.
type GroupOverview struct {
	Key      string `json:"key"`
	NodeID   string `json:"node_id"`
	Cluster  string `json:"node_cluster"`
	Identity string `json:"identity,omitempty"`
	Clients  int    `json:"clients"`
	Unsynced int    `json:"unsynced"` // those that reject something are among them
	Nacking  int    `json:"nacking"`
	// Since is since when one of them has not had the newest configuration.
	Since time.Time `json:"since,omitzero"`
}

// overviewGroups bounds the groups of an origin in the overview; /groups has all.
const overviewGroups = 60

// overview is how everything stands at a time.
func (a *Admin) overview(now time.Time) *Overview {
	o := &Overview{
		At: now, Name: a.cfg.Name, Version: a.cfg.Version, Started: a.cfg.Started, Held: []Held{},
		Ready: a.cfg.Readiness(), Snapshot: a.cfg.Snapshot(), Certificates: a.cfg.Certificates(), Memory: a.cfg.Memory(), Origins: []OriginOverview{},
	}
	_, o.Config = a.cfg.Effective(false)
	o.Ended = a.series.endedSince(now.Add(-youngFor), a.cfg.Counts.Totals().Ended)
	c := a.count(o)
	origins := a.cfg.Origins()
	for i := range origins {
		o.addOrigin(&origins[i], c.groupsOf(a, origins[i].Name), now)
	}
	if o.InSyncPercent = 100; o.Clients > 0 {
		o.InSyncPercent = float64(o.Clients-o.Unsynced) / float64(o.Clients) * 100
	}
	if o.Worst != nil {
		o.WorstLag = max(now.Sub(o.Worst.Since), 0).Seconds()
	}
	if s := o.Stuck; s != nil {
		s.Unanswered = slices.ContainsFunc(o.Ready.Origins, func(x OriginReadiness) bool {
			return x.Name == s.Origin && slices.Contains(x.Unanswered, s.Type)
		})
	}
	o.Findings = o.findings()
	o.Sentence, o.State = Headline(o)
	return o
}

// addOrigin adds an origin, and what clients are not given of it.
func (o *Overview) addOrigin(s *Origin, groups []GroupOverview, now time.Time) {
	x := OriginOverview{Origin: *s, Worst: groups}
	for i := range groups {
		x.Clients += groups[i].Clients
	}
	if len(groups) > overviewGroups {
		x.Worst, x.LeftOut = groups[:overviewGroups], len(groups)-overviewGroups
	}
	if x.away() && s.Stale > 0 {
		o.Stale += s.Stale
		if o.StaleSince.IsZero() || s.Since.Before(o.StaleSince) {
			o.StaleSince, o.StaleFor = s.Since, max(now.Sub(s.Since), 0).Seconds()
		}
	}
	for _, by := range s.freezers() {
		o.Held = append(o.Held, Held{Origin: s.Name, By: by, Resources: s.FrozenChanges, Since: s.Frozen})
	}
	if s.HeldRemovals > 0 {
		o.Held = append(o.Held, Held{Origin: s.Name, By: byGuard, Resources: s.HeldRemovals, Until: s.HeldUntil})
	}
	if b := s.Rollback; b != nil {
		o.Held = append(o.Held, Held{Origin: s.Name, By: byRollback, Resources: b.Waiting, Since: b.Since})
	}
	if held := heldByGates(s); held.Resources > 0 {
		o.Held = append(o.Held, held)
	}
	x.State = x.standing()
	x.bound(s)
	o.Origins = append(o.Origins, x)
}

// away reports whether the origin was lost, or is asked in vain. One that was not asked yet is not.
func (o *OriginOverview) away() bool {
	return !o.Connected && (!o.Since.IsZero() || o.Error != "")
}

// standing is the state of an origin with its clients.
func (o *OriginOverview) standing() State {
	state := Good
	for i := range o.Worst {
		if g := &o.Worst[i]; g.Unsynced > 0 || g.Nacking > 0 {
			state = Warn
		}
	}
	switch {
	case o.away():
		return Bad
	case len(o.FrozenBy) > 0, o.Rollback != nil, len(o.gates(gate.Stopped, false)) > 0, len(o.gates(gate.Baking, true)) > 0, o.HeldRemovals > 0, o.Error != "", len(o.Quarantined) > 0, len(o.Slow) > 0, o.Fallback != nil && o.Fallback.Serving > 0:
		return Warn
	}
	return state
}

// groupKey is a group of an origin.
type groupKey struct{ origin, group string }

// tally counts clients by their groups.
type tally map[groupKey]*GroupOverview

// count counts the clients, and finds the worst of them.
func (a *Admin) count(o *Overview) tally {
	t := tally{}
	clients := a.cfg.Clients()
	o.Clients = len(clients)
	rejects := map[[2]string]*Rejected{} // by origin and type
	for i := range clients {
		c := &clients[i]
		nacking, since := trouble(c, "")
		if o.At.Sub(c.Since) < youngFor {
			o.Young++
		}
		if !since.IsZero() {
			o.Unsynced++
		}
		if nacking {
			o.Nacking++
		}
		for j := range c.Types {
			x := &c.Types[j]
			if !x.UnsyncedSince.IsZero() {
				worst(&o.Worst, c, x)
				if !x.Nacking {
					worst(&o.Stuck, c, x)
				}
			}
			if x.Nacking {
				key := [2]string{c.Origin, x.TypeURL}
				if rejects[key] == nil {
					rejects[key] = &Rejected{Origin: c.Origin, Type: metrics.ShortName(x.TypeURL), Message: x.LastNack.Message}
				}
				rejects[key].NodeID = c.NodeID
				rejects[key].Clients++
				if o.Rejected == nil {
					o.Rejected = rejects[key]
				}
			}
		}
		t.add(c)
	}
	a.rejected(o, rejects)
	return t
}

// worst keeps a type of a client if it has been behind for longer than what is there.
func worst(is **Worst, c *downstream.ClientStatus, x *downstream.TypeStatus) {
	if *is == nil || x.UnsyncedSince.Before((*is).Since) {
		*is = &Worst{NodeID: c.NodeID, Peer: c.Peer, Origin: c.Origin, Group: c.Group, Type: metrics.ShortName(x.TypeURL), Since: x.UnsyncedSince, Unacknowledged: !x.InFlightSince.IsZero()}
	}
}

// rejected takes from the book what most clients have rejected, of what somebody rejects now.
func (a *Admin) rejected(o *Overview, now map[[2]string]*Rejected) {
	if len(now) == 0 {
		return
	}
	most := 0
	for _, x := range a.cfg.Rejections() {
		if is := now[[2]string{x.Origin, x.TypeURL}]; is != nil && x.Clients > most {
			most = x.Clients
			is.Resource, is.Message = x.Resource, x.Message
			if n := len(x.Examples); n > 0 { // in a client's own words, where the book has # and {node}
				is.Message = x.Examples[n-1].Message
			}
			o.Rejected = is
		}
	}
}

// part is a client in one group that serves it.
type part struct {
	key     groupKey
	nacking bool
	since   time.Time // since when it has not been in sync; zero: it is
}

// add counts a client in the groups that serve it, once in each.
func (t tally) add(c *downstream.ClientStatus) {
	var room [4]part
	parts := append(room[:0], part{key: groupKey{c.Origin, c.Group}})
	own := len(c.Types) == 0
	for i := range c.Types {
		x := &c.Types[i]
		own = own || len(x.Parts) == 0
		if len(x.Parts) == 0 {
			parts = merged(parts, groupKey{c.Origin, c.Group}, x)
		}
		for _, p := range x.Parts {
			own = own || p.Origin == c.Origin && p.Group == c.Group
			parts = merged(parts, groupKey{p.Origin, p.Group}, x)
		}
	}
	if !own {
		parts = parts[1:]
	}
	for i := range parts {
		t.of(parts[i].key).add(&parts[i])
	}
}

// merged adds how a type stands to the part of a group.
func merged(parts []part, key groupKey, x *downstream.TypeStatus) []part {
	i := slices.IndexFunc(parts, func(p part) bool { return p.key == key })
	if i < 0 {
		i, parts = len(parts), append(parts, part{key: key})
	}
	p := &parts[i]
	p.nacking = p.nacking || x.Nacking
	if at := x.UnsyncedSince; !at.IsZero() && (p.since.IsZero() || at.Before(p.since)) {
		p.since = at
	}
	return parts
}

func (g *GroupOverview) add(p *part) {
	g.Clients++
	if p.nacking {
		g.Nacking++
	}
	if !p.since.IsZero() {
		g.Unsynced++
		if g.Since.IsZero() || p.since.Before(g.Since) {
			g.Since = p.since
		}
	}
}

func (t tally) of(key groupKey) *GroupOverview {
	g := t[key]
	if g == nil {
		g = &GroupOverview{Key: key.group}
		t[key] = g
	}
	return g
}

// groupsOf are the groups of an origin, those with trouble first, then those with many clients.
func (t tally) groupsOf(a *Admin, origin string) []GroupOverview {
	all := []GroupOverview{}
	part := a.cfg.Table.Origin(origin)
	if part == nil {
		return all
	}
	for _, v := range part.Groups() {
		g := GroupOverview{Key: v.Key}
		if counted := t[groupKey{origin, v.Key}]; counted != nil {
			g = *counted
		}
		g.NodeID, g.Cluster, g.Identity = v.Node.GetId(), v.Node.GetCluster(), v.Identity
		all = append(all, g)
	}
	slices.SortFunc(all, func(x, y GroupOverview) int {
		return cmp.Or(cmp.Compare(y.Nacking, x.Nacking), cmp.Compare(y.Unsynced, x.Unsynced), cmp.Compare(y.Clients, x.Clients), cmp.Compare(x.Key, y.Key))
	})
	return all
}

func (a *Admin) getOverview(r *http.Request) (any, error) {
	if p := a.params(r); p.err != nil {
		return nil, p.err
	}
	return a.Overview(), nil
}
