package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay/relaytest"
)

// hush is in every private key of these tests.
const hush = "hush-hush-hush"

// securedCluster has a private key in its transport socket.
func securedCluster(t *testing.T, name string) *anypb.Any {
	t.Helper()
	socket, err := anypb.New(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{{
		PrivateKey: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: hush}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	return relaytest.Body(&clusterv3.Cluster{Name: name, TransportSocket: &corev3.TransportSocket{
		Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: socket},
	}})
}

func keyFile(t *testing.T, keys ...byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	putKeys(t, path, keys...)
	return path
}

func putKeys(t *testing.T, path string, keys ...byte) {
	t.Helper()
	text := "# of a test\n"
	for _, b := range keys {
		text += base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) + "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// findText returns the files below a directory that have a text.
func findText(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
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

// TestKeysOverRestart: weir and its origin die, and weir comes back alone. With a key file new
// clients are served secrets by identity and clusters with a private key in them. Without one they
// are not, the rest is served, and what lacks is counted. No file has a key in plain text.
func TestKeysOverRestart(t *testing.T) {
	for _, keyed := range []bool{true, false} {
		t.Run(fmt.Sprintf("key_file=%t", keyed), func(t *testing.T) {
			origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
			me := fmt.Sprint(os.Getuid())
			origin.Set(relaytest.ClusterType, "secured", "1", securedCluster(t, "secured"))
			origin.Set(relaytest.ClusterType, "plain", "1", relaytest.EDSCluster("plain", "x"))
			origin.Set(relaytest.SecretType, me+"/key", "1", relaytest.Secret(me+"/key", hush))
			top := t.TempDir()
			dir, socket, keys := filepath.Join(top, "kept"), filepath.Join(top, "weir.sock"), keyFile(t, 'x')
			text := keptConfig(origin.Net().Addr(), "delta", dir) + `
authorization: [{ who: ["uid:{uid}"], types: [sds], names: ["{uid}/*"] }, { who: ["uid:*"], types: [cds], names: ["**"] }]
`
			text = strings.Replace(text, `listeners: [{ address: "127.0.0.1:0" }]`, "listeners: [{ address: \"unix://"+socket+"\" }]", 1)
			text = strings.Replace(text, "group_by: []", "group_by: [], secrets: by_identity", 1)
			want := 1
			if keyed {
				text = strings.Replace(text, "snapshot: {", fmt.Sprintf("snapshot: { key_file: %q,", keys), 1)
				want = 3
			}
			config := write(t, text)
			first := spawn(t, os.Args[0], "run", "-c", config)
			_, adminPort := first.addresses()
			ask := func() *relaytest.Client {
				c := openClient(t, dial(t, "unix://"+socket), relaytest.Delta)
				c.Request(relaytest.ClusterType)
				c.Request(relaytest.SecretType, me+"/key")
				return c
			}
			client := ask()
			client.AwaitNames(relaytest.ClusterType, "the origin is there", "plain", "secured")
			client.AwaitNames(relaytest.SecretType, "and its secret", me+"/key")
			s := first.awaitSaved(adminPort, want)
			if left := (snapshot.LeftOut{Secrets: 1, WithKeys: 1}); keyed && s.LeftOut != (snapshot.LeftOut{}) || !keyed && s.LeftOut != left || keyed != (s.Key != "") {
				t.Errorf("%+v", s)
			}
			code, out, errs := weir(t, "snapshot", "inspect", "-c", config, "-o", "json", "--bodies")
			if code != exitOK || strings.Contains(out+errs, hush) {
				t.Errorf("inspect: %d %s%s", code, out, errs)
			}
			_, out, _ = weir(t, "snapshot", "inspect", "-c", config)
			status := standingText(t, adminPort)
			if keyed != strings.Contains(out, "with the key ") || !keyed != strings.Contains(out, "1 other resources with a private key") ||
				!keyed != strings.Contains(status, "left out: ") {
				t.Errorf("inspect:\n%s\nstatus:\n%s", out, status)
			}
			export := filepath.Join(top, "seed.weir")
			code, _, errs = weir(t, "snapshot", "export", "-c", config, export)
			if code != exitOK || !strings.Contains(errs, "1 secrets, 1 other resources with a private key in them") {
				t.Errorf("export: %d %s", code, errs)
			}
			if keyed { // rotated while it runs
				putKeys(t, keys, 'y', 'x')
				await(t, "the new key is used", func() bool { return snapshotOf(t, adminPort).Key != s.Key })
				putKeys(t, keys, 'y')
			}
			first.signal(syscall.SIGKILL)
			first.waitEnd()
			origin.Stop()

			second := spawn(t, os.Args[0], "run", "-c", config)
			_, adminPort = second.addresses()
			client = ask()
			if keyed {
				client.AwaitNames(relaytest.ClusterType, "a new client is served", "plain", "secured")
				client.AwaitNames(relaytest.SecretType, "and has its secret", me+"/key")
				for _, typeURL := range []string{relaytest.ClusterType, relaytest.SecretType} {
					if name := map[string]string{relaytest.ClusterType: "secured", relaytest.SecretType: me + "/key"}[typeURL]; !strings.Contains(client.Body(typeURL, name), hush) {
						t.Errorf("%s: %s", name, client.Body(typeURL, name))
					}
				}
			} else {
				client.AwaitNames(relaytest.ClusterType, "a new client is served what there is", "plain")
			}
			client.CheckClean()
			s = second.awaitSaved(adminPort, want)
			if left := (snapshot.LeftOut{Secrets: 1, WithKeys: 1}); keyed != (s.NotRestored == snapshot.LeftOut{}) || !keyed && s.NotRestored != left {
				t.Errorf("after the restart: %+v", s)
			}
			if keyed {
				if code, _, errs := weir(t, "snapshot", "verify", "--path", dir); code != exitFailed || !strings.Contains(errs, "and no key file is given") {
					t.Errorf("verify without the key: %d %s", code, errs)
				}
				if code, out, errs := weir(t, "snapshot", "verify", "--path", dir, "--key-file", keys); code != exitOK || !strings.Contains(out, "3 resources") {
					t.Errorf("verify with the key: %d %s%s", code, out, errs)
				}
			}
			if found := findText(t, top, hush); len(found) > 0 {
				t.Errorf("the key is in %q", found)
			}
		})
	}
}

func standingText(t *testing.T, adminPort string) string {
	t.Helper()
	code, out, errs := weir(t, "status", "--admin", adminPort)
	if code != exitOK {
		t.Fatalf("status: %s%s", out, errs)
	}
	return out
}

// TestKeyFileIsChecked: one that cannot be used is named with its line, at the start and by
// validate; one that everybody may read is warned of; and one without a snapshot is of no use.
func TestKeyFileIsChecked(t *testing.T) {
	bad, open := filepath.Join(t.TempDir(), "bad"), keyFile(t, 'x')
	if err := os.WriteFile(bad, []byte("# a key\nhush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	files := newFiles(t)
	files.put(t, "cds.yaml", clusters("a"))
	config := func(path, key string) string {
		return write(t, freePorts+filesOrigin(files)+fmt.Sprintf("cache: { snapshot: { path: %q, key_file: %q } }\n", path, key))
	}
	dir := filepath.Join(t.TempDir(), "kept")
	for _, command := range []string{"validate", "run"} {
		code, out, errs := weir(t, command, "-c", config(dir, bad))
		if code != exitFailed || !strings.Contains(errs, "cache.snapshot.key_file: "+bad+":2: is not 32 bytes in base64 or hexadecimal") || strings.Contains(out+errs, "hush") {
			t.Errorf("%s: %d %s%s", command, code, out, errs)
		}
	}
	for text, file := range map[string]string{
		"every user of this machine can read it (mode 0644)": config(dir, open),
		"is not used: cache.snapshot.path is empty":          config("", open),
	} {
		if code, out, errs := weir(t, "validate", "-c", file); code != exitOK || !strings.Contains(out+errs, text) {
			t.Errorf("validate: %d %s%s, want %s", code, out, errs, text)
		}
	}
}
