package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/relay/gate"
)

// canary has an operator act on the candidate of a group: promote, stop or retry it. Without a
// group it is that of the only one that has a candidate.
func (a *Admin) canary(w http.ResponseWriter, r *http.Request) {
	o := a.origin(w, r.PathValue("name"))
	if o == nil {
		return
	}
	if err := known(r.URL.RawQuery, []string{"action", "group"}); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := r.URL.Query()
	act := slices.Index(gate.ActNames, q.Get("action"))
	if act < 0 {
		http.Error(w, fmt.Sprintf("action=%q: write one of %s", q.Get("action"), strings.Join(gate.ActNames, ", ")), http.StatusBadRequest)
		return
	}
	by, _ := r.Context().Value(callerKey{}).(caller)
	said, err := a.cfg.Canary(r.Context(), o.Name(), q.Get("group"), gate.Act(act), string(by)) //nolint:gosec // the index of a name
	a.board.outdated()
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	a.cfg.Log.Warn("an operator acts on a candidate", append(who(r), zap.String("origin", o.Name()), zap.String("group", q.Get("group")),
		zap.String("action", gate.ActNames[act]), zap.String("said", said))...)
	writeText(w, a.durable(r.Context(), said, gate.Act(act) == gate.ActStop)+"\n")
}
