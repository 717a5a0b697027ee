package admin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// TestBookTellsWhoHasIt: of a version that is held it is counted who is to have it, of a replaced
// one nobody, and of a list who is subscribed to the type.
func TestBookTellsWhoHasIt(t *testing.T) {
	w := newWorld(t)
	w.hold(map[string]*anypb.Any{"a": relaytest.Cluster("a", time.Second)}, relaytest.ClusterType)
	of := func(resource, version string, typeURL string) downstream.Rejection {
		return downstream.Rejection{
			Origin: "mesh", TypeURL: typeURL, Resource: resource, Version: version, Message: `<b>no</b>`, Clients: 7,
			Examples: []downstream.RejectionExample{{NodeID: "<i>n</i>"}},
		}
	}
	w.clients = []downstream.ClientStatus{
		{Stream: 1, Origin: "mesh", Types: []downstream.TypeStatus{{TypeURL: xds.EndpointType}}},
		{Stream: 2, Origin: "mesh", Types: []downstream.TypeStatus{{TypeURL: xds.EndpointType}}},
	}
	for _, row := range []struct {
		x    downstream.Rejection
		want string
	}{
		{of("a", "1", xds.ClusterType), `"have_it": 1`},
		{of("a", "", xds.ClusterType), `"have_it": 1`},
		{of("a", "0", xds.ClusterType), `"have_it": 0`},
		{of("", "", xds.EndpointType), `"have_it": 2`},
		{of("", "", xds.ListenerType), `"have_it": 0`},
	} {
		w.cfg.Rejections = func() []downstream.Rejection { return []downstream.Rejection{row.x, row.x} }
		want(t, w.get("/nacks/book"), http.StatusOK, row.want, `"clients": 7`, `"left_out": 0`)
		want(t, w.get("/nacks/book?limit=1&origin=mesh&type="+row.x.TypeURL), http.StatusOK, row.want, `"left_out": 1`)
		want(t, w.get("/nacks/book?type=rds"), http.StatusOK, `"book": []`)
	}
	want(t, w.get("/nacks/book?typ=rds"), http.StatusBadRequest, `"typ"`)
	for _, path := range []string{"/", "/nacks/book", "/overview"} {
		if rec := w.get(path); strings.Contains(rec.Body.String(), "<b>") || strings.Contains(rec.Body.String(), "<i>") {
			t.Errorf("%s: a peer's text is markup:\n%s", path, rec.Body)
		}
	}
}
