package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

// Globs, namespaces and aliases of what is in files, by the dialects that have them.
func TestServesCollectionsOfFiles(t *testing.T) {
	const glob = "xdstp://disk/envoy.config.cluster.v3.Cluster/a/"
	hosts := func(hosts ...string) string {
		text := "resources:\n"
		for _, h := range hosts {
			name, alias, _ := strings.Cut(h, "=")
			text += fmt.Sprintf("- { name: %s, aliases: [%s], resource: { \"@type\": %s, name: h, domains: [h] } }\n",
				name, alias, relaytest.VirtualHostType)
		}
		return text
	}
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters(glob+"1", glob+"2", glob+"deep/1", "x"))
	dir.put(t, "vhds.yaml", hosts("rc/a=rc/a.example", "rc/b=rc/b.example", "rcx/a=rcx/a.example"))
	w := startWeir(t, freePorts+strings.Replace(filesOrigin(dir), "name: disk,", "name: disk, authorities: [disk],", 1))
	var clients []*relaytest.Client
	for _, dialect := range bothDialects {
		c := openClient(t, dial(t, w.listenAddress()), dialect)
		c.Request(relaytest.ClusterType, glob+"*")
		c.AwaitNames(relaytest.ClusterType, "the glob brings its members", glob+"1", glob+"2")
		clients = append(clients, c)
	}
	space := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	space.Subscribe(relaytest.VirtualHostType, "rc")
	space.AwaitNames(relaytest.VirtualHostType, "the namespace brings its hosts", "rc/a", "rc/b")
	alias := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	alias.Subscribe(relaytest.VirtualHostType, "rcx/a.example")
	alias.AwaitNames(relaytest.VirtualHostType, "the alias brings its host", "rcx/a")

	dir.put(t, "cds.yaml", clusters(glob+"2", glob+"3", "x"))
	dir.put(t, "vhds.yaml", hosts("rc/b=rc/b.example", "rc/c=rcx/a.example"))
	for _, c := range clients {
		c.AwaitNames(relaytest.ClusterType, "members follow the file", glob+"2", glob+"3")
		c.CheckClean()
	}
	space.AwaitNames(relaytest.VirtualHostType, "hosts follow the file", "rc/b", "rc/c")
	alias.AwaitNames(relaytest.VirtualHostType, "and so does the alias", "rc/c")
	space.CheckClean()
	alias.CheckClean()
}
