package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
)

// groupState is one state of a group, over all types.
type groupState struct {
	Group    string `json:"group"`
	Revision uint64 `json:"revision"` // of this replica
	// ID is the same on all replicas whose groups hold the same; absent: it is not whole.
	ID      string     `json:"id,omitempty"`
	At      *time.Time `json:"at,omitempty"` // absent: before what is known
	Added   int        `json:"added"`
	Changed int        `json:"changed"`
	Removed int        `json:"removed"`
	Types   []string   `json:"types"`
	Whole   bool       `json:"whole"`   // it can be served again
	Present bool       `json:"present"` // clients have it now
	// Good is when it was seen that all clients of the group had accepted it for long enough.
	Good *time.Time `json:"good,omitempty"`
}

// stateParameters are those that /history takes with states=true.
var stateParameters = []string{"origin", "group", "limit", "states"}

// states lists the states of the groups of an origin: group by group, the newest first.
func (a *Admin) states(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	l, wrong := newList[groupState](r)
	err := cmp.Or(known(r.URL.RawQuery, stateParameters), knownOrigin(values.Get("origin"), a.cfg.Table.Origins()), wrong)
	if err == nil && values.Get("origin") == "" {
		err = errors.New("origin says whose states")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o, group := a.cfg.Table.Origin(values.Get("origin")), values.Get("group")
	groups := slices.DeleteFunc(o.Groups(), func(g relay.GroupView) bool { return g.Tiered && g.Tier == relay.Newest }) // no client has its states
	if group != "" {
		if group, _, err = keyMeant(group, o.Name(), []*relay.Origin{o}); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		groups = slices.DeleteFunc(groups, func(g relay.GroupView) bool {
			of, _ := relay.CutTier(g.Key)
			return g.Key != group && of != group
		})
		if len(groups) == 0 {
			http.Error(w, fmt.Sprintf("origin %s has no group %s now; /groups?origin=%s lists them", o.Name(), group, o.Name()), http.StatusNotFound)
			return
		}
	}
	slices.SortFunc(groups, func(x, y relay.GroupView) int { return cmp.Compare(x.Key, y.Key) })
	for i := range groups {
		rows := o.States(groups[i].Key, min(l.limit-len(l.items), mostChanges)+1)
		for j := range rows {
			if !l.add(groupStateOf(groups[i].Key, &rows[j])) {
				break
			}
		}
		if l.more {
			break
		}
	}
	answer := map[string]any{"kept": a.kept()}
	l.addTo(answer, "states")
	writeJSON(w, http.StatusOK, answer)
}

func groupStateOf(group string, row *relay.StateRow) groupState {
	s := groupState{
		Group: group, Revision: row.Revision, ID: row.ID, Added: row.Added, Changed: row.Changed, Removed: row.Removed,
		Types: append([]string{}, row.Types...), Whole: row.Whole, Present: row.Present,
	}
	if !row.At.IsZero() {
		s.At = &row.At
	}
	if !row.Good.IsZero() {
		s.Good = &row.Good
	}
	return s
}
