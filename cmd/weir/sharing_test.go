package main

import (
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

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
				} else if _, err := o.Dedicated(nil); err != nil {
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
