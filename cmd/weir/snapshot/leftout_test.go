package snapshot

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// hush is in every key.
const hush = "hush-hush-hush"

// withKey is a cluster with a private key in its transport socket, which is an Any of its own.
func withKey(t testing.TB, name string) *anypb.Any {
	t.Helper()
	key := &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: hush}}
	socket, err := anypb.New(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsCertificates: []*tlsv3.TlsCertificate{{PrivateKey: key}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return relaytest.Body(&clusterv3.Cluster{Name: name, TransportSocket: &corev3.TransportSocket{
		Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: socket},
	}})
}

// withKeys is a world that has a cluster with a key in a set and another by name, saved.
func withKeys(t testing.TB, dir string, keys *Keys) *world {
	t.Helper()
	w := newWorld(t, dir, func(cfg *Config) { cfg.Keys = keys })
	w.want(clusters, xds.Wildcard, "n/named", "n/plain")
	w.give(withKey(t, "secured"), withKey(t, "n/named"), relaytest.EDSCluster("plain", "x"), relaytest.EDSCluster("n/plain", "x"))
	w.save()
	return w
}

// give is an answer of the origin with clusters.
func (w *world) give(bodies ...*anypb.Any) {
	w.t.Helper()
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: clusters, Nonce: "1"}
	for _, b := range bodies {
		var c clusterv3.Cluster
		if err := b.UnmarshalTo(&c); err != nil {
			w.t.Fatal(err)
		}
		m.Resources = append(m.Resources, &discoveryv3.Resource{Name: c.Name, Version: "1", Resource: b})
	}
	w.respond(m)
	w.now = w.now.Add(time.Minute)
	w.table.Advance(w.now)
}

// grep returns the files below a directory that have a text.
func grep(t testing.TB, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestKeysAreLeftOut: in plain text a resource with a private key in it is not written. The set
// that lacks it is not whole, and the name is asked for.
func TestKeysAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	w := withKeys(t, dir, nil)
	if s := w.keeper.Status(); s.LeftOut != (LeftOut{WithKeys: 2}) || s.Resources != 2 || s.Key != "" {
		t.Errorf("%+v", s)
	}
	if found := grep(t, dir, hush); len(found) > 0 {
		t.Errorf("the key is in %q", found)
	}
	c, err := Read(File(dir), nil)
	if err != nil || c.Check() != nil {
		t.Fatal(err, c.Check())
	}
	if s := c.Summary(false); s.LeftOut.WithKeys != 2 || s.Resources != 2 || s.Types[0].Sets[0].Settled || s.Types[0].Names != 2 {
		t.Errorf("%+v", s)
	}
	w.end()
	next := newWorld(t, dir)
	if r := next.load(); r.Lost > 0 || r.Damaged || len(r.Problems) > 0 {
		t.Errorf("what is left out counts as damage: %+v", r)
	}
	if text := next.text(); !strings.Contains(text, "* settled=false") || !strings.Contains(text, "name n/named") || strings.Contains(text, "secured") {
		t.Errorf("restored\n%s", text)
	}

	// It changes, it goes, and it comes without a key.
	next.end()
	size := fileSize(t, dir)
	w = newWorld(t, dir)
	w.want(clusters, xds.Wildcard)
	w.give(withKey(t, "secured"), relaytest.EDSCluster("plain", "x"))
	w.save()
	w.give(relaytest.EDSCluster("secured", "x"))
	w.save()
	if s := w.keeper.Status(); s.LeftOut != (LeftOut{}) || restoredText(t, dir) != w.text() {
		t.Errorf("without a key: %+v\n%s", s, restoredText(t, dir))
	}
	w.give(withKey(t, "secured"))
	w.save()
	if s := w.keeper.Status(); s.LeftOut.WithKeys != 1 || strings.Contains(restoredText(t, dir), "secured") || fileSize(t, dir) > 3*size {
		t.Errorf("with a key again: %+v\n%s", s, restoredText(t, dir))
	}
}

// TestNamesWithKeysAreLeftOut: of a name that stands for a resource with a key in it, that it is
// asked for is written. An export does likewise.
func TestNamesWithKeysAreLeftOut(t *testing.T) {
	for _, keys := range []*Keys{nil, testKeys(t, 'x')} {
		dir := t.TempDir()
		w := newWorld(t, dir, func(cfg *Config) { cfg.Keys = keys })
		w.want(clusters, "named", "other")
		w.give(withKey(t, "named"), relaytest.EDSCluster("other", "x"))
		w.save()
		c, err := Read(File(dir), keys)
		if err != nil {
			t.Fatal(err)
		}
		if s := w.keeper.Status(); keys == nil && (s.LeftOut.WithKeys != 1 || s.Resources != 1) || keys != nil && s.Resources != 2 {
			t.Errorf("%+v", s)
		}
		w.end()
		if _, err := c.Export(&bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		exported := t.TempDir()
		if _, err := c.Import(exported, false, nil, 0); err != nil || len(grep(t, exported, hush)) > 0 {
			t.Errorf("import: %v", err)
		}
		next := newWorld(t, exported)
		if r := next.load(); r.Resources != 1 || !strings.Contains(next.text(), "name named") || c.Report.LeftOut.WithKeys != 1 {
			t.Errorf("%+v\n%s", r, next.text())
		}
	}
}

// TestKeysAreKept: with a key file everything is, and a restart restores it. The keys rotate, and
// no file has any of it in plain text.
func TestKeysAreKept(t *testing.T) {
	dir := t.TempDir()
	old, both, young := testKeys(t, 'x'), testKeys(t, 'y', 'x'), testKeys(t, 'y')
	w := withKeys(t, dir, old)
	if s := w.keeper.Status(); s.LeftOut != (LeftOut{}) || s.Resources != 4 || s.Key != old.ID() || s.Bytes != fileSize(t, dir) {
		t.Errorf("%+v", s)
	}
	for i := range 5 { // appended
		w.give(relaytest.EDSCluster("plain", strings.Repeat("x", i)))
		w.save()
	}
	want := w.text()
	w.keeper.SetKeys(both) // while it runs
	w.save()
	if s := w.keeper.Status(); s.Key != both.ID() {
		t.Errorf("the file has the old key: %+v", s)
	}
	for _, keys := range []*Keys{both, young, young} { // of the next processes
		w.end()
		next := newWorld(t, dir, func(cfg *Config) { cfg.Keys = keys })
		if r := next.load(); next.text() != want || r.Damaged || len(r.Problems) > 0 {
			t.Fatalf("restored %+v\n%s\nwant\n%s", r, next.text(), want)
		}
		next.save()
		w = next
	}
	if found := grep(t, dir, hush); len(found) > 0 {
		t.Errorf("the key is in %q", found)
	}
	if found := grep(t, dir, "secured"); len(found) > 0 {
		t.Errorf("a name is in %q", found)
	}
	w.end()

	// With another key, or with none, it is said and kept, and what is written then is another
	// file.
	for name, keys := range map[string]*Keys{"another": testKeys(t, 'z'), "none": nil} {
		lost := filepath.Join(t.TempDir(), name)
		if err := os.CopyFS(lost, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		next := newWorld(t, lost, func(cfg *Config) { cfg.Keys = keys })
		if r := next.load(); r.Resources > 0 || next.said("the snapshot was not restored") != 1 || !strings.Contains(next.errors(), young.ID()) {
			t.Errorf("%s: %+v %s", name, r, next.errors())
		}
		next.keeper.save(next.now) // there is nothing to write
		if before, after := fileSize(t, dir), fileSize(t, lost); before != after {
			t.Errorf("%s: the file was written to", name)
		}
		next.want(clusters, xds.Wildcard)
		next.apply(clusters, numbered(2, "one"))
		next.save()
		names := aside(t, lost)
		if len(names) != 1 {
			t.Fatalf("%s: set aside: %q", name, names)
		}
		if c, err := Read(names[0], young); err != nil || c.Summary(false).Resources != 4 {
			t.Errorf("%s: what is set aside: %v", name, err)
		}
		next.end()
	}
}

// errors are the texts of the errors in the log.
func (w *world) errors() (text string) {
	for _, e := range w.log.All() {
		if err, ok := e.ContextMap()["error"].(string); ok {
			text += err + "\n"
		}
	}
	return text
}

// TestPlainBecomesEncrypted: a file in plain text is restored and encrypted with the first write,
// and also if nothing of it is restored.
func TestPlainBecomesEncrypted(t *testing.T) {
	keys := testKeys(t, 'x')
	for name, deployed := range map[string]bool{"restored": true, "of no configured origin": false} {
		dir := t.TempDir()
		w := filled(t, dir, 3)
		want := w.text()
		w.end()
		next := newWorld(t, dir, func(cfg *Config) {
			cfg.Keys = keys
			if !deployed {
				cfg.Origins = func() []OriginState { return nil }
			}
		})
		next.load()
		if deployed != (next.text() == want) || next.said("the next write encrypts it") != 1 {
			t.Fatalf("%s: restored\n%s", name, next.text())
		}
		for range 2 {
			next.save()
			if s := next.keeper.Status(); s.Key != keys.ID() || len(grep(t, dir, "c000001")) > 0 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if c, err := Read(File(dir), keys); err != nil || c.Check() != nil || c.Summary(false).Resources != 5 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOlderFilesAreCleaned: a file that a version of weir wrote which did not look for keys.
func TestOlderFilesAreCleaned(t *testing.T) {
	for name, deployed := range map[string]bool{"restored": true, "of no configured origin": false} {
		dir := t.TempDir()
		withKeys(t, dir, testKeys(t, 'x')).end()
		plain(t, dir, testKeys(t, 'x'))
		if len(grep(t, dir, hush)) != 1 {
			t.Fatal("the test is not what it seems")
		}
		next := newWorld(t, dir, func(cfg *Config) {
			if !deployed {
				cfg.Origins = func() []OriginState { return nil }
			}
		})
		if r := next.load(); deployed != (r.Resources == 4) {
			t.Errorf("%s: %+v", name, r)
		}
		next.save()
		if found := grep(t, dir, hush); len(found) > 0 {
			t.Errorf("%s: the key is in %q", name, found)
		}
		if c, err := Read(File(dir), nil); err != nil || c.Check() != nil || c.Report.LeftOut.WithKeys != 2 || c.Summary(false).Resources != 2 {
			t.Errorf("%s: %v %+v", name, err, c.Report)
		}
	}
}

// plain writes a directory's file in plain text with all that is in it.
func plain(t testing.TB, dir string, keys *Keys) {
	t.Helper()
	c, err := Read(File(dir), keys)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := writeFile(&b, &c.Header, c.records(), LeftOut{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(File(dir), b.Bytes(), fileMode); err != nil {
		t.Fatal(err)
	}
}

// TestExportHasNoKeys: an export has none, with a key file or without, and an import into plain
// text takes none.
func TestExportHasNoKeys(t *testing.T) {
	keys := testKeys(t, 'x')
	dir := t.TempDir()
	withKeys(t, dir, keys).end()
	c, err := Read(File(dir), keys)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if left, err := c.Export(&b); err != nil || left != (LeftOut{WithKeys: 2}) || bytes.Contains(b.Bytes(), []byte(hush)) {
		t.Errorf("export: %v %+v", err, left)
	}
	c, err = Decode("export", b.Bytes(), nil)
	if err != nil || c.Check() != nil || c.Report.LeftOut.WithKeys != 2 || c.Summary(false).Resources != 2 {
		t.Errorf("the export: %v %v", err, c.Check())
	}
	for _, to := range []*Keys{nil, testKeys(t, 'y')} {
		c, err := Read(File(dir), keys)
		if err != nil {
			t.Fatal(err)
		}
		imported := filepath.Join(t.TempDir(), "imported")
		if _, err := c.Import(imported, false, to, 0); err != nil || len(grep(t, imported, hush)) > 0 {
			t.Errorf("import: %v", err)
		}
		want := 2
		if to != nil {
			want = 4
		}
		if c, err = Read(File(imported), to); err != nil || c.Summary(false).Resources != want || c.Check() != nil {
			t.Errorf("what was imported: %v", err)
		}
	}
}
