package admin

import (
	"cmp"
	"net/http"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/inspect"
)

// rejection is what clients said of one resource in one version.
type rejection struct {
	Origin  string `json:"origin"`
	Type    string `json:"type"`
	TypeURL string `json:"type_url"`
	// Resource is empty if the clients do not say which of a list they refuse. OriginVersion is
	// the origin's, if it is known.
	Resource      string `json:"resource,omitempty"`
	OriginVersion string `json:"origin_version,omitempty"`
	Message       string `json:"message"` // without what differs from client to client
	Clients       int    `json:"clients"` // that said so
	// HaveIt is how many clients are to have the resource in this version now, or are subscribed to
	// the type. Those that said so may be gone.
	HaveIt   int                `json:"have_it"`
	Count    uint64             `json:"count"`
	First    time.Time          `json:"first"`
	Last     time.Time          `json:"last"`
	Examples []rejectionExample `json:"examples"`
}

type rejectionExample struct {
	NodeID  string    `json:"node_id"`
	Peer    string    `json:"peer"`
	Group   string    `json:"group"`
	Message string    `json:"message"` // the client's own words
	At      time.Time `json:"at"`
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
func (a *Admin) book(origin, typeURL string, most int) (all []rejection, more int) {
	all = []rejection{}
	if a.cfg.Rejections == nil {
		return all, 0
	}
	h := holders{admin: a, held: map[[3]string][]held{}}
	for _, x := range a.cfg.Rejections() {
		switch {
		case origin != "" && x.Origin != origin, !isType(typeURL, x.TypeURL):
		case len(all) == most:
			more++
		default:
			all = append(all, h.rejection(&x))
		}
	}
	return all, more
}

func (h *holders) rejection(x *downstream.Rejection) rejection {
	r := rejection{
		Origin: x.Origin, Type: metrics.ShortName(x.TypeURL), TypeURL: x.TypeURL, Resource: x.Resource, OriginVersion: x.Version,
		Message: x.Message, Clients: x.Clients, HaveIt: h.of(x), Count: x.Count, First: x.First, Last: x.Last,
	}
	for _, e := range x.Examples {
		r.Examples = append(r.Examples, rejectionExample(e))
	}
	return r
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

// nackParameters are those that /nacks and /nacks/book take.
var nackParameters = []string{"origin", "type", "limit"}

// nackQuery reads them.
func (a *Admin) nackQuery(r *http.Request) (l *list[clientNACK], origin, typeURL string, err error) {
	l, err = newList[clientNACK](r)
	origin = r.URL.Query().Get("origin")
	typeURL, wrong := typeOf(r.URL.Query().Get("type"))
	return l, origin, typeURL, cmp.Or(known(r.URL.RawQuery, nackParameters), err, wrong, knownOrigin(origin, a.cfg.Table.Origins()))
}

// nacks are the last refusals of the open streams, and our own of what origins sent.
func (a *Admin) nacks(w http.ResponseWriter, r *http.Request) {
	l, origin, typeURL, err := a.nackQuery(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, n := range a.clientNACKs() {
		if (origin == "" || n.Origin == origin) && isType(typeURL, n.TypeURL) && !l.add(n) {
			break
		}
	}
	answer := map[string]any{}
	l.addTo(answer, "clients")
	a.originNACKs(answer, beside[originNACK](l), origin, typeURL)
	writeJSON(w, http.StatusOK, answer)
}

// nackBook is what clients refused since the start, put together, and our own refusals of what
// origins sent.
func (a *Admin) nackBook(w http.ResponseWriter, r *http.Request) {
	l, origin, typeURL, err := a.nackQuery(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	book, more := a.book(origin, typeURL, l.limit)
	shown := beside[rejection](l)
	for i := range book {
		if !shown.add(book[i]) {
			more++
		}
	}
	answer := map[string]any{"book": shown.items, "left_out": more}
	a.originNACKs(answer, beside[originNACK](l), origin, typeURL)
	writeJSON(w, http.StatusOK, answer)
}
