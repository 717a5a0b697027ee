package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/relay"
)

// TestGroupsEqualClients: an origin nobody shares is told of, once an hour at most, and not for a
// handful of clients or for dedicated ones (RELAY-61).
func TestGroupsEqualClients(t *testing.T) {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "alone", GroupBy: []string{"id"}}, {Name: "shared", GroupBy: []string{"cluster"}}}})
	if err != nil {
		t.Fatal(err)
	}
	core, lines := observer.New(zapcore.WarnLevel)
	s := newSharing(&process{table: table, log: zap.New(core)})
	now := time.Unix(1e9, 0)
	want := func(n int, why string) {
		t.Helper()
		s.look(now)
		if got := lines.TakeAll(); len(got) != n {
			t.Errorf("%s: %d lines, want %d: %v", why, len(got), n, got)
		} else if n > 0 && got[0].ContextMap()["origin"] != "alone" {
			t.Errorf("%s: said of %v", why, got[0].ContextMap())
		}
	}
	var last *relay.Group
	join := func(from, to int) {
		for i := from; i < to; i++ {
			for _, name := range []string{"alone", "shared"} {
				o := table.Origin(name)
				g, err := o.Group(&corev3.Node{Id: fmt.Sprint(i), Cluster: fmt.Sprint(i % 5)})
				if err != nil {
					t.Fatal(err)
				}
				if name == "alone" {
					last = g
				} else if _, err := o.DedicatedFor(nil, "", nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	join(0, 19)
	want(0, "19 clients")
	join(19, 20)
	want(1, "20 clients in 20 groups")
	now = now.Add(59 * time.Minute)
	want(0, "within the hour")
	now = now.Add(time.Minute)
	want(1, "an hour later")
	now = now.Add(time.Hour)
	last.Release(now)
	want(0, "19 clients again")
}

// TestMembersDiffer: of each group and field it is said once that members differ, with two of them,
// and of many groups in a few lines. What any upgrade does is no warning.
func TestMembersDiffer(t *testing.T) {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}}}})
	if err != nil {
		t.Fatal(err)
	}
	core, lines := observer.New(zapcore.InfoLevel)
	s := newSharing(&process{table: table, log: zap.New(core)})
	enter := func(cluster, namespace, version string) {
		t.Helper()
		n := &corev3.Node{
			Id: "sidecar~10.0.0.1~a." + namespace + "~" + namespace + ".svc.cluster.local", Cluster: cluster,
			UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: version},
		}
		n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"NAMESPACE": structpb.NewStringValue(namespace)}}
		if _, err := table.Origin("mesh").Group(n); err != nil {
			t.Fatal(err)
		}
	}
	said := func(why string, want ...string) {
		t.Helper()
		s.look(time.Unix(1e9, 0))
		var got []string
		for _, e := range lines.TakeAll() {
			m := e.ContextMap()
			got = append(got, fmt.Sprint(e.Level, " ", m["origin"], " ", m["field"], " ", m["values"], " ", m["nodes"]))
			if m["more"] != nil {
				got[len(got)-1] = fmt.Sprint("and ", m["more"])
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: said %q, want %q", why, got, want)
		}
	}
	enter("web", "shop", "1.36.0")
	enter("web", "shop", "1.37.0")
	said("an upgrade", "info mesh user_agent_version [1.36.0 1.37.0] [sidecar~10.0.0.1~a.shop~shop.svc.cluster.local sidecar~10.0.0.1~a.shop~shop.svc.cluster.local]")
	enter("web", "bill", "1.37.0")
	said("another namespace", "warn mesh metadata.NAMESPACE [shop bill] [sidecar~10.0.0.1~a.shop~shop.svc.cluster.local sidecar~10.0.0.1~a.bill~bill.svc.cluster.local]")
	enter("web", "pay", "1.37.0")
	said("a third")
	for i := range 25 {
		enter(fmt.Sprint("c", i), "shop", "1.37.0")
		enter(fmt.Sprint("c", i), "bill", "1.37.0")
	}
	s.look(time.Unix(1e9, 0))
	if all := lines.TakeAll(); len(all) != sharingLines+1 || all[sharingLines].ContextMap()["more"] != int64(15) {
		t.Errorf("of 25 groups: %d lines, the last %v", len(all), all[len(all)-1].ContextMap())
	}
	said("it was said")
}
