package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// TestGroupsByTheirBeginning: wherever groups are looked for, as much of the key is enough as tables
// show. Of a group in tiers, clients are in the tiers. Less of a key, and what no key begins with, is
// an error and no empty list.
func TestGroupsByTheirBeginning(t *testing.T) {
	w := newTold(t, xds.ClusterType, history.Bounds{Versions: 2, Bytes: 1 << 20, Age: time.Hour})
	w.hear("a", relaytest.Cluster("a", time.Second), nil)
	w.hear("a", relaytest.Cluster("a", time.Minute), nil)
	key := w.cfg.Table.Origin("mesh").Groups()[0].Key
	w.clients = []downstream.ClientStatus{
		{Stream: 1, Origin: "mesh", Group: key}, {Stream: 2, Origin: "mesh", Group: key + "-canary"}, {Stream: 3, Origin: "mesh", Group: "another"},
	}
	short := key[:KeyDigits]
	if got := w.shown("?group=" + short); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("clients of %s: %v", short, got)
	}
	for _, tier := range []string{key + "-canary", ShortKey(key + "-canary")} {
		if got := w.shown("?group=" + tier); !slices.Equal(got, []uint64{2}) {
			t.Errorf("clients of the tier %s: %v", tier, got)
		}
	}
	for path, part := range map[string]string{
		"/resources?": `"name": "a"`, "/history?": `"change": "changed"`, "/history?states=1&origin=mesh&": `"present": true`,
		"/history/diff?type=cds&name=a&": `"unified": "---`,
	} {
		want(t, w.get(path+"group="+short), http.StatusOK, part, key)
	}
	for _, path := range []string{"/clients?", "/resources?"} {
		want(t, w.get(path+"group="+key[:KeyDigits-1]), http.StatusBadRequest, key[:KeyDigits-1], "at least 6 digits")
		want(t, w.get(path+"origin=mesh&group=0"+key), http.StatusBadRequest, "origin mesh has no group with this key now", "/groups?origin=mesh")
	}
}

// TestKeyMeant: a beginning that several groups have in common is refused, unless they are the tiers
// of one: then it means the group that has what the origin states.
func TestKeyMeant(t *testing.T) {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh", Canary: &node.Canary{Share: 0.5}}}})
	if err != nil {
		t.Fatal(err)
	}
	o := table.Origin("mesh")
	for i := range 20 { // some of them are canaries
		if _, err := o.GroupFor(relaytest.Node(fmt.Sprint("n", i), "c"), "", "peer"); err != nil {
			t.Fatal(err)
		}
	}
	for range 11 {
		if _, err := o.DedicatedFor(relaytest.Node("n", "c"), "", "peer"); err != nil {
			t.Fatal(err)
		}
	}
	i := slices.IndexFunc(o.Groups(), func(g relay.GroupView) bool { return strings.HasSuffix(g.Key, "-rest") })
	rest := o.Groups()[i].Key
	of, _ := relay.CutTier(rest)
	for text, want := range map[string]string{of[:KeyDigits]: of, of + "-": of, of: of, rest: rest, ShortKey(rest): rest, "dedicated-1": "dedicated-1", "other-key": "other-key"} {
		if key, known, err := keyMeant(text, table.Origins()); key != want || known != (text != "other-key") || err != nil {
			t.Errorf("%s means %s, %t, %v; want %s", text, key, known, err, want)
		}
	}
	if key, _, err := keyMeant("dedicated", table.Origins()); err == nil || !strings.Contains(err.Error(), `group="dedicated": the keys of 11 groups begin so`) {
		t.Errorf("what two groups have in common means %s: %v", key, err)
	}
}
