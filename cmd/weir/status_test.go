package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/relay"
)

// TestStatusTable: groups of one client stream are counted and not listed, and an error has its time beside it, as it may be long over.
func TestStatusTable(t *testing.T) {
	o := admin.Origin{
		Name: "mesh", Connected: true, Since: time.Now().Add(-6 * time.Second),
		Error: "connection refused", ErrorAt: time.Now().Add(-8 * time.Minute),
	}
	o.Sum([]relay.GroupStatus{{Key: "shared"}, {Key: "dedicated-1", Dedicated: true}, {Key: "dedicated-2", Dedicated: true}})
	pages, err := json.Marshal(map[string]any{
		"origins": map[string]any{"origins": []admin.Origin{o}},
		"groups": map[string]any{"groups": []map[string]any{
			{"node_id": "shared-id", "origin": "mesh"}, {"node_id": "own-id", "origin": "mesh", "dedicated": true},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := statusTable(&out, pages); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"connection refused, 8m0s ago", "1 and 2 dedicated", "shared-id"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the table lacks %q:\n%s", part, out.String())
		}
	}
	if strings.Contains(out.String(), "own-id") {
		t.Errorf("a client's own stream is listed as a group:\n%s", out.String())
	}
}
