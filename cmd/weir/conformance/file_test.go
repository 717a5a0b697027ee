package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// fileCases are origins that are files. FILE-8 is among the cases of TTLs.
var fileCases = []testCase{
	{"FILE-1", "virtual: one content in every format gives the same resources", func(t *testing.T) {
		virtual(t, "../../../upstream/file", "TestFormatsAreEqual")
	}},
	{"FILE-2 FILE-3 FILE-9", "virtual: a single file is read when it is moved into place, not when it is written to", func(t *testing.T) {
		virtual(t, "../../../upstream/file", "TestWhatTheWatchHeeds")
	}},
	{"FILE-3", "virtual: the swap of a mounted directory's link reads its files once", func(t *testing.T) {
		virtual(t, "../../../upstream/file", "TestConfigMapSwapLoadsOnce")
	}},
	{"FILE-4", "virtual: a path that is missing is an error that names it", func(t *testing.T) {
		virtual(t, "../../../upstream/file", "TestMissingPath")
	}},
	{"FILE-7", "virtual: inline entries of a wrapped collection are resources", func(t *testing.T) {
		virtual(t, "../../../upstream/file", "TestWrapped")
	}},
	{"FILE-2 FILE-5 FILE-6 FILE-9", "a file moved into place is taken: what it lacks is removed, and a broken one changes nothing", fileMoved},
}

func fileMoved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "eds.yaml")
	move := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".next", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".next", file); err != nil {
			t.Fatal(err)
		}
	}
	text := func(names ...string) string {
		all := "resources:\n"
		for _, name := range names {
			all += "- {\"@type\": " + eds + ", cluster_name: " + name + "}\n"
		}
		return all
	}
	move(text("a", "b"))
	cfg := weirtest.NewConfig("", relaytest.Delta)
	delete(cfg.Origin(), "grpc")
	cfg.Origin()["files"] = map[string]any{"path": file}
	w := &world{t: t, weir: weirtest.Start(t, cfg)}
	w.first = w.weir
	c := w.client(relaytest.Delta)
	c.Subscribe(eds, "a", "b", "c")
	c.AwaitNames(eds, "what is in the file", "a", "b")
	move(text("a", "c"))
	c.AwaitNames(eds, "what is in the one moved into its place", "a", "c")
	c.Await(0, func(s *relaytest.State) bool { return s.Absent(eds, "b") }, "and that the other went is told")
	move(strings.Replace(text("a"), "cluster_name", "cluster_nam", 1))
	w.first.AwaitMetric(1, "the broken one is counted", "weir_file_loads_total", `result="error"`)
	c.WantIdle(quiet)
	move(text("c"))
	c.AwaitNames(eds, "the next counts", "c")
	c.CheckClean()
}
