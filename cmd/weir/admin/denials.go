package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
)

// decisions is what the rules of authorization have decided.
type decisions struct {
	Rules struct {
		InForce int        `json:"in_force"` // 0: everything is allowed
		Since   *time.Time `json:"since,omitempty"`
	} `json:"rules"`
	// Since the start.
	Counts struct {
		Allowed uint64 `json:"allowed"`
		Denied  uint64 `json:"denied"`
		Ended   uint64 `json:"ended"`
	} `json:"decisions"`
	Denials   []denial `json:"denials"` // the newest first
	Total     int      `json:"total"`   // denials that the filter admits
	Truncated bool     `json:"truncated"`
}

// denial is what an identity was denied, as often as it was.
type denial struct {
	Result   string `json:"result"` // denied or ended
	Identity string `json:"identity"`
	Listener string `json:"listener"`
	Origin   string `json:"origin,omitempty"`
	Type     string `json:"type,omitempty"`
	TypeURL  string `json:"type_url,omitempty"`
	// Name is empty of names beyond the first few of a request.
	Name   string    `json:"name,omitempty"`
	Reason string    `json:"reason"`
	Count  uint64    `json:"count"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	NodeID string    `json:"node_id"` // of the last
	Peer   string    `json:"peer"`    // of the last
}

const (
	resultDenied = "denied"
	resultEnded  = "ended"
)

// denialFilter is what a denial has to be like to be listed. Empty fields admit all.
type denialFilter struct {
	identity, name            string // globs
	origin, typeURL, listener string
	result                    string
}

// denialParameters are those that /authz takes.
var denialParameters = []string{"identity", "origin", "type", "listener", "name", "result", "limit"}

func denialFilterOf(r *http.Request, origins []*relay.Origin) (f denialFilter, err error) {
	if err := known(r.URL.RawQuery, denialParameters); err != nil {
		return f, err
	}
	values := r.URL.Query()
	f = denialFilter{
		identity: values.Get("identity"), name: values.Get("name"), origin: values.Get("origin"), listener: values.Get("listener"), result: values.Get("result"),
	}
	if f.typeURL, err = typeOf(values.Get("type")); err != nil {
		return f, err
	}
	if results := []string{"", resultDenied, resultEnded}; !slices.Contains(results, f.result) {
		return f, fmt.Errorf("result=%q: write %s or %s", f.result, resultDenied, resultEnded)
	}
	return f, knownOrigin(f.origin, origins)
}

func (f *denialFilter) admits(d *denial) bool {
	is := func(wanted, value string) bool { return wanted == "" || wanted == value }
	return matches(f.identity, d.Identity) && matches(f.name, d.Name) && is(f.origin, d.Origin) && is(f.typeURL, d.TypeURL) &&
		is(f.listener, d.Listener) && is(f.result, d.Result)
}

// decided is what the rules have decided, with the denials that a filter admits, and at most so
// many.
func (a *Admin) decided(f *denialFilter, most int) *decisions {
	d := &decisions{Denials: []denial{}}
	if a.cfg.Decisions == nil {
		return d
	}
	now := a.cfg.Decisions()
	d.Counts.Allowed, d.Counts.Denied, d.Counts.Ended = now.Allowed, now.Denied, now.Ended
	if d.Rules.InForce = now.Rules; now.Rules > 0 {
		d.Rules.Since = &now.Since
	}
	for i := range now.Denials {
		x := denialOf(&now.Denials[i])
		if !f.admits(&x) {
			continue
		}
		if d.Total++; d.Total <= most {
			d.Denials = append(d.Denials, x)
		}
	}
	d.Truncated = d.Total > len(d.Denials)
	return d
}

func denialOf(x *downstream.Denial) denial {
	d := denial{
		Result: resultDenied, Identity: x.Identity, Listener: x.Listener, Origin: x.Origin, TypeURL: x.TypeURL, Name: x.Name,
		Reason: x.Reason, Count: x.Count, First: x.First, Last: x.Last, NodeID: x.NodeID, Peer: x.Peer,
	}
	if x.Ended {
		d.Result = resultEnded
	} else {
		d.Type = metrics.ShortName(x.TypeURL)
	}
	return d
}

// authz is what the rules of authorization have decided, and what they denied last.
func (a *Admin) authz(w http.ResponseWriter, r *http.Request) {
	l, err := newList[denial](r)
	f, unfit := denialFilterOf(r, a.cfg.Table.Origins())
	if err = cmp.Or(unfit, err); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d := a.decided(&f, l.limit)
	for i := range d.Denials {
		l.add(d.Denials[i])
	}
	l.more = l.more || d.Truncated
	answer := map[string]any{"rules": d.Rules, "decisions": d.Counts, "total": d.Total}
	l.addTo(answer, "denials")
	writeJSON(w, http.StatusOK, answer)
}
