package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Actions that take groups back to an earlier state, and let them go forward again.

// RollbackOrder is what an operator wants of an origin.
type RollbackOrder struct {
	Origin string
	Group  string // its key; empty: all of the origin
	To     string // as relay.Origin.Resolve takes it; not used to go forward
	By     string // who wants it
	// Partial: groups that cannot go back stay at what they have. Without it they keep the others
	// from going back.
	Partial bool
}

// Rolled is what came of an order.
type Rolled struct {
	Origin string `json:"origin"`
	// Lines say the same for people, one line for each group.
	Lines  []string      `json:"lines"`
	Groups []RolledGroup `json:"groups"`
	// Done: something is another way than before.
	Done bool `json:"done"`
}

// RolledGroup is what came of an order for one group. Gone forward, it has the key alone.
type RolledGroup struct {
	Group string `json:"group"`
	// State is the ID of the state that it is held at, Of when the group came to it, and Revision
	// that of then, in this process.
	State    string    `json:"state,omitempty"`
	Of       time.Time `json:"of,omitzero"`
	Revision uint64    `json:"revision,omitempty"`
	// Changed is how many resources were given to clients, or taken from them. Unknown is how many
	// stay as they are, since the state does not know what they were.
	Changed int `json:"changed,omitempty"`
	Unknown int `json:"unknown,omitempty"`
}

// Rollback is which groups of an origin are held at an earlier state by an operator.
type Rollback struct {
	// Since, By and To are of the last order: when, by whom, and to what.
	Since time.Time `json:"since"`
	By    string    `json:"by"`
	To    string    `json:"to"`
	// Whole: the order was for all of the origin, which is frozen as well.
	Whole  bool              `json:"whole"`
	Groups []RolledBackGroup `json:"groups"`
	// LeftOut is how many more there are.
	LeftOut int `json:"groups_left_out,omitempty"`
	// Waiting is the number of resources of which the origin has something else by now, of all of
	// Groups.
	Waiting int `json:"waiting"`
}

// RolledBackGroup is a group that an operator has held at an earlier state.
type RolledBackGroup struct {
	Group string    `json:"group"`
	Since time.Time `json:"since"`
	By    string    `json:"by"`
	To    string    `json:"to"`
	// State is the ID of the state, and Of when the group came to it.
	State   string    `json:"state"`
	Of      time.Time `json:"of,omitzero"`
	Waiting int       `json:"waiting"`
}

// RefusedOrder is why an order is refused: a line for each group, or one alone.
type RefusedOrder struct {
	Code  int // of HTTP
	Lines []string
}

// Error implements error.
func (e *RefusedOrder) Error() string { return strings.Join(e.Lines, "\n") }

// orderOf reads what an operator wants of an origin. parameters are what a request may have besides
// json. False: it was answered with what is wrong.
func (a *Admin) orderOf(w http.ResponseWriter, r *http.Request, parameters ...string) (order RollbackOrder, ok bool) {
	o := a.origin(w, r.PathValue("name"))
	if o == nil {
		return order, false
	}
	q := r.URL.Query()
	_, err := flag(r, "json")
	partial, wrong := flag(r, "partial")
	if err = cmp.Or(known(r.URL.RawQuery, append(parameters, "json")), err, wrong); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return order, false
	}
	return RollbackOrder{Origin: o.Name(), Group: q.Get("group"), To: strings.TrimSpace(q.Get("to")), By: nameOf(r), Partial: partial}, true
}

// rollback holds groups at an earlier state.
func (a *Admin) rollback(w http.ResponseWriter, r *http.Request) {
	order, ok := a.orderOf(w, r, "to", "group", "partial")
	if !ok {
		return
	}
	if order.To == "" {
		http.Error(w, "to= says which state: last-good, an ID or a revision of /history?states=1, a time such as 2026-01-02T15:04:05Z, or 10m for that long ago", http.StatusBadRequest)
		return
	}
	said, err := a.cfg.Rollback(order)
	a.rolled(w, r, "rolled back: clients are given an earlier state and stay at it", &order, &said, err)
}

// rollforward lets groups go on to what their origin has.
func (a *Admin) rollforward(w http.ResponseWriter, r *http.Request) {
	order, ok := a.orderOf(w, r, "group")
	if !ok {
		return
	}
	said, err := a.cfg.Rollforward(order)
	a.rolled(w, r, "rolled forward: clients are given what the origin has", &order, &said, err)
}

// rolled answers with what came of an order, and logs it.
func (a *Admin) rolled(w http.ResponseWriter, r *http.Request, message string, order *RollbackOrder, said *Rolled, err error) {
	a.board.outdated()
	if err != nil {
		code := http.StatusConflict
		if refused := (*RefusedOrder)(nil); errors.As(err, &refused) {
			code = refused.Code
		}
		http.Error(w, err.Error(), code)
		return
	}
	if said.Done {
		a.audit(message, r, order, said)
		said.Lines[len(said.Lines)-1] = a.durable(r.Context(), said.Lines[len(said.Lines)-1], order.To != "")
	}
	if asJSON, _ := flag(r, "json"); asJSON {
		writeLine(w, said) // it is done, however long the answer is
		return
	}
	writeText(w, strings.Join(said.Lines, "\n")+"\n")
}

// audit logs who has done what, with a line for each group.
func (a *Admin) audit(message string, r *http.Request, order *RollbackOrder, said *Rolled) {
	fields := append(who(r), zap.String("origin", order.Origin))
	if order.To != "" {
		fields = append(fields, zap.String("to", order.To))
	}
	for i := range said.Groups {
		g := &said.Groups[i]
		of := append(fields[:len(fields):len(fields)], zap.String("group", g.Group))
		if g.State != "" {
			of = append(of, zap.String("state", g.State), zap.Time("of", g.Of), zap.Uint64("revision", g.Revision), zap.Int("changed", g.Changed), zap.Int("unknown", g.Unknown))
		}
		a.cfg.Log.Warn(message, of...)
	}
	if len(said.Groups) == 0 { // of an origin without groups
		a.cfg.Log.Warn(message, fields...)
	}
}

// Said is the short form of how an origin is rolled back, for a line about it.
func (b *Rollback) Said() string {
	of := "the origin"
	if !b.Whole {
		of = counted(len(b.Groups), "group")
	}
	return fmt.Sprintf("%s rolled back to %s by %s, %s differ from the newest", of, b.To, b.By, counted(b.Waiting, "resource"))
}
