package file

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

const broken = "- oops: [\n"

func TestBrokenFileAtStartStatesNothing(t *testing.T) {
	for _, path := range []string{"d", "d/b.yaml"} {
		t.Run(path, func(t *testing.T) {
			w := newWorld(t, path, map[string]string{"d/a.yaml": endpoints("a"), "d/b.yaml": broken})
			if st := w.origin.Status(); st.Ready || st.Complete {
				t.Errorf("the origin should not claim to know everything: %+v", st)
			}
			held := w.resume(xds.ClusterType, map[string]string{"x": "v"}, "*")
			all := w.subscribe(xds.EndpointType, "*")
			absent := w.subscribe(xds.RouteType, "r")
			if path == "d" {
				found := w.subscribe(xds.ListenerType, "l")
				w.put("d/c.yaml", "- \"@type\": "+xds.ListenerType+"\n  name: l\n")
				found.want("what is in a file in order should be served by name", "l")
			}
			w.put("d/b.yaml", broken+"# again\n")
			w.until("the broken file should be read again", func() bool { return w.loads("error") >= 2 })
			for _, c := range []*client{held, all, absent} {
				c.wantNothing("no set and no absence should be stated while a file is not known")
			}
			w.put("d/b.yaml", cluster("b", 1))
			held.want("the set should be stated once every file is known", "b")
			if path == "d" {
				all.want("and for the type whose file was never broken", "a")
			}
			absent.until("and absence", func() bool { return len(absent.removed) == 1 })
		})
	}
}

func TestBrokenNewcomerHoldsRemovals(t *testing.T) {
	w := newWorld(t, "d", map[string]string{"d/a.yaml": cluster("a", 1) + cluster("b", 1)})
	c := w.subscribe(xds.ClusterType, "*")
	c.want("the set should come", "a", "b")
	w.put("d/b.yaml", broken)
	w.wantError("b.yaml", "not valid YAML")
	w.put("d/a.yaml", cluster("a", 1)+cluster("c", 1))
	c.want("additions should go on, but b may be what the new file holds", "a", "b", "c")
	late := w.subscribe(xds.ClusterType, "*")
	late.want("a newcomer should be served what is in force", "a", "b", "c")
	absent := w.subscribe(xds.EndpointType, "e")
	w.put("d/z.yaml", cluster("z", 1))
	c.want("another file should count", "a", "b", "c", "z")
	absent.wantNothing("absence should not be stated while the new file is not known")
	w.must(os.Remove(filepath.Join(w.dir, "d/b.yaml")))
	c.want("without the broken file the removal should go out", "a", "c", "z")
	absent.until("and absence be stated", func() bool { return len(absent.removed) == 1 })
}

func TestEmptinessHasToBeStated(t *testing.T) {
	w := newWorld(t, "d", map[string]string{"d/a.yaml": cluster("a", 1)})
	c := w.subscribe(xds.ClusterType, "*")
	c.want("the set should come", "a")
	for name, text := range map[string]string{
		"no bytes": "", "comments": "# moved away\n---\n", "a key without a value": "resources:\n",
	} {
		w.put("d/a.yaml", text)
		w.wantError("a.yaml", "resources: []")
		c.wantNothing(name + " should not empty the set")
		w.put("d/a.yaml", cluster("a", 1))
		w.wantNoErrors()
	}
	w.must(os.Remove(filepath.Join(w.dir, "d/a.yaml")))
	w.wantStatus("an empty directory should be an error", func(st Status) bool { return st.Error != "" })
	c.wantNothing("an unmounted volume should not empty the set")
	w.put("d/a.yaml", "resources: []")
	c.want("an empty list should")
	w.wantNoErrors()
}

func TestEmptyDirectoryAtStart(t *testing.T) {
	w := newWorld(t, "d", map[string]string{"d/.keep": ""})
	c := w.subscribe(xds.ClusterType, "*")
	if st := w.origin.Status(); st.Ready || st.Error == "" {
		t.Errorf("an empty directory should be an error: %+v", st)
	}
	w.put("d/a.yaml", cluster("a", 1))
	c.want("the set should come with the first file", "a")
	if c.answers != 1 {
		t.Errorf("%d answers, want the first to be the file's", c.answers)
	}
}

func TestDuplicateAcrossFiles(t *testing.T) {
	w := newWorld(t, "d", map[string]string{
		"d/b.yaml": cluster("x", 1) + cluster("b", 1), "d/c.yaml": cluster("c", 1) + cluster("x", 2),
	})
	c := w.subscribe(xds.ClusterType, "*")
	c.want("everything but the duplicate should count", "x", "b", "c")
	first := c.has["x"]
	f := w.wantError("c.yaml", `Cluster "x" is also in `+filepath.Join(w.dir, "d/b.yaml")+":1:3")
	if f.Line != 4 {
		t.Errorf("the duplicate is in line 4, not %d", f.Line)
	}

	w.put("d/a.yaml", cluster("a", 1)+cluster("x", 3))
	c.want("a third file should count", "x", "a", "b", "c")
	w.wantError("a.yaml", "d/b.yaml:1:3")
	if c.has["x"] != first {
		t.Error("the body in force should stay, though the new file comes first by name")
	}

	w.put("d/b.yaml", cluster("b", 1))
	c.until("when its file drops it, the first of the others should count", func() bool { return c.has["x"] != first })
	w.put("d/c.yaml", cluster("c", 1))
	w.wantNoErrors()
	c.want("nothing else should have changed", "x", "a", "b", "c")
	if len(c.removed) != 0 {
		t.Errorf("nothing should have been removed, but %q was", c.removed)
	}
}

// TestFileWrittenInPlace needs no watch: it is about what a look finds.
func TestFileWrittenInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(cluster("a", 1))
	s, err := newSource(Config{Path: path, MaxBytes: 1000, Poll: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	look := func(after time.Duration, sentence string, want int) {
		t.Helper()
		now = now.Add(after)
		if p := s.look(now, nil); p.read != want {
			t.Errorf("%s: %d files read, want %d", sentence, p.read, want)
		}
	}
	look(0, "the first look reads", 1)
	look(time.Minute, "nothing changed", 0)
	write(cluster("a", 1) + cluster("b", 1))
	look(0, "it was just written in place, and may be half there", 0)
	look(9*time.Second, "it has not rested long enough", 0)
	write(cluster("a", 1) + cluster("b", 1) + cluster("c", 1))
	look(9*time.Second, "it changed again", 0)
	look(10*time.Second, "it has rested", 1)
	if n := len(s.all()[0].good); n != 3 {
		t.Errorf("%d resources, want 3", n)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	look(0, "that it is gone is news", 1)
	look(0, "once", 0)
	if !s.complete() || len(s.all()[0].good) != 3 {
		t.Error("a file that is gone should keep its content")
	}
	write(cluster("d", 1))
	look(0, "another file where there was none is read at once", 1)
	moved := path + ".new"
	if err := errors.Join(os.WriteFile(moved, []byte(cluster("e", 1)), 0o644), os.Rename(moved, path)); err != nil {
		t.Fatal(err)
	}
	look(0, "another file moved onto the path is read at once, event or not", 1)
	write(string(make([]byte, 1001)))
	look(0, "it rests", 0)
	look(time.Minute, "a file that is too long", 1)
	if text := s.all()[0].problems.Error(); text != path+": is 1001 bytes long, more than the limit of 1000; split it" {
		t.Error(text)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	look(0, "what is no file", 1)
	if text := s.all()[0].problems.Error(); text != path+": is not a regular file" {
		t.Error(text)
	}
}

// TestTTLCountsFromTheLoad: a resource with a TTL that is read again is told again, another is not
// (FILE-8).
func TestTTLCountsFromTheLoad(t *testing.T) {
	f := &file{path: "a.yaml", known: true}
	s := &source{files: map[string]*file{"a.yaml": f}}
	load := func(c *content) *content {
		found, ps, _ := parse("a.yaml", []byte(`
- {name: a, ttl: 5s, resource: {"@type": `+xds.ClusterType+`}}
- {name: b, resource: {"@type": `+xds.ClusterType+`}}
`), testLimits)
		if len(ps) > 0 {
			t.Fatal(ps)
		}
		f.good = found
		return merge(c, s)
	}
	first := load(&content{})
	idle, again := merge(first, s), load(first)
	if first.set(xds.ClusterType) != idle.set(xds.ClusterType) {
		t.Error("without a load nothing should be told")
	}
	u := newAnswers(xds.ClusterType, again)
	for _, name := range []string{"a", "b"} {
		u.all.difference(first.set(xds.ClusterType).byName[name], u.now.byName[name])
	}
	if len(u.all.Resources) != 1 || u.all.Resources[0].Name != "a" || len(u.all.RemovedVariants) != 0 {
		t.Errorf("after a load the resource with a TTL should be told again, and no other: %+v", u.all.Update)
	}
}
