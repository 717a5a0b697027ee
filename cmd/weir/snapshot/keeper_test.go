package snapshot

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

const (
	clusters  = relaytest.ClusterType
	endpoints = relaytest.EndpointType
)

// filled is a world with a whole set and some names, saved.
func filled(t testing.TB, dir string, n int) *world {
	t.Helper()
	w := newWorld(t, dir)
	w.want(clusters, xds.Wildcard)
	w.apply(clusters, numbered(n, "one"))
	w.want(endpoints, "e1", "e2", "unknown")
	w.apply(endpoints, map[string]string{"e1": "one", "e2": "one"})
	w.save()
	return w
}

func numbered(n int, body string) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("c%06d", i)] = body
	}
	return m
}

func fileSize(t testing.TB, dir string) int64 {
	t.Helper()
	info, err := os.Stat(File(dir))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestRestart: what a table held when it was saved is what the next one holds, from the first on.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	w := filled(t, dir, 10)
	if !strings.Contains(w.text(), "Cluster * settled=true") || !strings.Contains(w.text(), "name unknown") {
		t.Fatalf("the test is not what it seems:\n%s", w.text())
	}
	for range 3 {
		w.end()
		next := newWorld(t, dir)
		r := next.load()
		if got, want := next.text(), w.text(); got != want {
			t.Fatalf("restored\n%s\nwant\n%s", got, want)
		}
		if r.Resources != 12 || r.Lost+r.TooOld+len(r.Problems) > 0 || r.Origins["mesh"].Addresses[0] != "cp:1" {
			t.Errorf("%+v", r)
		}
		next.save() // what was restored is written again, at once
		w = next
	}
}

// TestWritesWhatChanged: a change of one of a thousand costs its record, a removal less, and no
// change nothing.
func TestWritesWhatChanged(t *testing.T) {
	dir := t.TempDir()
	w := filled(t, dir, 1000)
	size := fileSize(t, dir)
	grew := func() int64 {
		w.save()
		by := fileSize(t, dir) - size
		size += by
		return by
	}
	if by := grew(); by != 0 {
		t.Errorf("no change costs %d bytes", by)
	}
	w.apply(clusters, map[string]string{"c000007": "two"})
	if by := grew(); by == 0 || by > 1000 {
		t.Errorf("one change costs %d bytes of %d", by, size)
	}
	w.apply(clusters, map[string]string{"c000008": ""})
	if by := grew(); by == 0 || by > 1000 {
		t.Errorf("one removal costs %d bytes", by)
	}
	w.end()
	next := newWorld(t, dir)
	next.load()
	if got, want := next.text(), w.text(); got != want {
		t.Errorf("restored\n%s\nwant\n%s", got, want)
	}
}

// TestFileStaysSmall: constant change makes the file at most twice as large as what is in it, and a
// bit.
func TestFileStaysSmall(t *testing.T) {
	dir := t.TempDir()
	w := filled(t, dir, 1000)
	largest := int64(0)
	for i := range 60 {
		w.apply(clusters, numbered(300, fmt.Sprint("round", i)))
		w.save()
		largest = max(largest, fileSize(t, dir))
	}
	s := w.keeper.Status()
	if bound := 2*s.Live + slack + 300*400; largest > bound || s.Live > 400_000 {
		t.Errorf("the file was %d bytes, want at most %d; live are %d", largest, bound, s.Live)
	}
	if largest < s.Live+slack {
		t.Errorf("the file was never larger than %d: the test is not what it seems", largest)
	}
	w.end()
	next := newWorld(t, dir)
	next.load()
	if next.text() != w.text() {
		t.Error("what is restored is not what was there")
	}
}

// deserted is what is restored when nobody has wanted anything for ten minutes before the end.
func (w *world) deserted(t *testing.T, dir string) *world {
	t.Helper()
	w.sub[clusters].Update(w.now, nil, []string{xds.Wildcard})
	w.sub[endpoints].Update(w.now, nil, []string{"e1", "e2", "unknown"})
	for range 10 {
		w.now = w.now.Add(time.Minute)
		w.table.Advance(w.now)
	}
	w.save()
	w.end()
	next := newWorld(t, dir)
	next.load()
	return next
}

// TestUnwantedGoes: what nobody wants any more is let go on disk, but not while the origin is away:
// then nobody can say.
func TestUnwantedGoes(t *testing.T) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("away=%t", away), func(t *testing.T) {
			dir := t.TempDir()
			w := filled(t, dir, 10)
			before := w.text()
			if w.away = away; away {
				w.lane.Close()
			}
			w.save()
			next := w.deserted(t, dir)
			want := ""
			if away {
				want = before
			}
			if got := next.text(); got != want {
				t.Errorf("restored\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestDrainKeeps: clients that are made to leave at the end do not take with them what they wanted.
func TestDrainKeeps(t *testing.T) {
	dir := t.TempDir()
	w := filled(t, dir, 10)
	w.apply(clusters, map[string]string{"c000001": "last"})
	before := w.text()
	w.keeper.Drain()
	w.save()
	next := w.deserted(t, dir)
	if got := next.text(); got != before {
		t.Errorf("restored\n%s\nwant\n%s", got, before)
	}
}

// TestEmptyReplacesNothing: a weir that has nothing yet leaves what is on disk.
func TestEmptyReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	w := filled(t, dir, 10)
	w.end()
	empty := newWorld(t, dir) // it does not even load
	empty.save()
	empty.end()
	next := newWorld(t, dir)
	next.load()
	if next.text() != w.text() {
		t.Error("an empty table replaced what was there")
	}
}

// TestDamage: a damaged member costs itself, and that the set is known to be whole. The file is set
// aside as a second name, and is replaced by the next write, not before.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	w := filled(t, dir, 10)
	w.end()
	damage(t, dir, "v-one", 3)
	next := newWorld(t, dir)
	r := next.load()
	if r.Resources != 11 || r.Lost != 1 || !r.Damaged || next.said("the snapshot is damaged") != 1 {
		t.Errorf("%+v", r)
	}
	if text := next.text(); strings.Contains(text, "settled=true") || !strings.Contains(text, "settled=false") {
		t.Errorf("a set that lacks a member is restored as whole:\n%s", text)
	}
	if names := aside(t, dir); len(names) != 1 || !Exists(dir) {
		t.Errorf("set aside: %q", names)
	}
	next.end()
	again := newWorld(t, dir) // before anything was written
	again.load()
	if names := aside(t, dir); len(names) != 1 {
		t.Errorf("one file is set aside twice: %q", names)
	}
	again.save()
	if c, err := Read(File(dir), nil); err != nil || len(c.Report.Damages) > 0 {
		t.Errorf("the file is not replaced: %v %+v", err, c.Report)
	}
	if c, err := Read(aside(t, dir)[0], nil); err != nil || len(c.Report.Damages) != 1 {
		t.Errorf("the copy is not what was damaged: %v", err)
	}
}

// damage flips a bit in the nth place of a file that has a text.
func damage(t *testing.T, dir, text string, n int) {
	t.Helper()
	data, err := os.ReadFile(File(dir))
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for range n + 1 {
		i := bytes.Index(data[at:], []byte(text))
		if i < 0 {
			t.Fatalf("no %q", text)
		}
		at += i + 1
	}
	data[at] ^= 1
	if err := os.WriteFile(File(dir), data, fileMode); err != nil {
		t.Fatal(err)
	}
}

func aside(t *testing.T, dir string) []string {
	t.Helper()
	names, err := (&Dir{path: dir}).aside()
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestMaxAge goes by when the origin vouched last, which restarts without it do not change.
func TestMaxAge(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir, 10).end()
	young := func(cfg *Config) { cfg.MaxAge = time.Hour }
	w := newWorld(t, dir, young)
	w.now, w.vouched, w.away = start.Add(50*time.Minute), time.Time{}, true
	if r := w.load(); r.Resources != 12 {
		t.Errorf("within the age: %+v", r)
	}
	w.save()
	w.end()
	w = newWorld(t, dir, young)
	w.now, w.vouched = start.Add(61*time.Minute), time.Time{}
	if r := w.load(); r.Resources != 0 || r.TooOld != 12 || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Error(), "max_age") {
		t.Errorf("beyond the age: %+v", r)
	}
	if len(aside(t, dir)) > 0 {
		t.Error("a file that is merely old is set aside")
	}
	w.end()
	w = newWorld(t, dir)
	w.now = start.Add(1000 * time.Hour)
	if r := w.load(); r.Resources != 12 {
		t.Errorf("without an age: %+v", r)
	}
}

// TestNoSecrets is RELAY-75: neither they nor what asks for them is written down.
func TestNoSecrets(t *testing.T) {
	dir := t.TempDir()
	w := filled(t, dir, 1)
	w.want(xds.SecretType, "key")
	w.apply(xds.SecretType, map[string]string{"key": "hush"})
	w.apply(clusters, map[string]string{"c000000": "two"})
	w.save()
	data, err := os.ReadFile(File(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"hush", xds.SecretType} {
		if bytes.Contains(data, []byte(text)) {
			t.Errorf("the file has %q", text)
		}
	}
	c, err := Read(File(dir), nil)
	if err != nil || c.Report.LeftOut != (LeftOut{Secrets: 1}) || w.keeper.Status().LeftOut != c.Report.LeftOut {
		t.Errorf("%v %+v", err, c.Report)
	}
	w.apply(xds.SecretType, map[string]string{"key": ""})
	w.save()
	if s := w.keeper.Status(); s.LeftOut.Secrets != 0 {
		t.Errorf("when it is gone: %+v", s)
	}
}

// TestSecretsAreKept: with a key file those that are shared by identity are, encrypted, and are
// restored where secrets are still shared so.
func TestSecretsAreKept(t *testing.T) {
	dir, keys := t.TempDir(), testKeys(t, 'x')
	keyed := func(cfg *Config) { cfg.Keys = keys }
	w := newWorld(t, dir, keyed)
	w.want(xds.SecretType, "key")
	w.apply(xds.SecretType, map[string]string{"key": hush})
	w.save()
	w.end()
	next := newWorld(t, dir, keyed)
	if r := next.load(); r.Resources != 1 || next.text() != w.text() || !strings.Contains(next.text(), "Secret name key key") {
		t.Errorf("%+v\n%s", r, next.text())
	}
	next.end()
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh", Secrets: true}}})
	if err != nil {
		t.Fatal(err)
	}
	next = newWorld(t, dir, keyed, func(cfg *Config) { cfg.Table = table })
	if r := next.keeper.Load(next.now); r.Resources > 0 || r.Damaged || next.said("a part of the snapshot was not restored") != 1 {
		t.Errorf("dedicated by now: %+v", r)
	}
	c, err := Read(File(dir), keys)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := c.Export(io.Discard); err != nil || left != (LeftOut{Secrets: 1}) || len(grep(t, dir, hush)) > 0 {
		t.Errorf("%v %+v", err, left)
	}
}

// TestFrozenIsKept: an operator's mark survives a restart, and so does the time of the last action,
// the end of a freeze among them. A file without that time has the freeze as the last action.
func TestFrozenIsKept(t *testing.T) {
	dir := t.TempDir()
	w := filled(t, dir, 1)
	w.frozen, w.changed = start.Add(time.Hour), start.Add(time.Hour)
	w.save()
	w.changed = start.Add(2 * time.Hour)
	w.save()
	restarted := func() {
		t.Helper()
		w.end()
		frozen, changed := w.frozen, w.changed
		w = newWorld(t, dir)
		if changed.IsZero() {
			changed = frozen
		}
		r := w.load()
		if o := r.Freezes["mesh"]; !o.Frozen.Equal(frozen) || !o.FrozenChanged.Equal(changed) {
			t.Errorf("%+v, want since %s, changed %s", r, frozen, changed)
		}
	}
	restarted()
	w.changed = start.Add(3 * time.Hour) // and not frozen any more
	w.save()
	restarted()
	w.frozen = start.Add(4 * time.Hour) // as an older version writes it
	w.save()
	restarted()
	w.frozen = time.Time{}
	w.save()
	w.end()
	if r := newWorld(t, dir).load(); len(r.Freezes) != 0 {
		t.Errorf("it stays frozen: %+v", r)
	}
}

// TestAnotherConfig: an origin that is configured no more costs what was kept of it, and nothing
// else; it is no damage.
func TestAnotherConfig(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir, 3).end()
	w := newWorld(t, dir)
	var err error
	if w.table, err = relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "other"}}}); err != nil {
		t.Fatal(err)
	}
	w.keeper.cfg.Table = w.table
	w.keeper.cfg.Origins = func() []OriginState { return []OriginState{{Origin: Origin{Name: "other"}}} }
	r := w.load()
	if r.Resources != 0 || r.Damaged || len(r.Problems) != 1 || len(aside(t, dir)) > 0 {
		t.Errorf("%+v", r)
	}
	if !slices.ContainsFunc(r.Problems, func(err error) bool { return strings.Contains(err.Error(), `"mesh"`) }) {
		t.Errorf("the origin is not named: %v", r.Problems)
	}
}
