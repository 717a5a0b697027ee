package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// The files of an origin are checked with the configuration: each problem has the place of the key,
// and of the line in the file.
func TestValidateReadsTheFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	variant := func(env string) string {
		return `- resource_name: { name: a, dynamic_parameter_constraints: { constraint: { key: env, ` + env + ` } } }
  resource: { "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: a }
`
	}
	a := write("d/a.yaml", variant("value: prod"))
	b := write("d/b.yaml", variant("exists: {}"))
	c := write("weir.yaml", `origins:
  - name: disk
    files: { path: `+filepath.Join(dir, "d")+` }
  - name: gone
    files: { path: `+filepath.Join(dir, "gone")+` }
`)
	code, _, stderr := weir(t, "validate", "-c", c)
	for _, want := range []string{
		c + `:3:12: origins[0].files: ` + b + `:1:3: Cluster "a", the variant "env"? overlaps the variant "env"="prod" at ` + a +
			`:1:3: both match the parameters {env=prod}`,
		c + ":3:12: warning: origins[0].files: " + a + ":1:3: Cluster \"a\", the variant \"env\"=\"prod\" is for clients with parameters",
		c + ":5:12: origins[1].files: path: stat " + filepath.Join(dir, "gone") + ": no such file or directory",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("not reported: %s", want)
		}
	}
	if code != exitFailed || strings.Count(stderr, "\n") != 3 {
		t.Errorf("exit code %d and\n%s", code, stderr)
	}
	write("d/b.yaml", variant("value: dev"))
	write("gone/a.yaml", "resources: []")
	if code, stdout, stderr := weir(t, "validate", "-c", c); code != exitOK || stdout != "ok\n" {
		t.Errorf("mended: exit code %d, %q and\n%s", code, stdout, stderr)
	}
}

// TestValidateReadsTheFallback: what a last resort cannot stand in with is refused, with its place.
func TestValidateReadsTheFallback(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	last := write("last.yaml", `- name: a
  ttl: 10s
  resource: { "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: a }
- { "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret, name: s }
`)
	c := write("weir.yaml", `origins:
  - name: mesh
    grpc: { addresses: ["localhost:1"] }
    fallback: { files: { path: last.yaml } }
`)
	code, _, stderr := weir(t, "validate", "-c", c)
	for _, want := range []string{
		c + `:4:24: origins[0].fallback.files: ` + last + `:1:3: Cluster "a" has a TTL`,
		c + `:4:24: origins[0].fallback.files: ` + last + `:4:3: Secret "s" is a secret`,
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("not reported: %s", want)
		}
	}
	if code != exitFailed || strings.Count(stderr, "\n") != 2 {
		t.Errorf("exit code %d and\n%s", code, stderr)
	}
}

// TestValidateReadsCertificates: what keeps run from starting is told by validate, in the same
// words; where the whole directory is missing, weir is meant to run elsewhere.
func TestValidateReadsCertificates(t *testing.T) {
	ca, other := weirtest.NewAuthority(t, "ca"), weirtest.NewAuthority(t, "other")
	ca.Issue("server", 1)
	other.Issue("server", 2)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pair := func(cert, key, more string) string {
		return fmt.Sprintf("tls: { cert: %q, key: %q%s }", cert, key, more)
	}
	good := pair(ca.Path("server.pem"), ca.Path("server.key"), "")
	config := func(listener, admin, origin string) string {
		text := "listeners: [{ address: \"127.0.0.1:0\""
		if listener != "" {
			text += ", " + listener
		}
		text += " }]\nadmin: { address: \"127.0.0.1:0\""
		if admin != "" {
			text += ", " + admin
		}
		return text + " }\norigins: [{ name: mesh, grpc: { addresses: [\"127.0.0.1:1\"], tls: {" + origin + "} } }]\n"
	}
	for name, text := range map[string]string{
		"missing":         config(pair(ca.Path("no.pem"), ca.Path("server.key"), ""), "", ""),
		"missing key":     config(good, pair(ca.Path("server.pem"), ca.Path("no.key"), ""), ""),
		"another's key":   config(pair(ca.Path("server.pem"), other.Path("server.key"), ""), "", ""),
		"no certificate":  config(pair(empty, ca.Path("server.key"), ""), "", ""),
		"client_ca":       config(pair(ca.Path("server.pem"), ca.Path("server.key"), fmt.Sprintf(", client_ca: %q", empty)), "", ""),
		"crl":             config(pair(ca.Path("server.pem"), ca.Path("server.key"), fmt.Sprintf(", client_ca: %q, crl: %q", ca.Path("ca.pem"), empty)), "", ""),
		"admin":           config("", pair(ca.Path("server.key"), ca.Path("server.pem"), ""), ""),
		"origin":          config("", "", fmt.Sprintf(" ca: %q ", empty)),
		"origin's own":    config("", "", fmt.Sprintf(" cert: %q, key: %q ", ca.Path("server.pem"), other.Path("server.key"))),
		"no admin token":  config("", fmt.Sprintf("token_file: %q", ca.Path("no.token")), ""),
		"an empty token":  config("", fmt.Sprintf("token_file: %q", empty), ""),
		"several at once": config(pair(empty, empty, ""), pair(empty, empty, ""), fmt.Sprintf(" ca: %q ", empty)),
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, text)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var out, said strings.Builder
			if code := run(ctx, []string{"run", "-c", path}, &out, &said); code != exitFailed {
				t.Fatalf("run: exit code %d, %s", code, said.String())
			}
			code, _, stderr := weir(t, "validate", "-c", path)
			if code != exitFailed {
				t.Errorf("validate: exit code %d, and run says %s", code, said.String())
			}
			for line := range strings.Lines(said.String()) {
				if !strings.HasPrefix(line, "{") && !strings.Contains(stderr, line) {
					t.Errorf("run says %s\nand validate\n%s", line, stderr)
				}
			}
		})
	}
	elsewhere := write(t, config(pair("/nowhere/tls.crt", "/nowhere/tls.key", ", client_ca: /nowhere/ca.crt"), "token_file: /nowhere/token", " ca: /nowhere/ca "))
	if code, _, stderr := weir(t, "validate", "-c", elsewhere); code != exitFailed || strings.Count(stderr, "no such file or directory\n") != 3 {
		t.Errorf("of files for another machine: %d, and\n%s", code, stderr)
	}
	if code, stdout, stderr := weir(t, "validate", "--syntax-only", "-c", elsewhere); code != exitOK || !strings.HasPrefix(stdout, "ok\n") || stderr != "" {
		t.Errorf("of its syntax: %d, %q and\n%s", code, stdout, stderr)
	}
	if code, stdout, stderr := weir(t, "validate", "-c", write(t, config(good, good, fmt.Sprintf(" ca: %q ", ca.Path("ca.pem"))))); code != exitOK ||
		!strings.HasPrefix(stdout, "ok\n") || stderr != "" {
		t.Errorf("good files: %d, %q and\n%s", code, stdout, stderr)
	}
}

// TestValidateOfLateFiles: validate warns of a CRL that was due, and not of keys for tickets, which
// have no end.
func TestValidateOfLateFiles(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	keys, crl := filepath.Join(t.TempDir(), "keys"), filepath.Join(t.TempDir(), "crl.der")
	for late, ends := range map[bool]time.Duration{true: -time.Minute, false: time.Hour} {
		for file, text := range map[string][]byte{
			keys: []byte(ticketKey(1)), crl: ca.CRL(x509.RevocationList{NextUpdate: time.Now().Add(ends)}),
		} {
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		code, _, said := weir(t, "validate", "-c", write(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\", %s }]\n"+
			"origins: [{ name: mesh, grpc: { addresses: [\"127.0.0.1:1\"] } }]\n",
			tlsOf(ca, fmt.Sprintf(", client_ca: %q, crl: %q, tickets: %q", ca.Path("ca.pem"), crl, keys)))))
		if code != exitOK || strings.Contains(said, "a CRL was due for its next update at ") != late || strings.Contains(said, "expired") {
			t.Errorf("late %v: exit code %d, %s", late, code, said)
		}
	}
}
