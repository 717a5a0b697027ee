package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// clientFilter is what a client has to be like to be listed. Empty fields admit all, and all that
// are given have to hold.
type clientFilter struct {
	origin, group  string // group: as isGroup has it
	typeURL        string
	node, identity string // globs
	// Of typeURL, or of any type without it.
	unsynced, nacking bool
	before            time.Time // not in sync since then; zero: not asked for
}

// clientParameters are those that /clients takes.
var clientParameters = []string{"unsynced", "nacking", "origin", "type", "group", "node", "identity", "older", "limit", "after", "full"}

// filterOf reads the filter of a request. The error names the value that makes no sense.
func filterOf(r *http.Request, now time.Time, origins []*relay.Origin) (f clientFilter, err error) {
	if err := known(r.URL.RawQuery, clientParameters); err != nil {
		return f, err
	}
	values := r.URL.Query()
	f = clientFilter{
		origin: values.Get("origin"), group: values.Get("group"), node: values.Get("node"), identity: values.Get("identity"),
	}
	var problems [4]error
	f.unsynced, problems[0] = flag(r, "unsynced")
	f.nacking, problems[1] = flag(r, "nacking")
	f.typeURL, problems[2] = typeOf(values.Get("type"))
	if values.Has("older") {
		text := values.Get("older")
		older, err := time.ParseDuration(text)
		if err != nil || older < 0 {
			problems[3] = fmt.Errorf("older=%q: write a duration such as 30s", text)
		}
		f.before = now.Add(-older)
	}
	if err := cmp.Or(problems[:]...); err != nil {
		return f, err
	}
	return f, knownOrigin(f.origin, origins)
}

// knownOrigin is an error unless the name is that of an origin, or empty.
func knownOrigin(name string, origins []*relay.Origin) error {
	names := make([]string, 0, len(origins))
	for _, o := range origins {
		names = append(names, o.Name())
	}
	if name != "" && !slices.Contains(names, name) {
		return fmt.Errorf("origin=%q: the origins are %s", name, strings.Join(names, ", "))
	}
	return nil
}

// known refuses a query with a parameter that would have no effect: the answer would look like one
// to what was asked.
func known(query string, names []string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("the query is not understood: %w", err)
	}
	return knownValues(values, names)
}

func knownValues(values url.Values, names []string) error {
	for name, all := range values {
		switch {
		case !slices.Contains(names, name):
			return fmt.Errorf("there is no parameter %q here, but %s", name, cmp.Or(strings.Join(names, ", "), "none"))
		case len(all) > 1:
			return fmt.Errorf("%s is given twice", name)
		}
	}
	return nil
}

// admits reports whether the client is to be listed.
func (f *clientFilter) admits(c *downstream.ClientStatus) bool {
	if !matches(f.node, c.NodeID) || !matches(f.identity, c.Identity) || !f.served(c) {
		return false
	}
	return (f.typeURL == "" || f.some(c, func(*downstream.TypeStatus) bool { return true })) &&
		(!f.unsynced || f.some(c, func(t *downstream.TypeStatus) bool { return !t.UnsyncedSince.IsZero() })) &&
		(!f.nacking || f.some(c, func(t *downstream.TypeStatus) bool { return t.Nacking })) &&
		(f.before.IsZero() || f.some(c, func(t *downstream.TypeStatus) bool {
			return !t.UnsyncedSince.IsZero() && t.UnsyncedSince.Before(f.before)
		}))
}

// isType reports whether a type is the one that is asked for, as v2 or v3 spells it; "" is any.
func isType(asked, typeURL string) bool {
	return asked == "" || asked == typeURL || metrics.ShortName(typeURL) == metrics.ShortName(asked) && xds.OtherSpelling(typeURL) == asked
}

// some reports whether something is so of the type that is asked for, or without one of any.
func (f *clientFilter) some(c *downstream.ClientStatus, is func(*downstream.TypeStatus) bool) bool {
	for i := range c.Types {
		if isType(f.typeURL, c.Types[i].TypeURL) && is(&c.Types[i]) {
			return true
		}
	}
	return false
}

// served reports whether the client, or its type that is asked for, is served by the origin and in
// the group of the filter.
func (f *clientFilter) served(c *downstream.ClientStatus) bool {
	is := func(origin, group string) bool {
		return (f.origin == "" || f.origin == origin) && (f.group == "" || isGroup(f.group, group))
	}
	own := f.typeURL == ""
	for i := range c.Types {
		t := &c.Types[i]
		if !isType(f.typeURL, t.TypeURL) {
			continue
		}
		own = own || len(t.Parts) == 0
		for _, x := range t.Parts {
			if is(x.Origin, x.Group) {
				return true
			}
		}
	}
	for _, text := range c.Dedicated {
		if origin, group, _ := strings.Cut(text, "/"); is(origin, group) {
			return true
		}
	}
	return own && is(c.Origin, c.Group)
}

// matches reports whether a text is as a glob says, in which a star stands for any characters; ""
// stands for every text.
func matches(glob, text string) bool {
	if glob == "" || glob == text {
		return true
	}
	pieces := strings.Split(glob, "*")
	last := len(pieces) - 1
	rest, ok := strings.CutPrefix(text, pieces[0])
	if !ok || last == 0 {
		return false
	}
	for _, piece := range pieces[1:last] {
		_, after, found := strings.Cut(rest, piece)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, pieces[last])
}

// trouble is whether a client rejects something, and since when it is not in sync; zero: it is.
func trouble(c *downstream.ClientStatus) (nacking bool, since time.Time) {
	for i := range c.Types {
		t := &c.Types[i]
		nacking = nacking || t.Nacking
		if at := t.UnsyncedSince; !at.IsZero() && (since.IsZero() || at.Before(since)) {
			since = at
		}
	}
	return nacking, since
}

// worst are the clients that a filter admits, those with trouble first.
func (a *Admin) worst(f *clientFilter) (all []*placed) {
	clients := a.cfg.Clients()
	for i := range clients {
		if f.admits(&clients[i]) {
			all = append(all, &placed{placeOf(&clients[i]), &clients[i]})
		}
	}
	slices.SortFunc(all, func(x, y *placed) int { return x.place.compare(y.place) })
	return all
}

func (a *Admin) clients(w http.ResponseWriter, r *http.Request) {
	l, err := newList[client](r)
	full, wrong := flag(r, "full")
	after, unknown := cursor(r)
	f, unfit := filterOf(r, time.Now(), a.cfg.Table.Origins())
	if err = cmp.Or(unfit, err, wrong, unknown); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	all, last := a.worst(&f), place{}
	if len(all) == 0 && f.group != "" && len(groupsMeant(f.group, f.origin, a.cfg.Table.Origins())) == 0 {
		http.Error(w, noGroup(f.group, f.origin).Error(), http.StatusBadRequest)
		return
	}
	for _, c := range all {
		if after != nil && c.place.compare(*after) <= 0 {
			continue
		}
		if !l.add(clientOf(c.client, full)) {
			break
		}
		last = c.place
	}
	if l.stuck() {
		tooLarge(w)
		return
	}
	page := map[string]any{"total": len(all)}
	l.addTo(page, "clients")
	if l.more {
		page["next"] = last.cursor()
	}
	writeJSON(w, http.StatusOK, page)
}
