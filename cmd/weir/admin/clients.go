package admin

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
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

// filterOf reads the filter of a request.
func filterOf(p *params, now time.Time) clientFilter {
	f := clientFilter{
		origin: p.origin(), group: p.Get("group"), typeURL: p.typeURL(), node: p.Get("node"), identity: p.Get("identity"),
		unsynced: p.flag("unsynced"), nacking: p.flag("nacking"),
	}
	if p.Has("older") {
		older, err := time.ParseDuration(p.Get("older"))
		if err != nil || older < 0 {
			p.wrongf("older=%q: write a duration such as 30s", p.Get("older"))
		}
		f.before = now.Add(-older)
	}
	return f
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
	return slices.ContainsFunc(c.Types, func(t downstream.TypeStatus) bool { return isType(f.typeURL, t.TypeURL) && is(&t) })
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

// trouble is whether a client rejects something of a type, or of any with "", and since when it is
// not in sync; zero: it is.
func trouble(c *downstream.ClientStatus, typeURL string) (nacking bool, since time.Time) {
	for i := range c.Types {
		t := &c.Types[i]
		if !isType(typeURL, t.TypeURL) {
			continue
		}
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
			all = append(all, &placed{placeOf(&clients[i], f.typeURL), &clients[i]})
		}
	}
	slices.SortFunc(all, func(x, y *placed) int { return x.place.compare(y.place) })
	return all
}

func (a *Admin) clients(r *http.Request) (any, error) {
	p := a.params(r, "unsynced", "nacking", "origin", "type", "group", "node", "identity", "older", "limit", "after", "full")
	f := filterOf(p, time.Now())
	l, full, after := newList[Client](p), p.flag("full"), cursor(p)
	if p.err != nil {
		return nil, p.err
	}
	all, last := a.worst(&f), place{}
	if len(all) == 0 && f.group != "" && len(groupsMeant(f.group, p.asked())) == 0 {
		return nil, noGroup(f.group, f.origin)
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
	page, err := l.answer("clients")
	if page["total"] = len(all); l.more {
		page["next"] = last.cursor()
	}
	return page, err
}

// place is the place of a client stream in the list: first those that reject what they were sent,
// then those that have been out of sync for longest, then the rest by age. A page of the list
// begins after the place of the last one before, which may be gone. So nobody whose state stays as
// it is is left out or listed twice while others come and go.
type place struct {
	nacking bool
	// since is when it was in sync last, in nanoseconds of the wall clock; 0: it is. A cursor has
	// no other clock.
	since  int64
	stream uint64
}

// placed is a client with its place.
type placed struct {
	place  place
	client *downstream.ClientStatus
}

// placeOf is the place by how a type stands, or by all of them with "".
func placeOf(c *downstream.ClientStatus, typeURL string) place {
	nacking, since := trouble(c, typeURL)
	p := place{nacking: nacking, stream: c.Stream}
	if !since.IsZero() {
		p.since = since.UnixNano()
	}
	return p
}

func (p place) compare(other place) int {
	switch {
	case p.nacking != other.nacking:
		if p.nacking {
			return -1
		}
		return 1
	case (p.since == 0) != (other.since == 0):
		if p.since != 0 {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(p.since, other.since), cmp.Compare(p.stream, other.stream))
}

// cursor is the place as it is written in after=.
func (p place) cursor() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%t %d %d", p.nacking, p.since, p.stream))
}

// cursor returns where the page begins that is asked for; nil: with the first client.
func cursor(p *params) *place {
	text := p.Get("after")
	if text == "" {
		return nil
	}
	raw, _ := base64.RawURLEncoding.DecodeString(text)
	var after place
	_, err := fmt.Sscanf(string(raw), "%t %d %d", &after.nacking, &after.since, &after.stream)
	// Each place has one cursor only, so what was read in part is none.
	if err != nil || after.cursor() != text {
		p.wrongf("after=%q: write the next of the page before", text)
	}
	return &after
}

// Client is the state of a client stream.
type Client struct {
	downstream.ClientStatus
	Synced bool `json:"synced"` // of all types
	// ParameterSets are the distinct parameter maps in use, not counting the empty one.
	ParameterSets int          `json:"parameter_sets,omitempty"`
	Types         []clientType `json:"types"`
	Waits         []wait       `json:"waits,omitempty"` // of the stream as a whole
}

// wait is what a client or a type of it waits for.
type wait struct {
	Reason string    `json:"reason"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"` // at the latest; missing: it has no such time
	Text   string    `json:"text,omitempty"` // in /explain alone
}

func waitsOf(all []metrics.Wait) (out []wait) {
	for _, w := range all {
		out = append(out, wait{Reason: w.Reason.String(), Since: w.Since, Until: w.Until})
	}
	return out
}

// clientType is the state of a type. Of its parts, which are names by origin and parameters, it has
// the first, or all with full=true.
type clientType struct {
	Type string `json:"type"`
	downstream.TypeStatus
	LeftOut  int       `json:"origins_left_out,omitempty"`
	Rejected *rejected `json:"rejected,omitempty"` // of one that is nacking
	Waits    []wait    `json:"waits,omitempty"`
}

// rejected is the last refusal of a type by a client.
type rejected struct {
	Message string    `json:"message"` // the client's
	At      time.Time `json:"at"`
}

func clientOf(s *downstream.ClientStatus, full bool) Client {
	maps := map[string]bool{}
	c := Client{ClientStatus: *s, Synced: true, Types: make([]clientType, 0, len(s.Types)), Waits: waitsOf(s.Waits)}
	for i := range s.Types {
		t := clientType{Type: metrics.ShortName(s.Types[i].TypeURL), TypeStatus: s.Types[i], Waits: waitsOf(s.Types[i].Waits)}
		c.Synced = c.Synced && t.UnsyncedSince.IsZero()
		if t.Nacking {
			t.Rejected = &rejected{t.LastNack.Message, t.LastNack.At}
		}
		for _, x := range t.Parts {
			if x.Params != "" {
				maps[x.Params] = true
			}
		}
		if more := len(t.Parts) - shownMaps; !full && more > 0 {
			t.Parts, t.LeftOut = t.Parts[:shownMaps], more
		}
		c.Types = append(c.Types, t)
	}
	c.ParameterSets = len(maps)
	return c
}
