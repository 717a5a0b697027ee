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
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// fleet are six client streams, each of which stands in another way.
func fleet(t *testing.T) *world {
	w := newWorld(t)
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh"}, {Name: "edge", Authorities: []string{"edge"}}}})
	if err != nil {
		t.Fatal(err)
	}
	w.cfg.Table = table
	now := time.Now()
	kind := func(url string, lacks time.Duration) downstream.TypeStatus {
		s := downstream.TypeStatus{TypeURL: url, Wildcard: true}
		if lacks > 0 {
			s.UnsyncedSince = now.Add(-lacks)
		}
		return s
	}
	refuses := kind(xds.ClusterType, 10*time.Second)
	refuses.Nacking, refuses.Nacks = true, 3
	refuses.LastNack = downstream.Nack{Nonce: "n.1", Message: "no such thing", At: now.Add(-9 * time.Second)}
	apart := kind(xds.EndpointType, 0)
	apart.Parts = []downstream.PartStatus{{Origin: "mesh", Group: "g1"}, {Origin: "edge", Group: "e1"}}
	over := kind(xds.ListenerType, 0)
	over.Nacks = 1
	w.clients = []downstream.ClientStatus{
		{Stream: 1, NodeID: "web-1", Origin: "mesh", Group: "g1", Types: []downstream.TypeStatus{kind(xds.ClusterType, 0)}},
		{Stream: 2, NodeID: "web-2", Origin: "mesh", Group: "g1", Types: []downstream.TypeStatus{kind(xds.ClusterType, 0), kind(xds.EndpointType, time.Minute)}},
		{Stream: 3, NodeID: "db/3", Origin: "mesh", Group: "g2", Types: []downstream.TypeStatus{refuses, over}, Identity: "spiffe://corp/ns/db/sa/db"},
		{Stream: 4, NodeID: "web-4", Origin: "mesh", Group: "g1", Types: []downstream.TypeStatus{kind(xds.ListenerType, 0), apart}},
		{Stream: 5, NodeID: "own", Origin: "edge", Group: "e2", Dedicated: []string{"edge/d1"}, Types: []downstream.TypeStatus{over}},
		{Stream: 6, NodeID: "silent", Origin: "mesh"},
	}
	return w
}

// shown are the streams that a query lists, in the order of the list.
func (w *world) shown(query string) []uint64 {
	w.t.Helper()
	rec := w.get("/clients" + query)
	if rec.Code != http.StatusOK {
		w.t.Fatalf("%s: %d: %s", query, rec.Code, rec.Body)
	}
	var page struct {
		Clients []Client `json:"clients"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &page); err != nil {
		w.t.Fatal(err)
	}
	streams := []uint64{}
	for _, c := range page.Clients {
		streams = append(streams, c.Stream)
	}
	return streams
}

// TestClientFilters: each filter alone and with others, of which all have to hold. Clients that
// reject come first, then those that are behind for longest.
func TestClientFilters(t *testing.T) {
	w := fleet(t)
	for query, want := range map[string][]uint64{
		"":                                {3, 2, 1, 4, 5, 6},
		"?unsynced=1":                     {3, 2},
		"?unsynced=false":                 {3, 2, 1, 4, 5, 6},
		"?nacking=true":                   {3},
		"?unsynced=true&type=eds":         {2},
		"?type=eds":                       {2, 4},
		"?type=cds":                       {3, 1, 2}, // of eds, stream 2 lacks something
		"?type=" + xds.EndpointType:       {2, 4},
		"?nacking=1&type=lds":             {},
		"?older=30s":                      {2},
		"?older=5s":                       {3, 2},
		"?older=5s&type=cds":              {3},
		"?older=1h":                       {},
		"?origin=edge":                    {4, 5},
		"?origin=edge&type=lds":           {5},
		"?origin=mesh&type=lds":           {3, 4},
		"?group=g1":                       {2, 1, 4},
		"?group=e1":                       {4},
		"?group=d1":                       {5},
		"?group=d1&origin=edge":           {5},
		"?node=web-1":                     {1},
		"?node=web":                       {},
		"?node=web-*":                     {2, 1, 4},
		"?node=*3":                        {3},
		"?node=*e*-*":                     {2, 1, 4},
		"?node=web-*1-*":                  {},
		"?identity=spiffe://corp/ns/db/*": {3},
		"?identity=*":                     {3, 2, 1, 4, 5, 6},
		"?node=web-*&group=g1&unsynced=1": {2},
		"?limit=2":                        {3, 2},
	} {
		if got := w.shown(query); !slices.Equal(got, want) {
			t.Errorf("%s lists %v, want %v", query, got, want)
		}
	}
	want(t, w.get("/clients?limit=2&node=web-*"), http.StatusOK, `"truncated": true`, `"total": 3`)
	want(t, w.get("/clients?nacking=1"), http.StatusOK, `"nacking": true`, `"message": "no such thing"`, `"nacks": 3`,
		`"identity": "spiffe://corp/ns/db/sa/db"`)
	if body := w.get("/clients?node=own").Body.String(); strings.Contains(body, `"rejected"`) || !strings.Contains(body, `"total": 1`) {
		t.Errorf("what is accepted again is shown as rejected:\n%s", body)
	}
}

// TestTypesAsVersion2: a type is the same for a client that spells it as v2 does, in each list.
func TestTypesAsVersion2(t *testing.T) {
	w := newWorld(t)
	behind := downstream.TypeStatus{TypeURL: xds.EndpointTypeV2, UnsyncedSince: time.Now(), Nacks: 1, LastNack: downstream.Nack{Message: "no", At: time.Now()}}
	w.clients = []downstream.ClientStatus{{Stream: 1, Origin: "mesh", Types: []downstream.TypeStatus{behind}}}
	w.cfg.Rejections = func() []downstream.Rejection {
		return []downstream.Rejection{{Origin: "mesh", TypeURL: xds.EndpointTypeV2, Message: "no"}}
	}
	for query, n := range map[string]int{"eds": 1, xds.EndpointType: 1, xds.EndpointTypeV2: 1, "cds": 0} {
		if got := w.shown("?unsynced=1&origin=mesh&type=" + query); len(got) != n {
			t.Errorf("of type %s: %v, want %d", query, got, n)
		}
		for path, part := range map[string]string{"/nacks?type=": `"nonce"`, "/nacks/book?type=": `"message": "no"`} {
			if body := w.get(path + query).Body.String(); strings.Count(body, part) != n {
				t.Errorf("%s%s: want %d in\n%s", path, query, n, body)
			}
		}
	}
}

// pageClients is how many clients the page asks for at first (clients.js).
const pageClients = 100

// TestPageHasTroubleFirst: of many clients the page shows those that are looked for.
func TestPageHasTroubleFirst(t *testing.T) {
	w := fleet(t)
	var calm []downstream.ClientStatus
	for range pageClients {
		calm = append(calm, downstream.ClientStatus{NodeID: "calm"})
	}
	w.clients = append(calm, w.clients...)
	want(t, w.get(fmt.Sprintf("/clients?limit=%d", pageClients)), http.StatusOK, "web-2", "db/3")
}

// TestClientPages: the pages of a list have every client once, in the order of the whole list, while
// clients before and after the place of the cursor come and go, the one of the cursor too.
func TestClientPages(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	add := func(stream uint64, nacking bool, lacks time.Duration) {
		s := downstream.TypeStatus{TypeURL: xds.ClusterType, Nacking: nacking}
		if lacks > 0 {
			s.UnsyncedSince = now.Add(-lacks)
		}
		w.clients = append(w.clients, downstream.ClientStatus{Stream: stream, NodeID: "web", Types: []downstream.TypeStatus{s}})
	}
	for i := range uint64(12) {
		add(i+1, i%4 == 0, time.Duration(i%3)*time.Minute) // with equal times
	}
	whole := w.shown("")
	leave := func(stream uint64) {
		w.clients = slices.DeleteFunc(w.clients, func(c downstream.ClientStatus) bool { return c.Stream == stream })
	}
	var paged []uint64
	sizes, next := []int{}, ""
	for turn := 0; turn == 0 || next != ""; turn++ {
		var page struct {
			Clients   []Client `json:"clients"`
			Total     int      `json:"total"`
			Truncated bool     `json:"truncated"`
			Next      *string  `json:"next"`
		}
		rec := w.get("/clients?node=web&limit=5&after=" + next)
		if err := json.Unmarshal(rec.Body.Bytes(), &page); err != nil || page.Total != len(w.clients) || page.Truncated != (page.Next != nil) || turn > 9 {
			t.Fatalf("page %d: %v in\n%s", turn, err, rec.Body)
		}
		for _, c := range page.Clients {
			paged = append(paged, c.Stream)
		}
		sizes = append(sizes, len(page.Clients))
		if next = ""; page.Next != nil {
			next = *page.Next
		}
		if turn == 0 {
			// Of those that were listed two leave, with the last one, and one comes before it.
			leave(whole[0])
			leave(whole[4])
			add(20, true, time.Hour)
			whole = append(whole, 21)
			add(21, false, 0)
			slices.Reverse(w.clients)
		}
	}
	if !slices.Equal(paged, whole) || !slices.Equal(sizes, []int{5, 5, 3}) {
		t.Errorf("the pages of %v have %v, want %v", sizes, paged, whole)
	}
}

// TestBadClientFilters: a value that makes no sense is named, and so is a filter that does not
// exist: the whole list would look like the answer.
func TestBadClientFilters(t *testing.T) {
	w := fleet(t)
	for query, parts := range map[string][]string{
		"?unsynced=maybe":       {`unsynced="maybe"`, "true or false"},
		"?unsynced":             {`unsynced=""`, "true or false"},
		"?nacking=":             {`nacking=""`},
		"?older=":               {`older=""`, "30s"},
		"?group=nobody":         {`group="nobody"`, "no origin has a group", "/groups lists"},
		"?group=e1&origin=mesh": {`group="e1"`, "origin mesh has no group", "/groups?origin=mesh"},
		"?nacking=2":            {`nacking="2"`},
		"?type=clusters":        {`type="clusters"`, "short name"},
		"?older=30":             {`older="30"`, "30s"},
		"?older=-5s":            {`older="-5s"`},
		"?origin=mash":          {`no origin "mash"`, "mesh, edge"},
		"?limit=0":              {`limit="0"`},
		"?full=x":               {`full="x"`},
		"?unsinced=1":           {`"unsinced"`, "unsynced"},
		"?type=cds&type=eds":    {"type", "twice"},
		"?older=5s&nacking=x":   {`nacking="x"`},
		"?node=%zz":             {"query"},
		"?after=2":              {`after="2"`, "next"},
		"?after=MSAwIDE":        {`after="MSAwIDE"`}, // 1 0 1: another way to write a place
		"?after=dHJ1ZSAw":       {`after="dHJ1ZSAw"`},
	} {
		want(t, w.get("/clients"+query), http.StatusBadRequest, parts...)
	}
}
