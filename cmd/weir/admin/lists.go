package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/inspect"
)

// defaultLimit is the length of a list without limit=.
const defaultLimit = 1000

func newList[T any](r *http.Request) (*list[T], error) {
	room := mostAnswer
	l := &list[T]{items: []json.RawMessage{}, limit: defaultLimit, room: &room}
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("limit=%q: write a whole number of at least 1", text)
		}
		l.limit = n
	}
	return l, nil
}

// flag returns a boolean parameter of a request; false if it is missing. One without a value is
// refused: it would have no effect, though it looks as if it had.
func flag(r *http.Request, name string) (bool, error) {
	values := r.URL.Query()
	if !values.Has(name) {
		return false, nil
	}
	text := values.Get(name)
	is, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s=%q: write true or false", name, text)
	}
	return is, nil
}

// write answers with the items under a name; truncated says that there are more.
func (l *list[T]) write(w http.ResponseWriter, name string) {
	if l.stuck() {
		tooLarge(w)
		return
	}
	answer := map[string]any{}
	l.addTo(answer, name)
	writeJSON(w, http.StatusOK, answer)
}

func (a *Admin) origins(w http.ResponseWriter, _ *http.Request) {
	_, file := a.cfg.Effective()
	origins := a.cfg.Origins()
	for i := range origins {
		origins[i].cutLists()
	}
	out := map[string]any{"origins": origins, "config": file}
	if s := a.snapshot(); s != nil {
		out["snapshot"] = s
	}
	writeJSON(w, http.StatusOK, out)
}

func (a *Admin) snapshot() *Snapshot {
	if a.cfg.Snapshot == nil {
		return nil
	}
	return a.cfg.Snapshot()
}

func (a *Admin) groups(w http.ResponseWriter, r *http.Request) {
	l, err := newList[group](r)
	full, wrong := flag(r, "full")
	only := r.URL.Query().Get("origin")
	if err = cmp.Or(known(r.URL.RawQuery, []string{"origin", "limit", "full"}), err, wrong, knownOrigin(only, a.cfg.Table.Origins())); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, o := range a.cfg.Table.Origins() {
		if only != "" && o.Name() != only {
			continue
		}
		groups := inspect.Status(o)
		for i := range groups {
			g := groupOf(&groups[i], full)
			// left out if it has no JSON: NaN in its metadata
			g.Node, _ = protojson.Marshal(groups[i].Node)
			if !l.add(g) {
				l.write(w, "groups")
				return
			}
		}
	}
	l.write(w, "groups")
}

// clientNACKs returns the last NACKs of the open streams, newest first.
func (a *Admin) clientNACKs() []clientNACK {
	var all []clientNACK
	clients := a.cfg.Clients()
	for i := range clients {
		all = append(all, nacksOf(&clients[i])...)
	}
	slices.SortStableFunc(all, func(x, y clientNACK) int { return cmp.Compare(y.At.UnixNano(), x.At.UnixNano()) })
	return all
}

// originNACKs adds to an answer what weir refused on the streams to origins, of one origin and type
// if they are given.
func (a *Admin) originNACKs(answer map[string]any, l *list[originNACK], origin, typeURL string) {
	leftOut := 0
	for _, o := range a.cfg.Origins() {
		if origin != "" && o.Name != origin {
			continue
		}
		for _, n := range o.NACKs {
			if (typeURL == "" || n.Type == metrics.ShortName(typeURL)) && !l.add(originNACK{o.Name, n}) {
				leftOut++
			}
		}
	}
	if answer["origins"] = l.items; leftOut > 0 {
		answer["origins_left_out"] = leftOut
	}
}
