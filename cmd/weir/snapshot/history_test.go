package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/relaytest/seed"
	"github.com/weir-xds/weir/relay/xds"
)

var longHistory = history.Bounds{Versions: 100, Bytes: 64 << 20, Age: 24 * time.Hour}

// withHistory is a world of which the table keeps a history.
func withHistory(t testing.TB, dir string, b history.Bounds, edit ...func(*Config)) *world {
	t.Helper()
	table, err := relay.New(relay.Config{History: b, Origins: []relay.OriginConfig{{Name: "mesh", Secrets: true, SecretsByIdentity: true}}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, dir, append([]func(*Config){func(c *Config) { c.Table = table }}, edit...)...)
	w.table = table
	return w
}

// pastState is what a group held at a revision, in words: a digest, "none", or "?" if that is not
// known.
type pastState map[string]string

func (w *world) at(revision uint64) pastState {
	w.t.Helper()
	out := pastState{}
	for _, g := range w.table.Origin("mesh").Groups() {
		types, _ := w.table.Origin("mesh").At(g.Key, revision)
		for _, x := range types {
			of := x.TypeURL[strings.LastIndexByte(x.TypeURL, '.')+1:]
			if x.Unknown {
				out[of] = "?"
			}
			for _, s := range x.Sets {
				for _, v := range s.Members {
					out[of+" * "+v.Name] = v.Digest.String()
				}
				for _, name := range s.Lacks {
					out[of+" * "+name] = "?"
				}
				if out[of+" *"] = "whole"; s.Unknown || s.Late {
					out[of+" *"] = "?"
				}
			}
			for _, n := range x.Names {
				out[of+" "+n.Name] = "none"
				if n.Unknown || n.Late {
					out[of+" "+n.Name] = "?"
				} else if n.Variant != nil {
					out[of+" "+n.Name] = n.Variant.Digest.String()
				}
			}
		}
	}
	return out
}

// group is the key of the only group.
func (w *world) group() string { return w.table.Origin("mesh").Groups()[0].Key }

// wrong is what a state says that was not so. known is how much of it was.
func (x pastState) wrong(was pastState) (wrong string, known int) {
	unknown := func(key string) bool {
		of, rest, _ := strings.Cut(key, " ")
		return x[of] == "?" || x[key] == "?" || strings.HasPrefix(rest, "* ") && x[of+" *"] == "?"
	}
	for key := range was {
		if at := strings.Index(key, " * "); at > 0 && x[key] == "" && x[key[:at]+" *"] == "whole" && was[key] != "?" {
			return fmt.Sprintf("%s is not there, and was %s", key, was[key]), known
		}
	}
	for key, is := range x {
		switch {
		case is == "?", is == "whole", unknown(key), was[key] == "?":
		case was[key] != is:
			return fmt.Sprintf("%s is %s, and was %q", key, is, was[key]), known
		default:
			known++
		}
	}
	return "", known
}

// playHistory changes things at random, and saves now and then.
func (w *world) playHistory(rnd *rand.Rand, seen map[uint64]pastState, steps int) {
	for range steps {
		bodies := map[string]string{}
		for range 1 + rnd.IntN(3) {
			name := fmt.Sprint("n", rnd.IntN(8))
			if bodies[name] = fmt.Sprint("text", rnd.IntN(6)); rnd.IntN(4) == 0 {
				bodies[name] = ""
			}
		}
		ty := endpoints
		if w.sub[clusters] != nil && rnd.IntN(2) == 0 {
			ty = clusters
		}
		w.apply(ty, bodies)
		seen[w.table.Revision()] = w.at(w.table.Revision())
		if rnd.IntN(3) == 0 {
			w.save()
		}
	}
}

// forget drops what was seen after the last revision that was saved.
func forget(seen map[uint64]pastState, after uint64) {
	maps.DeleteFunc(seen, func(r uint64, _ pastState) bool { return r > after })
}

func (w *world) wantPast() {
	w.want(endpoints, "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7")
}

// comparePast checks what is said of the states that were seen.
func (w *world) comparePast(seen map[uint64]pastState) (known int) {
	w.t.Helper()
	for r, was := range seen {
		wrong, n := w.at(r).wrong(was)
		if wrong != "" {
			w.t.Fatalf("at revision %d, now %d: %s", r, w.table.Revision(), wrong)
		}
		known += n
	}
	return known
}

// TestHistoryIsKept: what a group held at a revision of before restarts is what it held, or it is
// not known; with bounds, and encrypted.
func TestHistoryIsKept(t *testing.T) {
	rnd := seed.Rand(t)
	for name, row := range map[string]struct {
		bounds history.Bounds
		keys   *Keys
	}{
		"all of it": {bounds: longHistory},
		"encrypted": {longHistory, testKeys(t, 1)},
		"versions":  {bounds: history.Bounds{Versions: 2, Bytes: 64 << 20, Age: 24 * time.Hour}},
		"bytes":     {bounds: history.Bounds{Versions: 100, Bytes: 40_000, Age: 24 * time.Hour}},
		"age":       {bounds: history.Bounds{Versions: 100, Bytes: 64 << 20, Age: 40 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, seen, known, changes, now := t.TempDir(), map[uint64]pastState{}, 0, 0, start
			good := uint64(0)
			for round := range 6 {
				w := withHistory(t, dir, row.bounds, func(c *Config) { c.Keys = row.keys })
				w.now = now
				r := w.load()
				changes += r.Changes
				if len(r.Problems) > 0 {
					t.Fatal(r.Problems)
				}
				known += w.comparePast(seen)
				if good > 0 {
					is := func(m history.Mark) bool { return m.Revision == good }
					if marks := w.table.History().Marks("mesh", w.group()); !slices.ContainsFunc(marks, is) {
						t.Errorf("that the state of revision %d was good is forgotten: %v", good, marks)
					}
				}
				if w.wantPast(); round > 0 { // so before that nothing is known of it
					w.want(clusters, xds.Wildcard)
				}
				w.playHistory(rnd, seen, 30)
				w.comparePast(seen)
				last := w.table.Revision()
				w.table.Origin("mesh").Good(w.now, w.group(), last)
				w.save()
				seen[last] = w.at(last)
				good = last
				if round%2 == 1 { // what is not saved is lost
					w.apply(clusters, map[string]string{"n0": "lost"})
				}
				now = w.now
				w.end()
				forget(seen, last)
			}
			if t.Logf("%d resources were known as they had been before a restart, by %d changes", known, changes); known < 50 {
				t.Errorf("only %d", known)
			}
		})
	}
}

// TestHistoryIsAppended: a write has the changes since the last one, and not all of the history.
func TestHistoryIsAppended(t *testing.T) {
	dir := t.TempDir()
	w := withHistory(t, dir, longHistory)
	w.want(clusters, xds.Wildcard)
	w.apply(clusters, numbered(2000, "first"))
	w.apply(clusters, numbered(2000, "second"))
	w.save()
	whole := fileSize(t, dir)
	w.apply(clusters, map[string]string{"c000007": "third"})
	w.save()
	if grown := fileSize(t, dir) - whole; grown <= 0 || grown > 2000 {
		t.Errorf("one change took %d bytes, all of it %d", grown, whole)
	}
	before := fileSize(t, dir)
	w.now = w.now.Add(10 * time.Second)
	w.save()
	if grown := fileSize(t, dir) - before; grown != 0 {
		t.Errorf("no change took %d bytes", grown)
	}
	if live := w.keeper.Status().Live; live < whole*8/10 || live > whole*12/10 {
		t.Errorf("it says that %d bytes are live, a whole file had %d", live, whole)
	}
	for i := range 40 { // the file is written anew now and then
		w.apply(clusters, numbered(2000, fmt.Sprint("text", i)))
		w.save()
		if size, live := fileSize(t, dir), w.keeper.Status().Live; size > 2*live+slack+slack {
			t.Fatalf("the file has %d bytes, and %d are live", size, live)
		}
	}
	c, err := Read(File(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	if h := c.Summary(false).Types[0].History; h == nil || h.Changes < 41*2000 || c.Check() != nil {
		t.Errorf("it has %+v, %v", h, c.Check())
	}
}

// TestHistoryDamaged: wherever the file is cut or changed, nothing wrong is said of what was, and no
// resource more is lost than without a history.
func TestHistoryDamaged(t *testing.T) {
	rnd := seed.Rand(t)
	dir := t.TempDir()
	w := withHistory(t, dir, longHistory)
	w.wantPast()
	w.want(clusters, xds.Wildcard)
	seen := map[uint64]pastState{}
	w.playHistory(rnd, seen, 40)
	w.save()
	last := w.table.Revision()
	w.end()
	whole, err := os.ReadFile(File(dir))
	if err != nil {
		t.Fatal(err)
	}
	dropped, kept := 0, 0
	for i := range 200 {
		data := bytes.Clone(whole)
		at := headerSize + rnd.IntN(len(data)-headerSize)
		if i%2 == 0 {
			data = data[:at]
		} else {
			data[at] ^= 1 << rnd.IntN(8)
		}
		broken := filepath.Join(t.TempDir(), "d")
		if err := os.MkdirAll(broken, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(File(broken), data, 0o600); err != nil {
			t.Fatal(err)
		}
		written := uint64(0) // a file that is cut ends with an earlier write
		if c, err := Read(File(broken), nil); err == nil {
			written, _ = c.newest()
		}
		x := withHistory(t, broken, longHistory)
		x.now = w.now
		r := x.load()
		forget(seen, last)
		known := 0
		for rev, was := range seen {
			wrong, n := x.at(rev).wrong(was)
			if known += n; wrong != "" && rev <= written && rev < x.table.Revision() {
				t.Fatalf("cut %v at %d of %d: at revision %d, now %d: %s", i%2 == 0, at, len(whole), rev, x.table.Revision(), wrong)
			}
		}
		if r.Changes == 0 {
			dropped++
			if x.said("history is left out") == 0 && !strings.Contains(fmt.Sprint(r.Problems), "history is left out") && r.Types > 0 && i%2 == 1 {
				t.Errorf("it is not said that the history is left out: %v", r.Problems)
			}
		} else {
			kept++
		}
		x.end()
	}
	if t.Logf("%d times the history was dropped, %d times it was there", dropped, kept); dropped < 50 || kept < 20 {
		t.Error("the test is not what it seems")
	}
}

// TestHistoryIsLeftOutFirst: where there is no room for all, the history goes before any group does,
// and comes in again.
func TestHistoryIsLeftOutFirst(t *testing.T) {
	dir := t.TempDir()
	w := withHistory(t, dir, longHistory, func(c *Config) { c.MaxBytes = 2 << 20 })
	w.want(clusters, xds.Wildcard)
	w.apply(clusters, numbered(1000, "first"))
	w.save()
	if s := w.keeper.Status(); s.HistoryLeftOut != 0 {
		t.Fatalf("with room for all: %+v", s)
	}
	for i := range 10 {
		w.apply(clusters, numbered(1000, fmt.Sprint(strings.Repeat("long ", 20), i)))
		w.save()
	}
	s := w.keeper.Status()
	if s.HistoryLeftOut != 1 || s.LeftOutGroups.Groups != 0 || s.Resources != 1000 || w.said("leaves the history of groups out") != 1 {
		t.Errorf("with too much history: %+v, said %d times", s, w.said("leaves the history of groups out"))
	}
	if size := used(dir); size > 2<<20 {
		t.Errorf("the directory has %d bytes", size)
	}
	revision := w.table.Revision()
	seen := map[uint64]pastState{revision - 1: w.at(revision - 1)}
	w.end()
	x := withHistory(t, dir, longHistory, func(c *Config) { c.MaxBytes = 2 << 20 })
	x.now = w.now
	if r := x.load(); r.Changes != 0 || r.Resources != 1000 {
		t.Errorf("restored %+v", r)
	}
	if known := x.comparePast(seen); known != 0 {
		t.Errorf("without a history %d resources are known as they were", known)
	}
	x.want(clusters, xds.Wildcard)
	x.apply(clusters, numbered(1000, "last"))
	x.now = x.now.Add(time.Hour)
	x.save()
	if s := x.keeper.Status(); s.HistoryLeftOut != 0 {
		t.Errorf("with room for it again: %+v", s)
	}
	if h := summaryOfDir(t, dir).Types[0].History; h == nil || h.Changes != 1000 {
		t.Errorf("it has %+v", h)
	}
}

// holdsText reports whether a record of the history has a text.
func holdsText(c *Content, text string) bool {
	for _, h := range c.histories {
		for _, r := range h.parts {
			if bytes.Contains(r.body, []byte(text)) {
				return true
			}
		}
	}
	return false
}

func summaryOfDir(t *testing.T, dir string) Summary {
	t.Helper()
	c, err := Read(File(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Summary(false)
}

// TestHistoryHasNoKeys: what has a private key in it is not in the history of a file in plain text,
// nor in an export, and is not known there. Secrets are in no history.
func TestHistoryHasNoKeys(t *testing.T) {
	plain, sealed := t.TempDir(), t.TempDir()
	for dir, keys := range map[string]*Keys{plain: nil, sealed: testKeys(t, 1)} {
		w := withHistory(t, dir, longHistory, func(c *Config) { c.Keys = keys })
		w.want(clusters, xds.Wildcard)
		w.give(withKey(t, "a"), body(clusters, "b", "one"))
		w.apply(clusters, map[string]string{"a": "two", "b": "two"})
		w.want(xds.SecretType, "s")
		w.apply(xds.SecretType, map[string]string{"s": "xxxxxxxxxxxxSECRET-ONE"})
		w.apply(xds.SecretType, map[string]string{"s": "SECRET-TWO"})
		w.save()
		revision := w.table.Revision()
		was := w.at(revision - 3)
		w.end()
		for _, text := range []string{"SECRET-ONE", hush} {
			if found := grep(t, dir, text); len(found) > 0 {
				t.Errorf("%s is in %v", text, found)
			}
		}
		if c, err := Read(File(dir), keys); err != nil || holdsText(c, "SECRET-ONE") {
			t.Errorf("keys %v: a secret of before is kept, %v", keys != nil, err)
		}
		x := withHistory(t, dir, longHistory, func(c *Config) { c.Keys = keys })
		x.now = w.now
		x.load()
		got := x.at(revision - 3)
		if got["Cluster * b"] != was["Cluster * b"] || got["Cluster * b"] == "" {
			t.Errorf("b is said to have been %q, was %q", got["Cluster * b"], was["Cluster * b"])
		}
		if want := map[bool]string{true: "?", false: was["Cluster * a"]}[keys == nil]; got["Cluster * a"] != want {
			t.Errorf("keys %v: a is said to have been %q, want %q", keys != nil, got["Cluster * a"], want)
		}
		c, err := Read(File(dir), keys)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := c.Export(&out); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(out.Bytes(), []byte(hush)) || !bytes.Contains(out.Bytes(), []byte("one")) {
			t.Errorf("keys %v: the export has a key, or no history", keys != nil)
		}
		exported, err := Decode("export", out.Bytes(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := exported.Check(); err != nil {
			t.Error(err)
		}
		x.end()
	}
}

// TestHistoryLacksAPart: a history that is not whole, or says what cannot be, is left out, and costs
// no resource.
func TestHistoryLacksAPart(t *testing.T) {
	dir := t.TempDir()
	w := withHistory(t, dir, longHistory)
	w.want(clusters, xds.Wildcard)
	for i := range 3 {
		w.apply(clusters, numbered(3, fmt.Sprint("text", i)))
		w.save()
	}
	w.end()
	for what, edit := range map[string]func(h *historyRecords, key string, c *Content){
		"a part less":   func(h *historyRecords, key string, _ *Content) { delete(h.parts, partRecord(key, 0, nil).key) },
		"the last part": func(h *historyRecords, key string, _ *Content) { delete(h.parts, partRecord(key, 1, nil).key) },
		"a part more":   func(h *historyRecords, key string, _ *Content) { r := partRecord(key, 2, nil); h.parts[r.key] = r },
		"no head":       func(h *historyRecords, _ string, _ *Content) { h.head = record{} },
		"parts out of turn": func(h *historyRecords, key string, _ *Content) {
			a, b := partRecord(key, 0, nil).key, partRecord(key, 1, nil).key
			h.parts[a], h.parts[b] = h.parts[b], h.parts[a]
		},
		"what is to come":    func(_ *historyRecords, _ string, c *Content) { c.revision = revisionRecord(1) },
		"too many revisions": func(_ *historyRecords, _ string, c *Content) { c.revision = revisionRecord(maxRevision + 1) },
		"a part of something": func(h *historyRecords, key string, _ *Content) {
			r := partRecord(key, 0, []byte{0x0a, 5, 1})
			h.parts[r.key] = r
		},
	} {
		c, err := Read(File(dir), nil)
		if err != nil {
			t.Fatal(err)
		}
		for key, h := range c.histories {
			if len(h.parts) != 2 {
				t.Fatalf("%d parts", len(h.parts))
			}
			edit(h, key, c)
		}
		x := withHistory(t, t.TempDir(), longHistory)
		r := c.Restore(x.table, RestoreConfig{Now: w.now, Wall: w.now, Addresses: map[string][]string{"mesh": {"cp:1"}}})
		if r.Changes != 0 || r.Resources != 3 || len(r.Problems) != 1 || r.Damaged || !strings.Contains(r.Problems[0].Error(), "history is left out") {
			t.Errorf("%s: %+v", what, r)
		}
		if got := x.at(0)["Cluster"]; got != "?" {
			t.Errorf("%s: of before is said %q", what, got)
		}
	}
}
