package rest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/inspect"
)

func reaching(c *Config) { c.Reach = []string{lds, cds} }

// A server that no client asks is polled for one type after the other, until it answers. Nothing is
// kept of that, and it is not polled again.
func TestReach(t *testing.T) {
	in(t, reaching, func(w *world) {
		w.serve(clusters, "1", cluster("x")) // and listeners are 404
		time.Sleep(990 * time.Millisecond)
		if polls := w.taken(); len(polls) != 0 {
			t.Errorf("%d polls within a second", len(polls))
		}
		time.Sleep(time.Minute)
		if st := w.up.Status(); !st.Connected || st.ProofAt.IsZero() || st.Err != "" || len(st.Lanes) != 0 {
			t.Errorf("the status is %+v", st)
		}
		var paths []string
		for _, p := range w.taken() {
			if p.GetNode().GetId() == "" || p.GetVersionInfo() != "" || len(p.GetResourceNames()) != 0 {
				t.Errorf("the poll is %v", p)
			}
			paths = append(paths, p.path)
		}
		if len(paths) != 2 || paths[0] != listeners || paths[1] != clusters {
			t.Errorf("polled are %q", paths)
		}
		for _, g := range inspect.Status(w.table.Origin("rest")) { // the test's own may be there
			if len(g.Types) != 0 {
				t.Errorf("the table has %+v", g.Types)
			}
		}
		if n := w.lines("the origin does not answer") + w.lines("the origin answers"); n != 2 {
			t.Errorf("the log has %d lines", n)
		}
	})
}

// While a client asks, nothing else does.
func TestReachGivesWay(t *testing.T) {
	in(t, reaching, func(w *world) {
		w.want(cds, "*") // which is 404
		time.Sleep(time.Minute)
		for _, p := range w.taken() {
			if p.path != clusters {
				t.Errorf("%s is polled", p.path)
			}
		}
		if st := w.up.Status(); st.Connected || !st.ProofAt.IsZero() {
			t.Errorf("the status is %+v", st)
		}
	})
}

// TestReachIsRefused: a server that wants a cluster of every node refuses ours, and the status says
// what to do about it.
func TestReachIsRefused(t *testing.T) {
	in(t, reaching, func(w *world) {
		picky := func(poll) (int, string) { return http.StatusUnprocessableEntity, "node.cluster: field required" }
		w.answer(clusters, picky)
		w.answer(listeners, picky)
		time.Sleep(10 * time.Second)
		if st := w.up.Status(); !strings.Contains(st.Err, "422") || !strings.Contains(st.Err, "see origins[].node.cluster, or ready.types") {
			t.Errorf("the status is %+v", st)
		}
	})
}
