package file

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

func TestWildcardAndNames(t *testing.T) {
	w := newWorld(t, "all.yaml", map[string]string{"all.yaml": cluster("a", 1) + cluster("b", 1) + endpoints("a")})
	all := w.subscribe(xds.ClusterType, "*")
	named := w.subscribe(xds.ClusterType, "b", "c")
	other := w.subscribe(xds.EndpointType, "a")
	empty := w.subscribe(xds.ListenerType, "*")
	last := w.subscribe(xds.RouteType, "*")
	all.want("the wildcard should bring both clusters", "a", "b")
	named.want("a name should bring its cluster", "b")
	named.until("the absence of the other should be stated", func() bool { return len(named.removed) == 1 })
	other.want("another type should be served", "a")
	empty.until("a type that no file mentions should be answered too", func() bool { return empty.answers == 1 })

	w.put("all.yaml", cluster("b", 2)+cluster("c", 1)+endpoints("a")+route("r"))
	all.want("the wildcard should bring what is new and remove what is gone", "b", "c")
	if len(all.removed) != 1 || all.removed[0] != "a" {
		t.Errorf("the wildcard was told of the removal of %q, want a", all.removed)
	}
	named.want("the name that was absent should come", "b", "c")
	last.want("routes should be told of last", "r")
	other.wantNothing("a type that did not change should send nothing")
}

func TestSpellings(t *testing.T) { // NAME-4, DELTA-17
	const urn = "xdstp://o/envoy.config.cluster.v3.Cluster/"
	w := newWorld(t, "all.yaml", map[string]string{"all.yaml": cluster(urn+"a?y=1&x=1", 1) + cluster(urn+"b?y=1&x=1", 1)})
	named := w.subscribe(xds.ClusterType, urn+"a?x=1&y=1", urn+"%62?y=1&x=1")
	named.want("names are found in whatever spelling", urn+"a?x=1&y=1", urn+"b?x=1&y=1")
	all := w.subscribe(xds.ClusterType, "*")
	all.want("the set should come", urn+"a?x=1&y=1", urn+"b?x=1&y=1")
	w.put("all.yaml", cluster(urn+"b?x=1&y=1", 2))
	all.want("one should go, and one change", urn+"b?x=1&y=1")
	named.want("by name as well", urn+"b?x=1&y=1")
	named.until("the one that stays should change", func() bool { return named.answers > 1 })
}

func TestEndpointsAreRemovedWithTheirEntry(t *testing.T) {
	w := newWorld(t, "eds.yaml", map[string]string{"eds.yaml": endpoints("a") + endpoints("b")})
	all, named := w.subscribe(xds.EndpointType, "*"), w.subscribe(xds.EndpointType, "a", "b")
	all.want("both should come by wildcard", "a", "b")
	named.want("both should come by name", "a", "b")
	w.put("eds.yaml", endpoints("b"))
	all.want("FILE-6: what no file states is gone, for every type", "b")
	named.want("FILE-6: by name as well", "b")
}

func TestNamesMoveToTheSideLane(t *testing.T) {
	w := newWorld(t, "all.yaml", map[string]string{"all.yaml": cluster("a", 1) + cluster("b", 1)})
	named := w.subscribe(xds.ClusterType, "a")
	named.want("the name should come", "a")
	all := w.subscribe(xds.ClusterType, "*")
	all.want("the wildcard should come over the reopened lane", "a", "b")
	w.put("all.yaml", cluster("b", 1))
	all.want("the wildcard should see the removal", "b")
	named.want("the name should see the removal on the lane it moved to")
}

func TestLaneIsReleasedAndTakenAgain(t *testing.T) {
	w := newWorld(t, "all.yaml", map[string]string{"all.yaml": cluster("a", 1)})
	w.stop() // the lanes are run by hand
	origin := w.table.Origin("files")
	for _, name := range []string{"*", "a", "*"} {
		c := w.subscribe(xds.ClusterType, name)
		<-origin.Wake()
		lanes := origin.TakeLanes()
		if len(lanes) != 1 {
			t.Fatalf("%d lanes are wanted, want one", len(lanes))
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			(&lane{origin: w.origin, lane: lanes[0]}).run(t.Context())
		}()
		c.want("the set should come each time", "a")
		c.close()
		w.table.Advance(time.Now().Add(time.Minute))
		select {
		case <-done:
		case <-time.After(patienceForTests):
			t.Fatal("a lane on which nothing is wanted should be released")
		}
	}
}

func TestBrokenFileKeepsItsContent(t *testing.T) {
	w := newWorld(t, "cds.yaml", map[string]string{"cds.yaml": cluster("a", 1) + cluster("b", 1)})
	c := w.subscribe(xds.ClusterType, "*")
	c.want("the set should come", "a", "b")

	broken := cluster("a", 1) + strings.Replace(cluster("b", 1), "connect_timeout", "conect_timeout", 1)
	w.put("cds.yaml", broken)
	f := w.wantError("cds.yaml", filepath.Join(w.dir, "cds.yaml")+`:6:3: [1].conect_timeout: unknown field "conect_timeout"`)
	since := f.ErrorAt
	if f.Line != 6 || f.Resources != 2 || f.Loaded.IsZero() || time.Since(since) > time.Minute {
		t.Errorf("the status should name line 6 and count the 2 resources still in force: %+v", f)
	}
	c.wantNothing("FILE-5: a broken file should leave the previous content in force")
	if n := w.logs.FilterMessage("files loaded").Len(); n != 1 {
		t.Errorf("the broken file is said to be loaded: %d lines", n)
	}
	late := w.subscribe(xds.ClusterType, "a")
	late.want("newcomers should be served from it", "a")

	before := w.logs.FilterLevelExact(2).Len()
	w.put("cds.yaml", broken+"# the same mistake\n")
	w.until("the second broken file should be counted", func() bool { return w.loads("error") == 2 })
	if failures, attempts := w.counted("weir_upstream_failures_total", "file"), w.counted("weir_upstream_attempts_total", ""); failures != 2 || attempts != 3 {
		t.Errorf("%d failures and %d attempts are counted, of 2 broken files and a good one", failures, attempts)
	}
	if n := w.counted("weir_upstream_bytes_total", "from_origin"); n < 3*len(cluster("a", 1)+cluster("b", 1)) {
		t.Errorf("%d bytes were read of three files", n)
	}
	if n := w.logs.FilterLevelExact(2).Len(); before != 1 || n != 1 {
		t.Errorf("one distinct error should be logged once, not %d, then %d times", before, n)
	}
	if f := w.wantError("cds.yaml", f.Error); !f.ErrorAt.Equal(since) {
		t.Errorf("the same error should have the time of its first, %s, not %s", since, f.ErrorAt)
	}

	w.put("cds.yaml", cluster("b", 2))
	c.want("it should recover when mended", "b")
	w.wantNoErrors()
	if w.logs.FilterMessage("a file is valid again").Len() != 1 {
		t.Error("that the file is mended should be logged")
	}
}

func TestOtherFilesUpdateBesideABrokenOne(t *testing.T) {
	w := newWorld(t, "d", map[string]string{"d/a.yaml": cluster("a", 1), "d/b.yaml": cluster("b", 1)})
	c := w.subscribe(xds.ClusterType, "*")
	c.want("both files should count", "a", "b")
	w.put("d/a.yaml", "- oops: [\n")
	w.wantError("a.yaml", "not valid YAML")
	w.put("d/b.yaml", cluster("b2", 1))
	c.want("the other file should update, removals included, since what the broken one held is known", "a", "b2")
}

func TestDirectoryAddAndRemove(t *testing.T) {
	w := newWorld(t, "d", map[string]string{
		"d/a.yaml": cluster("a", 1), "d/.hidden.yaml": cluster("h", 1), "d/a.yaml~": cluster("old", 1),
		"d/#a.yaml#": cluster("auto", 1), "d/sub/x.yaml": cluster("deep", 1),
	})
	c := w.subscribe(xds.ClusterType, "*")
	c.want("only the file itself should count", "a")
	w.put("d/b.json", `{"resources": [{"@type": "`+xds.ClusterType+`", "name": "b"}]}`)
	c.want("a new file should count", "a", "b")
	w.must(os.WriteFile(filepath.Join(w.dir, "d/c.yaml"), []byte(cluster("c", 1)), 0o644))
	c.want("in a directory a file written in place should count", "a", "b", "c")
	w.must(os.WriteFile(filepath.Join(w.dir, "d/c.yaml"), []byte(cluster("c2", 1)), 0o644))
	c.want("as should one rewritten in place", "a", "b", "c2")
	w.must(os.Remove(filepath.Join(w.dir, "d/a.yaml")))
	c.want("a file removed should take its resources along", "b", "c2")
	w.must(os.Rename(filepath.Join(w.dir, "d/b.json"), filepath.Join(w.dir, "b.json")))
	c.want("as should one moved away", "c2")
}

func TestMissingPath(t *testing.T) {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "files"}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "nowhere.yaml")
	_, err = New(Config{Name: "files", Path: path}, table.Origin("files"))
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("FILE-4: the error should name %s: %v", path, err)
	}
	_, err = New(Config{}, nil)
	for _, part := range []string{"path: is empty", "no such origin"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error should hold %q: %v", part, err)
		}
	}
}

// mount lays a directory out as a kubelet does a ConfigMap, or moves it on to another version.
func (w *world) mount(dir, version string, hold map[string]string) {
	w.t.Helper()
	for name, text := range hold {
		w.put(filepath.Join(dir, version, name), text)
	}
	path := func(name string) string { return filepath.Join(w.dir, dir, name) }
	old, _ := os.Readlink(path("..data"))
	w.must(os.Symlink(version, path("..data_tmp")))
	w.must(os.Rename(path("..data_tmp"), path("..data")))
	for name := range hold {
		if missing(path(name)) {
			w.must(os.Symlink(filepath.Join("..data", name), path(name)))
		}
	}
	if old != "" {
		w.must(os.RemoveAll(path(old)))
	}
}

func TestConfigMapSwapLoadsOnce(t *testing.T) {
	for _, path := range []string{"mnt", "mnt/a.yaml"} {
		t.Run(path, func(t *testing.T) {
			w := &world{t: t, dir: t.TempDir()}
			w.mount("mnt", "..v1", map[string]string{"a.yaml": cluster("a", 1), "b.yaml": "resources: []"})
			dir := w.dir
			w = newWorld(t, "", nil, func(c *Config) { c.Path = filepath.Join(dir, path) })
			w.dir = dir
			c := w.subscribe(xds.ClusterType, "*")
			c.want("the first version should be served", "a")
			w.mount("mnt", "..v2", map[string]string{"a.yaml": cluster("a2", 1), "b.yaml": "resources: []"})
			c.want("FILE-3: the swap should bring the second version", "a2")
			w.stop()
			if n := w.loads("ok"); n != 2 {
				t.Errorf("one swap should be one load after the first, not %d", n-1)
			}
		})
	}
}

func TestDirectoryIsReplaced(t *testing.T) {
	w := newWorld(t, "d", map[string]string{"d/a.yaml": cluster("a", 1)}, func(c *Config) { c.Poll = 20 * time.Millisecond })
	c := w.subscribe(xds.ClusterType, "*")
	c.want("the directory should be served", "a")
	w.must(os.Rename(filepath.Join(w.dir, "d"), filepath.Join(w.dir, "gone")))
	w.wantStatus("that the directory is gone should show", func(st Status) bool { return st.Error != "" })
	c.wantNothing("a directory that is gone should leave its content in force")
	w.put("d/b.yaml", cluster("b", 1))
	c.want("a new directory of that name should be found", "b")
	w.put("d/c.yaml", cluster("c", 1))
	c.want("and watched", "b", "c")
}

// TestWhatTheWatchHeeds needs no files: it is about events.
func TestWhatTheWatchHeeds(t *testing.T) {
	for _, row := range []struct {
		dir  bool
		op   fsnotify.Op
		name string
		want string // the name touched; "-": none
	}{
		{false, fsnotify.Create, "cds.yaml", "cds.yaml"},
		{false, fsnotify.Write, "cds.yaml", "-"}, // FILE-2
		{false, fsnotify.Remove, "cds.yaml", "-"},
		{false, fsnotify.Create, "..data", everything}, // FILE-3
		{false, fsnotify.Create, "link", "link"},       // which the path may lead through
		{true, fsnotify.Create, "cds.yaml", "cds.yaml"},
		{true, fsnotify.Write, "cds.yaml", "cds.yaml"},
		{true, fsnotify.Remove, "cds.yaml", "cds.yaml"},
		{true, fsnotify.Chmod, "cds.yaml", "cds.yaml"}, // it may be readable now
		{true, fsnotify.Write, ".cds.yaml.swp", "-"},
		{true, fsnotify.Create, "cds.yaml~", "-"},
		{true, fsnotify.Create, "..data", everything},
		{true, fsnotify.Create, "..data_tmp", "-"},
	} {
		o := &Origin{cfg: Config{Debounce: time.Hour}, source: &source{dir: row.dir}}
		w := &watch{origin: o, touched: touched{}}
		w.note(fsnotify.Event{Op: row.op, Name: "/etc/weir/" + row.name}, true)
		armed := w.due != nil
		got := w.take()
		if want := row.want != "-"; armed != want || len(got) > 0 != want || want && !got[row.want] {
			t.Errorf("directory %v, %v of %s: touched %v, armed %v, want %q", row.dir, row.op, row.name, got, armed, row.want)
		}
	}
}

func TestWatchFollowsTheDirectory(t *testing.T) {
	w := newWorld(t, "d", map[string]string{"d/a.yaml": cluster("a", 1)})
	w.stop() // the watch is read by hand
	watch := w.origin.watch()
	defer watch.close()
	w.must(os.Rename(filepath.Join(w.dir, "d"), filepath.Join(w.dir, "gone")))
	w.must(os.Mkdir(filepath.Join(w.dir, "d"), 0o755))
	watch.renew()
	w.put("d/b.yaml", cluster("b", 1))
	late := time.After(patienceForTests)
	for {
		select {
		case e := <-watch.events:
			if e.Name == filepath.Join(w.dir, "d/b.yaml") {
				return
			}
		case <-late:
			t.Fatal("the directory that now has the path should be watched")
		}
	}
}

func TestChangeBeforeRun(t *testing.T) {
	w := newWorld(t, "a.yaml", map[string]string{"a.yaml": cluster("a", 1)})
	w.stop()
	w.put("a.yaml", cluster("b", 1))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.origin.Run(ctx) }()
	c := w.subscribe(xds.ClusterType, "*")
	c.want("what changed while nobody watched should be found", "b")
	cancel()
	w.must(<-done)
}

// TestLeftoversAreRemoved: the table may hold members from before the stream, and says so.
func TestLeftoversAreRemoved(t *testing.T) {
	a := &asked{sets: map[subscription]*selected{}}
	all, some := newAnswers(xds.EndpointType, &content{whole: true}), newAnswers(xds.VirtualHostType, &content{whole: true})
	a.selects(relay.Name{Name: xds.Wildcard}).answer(all, map[string]string{"x": "1"})
	if x := all.to(constraints.Params{}); !slices.Equal(x.Removed, []string{"x"}) || !x.Full {
		t.Errorf("what the table holds and no file states should be removed: %+v", x.Update)
	}
	a.selects(relay.Name{Name: "rc", Collection: true}).answer(some, map[string]string{"rc/x": "1", "other/x": "1"})
	if x := some.to(constraints.Params{}); !slices.Equal(x.Removed, []string{"rc/x", "rc"}) {
		t.Errorf("for a namespace what it covers, and that it is empty: %+v", x.Update)
	}
}
