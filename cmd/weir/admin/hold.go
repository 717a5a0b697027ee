package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
)

// Actions on what clients are kept at: the freeze of an origin, and held mass removals.

// durable has on disk what an order has just changed. It returns the answer to the order, which
// says so if it is not there. holds: the order keeps clients at something.
func (a *Admin) durable(ctx context.Context, said string, holds bool) string {
	if not := a.cfg.Durable(ctx, holds); not != "" {
		return said + "; " + not
	}
	return said
}

// origin returns the table's part for an origin. The error of another name lists the origins.
func (a *Admin) origin(name string) (*relay.Origin, error) {
	if o := a.cfg.Table.Origin(name); o != nil {
		return o, nil
	}
	return nil, refusedf(http.StatusNotFound, "%v", NoOrigin(name, a.cfg.Table.Origins()))
}

// freeze keeps the clients of an origin at what they have, or lets them go.
func (a *Admin) freeze(on bool) func(*http.Request) (string, error) {
	message := "unfroze the origin"
	if on {
		message = "the origin is frozen: clients stay at what they have"
	}
	return func(r *http.Request) (string, error) {
		o, err := a.origin(r.PathValue("name"))
		if err != nil {
			return "", err
		}
		said, changed, err := a.cfg.Freeze(o.Name(), on)
		a.board.outdated()
		if err != nil {
			return "", refusedf(http.StatusConflict, "%v", err)
		}
		if changed {
			a.cfg.Log.Warn(message, append(who(r), zap.String("origin", o.Name()))...)
		}
		return a.durable(r.Context(), said, on), nil
	}
}

// release applies held removals, of one origin and type or of all.
func (a *Admin) release(r *http.Request) (string, error) {
	only := r.URL.Query().Get("origin")
	typeURL, err := typeOf(r.URL.Query().Get("type"))
	if err == nil && only != "" {
		_, err = a.origin(only)
	}
	if err != nil {
		return "", err
	}
	released, frozen := 0, ""
	for _, o := range a.cfg.Origins() {
		if only != "" && o.Name != only {
			continue
		}
		part := a.cfg.Table.Origin(o.Name)
		if _, is := part.Frozen(); is {
			frozen += fmt.Sprintf("; %s is frozen, and loses nothing", o.Name)
			continue
		}
		released += part.ReleaseGuard(time.Now(), typeURL)
	}
	a.board.outdated()
	a.cfg.Log.Info("an operator released held removals", append(who(r), zap.Int("resources", released), zap.String("origin", only),
		zap.String("type_url", typeURL))...)
	said := "no removals are held" + frozen
	if released > 0 {
		said = a.durable(r.Context(), fmt.Sprintf("removed %s%s", Plural(released, "held resource"), frozen), false)
	}
	return said, nil
}

// canary has an operator act on the candidate of a group: promote, stop or retry it. Without a
// group it is that of the only one that has a candidate.
func (a *Admin) canary(r *http.Request) (string, error) {
	o, err := a.origin(r.PathValue("name"))
	if err != nil {
		return "", err
	}
	p := a.params(r, "action", "group")
	act, group := slices.Index(gate.ActNames, p.Get("action")), p.Get("group")
	if act < 0 {
		p.wrongf("action=%q: write one of %s", p.Get("action"), strings.Join(gate.ActNames, ", "))
	}
	if p.err != nil {
		return "", p.err
	}
	said, err := a.cfg.Canary(r.Context(), o.Name(), group, gate.Act(act), nameOf(r)) //nolint:gosec // the index of a name
	a.board.outdated()
	if err != nil {
		return "", refusedf(http.StatusConflict, "%v", err)
	}
	a.cfg.Log.Warn("an operator acted on a candidate", append(who(r), zap.String("origin", o.Name()), zap.String("group", group),
		zap.String("action", gate.ActNames[act]), zap.String("said", said))...)
	return a.durable(r.Context(), said, gate.Act(act) == gate.ActStop), nil
}

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

// RefusedOrder is why an order, or another request, is refused: a line for each group, or one
// alone.
type RefusedOrder struct {
	Code  int // of HTTP
	Lines []string
}

func (e *RefusedOrder) Error() string { return strings.Join(e.Lines, "\n") }

// orderOf reads what an operator wants of an origin. parameters are what a request may have besides
// json.
func (a *Admin) orderOf(r *http.Request, parameters ...string) (order RollbackOrder, asJSON bool, err error) {
	o, err := a.origin(r.PathValue("name"))
	if err != nil {
		return order, false, err
	}
	p := a.params(r, append(parameters, "json")...)
	order = RollbackOrder{Origin: o.Name(), Group: p.Get("group"), To: strings.TrimSpace(p.Get("to")), By: nameOf(r), Partial: p.flag("partial")}
	return order, p.flag("json"), p.err
}

// rollback holds groups at an earlier state.
func (a *Admin) rollback(w http.ResponseWriter, r *http.Request) error {
	order, asJSON, err := a.orderOf(r, "to", "group", "partial")
	if err == nil && order.To == "" {
		err = errors.New("to= says which state: last-good, an ID or a revision of /history?states=1, a time such as 2026-01-02T15:04:05Z, or 10m for that long ago")
	}
	if err != nil {
		return err
	}
	return a.roll(w, r, a.cfg.Rollback, "rolled back: clients are given an earlier state and stay at it", &order, asJSON)
}

// rollforward lets groups go on to what their origin has.
func (a *Admin) rollforward(w http.ResponseWriter, r *http.Request) error {
	order, asJSON, err := a.orderOf(r, "group")
	if err != nil {
		return err
	}
	return a.roll(w, r, a.cfg.Rollforward, "rolled forward: clients are given what the origin has", &order, asJSON)
}

// roll has an order done, logs it, and answers with what came of it.
func (a *Admin) roll(
	w http.ResponseWriter, r *http.Request, do func(RollbackOrder) (Rolled, error), message string, order *RollbackOrder, asJSON bool,
) error {
	said, err := do(*order)
	a.board.outdated()
	if refused := (*RefusedOrder)(nil); err != nil && !errors.As(err, &refused) {
		return refusedf(http.StatusConflict, "%v", err)
	}
	if err != nil {
		return err
	}
	if said.Done {
		a.audit(message, r, order, &said)
		said.Lines[len(said.Lines)-1] = a.durable(r.Context(), said.Lines[len(said.Lines)-1], order.To != "")
	}
	if asJSON {
		writeLine(w, said) // it is done, however long the answer is
		return nil
	}
	writeText(w, strings.Join(said.Lines, "\n")+"\n")
	return nil
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
		of = Plural(len(b.Groups), "group")
	}
	return fmt.Sprintf("%s rolled back to %s by %s, %s differ from the newest", of, b.To, b.By, Plural(b.Waiting, "resource"))
}
