package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/relay/relaytest"
)

// sinkOf is a configuration whose origin's clusters are written to a directory.
func sinkOf(from files, to, more string) string {
	return freePorts + filesOrigin(from) + fmt.Sprintf("sinks: [{ path: %q, node: { cluster: edge }, types: [cds]%s }]\n", to, more)
}

// What one weir writes another reads: it comes out of the second as the first has it, and stays
// when the first ends.
func TestSinkIsRead(t *testing.T) {
	from, to := newFiles(t), filepath.Join(t.TempDir(), "out")
	from.put(t, "cds.yaml", clusters("a", "b"))
	first := startReloading(t, sinkOf(from, to, ""))
	await(t, "the file is written", func() bool { _, err := os.Stat(filepath.Join(to, "cds.pb")); return err == nil })
	second := startWeir(t, freePorts+filesOrigin(files(to)))
	for _, dialect := range bothDialects {
		c := openClient(t, dial(t, second.listenAddress()), dialect)
		c.Request(relaytest.ClusterType)
		c.AwaitNames(relaytest.ClusterType, "the second has what the first wrote", "a", "b")
		from.put(t, "cds.yaml", clusters("a", "c"))
		c.AwaitNames(relaytest.ClusterType, "and what changed", "a", "c")
		from.put(t, "cds.yaml", clusters("a", "b"))
		c.AwaitNames(relaytest.ClusterType, "back again", "a", "b")
		c.CheckClean()
	}

	// A reload ends the sink, and begins another.
	other := filepath.Join(t.TempDir(), "other")
	first.applied(sinkOf(from, other, ""))
	await(t, "the other is written", func() bool { _, err := os.Stat(filepath.Join(other, "cds.pb")); return err == nil })
	read := func(dir string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, "cds.pb"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if read(to) != read(other) {
		t.Error("one content is not one file")
	}
	from.put(t, "cds.yaml", clusters("x"))
	before := read(to)
	await(t, "the other goes on", func() bool { return read(other) != before })
	if read(to) != before {
		t.Error("the one that ended still writes")
	}
	kept := first.active.Load().sinks[0]
	first.applied(sinkOf(from, other, "") + "log: { level: debug }\n")
	if first.active.Load().sinks[0] != kept {
		t.Error("a sink for which nothing changed began anew")
	}
	first.applied(freePorts + filesOrigin(from))
	select {
	case <-kept.done:
	default:
		t.Error("a sink that is not configured any more runs")
	}
}

// What is wrong with a sink is said at its key, by validate as by run.
func TestSinkProblems(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	for sinks, want := range map[string]string{
		"[{ path: /out, types: [eds] }]":               "sinks[0].types[0]: eds needs the names in cds",
		"[{ path: /out, types: [cds, vhds] }]":         "sinks[0].types[1]: resources of",
		"[{ types: [cds] }]":                           "sinks[0].path: is required",
		"[{ path: /out }, { path: /out }]":             "sinks[1].path: is already used by sinks[0]",
		"[{ path: /out, origin: none }]":               `sinks[0].origin: there is no origin "none"`,
		"[{ path: /out, types: [sds], secrets: [a] }]": "sinks[0].types: secrets are not enabled",
		"[{ path: /out, secrets: [a] }]":               "sinks[0].secrets: sds is not in types",
	} {
		code, _, stderr := weir(t, "validate", write(t, freePorts+filesOrigin(dir)+"sinks: "+sinks+"\n"))
		if code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d, %q, want %q", sinks, code, stderr, want)
		}
	}
	code, shown, _ := weir(t, "config", "show", write(t, sinkOf(dir, "out", "")))
	if code != exitOK || !slices.ContainsFunc(strings.Split(shown, "\n"), func(l string) bool { return strings.HasSuffix(l, "/out") }) {
		t.Errorf("the path does not start at the file's directory: %s", shown)
	}
	if how := config.ReloadOf("sinks"); how != config.ReloadLive {
		t.Errorf("a reload of sinks: %s", how)
	}
}
