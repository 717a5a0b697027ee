package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// told is an origin that sends one type, and a client of all of it.
type told struct {
	*world
	lane    *relay.Lane
	typeURL string
	serial  int
}

func newTold(t *testing.T, typeURL string, b history.Bounds) *told {
	w := &told{world: newWorld(t), typeURL: typeURL}
	table, err := relay.New(relay.Config{History: b, Origins: []relay.OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}}}})
	if err != nil {
		t.Fatal(err)
	}
	w.cfg.Table = table
	group, err := table.Origin("mesh").Group(relaytest.Node("n", "c"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	group.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: typeURL, Delta: true}).Update(now, []string{xds.Wildcard}, nil)
	w.lane = table.Origin("mesh").TakeLanes()[0]
	w.lane.Open(now, table.Origin("mesh").Server("cp:1"))
	w.lane.Take(now, false)
	return w
}

// hear has the origin send a resource; nil: it is gone.
func (w *told) hear(name string, body *anypb.Any, set func(*xds.Resource)) {
	w.t.Helper()
	w.serial++
	u := &xds.Update{TypeURL: w.typeURL}
	if body == nil {
		u.Removed = []string{name}
	} else {
		encoded, err := proto.Marshal(body)
		if err != nil {
			w.t.Fatal(err)
		}
		r := xds.Resource{Name: name, Version: fmt.Sprint("v", w.serial), Any: encoded}
		r.PayloadType, r.Payload = []byte(body.TypeUrl), body.Value
		if set != nil {
			set(&r)
		}
		u.Resources = append(u.Resources, r)
	}
	now := time.Now()
	if _, ok := w.lane.Apply(now, u); !ok {
		w.t.Fatal("the lane never asked for the type")
	}
	if w.serial == 1 {
		w.cfg.Table.Advance(now.Add(time.Minute)) // the first answer is whole
	}
}

// answer is what a path answers, decoded.
func (w *told) answer(path string, into any) {
	w.t.Helper()
	rec := w.get(path)
	if rec.Code != http.StatusOK {
		w.t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
	}
	reflect.ValueOf(into).Elem().SetZero() // or else lists would keep what is omitted now
	if err := json.Unmarshal(rec.Body.Bytes(), into); err != nil {
		w.t.Fatal(err)
	}
}

var keepsAll = history.Bounds{Versions: 10, Bytes: 1 << 20, Age: time.Hour}

// TestHistory: changes are told the newest first, and the versions of one resource with their
// times, where they came from, and on request their bodies.
func TestHistory(t *testing.T) {
	w := newTold(t, xds.ClusterType, keepsAll)
	for _, d := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
		w.hear("a", relaytest.Cluster("a", d), nil)
	}
	w.hear("b", relaytest.Cluster("b", time.Second), nil)
	w.hear("b", nil, nil)
	var all struct {
		Changes   []Change
		Truncated bool
		Kept      Kept
		Versions  []historyVersion
	}
	w.answer("/history", &all)
	var lines []string
	for _, c := range all.Changes {
		lines = append(lines, fmt.Sprint(c.Origin, " ", c.Type, " ", c.Name, " ", c.Change, " ", c.OriginVersion, " ", c.Source, " ", c.Wildcard, " ", c.Version != "", " ", c.WasVersion != ""))
	}
	if want := "mesh cds b removed   true false true|mesh cds b added v4 cp:1 true true false|" +
		"mesh cds a changed v3 cp:1 true true true|mesh cds a changed v2 cp:1 true true true"; strings.Join(lines, "|") != want {
		t.Errorf("changes\n%s\nwant\n%s", strings.Join(lines, "|"), want)
	}
	if all.Truncated || all.Kept.Versions != 4 || all.Kept.Oldest.IsZero() || all.Kept.Off {
		t.Errorf("truncated %v, kept %+v", all.Truncated, all.Kept)
	}
	w.answer("/history?type=cds&name=a&full=true&limit=1", &all)
	if len(all.Changes) != 1 || !all.Truncated || len(all.Versions) != 1 || !all.Versions[0].Until.IsZero() || all.Versions[0].Since.IsZero() {
		t.Errorf("limited: %+v", all)
	}
	w.answer("/history?type=cds&name=a&full=true&origin=mesh&since=1h", &all)
	if v := all.Versions; len(v) != 3 || v[0].OriginVersion != "v3" || v[1].OriginVersion != "v2" || v[2].OriginVersion != "v1" ||
		v[1].Until.IsZero() || v[1].Since.IsZero() || !v[2].Since.IsZero() || !strings.Contains(string(v[2].Body), `"1s"`) || v[2].Source != "cp:1" {
		t.Errorf("versions: %+v", v)
	}
	w.answer("/history?type=eds", &all)
	if len(all.Changes) > 0 {
		t.Errorf("of another type: %+v", all.Changes)
	}
	for path, text := range map[string]string{
		"/history?typ=cds": `"typ"`, "/history?type=clusters": "short name", "/history?since=soon": "such as 1h", "/history?origin=other": "the only one is mesh",
		"/history/chart?step=10s": "whole minutes", "/history/chart?since=2000h": "1500 points", "/history/diff?type=cds": "which resource",
	} {
		want(t, w.get(path), http.StatusBadRequest, text)
	}
	var chart struct {
		Step   string
		Points []struct{ Added, Changed, Removed int }
	}
	w.answer("/history/chart?origin=mesh&since=10m&step=5m", &chart)
	sum := [3]int{}
	for _, p := range chart.Points {
		sum[0], sum[1], sum[2] = sum[0]+p.Added, sum[1]+p.Changed, sum[2]+p.Removed
	}
	if sum != [3]int{1, 2, 1} || chart.Step != "5m0s" || len(chart.Points) < 2 {
		t.Errorf("chart: %+v", chart)
	}
}

// TestHistoryDiff: two versions are compared, those that clients have and had by default.
func TestHistoryDiff(t *testing.T) {
	w := newTold(t, xds.ClusterType, keepsAll)
	for _, d := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
		w.hear("a", relaytest.Cluster("a", d), nil)
	}
	w.hear("u", relaytest.Cluster("u", time.Second), func(r *xds.Resource) { r.DoNotCache = true })
	w.hear("u", relaytest.Cluster("u", 2*time.Second), func(r *xds.Resource) { r.DoNotCache = true })
	want(t, w.get("/history/diff?type=cds&name=a"), http.StatusOK, "--- v2", "+++ v3", `-  \"connectTimeout\": \"2s\"`, `"path": "$.connectTimeout"`, `"from": "2s"`, `"to": "3s"`)
	want(t, w.get("/history/diff?type=cds&name=a&from=v1"), http.StatusOK, "--- v1", "+++ v3")
	want(t, w.get("/history/diff?type=cds&name=a&from=v3&to=v1&origin=mesh"), http.StatusOK, "--- v3", "+++ v1")
	want(t, w.get("/history/diff?type=cds&name=a&to=v2"), http.StatusOK, "--- v1", "+++ v2")
	want(t, w.get("/history/diff?type=cds&name=a&from=v7"), http.StatusNotFound, `"v3" "v2" "v1"`)
	want(t, w.get("/history/diff?type=cds&name=b"), http.StatusNotFound, "nothing is known")
	want(t, w.get("/history/diff?type=cds&name=u"), http.StatusNotFound, "not kept")
	w.hear("a", nil, nil)
	want(t, w.get("/history/diff?type=cds&name=a"), http.StatusOK, "--- v2", "+++ v3")
}

// TestHistoryOfSecrets: of a secret there are its name and the times.
func TestHistoryOfSecrets(t *testing.T) {
	w := newTold(t, xds.SecretType, keepsAll)
	for i := range 3 {
		w.hear("key", relaytest.Secret("key", fmt.Sprint("hush", i)), nil)
	}
	want(t, w.get("/history/diff?type=sds&name=key"), http.StatusForbidden, "not shown")
	rec := w.get("/history?type=sds&name=key&full=true")
	want(t, rec, http.StatusOK, `"name": "key"`, `"change": "changed"`, `"secret": true`)
	for _, part := range []string{"hush", `"w1`, `"v2"`, "cp:1", "version\""} {
		if strings.Contains(rec.Body.String(), part) {
			t.Errorf("%q is in\n%s", part, rec.Body)
		}
	}
}

// TestHistoryIsBlanked: private keys in other resources are not shown, and do not differ.
func TestHistoryIsBlanked(t *testing.T) {
	w := newTold(t, xds.ClusterType, keepsAll)
	for _, key := range []string{"hush1", "hush2"} {
		body, err := anypb.New(&tlsv3.TlsCertificate{PrivateKey: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: key}}})
		if err != nil {
			t.Fatal(err)
		}
		w.hear("a", body, nil)
	}
	for _, path := range []string{"/history?type=cds&name=a&full=true", "/history/diff?type=cds&name=a"} {
		if rec := w.get(path); rec.Code != http.StatusOK || strings.Contains(rec.Body.String(), "hush") || strings.Contains(rec.Body.String(), "aHVza") {
			t.Errorf("%s: %d\n%s", path, rec.Code, rec.Body)
		}
	}
}

// TestNoHistory: where it is off, that is said.
func TestNoHistory(t *testing.T) {
	w := newTold(t, xds.ClusterType, history.Bounds{})
	for _, d := range []time.Duration{time.Second, 2 * time.Second} {
		w.hear("a", relaytest.Cluster("a", d), nil)
	}
	want(t, w.get("/history"), http.StatusOK, `"changes": []`, `"off": true`)
}
