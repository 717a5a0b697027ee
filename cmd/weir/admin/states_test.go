package admin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// TestGroupStates: the states of groups are listed, with what changed, which was good and which can
// be served again.
func TestGroupStates(t *testing.T) {
	w := newTold(t, xds.ClusterType, history.Bounds{Versions: 2, Bytes: 1 << 20, Age: time.Hour})
	origin := w.cfg.Table.Origin("mesh")
	for i := range 4 {
		w.hear("a", relaytest.Cluster("a", time.Duration(1+i)*time.Second), nil)
	}
	w.hear("b", relaytest.Cluster("b", time.Second), nil)
	key := origin.Groups()[0].Key
	revision, _ := origin.StateSince(key)
	origin.Good(time.Now(), key, revision)
	var all struct {
		States    []GroupState
		Truncated bool
	}
	w.answer("/history?origin=mesh&states=1", &all)
	s := all.States
	if len(s) != 4 || all.Truncated || s[0].Group != key || s[0].Added != 1 || s[0].Good.IsZero() || !s[0].Present || !s[0].Whole || s[0].At.IsZero() ||
		s[1].Changed != 1 || !s[1].Good.IsZero() || s[1].Present || s[1].ID == s[0].ID || len(s[1].ID) != 32 || !s[3].Whole || len(s[3].Types) != 0 {
		t.Errorf("states: %+v", s)
	}
	w.answer("/history?origin=mesh&states=true&limit=2&group="+key, &all)
	if len(all.States) != 2 || !all.Truncated {
		t.Errorf("of two: %+v", all)
	}
	if _, err := origin.Group(relaytest.Node("n", "other")); err != nil {
		t.Fatal(err)
	}
	w.answer("/history?origin=mesh&states=1", &all)
	if n := len(all.States); n != 5 || !strings.Contains(all.States[0].Group+all.States[4].Group, key) || all.States[0].Group > all.States[4].Group {
		t.Errorf("of two groups: %+v", all.States)
	}
	want(t, w.get("/history?states=1"), http.StatusBadRequest, "whose states")
	want(t, w.get("/history?states=maybe"), http.StatusBadRequest, "write true or false")
	want(t, w.get("/history?states=1&origin=mesh&type=cds"), http.StatusBadRequest, `"type"`)
	want(t, w.get("/history?states=1&origin=mesh&group=none"), http.StatusNotFound, "no group none", "/groups?origin=mesh")
}
