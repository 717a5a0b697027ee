package admin

import (
	"net/http"
	"slices"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/inspect"
)

// Rejection is what clients said of one resource in one version.
type Rejection struct {
	Type string `json:"type"`
	downstream.Rejection
	// HaveIt is how many clients are to have the resource in this version now, or are subscribed to
	// the type. Those that said so may be gone.
	HaveIt int `json:"have_it"`
}

// holders counts who has what. It asks for each resource once.
type holders struct {
	admin   *Admin
	clients map[[2]string]int    // by origin and type
	held    map[[3]string][]held // by origin, type and name
}

type held struct {
	version string
	clients int
}

// book is what clients refused, of one origin and type if they are given, the newest first and at
// most so many. More says that there are others.
func (a *Admin) book(origin, typeURL string, most int) (all []Rejection, more int) {
	all = []Rejection{}
	h := holders{admin: a, held: map[[3]string][]held{}}
	for _, x := range a.cfg.Rejections() {
		switch {
		case origin != "" && x.Origin != origin, !isType(typeURL, x.TypeURL):
		case len(all) == most:
			more++
		default:
			all = append(all, Rejection{metrics.ShortName(x.TypeURL), x, h.of(&x)})
		}
	}
	return all, more
}

func (h *holders) of(x *downstream.Rejection) (n int) {
	if x.Resource == "" {
		if h.clients == nil {
			h.count()
		}
		return h.clients[[2]string{x.Origin, x.TypeURL}]
	}
	key := [3]string{x.Origin, x.TypeURL, x.Resource}
	all, known := h.held[key]
	if o := h.admin.cfg.Table.Origin(x.Origin); !known && o != nil {
		inspect.Query(o, inspect.ResourceQuery{TypeURL: x.TypeURL, Name: x.Resource}, func(s inspect.ResourceInfo) bool {
			all = append(all, held{s.ResponseVersion, s.Clients})
			return true
		})
		h.held[key] = all
	}
	for _, is := range all {
		if x.Version == "" || x.Version == is.version {
			n += is.clients
		}
	}
	return n
}

// count counts the clients of each origin and type.
func (h *holders) count() {
	h.clients = map[[2]string]int{}
	clients := h.admin.cfg.Clients()
	for i := range clients {
		for j := range clients[i].Types {
			h.clients[[2]string{clients[i].Origin, clients[i].Types[j].TypeURL}]++
		}
	}
}

// nackQuery reads the parameters of /nacks and /nacks/book.
func (a *Admin) nackQuery(r *http.Request) (l *list[ClientNACK], origin, typeURL string, err error) {
	p := a.params(r, "origin", "type", "limit")
	l, origin, typeURL = newList[ClientNACK](p), p.origin(), p.typeURL()
	return l, origin, typeURL, p.err
}

// nacks are the last refusals of the open streams, and our own of what origins sent.
func (a *Admin) nacks(r *http.Request) (any, error) {
	l, origin, typeURL, err := a.nackQuery(r)
	if err != nil {
		return nil, err
	}
	for _, n := range a.clientNACKs() {
		if (origin == "" || n.Origin == origin) && isType(typeURL, n.TypeURL) && !l.add(n) {
			break
		}
	}
	answer := map[string]any{}
	l.addTo(answer, "clients")
	a.originNACKs(answer, beside[originNACK](l), origin, typeURL)
	return answer, nil
}

// nackBook is what clients refused since the start, put together, and our own refusals of what
// origins sent.
func (a *Admin) nackBook(r *http.Request) (any, error) {
	l, origin, typeURL, err := a.nackQuery(r)
	if err != nil {
		return nil, err
	}
	book, more := a.book(origin, typeURL, l.limit)
	shown := beside[Rejection](l)
	for i := range book {
		if !shown.add(book[i]) {
			more++
		}
	}
	answer := map[string]any{"book": shown.items, "left_out": more}
	a.originNACKs(answer, beside[originNACK](l), origin, typeURL)
	return answer, nil
}

// Decisions is what the rules of authorization have decided.
type Decisions struct {
	Rules struct {
		InForce int       `json:"in_force"` // 0: everything is allowed
		Since   time.Time `json:"since,omitzero"`
	} `json:"rules"`
	// Since the start.
	Counts struct {
		Allowed uint64 `json:"allowed"`
		Denied  uint64 `json:"denied"`
		Ended   uint64 `json:"ended"`
	} `json:"decisions"`
	Denials   []Denial `json:"denials"` // the newest first
	Total     int      `json:"total"`   // denials that the filter admits
	Truncated bool     `json:"truncated"`
}

// Denial is what an identity was denied, as often as it was.
type Denial struct {
	Result string `json:"result"` // denied or ended
	Type   string `json:"type,omitempty"`
	downstream.Denial
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

func (f *denialFilter) admits(d *Denial) bool {
	is := func(wanted, value string) bool { return wanted == "" || wanted == value }
	return matches(f.identity, d.Identity) && matches(f.name, d.Name) && is(f.origin, d.Origin) && is(f.typeURL, d.TypeURL) &&
		is(f.listener, d.Listener) && is(f.result, d.Result)
}

func denialOf(x *downstream.Denial) Denial {
	d := Denial{Result: resultDenied, Denial: *x}
	if x.Ended {
		d.Result = resultEnded
	} else {
		d.Type = metrics.ShortName(x.TypeURL)
	}
	return d
}

// authz is what the rules of authorization have decided, and what they denied last.
func (a *Admin) authz(r *http.Request) (any, error) {
	p := a.params(r, "identity", "origin", "type", "listener", "name", "result", "limit")
	f := denialFilter{
		identity: p.Get("identity"), name: p.Get("name"), origin: p.origin(), typeURL: p.typeURL(), listener: p.Get("listener"), result: p.Get("result"),
	}
	if results := []string{"", resultDenied, resultEnded}; !slices.Contains(results, f.result) {
		p.wrongf("result=%q: write %s or %s", f.result, resultDenied, resultEnded)
	}
	l := newList[Denial](p)
	if p.err != nil {
		return nil, p.err
	}
	now, d := a.cfg.Decisions(), Decisions{}
	d.Counts.Allowed, d.Counts.Denied, d.Counts.Ended = now.Allowed, now.Denied, now.Ended
	if d.Rules.InForce = now.Rules; now.Rules > 0 {
		d.Rules.Since = now.Since
	}
	for i := range now.Denials {
		if x := denialOf(&now.Denials[i]); f.admits(&x) {
			d.Total++
			l.add(x)
		}
	}
	answer := map[string]any{"rules": d.Rules, "decisions": d.Counts, "total": d.Total}
	l.addTo(answer, "denials")
	return answer, nil
}
