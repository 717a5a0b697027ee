package admin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// TestExplainLimited: of a name that a limit has refused it is told which, and until when the stream
// waits for room, and not that the client has not asked for it: with other names that are served,
// and with none.
func TestExplainLimited(t *testing.T) {
	w := newWorld(t)
	origin := w.cfg.Table.Origin("mesh")
	group, err := origin.Group(relaytest.Node("n", "c"))
	if err != nil {
		t.Fatal(err)
	}
	served := downstream.ExplainedPart{}
	served.Group = group
	for _, parts := range [][]downstream.ExplainedPart{nil, {served}} {
		w.cfg.Explain = func(node, typeURL, name string) []downstream.Explained {
			return []downstream.Explained{{
				ClientStatus: downstream.ClientStatus{NodeID: node, Origin: "mesh"}, Parts: parts,
				Refused: "limits.memory 7 is reached: no room", Limited: true,
				Type: &downstream.TypeStatus{TypeURL: xds.EndpointType, Waits: []metrics.Wait{
					{Reason: metrics.WaitAck}, {Reason: metrics.WaitLimit, Until: time.Now().Add(time.Minute), Text: "limits.memory"},
				}},
			}}
		}
		rec := w.get("/explain?node=n&type=eds&name=web")
		want(t, rec, http.StatusOK, `"headline": "EDS web was refused: limits.memory 7 is reached: no room"`, `"state": "waiting"`, `"reason": "limit"`, `"until"`)
		if body := rec.Body.String(); strings.Contains(body, "not_subscribed") || strings.Contains(body, `"ack"`) {
			t.Errorf("it is said of another wait, or of no subscription:\n%s", body)
		}
	}
}
