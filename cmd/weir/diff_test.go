package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// timed is a cluster with a timeout in seconds.
func timed(name string, seconds int) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: name, ConnectTimeout: durationpb.New(time.Duration(seconds) * time.Second)}
}

// serves is an origin with clusters, and the address of it.
func serves(t *testing.T, version string, clusters ...*clusterv3.Cluster) (*relaytest.Origin, string) {
	t.Helper()
	o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	for _, c := range clusters {
		o.Set(relaytest.ClusterType, c.Name, version, c)
	}
	return o, o.Net().Addr()
}

// TestDiff: what two servers answer alike is no difference, whatever the versions; what one lacks,
// or has otherwise, is one, with the fields; in both dialects, by name and without.
func TestDiff(t *testing.T) {
	_, a := serves(t, "1", timed("same", 1), timed("other", 1), timed("gone", 1))
	_, b := serves(t, "2", timed("same", 1), timed("other", 2), timed("new", 1))
	_, likeA := serves(t, "3", timed("same", 1), timed("other", 1), timed("gone", 1))
	var side sync.WaitGroup // side by side: each waits until it is quiet
	defer side.Wait()
	for _, test := range []struct {
		args string
		code int
		out  []string
	}{
		{"A LIKE", exitOK, []string{"3 resources, all equal"}},
		{"A LIKE --dialect sotw", exitOK, []string{"3 resources, all equal"}},
		{"A LIKE --versions", exitFailed, []string{"~ gone", `version: "1" -> "3"`, "3 different, 0 equal"}},
		{"A B", exitFailed, []string{"- gone\n", "+ new\n", "~ other\n", `    connect_timeout: "1s" -> "2s"`, "3 different, 1 equal; - only " + a + ", + only " + b}},
		{"A B --dialect sotw", exitFailed, []string{"- gone\n", "+ new\n", `    connect_timeout: "1s" -> "2s"`, "3 different, 1 equal"}},
		{"'*' A B", exitFailed, []string{"3 different, 1 equal"}},
		{"same A B", exitOK, []string{"1 resources, all equal"}},
		{"same nowhere A B", exitOK, []string{"1 resources, all equal"}},
		{"gone A B", exitFailed, []string{"- gone\n", "1 different, 0 equal"}},
	} {
		args := append([]string{"diff", "cds"}, strings.Fields(strings.NewReplacer("'", "", "LIKE", likeA, "A", a, "B", b).Replace(test.args))...)
		side.Go(func() {
			code, out, said := weir(t, args...)
			if code != test.code {
				t.Errorf("%s: exit code %d, %s", test.args, code, said)
			}
			for _, want := range test.out {
				if !strings.Contains(out, want) {
					t.Errorf("%s: %q is not in\n%s", test.args, want, out)
				}
			}
		})
	}
}

// TestDiffAsJSON: programs are told the same.
func TestDiffAsJSON(t *testing.T) {
	_, a := serves(t, "1", timed("other", 1), timed("gone", 1))
	_, b := serves(t, "1", timed("other", 2))
	for _, format := range []string{"json", "yaml"} {
		code, out, _ := weir(t, "diff", "cds", a, b, "-o", format)
		if format == "yaml" {
			if !strings.Contains(out, "name: other") || code != exitFailed {
				t.Errorf("%d, %s", code, out)
			}
			continue
		}
		var c comparison
		if err := json.Unmarshal([]byte(out), &c); err != nil || code != exitFailed {
			t.Fatalf("%d, %v: %s", code, err, out)
		}
		if len(c.Differences) != 2 || c.Differences[0].Name != "gone" || c.Differences[0].A != present || c.Differences[0].B != "absent" ||
			len(c.Differences[1].Changes) != 1 || c.Differences[1].Changes[0] != (fieldChange{"connect_timeout", "1s", "2s"}) {
			t.Errorf("%+v", c)
		}
	}
}

// TestDiffOfAFile: a file or directory is compared with a server, in either place; a broken one is
// no difference but an error.
func TestDiffOfAFile(t *testing.T) {
	_, server := serves(t, "1", timed("a", 1), timed("b", 1))
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const one = `
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: %
  connect_timeout: 1s
`
	same := put("same.yaml", strings.ReplaceAll(one, "%", "a")+strings.ReplaceAll(one, "%", "b")[1:])
	half := put("half.yaml", strings.ReplaceAll(one, "%", "a"))
	broken := put("broken.yaml", "- {")
	var side sync.WaitGroup // as above
	defer side.Wait()
	for _, test := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{same, server}, exitOK, "2 resources, all equal"},
		{[]string{server, same}, exitOK, "2 resources, all equal"},
		{[]string{server, half}, exitFailed, "- b\n"},
		{[]string{"b", half, server}, exitFailed, "+ b\n"},
		{[]string{"a", half, server}, exitOK, "1 resources, all equal"},
		{[]string{half, same}, exitFailed, "+ b\n"},
		{[]string{server, broken}, exitFailed, "broken.yaml cannot be used"},
		{[]string{server, filepath.Join(dir, "absent.yaml")}, exitFailed, "absent.yaml: no such file"},
	} {
		side.Go(func() {
			code, out, said := weir(t, append([]string{"diff", "cds"}, test.args...)...)
			if code != test.code || !strings.Contains(out+said, test.out) {
				t.Errorf("%q: %d, %s%s", test.args, code, out, said)
			}
		})
	}
}

// TestDiffOfWeir: a weir answers as its origin does, and another replica as this one, with the
// versions too. A replica that keeps its clients at something older is told from the other.
func TestDiffOfWeir(t *testing.T) {
	o, origin := serves(t, "1", timed("a", 1), timed("b", 1))
	text := freePorts + strings.NewReplacer("name: mesh,", "name: mesh, group_by: [],", "timing: {", "timing: { settle: 20ms, firm_settle: 200ms,").Replace(controlPlane(origin))
	one, two := startWeir(t, text), startWeir(t, text)
	for _, args := range [][]string{{origin, one.listenAddress()}, {one.listenAddress(), two.listenAddress(), "--versions"}} {
		if code, out, said := weir(t, append([]string{"diff", "cds"}, args...)...); code != exitOK || !strings.Contains(out, "2 resources") {
			t.Errorf("%d, %s%s", code, out, said)
		}
	}
	older := openClient(t, dial(t, one.listenAddress()), relaytest.Delta) // without one nothing is kept
	older.Request(relaytest.ClusterType)
	older.AwaitNames(relaytest.ClusterType, "the replica has what it is to keep", "a", "b")
	older.WantIdle(500 * time.Millisecond)
	if code, _, said := weir(t, "freeze", "mesh", "--admin", one.admin.listener.Addr().String()); code != exitOK {
		t.Fatal(said)
	}
	o.Set(relaytest.ClusterType, "a", "2", timed("a", 7))
	newer := openClient(t, dial(t, two.listenAddress()), relaytest.Delta)
	newer.Request(relaytest.ClusterType)
	newer.Await(0, func(s *relaytest.State) bool {
		return s.Body(relaytest.ClusterType, "a") == string(relaytest.Body(timed("a", 7)).Value)
	}, "the other replica has the change")
	code, out, said := weir(t, "diff", "cds", one.listenAddress(), two.listenAddress())
	if code != exitFailed || !strings.Contains(out, "7s") || strings.Contains(out, "2 resources, all equal") {
		t.Errorf("of a frozen replica: %d, %s%s", code, out, said)
	}
}

// TestDiffOfAChange: a change on its way, which one side has before the other, is no difference.
func TestDiffOfAChange(t *testing.T) {
	one, a := serves(t, "1", timed("a", 1))
	two, b := serves(t, "1", timed("a", 1))
	var changes sync.WaitGroup
	defer changes.Wait()
	changes.Go(func() {
		time.Sleep(quietTime / 2) // the command's clock is the real one
		one.Set(relaytest.ClusterType, "a", "2", timed("a", 2))
		time.Sleep(quietTime * 3 / 4)
		two.Set(relaytest.ClusterType, "a", "2", timed("a", 2))
	})
	if code, out, said := weir(t, "diff", "cds", a, b); code != exitOK {
		t.Errorf("%d, %s%s", code, out, said)
	}
}

// TestDiffThatCannotBe: a side that cannot be compared is named, and nothing is said of resources.
func TestDiffThatCannotBe(t *testing.T) {
	_, a := serves(t, "1", timed("a", 1))
	quiet := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{})
	for _, test := range []struct {
		args []string
		code int
		said string
	}{
		{[]string{"cds", a, quiet.Net().Addr(), "--timeout", "1500ms"}, exitFailed, quiet.Net().Addr() + `: no answer within 1.5s for node id ""; try --node-id`},
		{[]string{"cds", a, deadAddress(t)}, exitFailed, "no xDS server answers at "},
		{[]string{"cds", a}, exitUsage, "B is missing"},
		{[]string{"clusters", a, a}, exitUsage, `"clusters" is neither`},
		{[]string{"cds", a, a, "--tls-for", "c"}, exitUsage, "--tls-for"},
		{[]string{"cds", a, a, "-o", "xml"}, exitUsage, "--output"},
		{[]string{"cds", a, "nonsense"}, exitUsage, `"nonsense" is neither host:port`},
	} {
		code, out, said := weir(t, append([]string{"diff"}, test.args...)...)
		if code != test.code || out != "" || !strings.Contains(said, test.said) {
			t.Errorf("%q: %d, %s%s", test.args, code, out, said)
		}
	}
}

// TestDiffOfSecrets: that two differ is said, and nothing of what is in them.
func TestDiffOfSecrets(t *testing.T) {
	var addresses []string
	for _, key := range []string{"first-key", "second-key"} {
		o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
		o.Set(relaytest.SecretType, "s", "1", &tlsv3.Secret{Name: "s", Type: &tlsv3.Secret_GenericSecret{
			GenericSecret: &tlsv3.GenericSecret{Secret: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: key}}},
		}})
		addresses = append(addresses, o.Net().Addr())
	}
	for _, format := range formats {
		code, out, said := weir(t, "diff", "sds", "s", addresses[0], addresses[1], "-o", format)
		if code != exitFailed || !strings.Contains(out, "another one") || strings.Contains(out+said, "-key") {
			t.Errorf("%d, %s%s", code, out, said)
		}
	}
}

// TestDiffOverTLS: the TLS flags may be for one side alone.
func TestDiffOverTLS(t *testing.T) {
	_, origin := serves(t, "1", timed("a", 1))
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 7)
	w := startWeir(t, "listeners: [{ address: \"127.0.0.1:0\", "+tlsOf(ca, "")+" }]\nadmin: { address: \"127.0.0.1:0\" }\n"+controlPlane(origin))
	args := []string{"diff", "cds", origin, w.listenAddress(), "--ca", ca.Path("ca.pem")}
	if code, out, said := weir(t, append(args, "--tls-for", "b")...); code != exitOK {
		t.Errorf("%d, %s%s", code, out, said)
	}
	if code, out, said := weir(t, args...); code != exitFailed || out != "" {
		t.Errorf("TLS for both: %d, %s%s", code, out, said)
	}
}

// TestFieldChanges: each path that differs is named once.
func TestFieldChanges(t *testing.T) {
	a := `{"a": 1, "list": [{"x": "1"}, 2], "only": {"a": true}, "kind": {"of": 1}, "big": 12345678901234567890}`
	b := `{"a": 1, "list": [{"x": "2"}, 2, 3], "kind": [1], "big": 12345678901234567891}`
	var got []string
	for _, c := range fieldChanges(nil, tree([]byte(a)), tree([]byte(b))) {
		got = append(got, c.Path+": "+valueText(c.A, mostValue)+" -> "+valueText(c.B, mostValue))
	}
	want := []string{
		"big: 12345678901234567890 -> 12345678901234567891", `kind: {"of":1} -> [1]`, `list[0].x: "1" -> "2"`, "list[2]: none -> 3", `only: {"a":true} -> none`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
