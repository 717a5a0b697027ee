package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/xds"
)

// Change is one change of a resource. Of a secret it has names and times alone (RELAY-76).
type Change struct {
	At         time.Time `json:"at"`
	Origin     string    `json:"origin"`
	Group      string    `json:"group"`
	Revision   uint64    `json:"revision"`
	Type       string    `json:"type"`
	TypeURL    string    `json:"type_url"`
	Name       string    `json:"name"`
	Wildcard   bool      `json:"wildcard"` // member of `*`; or by name, or in Collection
	Collection string    `json:"collection,omitempty"`
	Parameters string    `json:"parameters,omitempty"` // the map, as canonical text
	Change     string    `json:"change"`               // added, changed, removed
	// Version is what clients were sent from then on, and WasVersion before; "": none.
	Version       string `json:"version,omitempty"`
	OriginVersion string `json:"origin_version,omitempty"`
	WasVersion    string `json:"was_version,omitempty"`
	WasOrigin     string `json:"was_origin_version,omitempty"`
	Source        string `json:"source,omitempty"` // the server, or path, that it came from
	Fallback      bool   `json:"fallback,omitempty"`
	Bytes         int    `json:"bytes"`
	Secret        bool   `json:"secret,omitempty"`
}

// historyVersion is one version of a resource.
type historyVersion struct {
	Origin        string    `json:"origin"`
	Group         string    `json:"group"`
	Parameters    string    `json:"parameters,omitempty"`
	Version       string    `json:"version,omitempty"`
	OriginVersion string    `json:"origin_version,omitempty"`
	Since         time.Time `json:"since,omitzero"` // absent: before what is kept
	Until         time.Time `json:"until,omitzero"` // absent: clients have it now
	Source        string    `json:"source,omitempty"`
	Fallback      bool      `json:"fallback,omitempty"`
	Bytes         int       `json:"bytes"`
	Secret        bool      `json:"secret,omitempty"`
	// Body is present with full=true, if it is kept.
	Body json.RawMessage `json:"body,omitempty"`

	encoded []byte // the body; nil: it is not kept
}

// Kept is how much is kept.
type Kept struct {
	Versions int       `json:"versions"`
	Bytes    int       `json:"bytes"`
	Oldest   time.Time `json:"oldest,omitzero"`
	Off      bool      `json:"off,omitempty"` // nothing is, by cache.history.versions
}

// mostChanges bounds an answer, whatever limit= says.
const mostChanges = 10_000

// past reads what the endpoints of the history have in common.
func past(p *params) history.Query {
	q := history.Query{Origin: p.origin(), Group: p.Get("group"), TypeURL: p.typeURL(), Name: xds.NameKey(p.Get("name")), Most: mostChanges}
	if p.err == nil && q.Group != "" { // of one that is gone there may be a past
		q.Group, _, p.err = keyMeant(q.Group, p.asked())
	}
	return q
}

// history are the changes that a request asks for, and the versions of the one resource that it
// names; or the states of groups.
func (a *Admin) history(r *http.Request) (any, error) {
	if states, _ := strconv.ParseBool(r.URL.Query().Get("states")); states {
		return a.states(r)
	}
	p := a.params(r, "origin", "group", "type", "name", "since", "limit", "full", "states")
	p.flag("states")
	q, since := past(p), p.since(time.Now(), 0)
	l, full := newList[Change](p), p.flag("full")
	if p.err != nil {
		return nil, p.err
	}
	named := q
	q.Since, q.Most = since, min(l.limit, mostChanges)
	rows, more := a.cfg.Table.History().Changes(q)
	servers := a.servers()
	out := map[string]any{"kept": a.kept()}
	if q.TypeURL != "" && q.Name != "" {
		shown := beside[historyVersion](l)
		for _, v := range a.versions(named) {
			if full && v.encoded != nil {
				v.Body = a.body(v.encoded)
			}
			if !shown.add(v) {
				break
			}
		}
		if out["versions"] = shown.items; shown.cut {
			out["versions_truncated_by"] = narrower
		}
	}
	for i := range rows {
		if !l.add(changeOf(&rows[i], servers)) {
			break
		}
	}
	l.more = l.more || more
	l.addTo(out, "changes")
	return out, nil
}

func (a *Admin) kept() Kept {
	k := a.cfg.Table.History().Kept()
	return Kept{Versions: k.Versions, Bytes: k.Bytes, Oldest: k.Oldest, Off: !a.cfg.Table.History().On()}
}

// servers are those of each origin by number.
func (a *Admin) servers() map[string]map[uint8]string {
	out := map[string]map[uint8]string{}
	for _, o := range a.cfg.Table.Origins() {
		out[o.Name()] = o.Servers()
	}
	return out
}

func changeOf(r *history.Row, servers map[string]map[uint8]string) Change {
	c := Change{
		At: r.At, Origin: r.Origin, Group: r.Group, Revision: r.Revision, Type: metrics.ShortName(r.TypeURL), TypeURL: r.TypeURL,
		Name: r.OwnName(), Wildcard: r.Set == xds.Wildcard, Parameters: r.Params, Change: r.Kind.String(), Secret: xds.IsSecret(r.TypeURL),
	}
	if !c.Wildcard {
		c.Collection = r.Set
	}
	if c.Secret {
		return c
	}
	if r.Is != nil {
		c.Version, c.OriginVersion, c.Bytes = r.Is.String(), r.Is.Origin, r.Is.Bytes
		c.Source, c.Fallback = sourceOf(r.Is, servers[r.Origin])
	}
	if r.Was != nil {
		c.WasVersion, c.WasOrigin = r.Was.String(), r.Was.Origin
	}
	return c
}

func sourceOf(v *history.Version, servers map[uint8]string) (source string, fallback bool) {
	if v.Fallback {
		return v.Source, true
	}
	return relay.SourceOf(servers[v.Server]), false
}

// versions are those of the resource that a query names, in each group: what clients have now, and
// then what they had before, the newest first.
func (a *Admin) versions(q history.Query) (all []historyVersion) {
	rows, _ := a.cfg.Table.History().Changes(q)
	servers := a.servers()
	secret := xds.IsSecret(q.TypeURL)
	all = a.liveVersions(q, rows)
	type seen struct {
		group, origin, params string
		revision              uint64
	}
	told := map[seen]bool{} // a resource may be held by name and in sets
	for i := range rows {
		r := &rows[i]
		key := seen{r.Group, r.Origin, r.Params, r.Revision}
		if r.Was == nil || told[key] {
			continue
		}
		told[key] = true
		v := historyVersion{Origin: r.Origin, Group: r.Group, Parameters: r.Params, Since: r.Since, Until: r.At, Secret: secret}
		if !secret {
			v.Version, v.OriginVersion, v.Bytes = r.Was.String(), r.Was.Origin, r.Was.Bytes
			v.Source, v.Fallback = sourceOf(r.Was, servers[r.Origin])
			if r.Was.Body != nil {
				v.encoded = r.Was.Body.Any()
			}
		}
		all = append(all, v)
	}
	return all
}

// liveVersions are what clients have now of the resource. rows are its changes.
func (a *Admin) liveVersions(q history.Query, rows []history.Row) (all []historyVersion) {
	all = []historyVersion{}
	for _, o := range originsNamed(a.cfg.Table.Origins(), q.Origin) {
		inspect.Query(o, inspect.ResourceQuery{Group: q.Group, TypeURL: q.TypeURL, Name: q.Name}, func(s inspect.ResourceInfo) bool {
			if s.Absent || s.Shadowed || s.Version == "" && !xds.IsSecret(s.TypeURL) {
				return true
			}
			v := historyVersion{
				Origin: o.Name(), Group: s.Group, Parameters: s.Params[0], Version: s.Version, OriginVersion: s.OriginVersion,
				Source: s.Source, Fallback: s.Fallback, Bytes: s.Bytes, Secret: xds.IsSecret(s.TypeURL), encoded: s.Body,
			}
			if v.Secret {
				v.Version, v.OriginVersion, v.Source, v.Bytes, v.encoded = "", "", "", 0, nil
			}
			i := slices.IndexFunc(rows, func(r history.Row) bool {
				return r.Origin == v.Origin && r.Group == v.Group && r.Params == v.Parameters
			})
			if i >= 0 && rows[i].Is != nil {
				v.Since = rows[i].At
			}
			same := func(x historyVersion) bool {
				return x.Origin == v.Origin && x.Group == v.Group && x.Parameters == v.Parameters && x.Version == v.Version
			}
			if !slices.ContainsFunc(all, same) {
				all = append(all, v)
			}
			return true
		})
	}
	return all
}

// historyDiff compares two versions of a resource: by default what clients have with what they had
// before.
func (a *Admin) historyDiff(r *http.Request) (any, error) {
	p := a.params(r, "origin", "group", "type", "name", "from", "to")
	q := past(p)
	switch {
	case p.err != nil:
		return nil, p.err
	case q.TypeURL == "" || q.Name == "":
		return nil, errors.New("type and name say which resource")
	case xds.IsSecret(q.TypeURL):
		return nil, refusedf(http.StatusForbidden, "secrets are not shown")
	}
	from, to, err := choose(a.versions(q), p.Get("from"), p.Get("to"))
	if err != nil {
		return nil, refusedf(http.StatusNotFound, "%v", err)
	}
	if n := max(len(from.encoded), len(to.encoded)); n > mostDiffBytes {
		return nil, refusedf(http.StatusUnprocessableEntity,
			"a version has %d bytes, and up to %d are compared; /history?full=true has the versions", n, mostDiffBytes)
	}
	d, err := diffJSON(a.body(from.encoded), a.body(to.encoded), from.label(), to.label())
	if err != nil {
		return nil, refusedf(http.StatusUnprocessableEntity, "%v", err)
	}
	return map[string]any{"from": from, "to": to, "changes": d.changes, "unified": d.unified, "truncated": d.truncated}, nil
}

func (v *historyVersion) label() string { return cmp.Or(v.OriginVersion, v.Version) }

// is reports whether the version goes by that name: as clients are sent it, or the origin's.
func (v *historyVersion) is(name string) bool { return v.Version == name || v.OriginVersion == name }

// choose finds two versions of the same group and parameters by what they are called. An empty to
// is what clients have, or had last; an empty from is what they had before that.
func choose(all []historyVersion, from, to string) (x, y *historyVersion, err error) {
	if len(all) == 0 {
		return nil, nil, errors.New("nothing is known of such a resource")
	}
	for j := range all {
		y = &all[j]
		if to != "" && !y.is(to) {
			continue
		}
		for i := range all {
			x = &all[i]
			fits := from != "" && x.is(from)
			if from == "" && i != j && !x.Until.IsZero() {
				fits = y.Until.IsZero() || x.Until.Before(y.Until)
			}
			if !fits || x.Origin != y.Origin || x.Group != y.Group || x.Parameters != y.Parameters {
				continue
			}
			if x.encoded == nil || y.encoded == nil {
				return nil, nil, errors.New("the bodies of these versions are not kept: they must not be cached")
			}
			return x, y, nil
		}
	}
	names := make([]string, 0, len(all))
	for i := range all {
		if name := all[i].label(); !slices.Contains(names, name) && len(names) < 20 {
			names = append(names, name)
		}
	}
	return nil, nil, fmt.Errorf("there are no such two versions in one group; those that are known are %q", names)
}

// mostPoints bounds a chart.
const mostPoints = 1500

// historyChart counts changes by time.
func (a *Admin) historyChart(r *http.Request) (any, error) {
	p := a.params(r, "origin", "since", "step")
	now, step := time.Now(), time.Minute
	since, origin := p.since(now, time.Hour), p.origin()
	if text := p.Get("step"); text != "" {
		var err error
		if step, err = time.ParseDuration(text); err != nil || step < time.Minute || step%time.Minute != 0 {
			p.wrongf("step=%q: write whole minutes, such as 5m", text)
		}
	}
	if p.err == nil && now.Sub(since)/step > mostPoints {
		p.wrongf("since and step make more than %d points", mostPoints)
	}
	if p.err != nil {
		return nil, p.err
	}
	type point struct {
		At      time.Time `json:"at"`
		Added   int       `json:"added"`
		Changed int       `json:"changed"`
		Removed int       `json:"removed"`
	}
	points := []point{}
	for _, p := range a.cfg.Table.History().Chart(origin, since, now, step) {
		points = append(points, point(p))
	}
	return map[string]any{"step": step.String(), "points": points}, nil
}

// GroupState is one state of a group, over all types.
type GroupState struct {
	Group string `json:"group"`
	relay.StateRow
}

// states lists the states of the groups of an origin: group by group, the newest first.
func (a *Admin) states(r *http.Request) (any, error) {
	p := a.params(r, "origin", "group", "limit", "states")
	l, group := newList[GroupState](p), p.Get("group")
	if p.origin() == "" {
		p.wrongf("origin says whose states")
	}
	if p.err != nil {
		return nil, p.err
	}
	o := p.asked()[0]
	groups := slices.DeleteFunc(o.Groups(), func(g relay.GroupView) bool { return g.Tiered && g.Tier == relay.Newest }) // no client has its states
	if group != "" {
		if group, _, p.err = keyMeant(group, p.asked()); p.err != nil {
			return nil, p.err
		}
		groups = slices.DeleteFunc(groups, func(g relay.GroupView) bool {
			of, _ := relay.CutTier(g.Key)
			return g.Key != group && of != group
		})
		if len(groups) == 0 {
			return nil, refusedf(http.StatusNotFound, "origin %s has no group %s now; /groups?origin=%s lists them", o.Name(), group, o.Name())
		}
	}
	slices.SortFunc(groups, func(x, y relay.GroupView) int { return cmp.Compare(x.Key, y.Key) })
	for i := range groups {
		rows := o.States(groups[i].Key, min(l.limit-len(l.items), mostChanges)+1)
		for j := range rows {
			rows[j].Types = append([]string{}, rows[j].Types...) // a list, if there are none
			if !l.add(GroupState{groups[i].Key, rows[j]}) {
				break
			}
		}
		if l.more {
			break
		}
	}
	answer := map[string]any{"kept": a.kept()}
	l.addTo(answer, "states")
	return answer, nil
}
