package file

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

const clustersOf = "xdstp://o/envoy.config.cluster.v3.Cluster/"

func TestGlobs(t *testing.T) {
	w := newWorld(t, "cds.yaml", map[string]string{"cds.yaml": cluster(clustersOf+"a/1", 1) + cluster(clustersOf+"a/2", 1) +
		cluster(clustersOf+"a/deep/1", 1) + cluster(clustersOf+"a/1?k=v", 1) + cluster(clustersOf+"b/1", 1) + cluster("a/1", 1)})
	c := w.subscribe(xds.ClusterType, clustersOf+"a/*")
	c.want("COLL-1: a glob should bring what has one segment more, and wait for nothing", clustersOf+"a/1", clustersOf+"a/2")
	if c.answers != 1 {
		t.Errorf("it should come in one answer, not %d", c.answers)
	}
	context := w.subscribe(xds.ClusterType, clustersOf+"a/*?k=v")
	context.want("its context is that of its members", clustersOf+"a/1?k=v")
	beside := w.subscribe(xds.ClusterType, clustersOf+"a/*", clustersOf+"a/1", clustersOf+"b/1")
	beside.want("a glob and names, each once", clustersOf+"a/1", clustersOf+"a/2", clustersOf+"b/1")

	w.put("cds.yaml", cluster(clustersOf+"a/2", 2)+cluster(clustersOf+"a/3", 1)+cluster(clustersOf+"b/1", 1))
	c.want("COLL-4: members should come and go", clustersOf+"a/2", clustersOf+"a/3")
	if !slices.Equal(c.removed, []string{clustersOf + "a/1"}) {
		t.Errorf("told of the removal of %q, want that of the member that went alone", c.removed)
	}
	beside.want("names beside the glob follow too", clustersOf+"a/2", clustersOf+"a/3", clustersOf+"b/1")
	context.want("the last member of another goes")
}

func TestEmptyGlobs(t *testing.T) {
	w := newWorld(t, "cds.yaml", map[string]string{"cds.yaml": cluster("x", 1)})
	empty := clustersOf + "a/*"
	c := w.subscribe(xds.ClusterType, empty)
	c.until("COLL-3: an empty glob is stated absent", func() bool { return slices.Equal(c.removed, []string{empty}) })
	w.put("cds.yaml", cluster(clustersOf+"a/1", 1))
	c.want("a first member should come", clustersOf+"a/1")
	w.put("cds.yaml", cluster("x", 1))
	c.want("and go")
	late := w.subscribe(xds.ClusterType, empty)
	late.until("who comes then is told that it is empty", func() bool { return slices.Equal(late.removed, []string{empty}) })
}

func TestRecursiveGlobs(t *testing.T) {
	w := newWorldOf(t, relay.OriginConfig{Name: "files", RecursiveGlobs: true}, "cds.yaml", map[string]string{
		"cds.yaml": cluster(clustersOf+"a/1", 1) + cluster(clustersOf+"a/deep/er/1", 1) + cluster(clustersOf+"b/1", 1),
	})
	c := w.subscribe(xds.ClusterType, clustersOf+"a/*")
	c.want("COLL-5: any depth", clustersOf+"a/1", clustersOf+"a/deep/er/1")
}

// TestGlobOfUnknownFiles: nothing is stated of a set before every file was in order.
func TestGlobOfUnknownFiles(t *testing.T) {
	w := newWorld(t, "d", map[string]string{"d/a.yaml": cluster(clustersOf+"a/1", 1), "d/b.yaml": "- oops: [\n"})
	c := w.subscribe(xds.ClusterType, clustersOf+"a/*")
	named := w.subscribe(xds.ClusterType, clustersOf+"a/1")
	named.want("a name that is known is answered", clustersOf+"a/1")
	c.want("of a glob the members that are known come at once (RELAY-7)", clustersOf+"a/1")
	w.put("d/b.yaml", cluster(clustersOf+"a/2", 1))
	c.want("the others once they are known", clustersOf+"a/1", clustersOf+"a/2")
}

// TestReturningClientOfAGlob: what it holds and no file states is removed, without the long pause.
func TestReturningClientOfAGlob(t *testing.T) {
	w := newWorld(t, "cds.yaml", map[string]string{"cds.yaml": cluster(clustersOf+"a/1", 1)})
	c := w.resume(xds.ClusterType, map[string]string{clustersOf + "a/gone": "x"}, clustersOf+"a/*")
	c.want("the member should come", clustersOf+"a/1")
	c.until("what is gone should be removed", func() bool { return slices.Equal(c.removed, []string{clustersOf + "a/gone"}) })
}

// host is a virtual host in YAML with aliases.
func host(name string, aliases ...string) string {
	return fmt.Sprintf("- name: %q\n  aliases: [%s]\n  resource: { \"@type\": %s, name: %q, domains: [%q] }\n",
		name, strings.Join(aliases, ","), xds.VirtualHostType, name, name)
}

func TestNamespaces(t *testing.T) {
	w := newWorld(t, "vhds.yaml", map[string]string{
		"vhds.yaml": host("rc/a") + host("rc/b", "rc/b.example") + host("rc/deep/a") + host("rcx/a") + host("bare"),
	})
	c := w.subscribe(xds.VirtualHostType, "rc")
	c.want("ALIAS-6: the bare name of a route configuration brings its virtual hosts", "rc/a", "rc/b")
	named := w.subscribe(xds.VirtualHostType, "rc/deep/a")
	named.want("another by name", "rc/deep/a")
	bare := w.subscribe(xds.VirtualHostType, "bare")
	bare.want("a host that is not named as the documents say", "bare")
	none := w.subscribe(xds.VirtualHostType, "none")
	none.until("an empty namespace is stated", func() bool { return slices.Equal(none.removed, []string{"none"}) })
	w.put("vhds.yaml", host("rc/b")+host("rc/c")+host("none/a"))
	c.want("members should come and go", "rc/b", "rc/c")
	none.want("also to what was empty", "none/a")
	named.want("the name should go")
}

func TestAliases(t *testing.T) {
	const shared, one, two = "rc/shared", "rc/one.example", "rc/two.example"
	w := newWorld(t, "vhds.yaml", map[string]string{"vhds.yaml": host(shared, one, two) + host("rc/other")})
	first := w.subscribe(xds.VirtualHostType, one)
	first.want("ALIAS-1: an alias brings the resource that lists it", shared)
	both := w.subscribe(xds.VirtualHostType, two, shared)
	both.want("once, whichever names it is asked by", shared)
	none := w.subscribe(xds.VirtualHostType, "rc/three.example")
	none.until("ALIAS-5: an alias of nothing is said not to resolve", func() bool {
		// ALIAS-10
		return len(none.missing) == 1 && slices.Equal(none.removed, []string{"rc/three.example"})
	})

	w.put("vhds.yaml", host(shared, two, "rc/three.example")+host("rc/other"))
	none.want("an alias that is listed later resolves then", shared)
	first.until("ALIAS-4: one that is dropped resolves no more, so what it stood for goes", func() bool {
		return slices.Contains(first.removed, shared)
	})
	first.want("and nothing is left")
	both.want("nobody else loses it", shared)

	w.put("vhds.yaml", host(shared, two)+host("rc/other", "rc/three.example", one))
	none.want("an alias may move", "rc/other")
	first.want("and come back elsewhere", "rc/other")
	w.put("vhds.yaml", host("rc/x"))
	both.want("what is gone is gone by all its names")
	none.want("by an alias as well")
	first.want("for all who had it")
}

// nobody else's name makes the table hear of the resource
func TestDroppedAliasOfOneClient(t *testing.T) {
	w := newWorld(t, "vhds.yaml", map[string]string{"vhds.yaml": host("rc/a", "rc/a.example")})
	c := w.subscribe(xds.VirtualHostType, "rc/a.example")
	c.want("the alias brings its resource", "rc/a")
	w.put("vhds.yaml", host("rc/a"))
	c.want("which goes with the alias")
}

// TestAliasesOfOtherTypes: only of virtual hosts can be said that an alias did not resolve; others
// are absent.
func TestAliasesOfOtherTypes(t *testing.T) {
	aliased := func(name, alias string) string {
		return fmt.Sprintf("- name: %s\n  aliases: [%s]\n  resource: { \"@type\": %s, name: %s }\n", name, alias, xds.ClusterType, name)
	}
	w := newWorld(t, "cds.yaml", map[string]string{"cds.yaml": aliased("a", "nick") + aliased("b", "nick") + aliased("c", "a")})
	c := w.subscribe(xds.ClusterType, "nick")
	c.want("of two that list it the first by name is meant", "a")
	own := w.subscribe(xds.ClusterType, "a")
	own.want("a resource of that very name comes before one that lists it", "a")
	none := w.subscribe(xds.ClusterType, "nobody")
	none.until("an alias of nothing is absent", func() bool { return slices.Equal(none.removed, []string{"nobody"}) })
	w.put("cds.yaml", aliased("b", "nick")+aliased("a", "other"))
	c.want("it is the other's once the first lists it no more", "b")
	own.want("the first is there by its name", "a")
}
