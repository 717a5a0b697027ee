package sink

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
)

// What refers to something comes after it, and goes before it.
func TestOrder(t *testing.T) {
	w := filled(t)

	// A route moves from one cluster to another, and the first goes: all at once at the origin.
	w.says(cds, cluster("b"), "-a")
	w.says(rds, route("r", "to b"))
	w.wrote("nothing before the endpoints of the new cluster are known")
	w.says(eds, endpoints("b", "z1"))
	w.wrote("the cluster that went stays beside the new one", "eds.b.pb=b cds.pb=a,b")
	w.pass(hold - time.Millisecond)
	w.wrote("the new cluster has time to become warm")
	w.pass(time.Millisecond)
	w.wrote("the route follows", "rds.r.pb=r")
	w.pass(hold)
	w.wrote("then the cluster goes", "cds.pb=b")
	w.pass(hold)
	w.wrote("and its endpoints, which Envoy watches until then", "-eds.a.pb")
	w.pass(time.Minute)
	w.wrote("and that is all")

	w.says(eds, endpoints("b", "z2"))
	w.wrote("endpoints alone are written at once", "eds.b.pb=b")
}

// Routes that always have a newer cluster to wait for are written all the same, and so are clusters
// removed.
func TestOrderEnds(t *testing.T) {
	w := filled(t)
	w.says(rds, route("r", "new"))
	w.steps = nil
	w.says(cds, "-a", cluster("b", "0"))
	w.says(eds, endpoints("b"))
	began := w.now
	for i := 1; ; i++ {
		w.says(cds, cluster("b", strings.Repeat("x", i)))
		w.says(rds, route("r", strings.Repeat("x", i)))
		w.pass(hold / 5)
		if names, _ := w.read("cds.pb"); !slices.Contains(names, "a") {
			break
		}
		if w.now.Sub(began) > (most+1)*hold {
			t.Fatalf("the cluster that went is there after %s of changes: %q", w.now.Sub(began), w.steps)
		}
	}
	if !slices.ContainsFunc(w.steps, func(s string) bool { return strings.Contains(s, "rds.r.pb") }) {
		t.Errorf("no route was written in %s of changes: %q", w.now.Sub(began), w.steps)
	}
}

func TestUnsettled(t *testing.T) {
	w := newWorld(t)
	w.says(cds, cluster("a"))
	w.says(lds)
	w.says(eds, endpoints("a"))
	w.wrote("the list of clusters may go on", "eds.a.pb=a")
	w.pass(settle)
	w.pass(hold)
	w.wrote("it is complete", "cds.pb=a", "lds.pb=")

	w.says(cds, cluster("b"))
	w.pass(cold - time.Second)
	w.wrote("the endpoints of a cluster are not known")
	w.pass(time.Second)
	w.wrote("until the origin was silent for long", "eds.b.pb= cds.pb=a,b")
	w.says(eds, "-b")
	w.pass(time.Second)
	w.wrote("that there are none is no news")
	w.says(eds, "-a")
	w.pass(time.Second)
	w.wrote("and what a cluster has it keeps, as clients do")
}

// An origin that is away says nothing by its silence.
func TestOriginAway(t *testing.T) {
	w := filled(t)
	w.says(cds, cluster("b"))
	for _, l := range w.lanes {
		l.Close()
	}
	w.pass(10 * cold)
	w.wrote("nothing is written and nothing goes")
}

// A list that the origin does not speak of has no file, and the others do not wait for it.
func TestSilentList(t *testing.T) {
	w := newWorld(t)
	w.says(cds, cluster("a"))
	w.pass(settle)
	w.says(eds, endpoints("a"))
	w.pass(cold + time.Second)
	w.wrote("there are no listeners", "eds.a.pb=a", "cds.pb=a")
	w.says(cds, cluster("b"), "-a")
	w.says(eds, endpoints("b"))
	w.pass(3 * time.Second)
	w.wrote("and the others go on", "eds.b.pb=b cds.pb=a,b", "cds.pb=b", "-eds.a.pb")
}

func TestFrozen(t *testing.T) {
	w := filled(t)
	w.origin.Freeze(w.now)
	w.says(eds, endpoints("a", "z2"))
	w.says(cds, cluster("b"))
	w.pass(time.Minute)
	w.wrote("nothing is written while the origin is frozen")
	w.origin.Unfreeze()
	w.up()
	w.says(cds, cluster("a"), cluster("b"))
	w.pass(settle)
	w.says(eds, endpoints("a", "z2"), endpoints("b"))
	w.pass(5 * time.Second)
	if names, _ := w.read("cds.pb"); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("afterwards it is: %q", names)
	}
}

// A process that begins finds its files, leaves alone what stays the same, and removes what went
// meanwhile in the same order.
func TestRestart(t *testing.T) {
	w := filled(t)
	info := func() os.FileInfo {
		t.Helper()
		x, err := os.Stat(filepath.Join(w.dir, "cds.pb"))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	before := info()
	half := filepath.Join(w.dir, unfinished)
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.sink.leave(w.now)
	w.newTable(relay.OriginConfig{Name: "mesh"})
	w.begin()
	if _, err := os.Stat(half); err == nil {
		t.Error("what was not finished is still there")
	}
	w.says(cds, cluster("a"))
	w.says(lds, listener(t, "l", "r"))
	w.pass(5 * time.Second)
	w.says(eds, endpoints("a", "z1"))
	w.says(rds, route("r"))
	w.pass(5 * time.Second)
	w.wrote("nothing is written anew")
	if !os.SameFile(before, info()) {
		t.Error("the file is another one")
	}

	w.sink.leave(w.now)
	w.newTable(relay.OriginConfig{Name: "mesh"})
	w.begin()
	w.says(cds, cluster("b"))
	w.says(lds, listener(t, "l", "r"))
	w.pass(5 * time.Second)
	w.says(eds, endpoints("b"))
	w.says(rds, route("r", "to b"))
	w.pass(5 * time.Second)
	w.wrote("what went meanwhile goes last", "eds.b.pb=b cds.pb=a,b", "rds.r.pb=r", "cds.pb=b", "-eds.a.pb")
}

// What was restored may be older than the files.
func TestRestoredWaits(t *testing.T) {
	w := filled(t)
	w.says(cds, cluster("a", "old"))
	w.pass(3 * time.Second)
	old, err := os.ReadFile(filepath.Join(w.dir, "cds.pb"))
	if err != nil {
		t.Fatal(err)
	}
	images := slices.Collect(w.table.Images(func(*relay.TypeImage) uint64 { return 0 }))
	w.says(cds, cluster("a", "new"))
	w.pass(3 * time.Second)
	w.sink.leave(w.now)
	w.steps = nil

	restore := func() {
		t.Helper()
		w.newTable(relay.OriginConfig{Name: "mesh"})
		for _, x := range images {
			if err := w.table.Restore(w.now, x); err != nil {
				t.Fatal(err)
			}
		}
	}
	restore()
	w.away = true
	w.begin()
	w.pass(time.Minute)
	w.wrote("files are not taken back to what was restored")
	w.away = false
	w.pass(0)
	w.says(cds, cluster("a", "newest"))
	w.pass(10 * time.Second)
	w.wrote("what the origin says is written", "cds.pb=a")

	// Where there are no files yet, what was restored is better than nothing.
	w.sink.leave(w.now)
	w.dir = filepath.Join(t.TempDir(), "new")
	restore()
	w.away, w.seen = true, map[string]string{}
	w.begin()
	w.pass(3 * time.Second)
	if got, _ := os.ReadFile(filepath.Join(w.dir, "cds.pb")); string(got) != string(old) {
		t.Errorf("cds.pb is %q, want what was restored", got)
	}
}

func TestSecrets(t *testing.T) {
	w := newWorldOf(t, relay.OriginConfig{Name: "mesh", Secrets: true}, func(c *Config) {
		c.Types, c.Secrets = []string{sds}, []string{"tls/key"}
	})
	w.says(sds, secret("tls/key"))
	w.wrote("a secret is written under a name that is a file's", "sds.tls%2Fkey.pb=tls/key")
	info, err := os.Stat(filepath.Join(w.dir, "sds.tls%2Fkey.pb"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(filepath.Join(w.dir, "sds.tls%2Fkey.pb"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.sink.leave(w.now)
	w.seen = w.disk()
	w.newTable(relay.OriginConfig{Name: "mesh", Secrets: true})
	w.begin(func(c *Config) { c.Types, c.Secrets = []string{sds}, []string{"tls/key"} })
	w.says(sds, secret("tls/key"))
	w.pass(10 * time.Second)
	if info, err = os.Stat(filepath.Join(w.dir, "sds.tls%2Fkey.pb")); err != nil || info.Mode() != 0o600 {
		t.Errorf("its mode is %v again, %v", info.Mode(), err)
	}
}

// A directory that cannot be written to costs a count and a line each minute, and nothing else.
func TestFailure(t *testing.T) {
	w := filled(t)
	// A directory in place of the file that is written first makes each attempt fail, whoever runs
	// the test.
	blocked := filepath.Join(w.dir, unfinished)
	if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	attempts, next := 0, time.Time{}
	for end := w.now.Add(5 * time.Minute); w.now.Before(end); w.now = w.now.Add(time.Second) {
		if attempts == 0 {
			w.answers(eds, endpoints("a", "z2"))
		}
		if w.now.Before(next) {
			continue
		}
		next, _ = w.sink.step(w.now)
		attempts++
	}
	if attempts < 8 || attempts > 20 {
		t.Errorf("%d attempts in 5 minutes", attempts)
	}
	if n := w.logs.FilterMessageSnippet("cannot be written").Len(); n < 4 || n > 6 {
		t.Errorf("%d lines of log in 5 minutes", n)
	}
	if n := w.counted("error"); n < 8 {
		t.Errorf("%v failures are counted", n)
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	delete(w.seen, unfinished)
	w.now = w.now.Add(time.Minute)
	w.pass(3 * time.Second)
	w.wrote("then what changed is written", "eds.a.pb=a")
	if w.logs.FilterMessageSnippet("written again").Len() != 1 {
		t.Error("the log does not say that it is over")
	}
}

// A directory that is gone is made and filled again.
func TestDirectoryGone(t *testing.T) {
	w := filled(t)
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}
	w.says(eds, endpoints("a", "z2"))
	w.now = w.now.Add(time.Minute)
	w.pass(3 * time.Second)
	entries, err := os.ReadDir(w.dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("there are %v, %v", entries, err)
	}
}
