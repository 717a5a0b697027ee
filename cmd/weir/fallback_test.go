package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestFallbackIsAnotherOrigin: it is shown with what it serves, and a reload reaches it: limits at
// once, another address by asking there, and what stands in when there is none any more stays.
func TestFallbackIsAnotherOrigin(t *testing.T) {
	const cds = relaytest.ClusterType
	plane := func(names ...string) *relaytest.Origin {
		o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
		for _, name := range names {
			o.Set(cds, name, "1", relaytest.Cluster(name, time.Second))
		}
		return o
	}
	one, two, dead := plane("a", "b"), plane("b", "c"), deadAddress(t)
	text := func(fallback string, groups int) string {
		return freePorts + fmt.Sprintf("origins: [{ name: mesh, grpc: { addresses: [%q] }%s }]\nlimits: { groups: %d }\n", dead, fallback, groups) +
			"timing: { pause: 20ms, backoff: { base: 20ms, max: 100ms }, drain: 1s }\n"
	}
	at := func(o *relaytest.Origin) string {
		return fmt.Sprintf(", fallback: { grpc: { addresses: [%q], dialect: sotw } }", o.Net().Addr())
	}
	w := startReloading(t, text(at(one), 100))
	asked := func() *askedResort { return w.active.Load().origins[0].origin.(*grpcOrigin).fallback.(*askedResort) }
	var clients []*relaytest.Client
	for _, dialect := range bothDialects {
		c := openClient(t, dial(t, w.listenAddress()), dialect)
		c.Request(cds, "*")
		c.AwaitNames(cds, "what the fallback has", "a", "b")
		clients = append(clients, c)
	}
	var shown struct{ Origins []admin.Origin }
	w.state("/origins", &shown)
	f := shown.Origins[0].Fallback
	if f == nil || f.Kind != "grpc" || f.Source != one.Net().Addr() || !f.Ready || f.Serving != 2 {
		t.Errorf("the admin page shows %+v", f)
	}
	await(t, "the page says that the fallback is served", func() bool {
		_, body := w.get("/overview")
		return strings.Contains(body, `"serving": 2`) && strings.Contains(body, one.Net().Addr()) && strings.Contains(body, "weir serves 2 resources of its fallback")
	})

	before := asked()
	w.applied(text(at(one), 50))
	if asked() != before || before.table.MaxGroups() != 50 {
		t.Errorf("after a reload of limits.groups the fallback's table has room for %d groups", asked().table.MaxGroups())
	}
	w.applied(text(at(two), 50))
	for _, c := range clients {
		c.AwaitNames(cds, "what another fallback has", "b", "c")
	}
	await(t, "the one before is left", func() bool { return len(one.Open()) == 0 })
	w.applied(text("", 50))
	await(t, "the last one, too", func() bool { return len(two.Open()) == 0 })
	for _, c := range clients {
		c.WantIdle(time.Second)
		if !slices.Equal(c.Names(cds), []string{"b", "c"}) {
			t.Errorf("the client has %q when there is no fallback any more", c.Names(cds))
		}
		c.CheckClean()
	}
}

// TestFallbackIsOneMoreOrigin: what its package objects to is refused with its line.
func TestFallbackIsOneMoreOrigin(t *testing.T) {
	_, err := tryWeir(t, freePorts+`origins:
- name: mesh
  grpc: { addresses: ["localhost:1"] }
  fallback: { grpc: { addresses: ["localhost:2"], tls: { ca: /nowhere/ca.pem } } }
`)
	if err == nil || !strings.Contains(err.Error(), "weir.yaml:7:") || !strings.Contains(err.Error(), "origins[0].fallback.grpc.tls.ca") {
		t.Errorf("a fallback without its authorities: %v", err)
	}
}

// TestFallbackOfPolled: an origin of rest may have one, too.
func TestFallbackOfPolled(t *testing.T) {
	last := newFiles(t)
	last.put(t, "clusters.yaml", clusters("a"))
	w := startWeir(t, freePorts+fmt.Sprintf("origins: [{ name: poll, rest: { urls: [%q] }, fallback: { files: { path: %q } } }]\n",
		"http://"+deadAddress(t), string(last))+"timing: { drain: 1s }\n")
	for _, dialect := range bothDialects {
		c := openClient(t, dial(t, w.listenAddress()), dialect)
		c.Request(relaytest.ClusterType, "*")
		c.AwaitNames(relaytest.ClusterType, "the file's cluster", "a")
	}
}
