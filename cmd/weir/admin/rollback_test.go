package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestRollbackRequests: what an order needs is checked, why it is refused is said line by line, and
// what was done is logged group by group, with who did it.
func TestRollbackRequests(t *testing.T) {
	w := newWorld(t)
	core, logs := observer.New(zap.InfoLevel)
	w.cfg.Log, w.cfg.TokenFile = zap.New(core), tokenFile(t, "hush")
	signed := header("Authorization", "Bearer hush")
	var got RollbackOrder
	var refusal error
	of := time.Date(2026, 1, 2, 12, 3, 4, 0, time.UTC)
	rolled := Rolled{Origin: "mesh", Lines: []string{"one", "two"}, Done: true, Groups: []RolledGroup{{Group: "a", State: "1a2b3c", Of: of, Revision: 812, Changed: 4}, {Group: "b"}}}
	w.cfg.Rollback = func(o RollbackOrder) (Rolled, error) { got = o; return rolled, refusal }
	w.cfg.Rollforward = w.cfg.Rollback

	want(t, w.do(http.MethodPost, "/origins/mesh/rollback?to=last-good"), http.StatusUnauthorized)
	want(t, w.do(http.MethodPost, "/origins/nobody/rollback?to=last-good", signed), http.StatusNotFound, `there is no origin "nobody"`)
	want(t, w.do(http.MethodPost, "/origins/mesh/rollback", signed), http.StatusBadRequest, "to= says which state")
	want(t, w.do(http.MethodPost, "/origins/mesh/rollback?to=1&grup=a", signed), http.StatusBadRequest, "grup")
	want(t, w.do(http.MethodPost, "/origins/mesh/rollforward?to=1", signed), http.StatusBadRequest, `no parameter "to"`)
	want(t, w.get("/origins/mesh/rollback?to=1", signed), http.StatusMethodNotAllowed)
	if got != (RollbackOrder{}) || logs.FilterField(zap.String("origin", "mesh")).Len() > 0 {
		t.Errorf("an order was given or logged: %+v", got)
	}

	want(t, w.do(http.MethodPost, "/origins/mesh/rollback?to=last-good&group=a&partial=true", signed), http.StatusOK, "one\ntwo\n")
	if want := (RollbackOrder{"mesh", "a", "last-good", "token", true}); got != want {
		t.Errorf("the order is %+v, want %+v", got, want)
	}
	said := logs.FilterMessageSnippet("rolled back").All()
	if len(said) != 2 || said[0].ContextMap()["by"] != "token" || said[0].ContextMap()["state"] != "1a2b3c" || said[1].ContextMap()["group"] != "b" || said[1].ContextMap()["to"] != "last-good" {
		t.Errorf("the log has %v", said)
	}
	var list Rolled
	if err := json.Unmarshal(w.do(http.MethodPost, "/origins/mesh/rollforward?json=true", signed).Body.Bytes(), &list); err != nil || len(list.Groups) != 2 || !list.Groups[0].Of.Equal(of) {
		t.Errorf("%v, %+v", err, list)
	}
	if n := logs.FilterMessageSnippet("rolled forward").Len(); n != 2 {
		t.Errorf("%d lines of the log say that it went forward, want 2", n)
	}

	refusal = &RefusedOrder{http.StatusNotFound, []string{"no group a", "no group b"}}
	want(t, w.do(http.MethodPost, "/origins/mesh/rollback?to=1", signed), http.StatusNotFound, "no group a\nno group b\n")
	refusal = errors.New("no room")
	want(t, w.do(http.MethodPost, "/origins/mesh/rollback?to=1", signed), http.StatusConflict, "no room")
	rolled.Done, refusal = false, nil
	want(t, w.do(http.MethodPost, "/origins/mesh/rollback?to=1", signed), http.StatusOK)
	if n := logs.FilterMessageSnippet("rolled back").Len(); n != 2 {
		t.Errorf("what has changed nothing was logged: %d lines, want 2", n)
	}
}
