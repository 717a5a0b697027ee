package admin

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// TestReplicas: the process is the first of the list. The others are asked once for all who look at
// the same time.
func TestReplicas(t *testing.T) {
	w := newWorld(t)
	w.cfg.Host = "weir-0"
	want(t, w.get("/replicas"), http.StatusOK, `"host": "weir-0"`, `"state": "good"`)
	if page := w.get("/").Body.String(); strings.Contains(page, "data-replicas") {
		t.Error("the page asks for replicas, of which there are none")
	}
	asked := 0
	w.cfg.Replicas = func(context.Context) []Replica {
		asked++
		return []Replica{{Address: "10.0.0.2:19082", Host: "weir-1", State: Bad, Sentence: "Draining."}, {Address: "10.0.0.3:19082", State: Bad, Error: "connection refused"}}
	}
	a, err := New(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		rec := ask(a, http.MethodGet, "/replicas")
		want(t, rec, http.StatusOK, `"host": "weir-1"`, "Draining.", "connection refused")
		if first := strings.Index(rec.Body.String(), "weir-0"); first < 0 || first > strings.Index(rec.Body.String(), "weir-1") {
			t.Errorf("this process is not the first:\n%s", rec.Body)
		}
	}
	if asked != 1 {
		t.Errorf("the replicas are asked %d times", asked)
	}
	want(t, ask(a, http.MethodGet, "/"), http.StatusOK, "data-replicas")
	want(t, w.get("/replicas?all=1"), http.StatusBadRequest, "all")
}
