package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay/xds"
)

// TestDenials: /authz tells what the rules have decided, and what they denied with each filter.
func TestDenials(t *testing.T) {
	w := newWorld(t)
	want(t, w.get("/authz"), http.StatusOK, `"in_force": 0`, `"denials": []`, `"total": 0`)
	at := time.Date(2026, 11, 26, 1, 2, 3, 0, time.UTC)
	of := func(identity, typeURL, name string) downstream.Denial {
		return downstream.Denial{
			Identity: identity, Listener: "l:1", Origin: "mesh", TypeURL: typeURL, Name: name, Reason: "no rule allows <i>it", Count: 3,
			First: at, Last: at.Add(time.Second), NodeID: "<b>n", Peer: "10.0.0.1:7",
		}
	}
	end := downstream.Denial{Identity: "dns:c.corp", Listener: "l:2", Ended: true, Reason: "unfit", Count: 1, First: at, Last: at}
	d := downstream.Decisions{Rules: 2, Since: at, Allowed: 10, Denied: 7, Ended: 1, Denials: []downstream.Denial{
		of("dns:a.corp", xds.ClusterType, "a/1"), of("dns:b.corp", xds.EndpointType, "a/2"), of("uid:0", xds.ClusterType, ""), end,
	}}
	w.cfg.Decisions = func() downstream.Decisions { return d }
	want(t, w.get("/authz"), http.StatusOK, `"in_force": 2`, `"since": "2026-11-26T01:02:03Z"`, `"allowed": 10`, `"denied": 7`, `"ended": 1`,
		`"result": "denied"`, `"identity": "dns:a.corp"`, `"listener": "l:1"`, `"origin": "mesh"`, `"type": "cds"`, `"name": "a/1"`, `"count": 3`,
		`"last": "2026-11-26T01:02:04Z"`, `"peer": "10.0.0.1:7"`, `"truncated": false`, `"total": 4`)
	for query, want := range map[string][]string{
		"":                              {"dns:a.corp", "dns:b.corp", "uid:0", "dns:c.corp"},
		"identity=dns:*":                {"dns:a.corp", "dns:b.corp", "dns:c.corp"},
		"identity=dns:*&type=cds":       {"dns:a.corp"},
		"name=a/*":                      {"dns:a.corp", "dns:b.corp"},
		"result=ended":                  {"dns:c.corp"},
		"result=denied&origin=mesh":     {"dns:a.corp", "dns:b.corp", "uid:0"},
		"listener=l:2":                  {"dns:c.corp"},
		"type=" + xds.EndpointType:      {"dns:b.corp"},
		"limit=1":                       {"dns:a.corp"},
		"identity=nobody":               nil,
		"listener=l:1&identity=*.corp":  {"dns:a.corp", "dns:b.corp"},
		"limit=2&listener=l:1&name=a/*": {"dns:a.corp", "dns:b.corp"},
	} {
		rec := w.get("/authz?" + query)
		var page Decisions
		if err := json.Unmarshal(rec.Body.Bytes(), &page); err != nil {
			t.Fatalf("%s: %v in %s", query, err, rec.Body)
		}
		var got []string
		for _, x := range page.Denials {
			got = append(got, x.Identity)
		}
		if !slices.Equal(got, want) || page.Truncated != (query == "limit=1") {
			t.Errorf("%s: %q, truncated %t, want %q", query, got, page.Truncated, want)
		}
	}
	for query, part := range map[string]string{
		"node=x": `"node"`, "origin=moon": "the only one is mesh", "type=clusters": `type="clusters"`, "result=allowed": `result="allowed"`,
		"limit=0": `limit="0"`, "identity=a&identity=b": "twice",
	} {
		want(t, w.get("/authz?"+query), http.StatusBadRequest, part)
	}

	const pageDenials = 50 // that the page asks for (nacks.js)
	for i := range 4 * pageDenials {
		d.Denials = append(d.Denials, of("uri:last", xds.ClusterType, fmt.Sprint("n", i)))
	}
	rec := w.get(fmt.Sprintf("/authz?limit=%d", pageDenials))
	want(t, rec, http.StatusOK, `"in_force": 2`, `"allowed": 10`, `"denied": 7`, `"ended": 1`, "a/1", `"identity": "uid:0"`, `"total": 204`)
	if body := rec.Body.String(); strings.Contains(body, "<b>n") || strings.Contains(body, "<i>it") || strings.Contains(body, "n199") {
		t.Errorf("a client's text is markup, or there are too many rows:\n%s", body)
	}
}
