package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestSilenceIsExplained: where the log says that an origin never answered the node that weir sent,
// the tables, the pages and /explain do (RELAY-62).
func TestSilenceIsExplained(t *testing.T) {
	o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{}) // it never answers
	w := startWeir(t, freePorts+controlPlane(o.Net().Addr()))
	c := opened(t, w, "web-1", relaytest.ClientConfig{})
	c.Request(relaytest.ClusterType)
	var all struct{ Origins []admin.Origin }
	await(t, "the origin's state has it", func() bool {
		_, body := w.get("/origins")
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			t.Fatal(err)
		}
		return len(all.Origins[0].Silent) > 0
	})
	s := all.Origins[0].Silent[0]
	if !strings.HasPrefix(s.NodeID, "weir/") || s.Group == "" || s.Answered || all.Origins[0].SilentGroups != 1 {
		t.Errorf("it is %+v", s)
	}
	node := `node id "` + s.NodeID + `"`
	w.awaitExplained(t, "web-1", "cds", "web", "waiting", "origin", "it has answered nothing since weir sent it "+node, "origins[].node and origins[].group_by")
	await(t, "the overview has it", func() bool {
		_, body := w.get("/overview")
		return strings.Contains(body, "it has not answered node id")
	})
	port := w.admin.listener.Addr().String()
	for command, parts := range map[string][]string{
		"status":        {"it has not answered " + node, "see origins[].node and origins[].group_by", " connected, silent about " + node},
		"explain web-1": {"it has answered nothing since weir sent it " + node},
	} {
		_, stdout, _ := weir(t, append(strings.Fields(command), "--admin", port)...)
		for _, part := range parts {
			if !strings.Contains(stdout, part) {
				t.Errorf("weir %s lacks %q:\n%s", command, part, stdout)
			}
		}
	}
	stream := o.ExpectStream("the stream")
	stream.Expect("the request")
	stream.Respond(relaytest.ClusterType, "1", relaytest.Resource{Name: "a", Version: "1", Body: relaytest.Cluster("a", time.Second)})
	c.AwaitNames(relaytest.ClusterType, "the origin answers", "a")
	if _, body := w.get("/origins"); strings.Contains(body, `"silent"`) {
		t.Errorf("an origin that answers is silent:\n%s", body)
	}
}
