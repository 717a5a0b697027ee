package real

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// fileEnvoy is Envoy that has all its configuration from the files of a sink.
type fileEnvoy struct {
	envoy
	dir     string
	watched bool // by watched_directory
}

// file is one of the sink's files.
func (e fileEnvoy) file(name string) *core.ConfigSource {
	source := &core.PathConfigSource{Path: filepath.Join(e.dir, name+".pb")}
	if e.watched {
		source.WatchedDirectory = &core.WatchedDirectory{Path: e.dir}
	}
	return &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_PathConfigSource{PathConfigSource: source},
	}
}

// Listener has its routes from their file.
func (e fileEnvoy) Listener(routes string) *anypb.Any {
	return e.listener(managerOf(e.file("rds."+routes), routes), nil)
}

// Start runs Envoy without any control plane.
func (e fileEnvoy) Start(tb testing.TB, id, _ string, t *tally) client {
	tb.Helper()
	return startEnvoy(tb, e.envoy, map[string]any{
		"node":  map[string]any{"id": id, "cluster": "edge"},
		"admin": map[string]any{"address": map[string]any{"pipe": map[string]any{"path": "admin.sock"}}},
		"dynamic_resources": map[string]any{
			"cds_config": tree(e.file("cds")), "lds_config": tree(e.file("lds")),
		},
	}, t, func(c *http.Client) (string, error) { return get(c, "/") })
}

// TestSink: an Envoy keeps its configuration by the files that weir writes, with no process beside
// it. The control plane changes, dies and comes back, weir ends, is killed and comes back, and no
// request fails.
func TestSink(t *testing.T) {
	for _, r := range []struct {
		envoy   string
		watched bool
		origin  origin
	}{
		{"ENVOY_NEWEST", false, snapshotDelta},
		{"ENVOY_NEWEST", true, linearSotW},
		{"ENVOY_OLDEST", false, snapshotADS},
	} {
		t.Run(fmt.Sprintf("%s-watched-%t+%s", r.envoy, r.watched, r.origin.name), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "xds")
			b := newBed(t, row{
				program: fileEnvoy{envoy{version: pinned(r.envoy)}, dir, r.watched}, origin: r.origin,
				weir: map[string]any{"sinks": []any{map[string]any{
					"path": dir, "node": map[string]any{"cluster": "edge"},
				}}},
			})
			b.startWeir()
			written := func() bool { _, err := os.Stat(filepath.Join(dir, "lds.pb")); return err == nil }
			if !weirtest.Until(patience, written) {
				t.Fatal("there are no files")
			}
			b.startClient()
			b.filesChange()

			b.dies()
			b.tally.More(t, 50, "requests go on without the control plane")
			b.weir.Stop()
			b.another("alone", "an Envoy starts with nothing but the files")
			b.startWeir()
			b.tally.More(t, 50, "requests go on beside a restored weir")
			b.returns()
			b.filesChange()
			for i := range 4 {
				if i%2 == 0 {
					b.weir.Kill()
				} else {
					b.weir.Stop()
				}
				b.swapped(fmt.Sprint("away-", i), i)
				b.tally.More(t, 20, "requests go on without weir")
				b.startWeir()
				b.reach(i, "what changed while weir was away")
			}
			b.tally.More(t, 20, "requests go on at the end")
			if n, err := b.client.Refused(); err != nil || n != 0 {
				t.Errorf("Envoy refused %d files, %v", n, err)
			}
			b.client.Stop()
			b.tally.Check(t)
		})
	}
}

// filesChange changes endpoints and clusters, and waits until Envoy has no cluster that went.
func (b *bed) filesChange() {
	b.Helper()
	for i := range 5 {
		b.shift(i + 1)
	}
	before := ""
	for i := range times(10) {
		before = b.swapped(fmt.Sprint("file-", i), i)
		b.reach(i, "a cluster swapped with its route")
	}
	gone := func() bool {
		held, err := b.client.Dump()
		for _, contents := range held {
			if strings.Contains(contents, `"`+before+`"`) {
				return !pause()
			}
		}
		return err == nil
	}
	if !weirtest.Until(patience, gone) {
		b.Errorf("the client keeps %s", before)
	}
}

// swapped replaces the live cluster with its route by another, in one change.
func (b *bed) swapped(name string, n int) (before string) {
	b.Helper()
	b.change(func(m *mesh) {
		before, m.live = m.live, name
		m.clusters = map[string]*service{name: {backends: b.backs(n)}}
	})
	return before
}
