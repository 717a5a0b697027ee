package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
)

// explanation says why a client has a resource or has it not.
type Explanation struct {
	NodeID string `json:"node_id"`
	Type   string `json:"type,omitempty"`
	Name   string `json:"name,omitempty"`
	// Headline and State are those of the stream with most trouble, or of no stream.
	Headline string      `json:"headline"`
	State    state       `json:"state"`
	Streams  []explained `json:"streams"`
	LeftOut  int         `json:"streams_left_out,omitempty"`
}

// state is a closed list.
type state string

const (
	stateCurrent       state = "current"        // it has the newest that weir knows of
	stateWaiting       state = "waiting"        // it has not, and the waits say why
	stateRejected      state = "rejected"       // it refused what it was sent last
	stateAbsent        state = "absent"         // there is none, or the origin says what is wrong
	stateDenied        state = "denied"         // the rules do not allow it
	stateNotSubscribed state = "not_subscribed" // the client does not ask for it
	stateNotAsked      state = "not_asked"      // no origin is asked for it
	stateUnknown       state = "unknown"        // no stream of the node is open
)

// byTrouble are the states in the order in which they are the headline of all streams.
var byTrouble = []state{
	stateUnknown, stateRejected, stateWaiting, stateDenied, stateNotAsked, stateAbsent, stateCurrent, stateNotSubscribed,
}

// explained is one stream's part, or that of one of its parameter maps.
type explained struct {
	Stream     uint64         `json:"stream"`
	Peer       string         `json:"peer"`
	Identity   string         `json:"identity,omitempty"`
	Dialect    string         `json:"dialect"`
	Since      time.Time      `json:"since"`
	Parameters string         `json:"parameters,omitempty"`
	Type       string         `json:"type,omitempty"` // only if none was asked about
	Headline   string         `json:"headline"`
	State      state          `json:"state"`
	Group      explainedGroup `json:"group"`
	Steps      []step         `json:"steps"`
	Waits      []wait         `json:"waits"`

	origins *originStates
}

// originStates are how origins stand, looked up if somebody waits for one.
type originStates struct {
	admin *Admin
	known map[string]*Origin // nil: not looked up yet
}

// of is how an origin stands.
func (x *originStates) of(name string) *Origin {
	if x.known == nil {
		x.known = map[string]*Origin{}
		all := x.admin.cfg.Origins()
		for i := range all {
			x.known[all[i].Name] = &all[i]
		}
	}
	if o := x.known[name]; o != nil {
		return o
	}
	return &Origin{Name: name}
}

// told are the waits, with what is wrong with the origin if one is for an attempt to reach it, and
// with who holds the group if it is held.
func (e *explained) told(now time.Time, all []metrics.Wait) []metrics.Wait {
	all = slices.Clone(all)
	for i := range all {
		text := ""
		switch all[i].Reason {
		case metrics.WaitBackoff, metrics.WaitConnect:
			text = e.origins.of(e.Group.Origin).Error
		case metrics.WaitOrigin, metrics.WaitSettle:
			if s := e.origins.of(e.Group.Origin).silenceOf(e.Group.Key); s != nil {
				text = s.because()
			}
		case metrics.WaitHold:
			text = e.origins.of(e.Group.Origin).heldBecause(now, e.Group.Key)
		}
		if text != "" {
			all[i].Text = text
		}
	}
	return all
}

// explainedGroup is the group that serves it, and why the client is in it.
type explainedGroup struct {
	Origin string   `json:"origin"`
	Key    string   `json:"key"`
	Why    []string `json:"why"`
}

// step is one thing that was found on the way from the client to the origin and back.
type step struct {
	Step string    `json:"step"`
	Text string    `json:"text"`
	At   time.Time `json:"at,omitzero"`
}

func (a *Admin) explain(r *http.Request) (any, error) {
	p := a.params(r, "node", "type", "name")
	node, name, typeURL, l := p.Get("node"), p.Get("name"), p.typeURL(), newList[explained](p)
	switch {
	case node == "":
		p.wrongf("node= is missing: write the id of a node, as /clients lists them")
	case name != "" && typeURL == "":
		p.wrongf("name=%q: write the type too", name)
	}
	if p.err != nil {
		return nil, p.err
	}
	x := a.why(time.Now(), node, typeURL, name)
	for i := range x.Streams {
		if !l.add(x.Streams[i]) {
			x.LeftOut++
		}
	}
	return &struct {
		*Explanation
		Streams []json.RawMessage `json:"streams"`
	}{x, l.items}, nil
}

// why explains what the streams of a node have to do with a name of a type.
func (a *Admin) why(now time.Time, node, typeURL, name string) *Explanation {
	x := &Explanation{NodeID: node, Name: name, Streams: []explained{}}
	if typeURL != "" {
		x.Type = metrics.ShortName(typeURL)
	}
	origins := &originStates{admin: a}
	for _, found := range a.cfg.Explain(node, typeURL, name) {
		x.Streams = append(x.Streams, explainStream(now, &found, origins, typeURL, name)...)
	}
	if len(x.Streams) == 0 {
		x.State, x.Headline = stateUnknown, "no stream of this node is open: it is not connected to this replica"
		if last := a.lastRejection(node); last != "" {
			x.Headline += "; " + last
		}
		return x
	}
	worst := slices.MinFunc(x.Streams, func(a, b explained) int {
		return slices.Index(byTrouble, a.State) - slices.Index(byTrouble, b.State)
	})
	x.State, x.Headline = worst.State, worst.Headline
	return x
}

// lastRejection is what the node rejected last before it went, if that is in the book.
func (a *Admin) lastRejection(node string) string {
	for _, x := range a.cfg.Rejections() {
		for _, e := range slices.Backward(x.Examples) {
			if e.NodeID == node {
				return fmt.Sprintf("before it went it rejected %s %s at %s: %s",
					typeName(x.TypeURL), cmp.Or(x.Resource, "(it does not say which)"), e.At.UTC().Format(time.RFC3339), e.Message)
			}
		}
	}
	return ""
}

// explainStream explains one stream: its parts, or without a type all its types in short.
func explainStream(now time.Time, x *downstream.Explained, origins *originStates, typeURL, name string) (all []explained) {
	about := func() explained {
		return explained{
			Stream: x.Stream, Peer: x.Peer, Identity: x.Identity, Dialect: x.Dialect, Since: x.Since,
			Group: explainedGroup{Origin: x.Origin, Key: x.Group, Why: []string{}}, Steps: []step{}, Waits: []wait{}, origins: origins,
		}
	}
	switch {
	case typeURL == "" && len(x.Types) > 0:
		for i := range x.Types {
			e := about()
			e.Type = metrics.ShortName(x.Types[i].TypeURL)
			e.ofType(now, x, &x.Types[i])
			all = append(all, e)
		}
		return all
	case x.Type == nil:
		e := about()
		e.notAsked(now, x, typeURL)
		return append(all, e)
	}
	for i := range x.Parts {
		p := &x.Parts[i]
		asks := p.Named != "" || len(p.Sets) > 0
		if name != "" && !asks && (i < len(x.Parts)-1 || len(all) > 0) {
			continue // another part has it, or the last one says that none has
		}
		e := about()
		e.Parameters = p.Params
		e.Group = groupWhy(p)
		e.walk(now, x, p, name)
		all = append(all, e)
	}
	if len(x.Parts) == 0 { // all names are refused
		e := about()
		e.walk(now, x, nil, name)
		all = append(all, e)
	}
	return all
}

// groupWhy is the group of a part, and what makes the client a member of it.
func groupWhy(p *downstream.ExplainedPart) explainedGroup {
	g := explainedGroup{Origin: p.Group.Origin().Name(), Key: p.Group.Key(), Why: []string{}}
	if p.Group.IsDedicated() {
		g.Why = append(g.Why, "the listener has the type asked in a group of this stream alone, with its whole node")
		return g
	}
	by, fields := p.Group.Origin().GroupBy(), p.Group.Fields()
	if len(by) == 0 {
		g.Why = append(g.Why, "group_by has no field, so all clients of the origin are one group")
	}
	for _, term := range by {
		value, has := fields[term]
		if !has || value == "" {
			value = "(not stated)"
		}
		g.Why = append(g.Why, term+" = "+value)
	}
	return g
}
