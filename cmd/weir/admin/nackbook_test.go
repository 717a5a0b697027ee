package admin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// TestBookTellsWhoHasItInSotW: named resources of state of the world have the version of the
// response, and no own one. Three clients have it, of which two refuse it.
func TestBookTellsWhoHasItInSotW(t *testing.T) {
	w := newWorld(t)
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh", SotW: true}}})
	if err != nil {
		t.Fatal(err)
	}
	w.cfg.Table = table
	origin, now := table.Origin("mesh"), time.Now()
	for range 3 {
		group, err := origin.Group(relaytest.Node("n", "c"))
		if err != nil {
			t.Fatal(err)
		}
		group.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: xds.EndpointType, Delta: true}).
			Update(now, []string{"a"}, nil)
	}
	lane := origin.TakeLanes()[0]
	lane.Open(now, 0)
	lane.Take(now, false)
	body, err := proto.Marshal(relaytest.Endpoints("a", "127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	u := &xds.Update{TypeURL: xds.EndpointType, Version: "7", Full: true, Resources: []xds.Resource{{Name: "a", Any: body}}}
	if _, ok := lane.Apply(now, u); !ok {
		t.Fatal("the lane never asked for the type")
	}
	for version, have := range map[string]string{"7": `"have_it": 3`, "6": `"have_it": 0`} {
		w.cfg.Rejections = func() []downstream.Rejection {
			return []downstream.Rejection{{Origin: "mesh", TypeURL: xds.EndpointType, Resource: "a", Version: version, Clients: 2}}
		}
		want(t, w.get("/nacks/book"), http.StatusOK, have, `"clients": 2`)
	}
}

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
