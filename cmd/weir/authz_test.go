package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// pageOfRules returns the block of deploy/docs/authorization.md that begins with a line.
func pageOfRules(t *testing.T, first string) string {
	t.Helper()
	fenced, _ := blocksOf(t)
	for _, b := range fenced {
		if b.first == first && strings.HasSuffix(b.page, "authorization.md") {
			return b.text
		}
	}
	t.Fatalf("no block begins with %q", first)
	return ""
}

// TestRulesOfThePage: the rules of the page are read, can all match, and answer as its questions
// expect.
func TestRulesOfThePage(t *testing.T) {
	text := `listeners:
  - { address: "0.0.0.0:18080", tls: { cert: c, key: k, client_ca: a } }
  - { address: "unix:///run/weir.sock" }
origins: [{ name: mesh, grpc: { addresses: ["a:1"] } }]
` + pageOfRules(t, "authorization:")
	cfg, err := config.Parse("weir.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range cfg.Warnings() {
		if strings.HasPrefix(w.Path, "authorization") {
			t.Error(w)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "rules-test.yaml")
	for name, text := range map[string]string{"weir.yaml": text, "rules-test.yaml": pageOfRules(t, "# rules-test.yaml")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, stdout, stderr := weir(t, "authz", "test", file); code != exitOK || stdout != "ok: 4 questions\n" || stderr != "" {
		t.Errorf("got %d, %q, %q", code, stdout, stderr)
	}
}

// TestSecretsOfThePage: of the page's rules for secrets those count that the page says.
func TestSecretsOfThePage(t *testing.T) {
	path := write(t, `listeners: [{ address: "0.0.0.0:18080", tls: { cert: c, key: k, client_ca: a } }]
`+pageOfRules(t, "# secrets by identity"))
	if cfg, err := config.Load(path); err != nil {
		t.Fatal(err)
	} else if w := cfg.Warnings(); slices.ContainsFunc(w, func(p *config.Problem) bool { return strings.Contains(p.Error(), "secret") }) {
		t.Error(w)
	}
	const web, gateway = "spiffe://corp/ns/shop/sa/web", "spiffe://corp/ns/edge/sa/gateway"
	for ask, want := range map[string]int{
		web + " sds shop/web/tls": exitOK, web + " sds shared-ca": exitFailed, web + " cds shared-ca": exitOK, web + " sds shop/api/tls": exitFailed,
		gateway + " sds public-tls": exitOK, web + " sds public-tls": exitFailed, "anonymous sds public-tls": exitFailed,
	} {
		if code, stdout, stderr := weir(t, append([]string{"authz", "explain", "-c", path, "--identity"}, strings.Fields(ask)...)...); code != want {
			t.Errorf("%s: got %d\n%s%s", ask, code, stdout, stderr)
		}
	}
}

// ruled is a file with two rules, in lines 6 and 10.
const ruled = `listeners: [{ address: "127.0.0.1:1", tls: { cert: c, key: k, client_ca: a } }, { address: "unix:///s", origin: east }]
origins:
  - { name: mesh, grpc: { addresses: ["a:1"] }, tp2: true, dynamic_parameters: { from_node: { env: metadata.ENV } }, group_by: [] }
  - { name: east, grpc: { addresses: ["b:1"] }, authorities: [east.corp] }
authorization:
  - who: ["spiffe://corp/ns/{ns}/sa/{sa}"]
    names: ["{ns}/*", "xdstp://east.corp/envoy.config.cluster.v3.Cluster/{ns}/*"]
    claims: { node.cluster: "{sa}" }
    set: { node.metadata.TEAM: "{ns}" }
  - { who: ["uid:7"], types: [eds], origins: [mesh], set: { node.metadata.ENV: prod }, claims: { parameters.env: [test, prod] } }
`

// TestAuthzExplain: the rule that decides with its line, or the nearest with the points on which it
// fails, and an exit code.
func TestAuthzExplain(t *testing.T) {
	path := write(t, ruled)
	const web = "--identity spiffe://corp/ns/shop/sa/web "
	for _, row := range []struct {
		args string
		code int
		want []string // in the output
	}{
		{web + "--node-cluster web cds shop/x", exitOK, []string{
			":6:5: authorization[0]: allows it\n", `:9:32: authorization[0].set."node.metadata.TEAM": sets it to "shop"`, "asked at listener 127.0.0.1:1, of origin mesh\n",
		}},
		{web + "--node-cluster web cds pay/x", exitFailed, []string{
			":6:5: authorization[0]: is nearest, and does not allow it\n", `:7:12: authorization[0].names: "pay/x" has to be "shop/*" or "xdstp:`,
		}},
		{web + "--node-cluster api cds shop/x", exitFailed, []string{"its stream ends\n", `:8:29: authorization[0].claims."node.cluster": it is "api", and it has to be "web"`}},
		{web + "cds shop/x", exitFailed, []string{`authorization[0].claims."node.cluster": there is none, and it has to be "web"`}},
		{web + "--node-cluster web type.googleapis.com/a.B *", exitOK, []string{`of "*" the client gets what fits: shop/* xdstp://east.corp/envoy.config.cluster.v3.Cluster/shop/*` + "\n"}},
		{web + "--node-cluster web cds xdstp://east.corp/envoy.config.cluster.v3.Cluster/shop/x", exitOK, []string{"of origin east\n"}},
		{web + "--node-cluster web cds xdstp://east.corp/envoy.config.cluster.v3.Cluster/sh%6Fp/x", exitOK, []string{"of origin east\n"}},
		{"--identity uid:7 eds x", exitOK, []string{`authorization[1].set."node.metadata.ENV": sets it to "prod"`}},
		{"--identity uid:7 --param env=dev eds x", exitFailed, []string{`:10:114: authorization[1].claims."parameters.env": it is "dev", and it has to be "test" or "prod"`}},
		{"--identity uid:7 --param env=test eds *", exitOK, []string{`of "*" the client gets what fits: all`}},
		{"--identity uid:7 --listener unix:///s eds x", exitFailed, []string{
			`authorization[1].origins: "east" is not among them`, `"parameters.env": there is none`, "asked at listener unix:///s, of origin east\n",
		}},
		{"--identity uid:7 --listener unix:///s --origin mesh eds x", exitOK, []string{"asked at listener unix:///s, of origin mesh\n"}},
		{"--identity anonymous --node-id n --metadata A=b vhds r", exitFailed, []string{`authorization[0].who: the identity "anonymous" fits no pattern`}},
	} {
		code, stdout, stderr := weir(t, append([]string{"authz", "explain", "-c", path}, strings.Fields(row.args)...)...)
		if code != row.code || (stderr == "") != (code == exitOK) || strings.Count(stderr, "\n") > 1 {
			t.Errorf("%s: got %d, %q", row.args, code, stderr)
		}
		for _, want := range row.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: got\n%swant %s", row.args, stdout, want)
			}
		}
	}
	for args, want := range map[string]string{
		"cds x":                                            "identity",
		"--identity uid:7 xds x":                           `"xds" is neither a short name`,
		"--identity uid:7 eds":                             "NAME is missing",
		"--identity uid:7 --metadata x eds x":              "write KEY=VALUE",
		"--identity uid:7 --listener :9 eds x":             `no listener ":9"`,
		"--identity uid:7 --origin far eds x":              `no origin "far"`,
		"--identity uid:7 eds xdstp://far/a.B/x":           `no origin has the authority "far"`,
		"--identity uid:7 eds xdstp:x":                     `"xdstp:x" lacks the "//"`,
		"--identity uid:7 --origin east --param a=b eds x": "origin east has no tp2",
	} {
		code, stdout, stderr := weir(t, append([]string{"authz", "explain", "-c", path}, strings.Fields(args)...)...)
		if code == exitOK || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: got %d, %q, %q", args, code, stdout, stderr)
		}
	}
	code, stdout, _ := weir(t, "authz", "explain", "-c", write(t, "origins: [{ name: a, grpc: { addresses: ['a:1'] } }]\n"), "--identity", "uid:1", "cds", "x")
	if code != exitOK || stdout != "allowed: there are no rules\n" {
		t.Errorf("without rules: %d, %q", code, stdout)
	}
}

// TestAuthzTest: each answer that is not the expected one is told with its line and the reason.
func TestAuthzTest(t *testing.T) {
	path := write(t, ruled)
	question := func(identity, cluster, typeName, name, answer string) string {
		return "  - { identity: '" + identity + "', node: { cluster: '" + cluster + "' }, type: " + typeName + ", name: '" + name + "', answer: " + answer + " }\n"
	}
	const web = "spiffe://corp/ns/shop/sa/web"
	good := "questions:\n" + question(web, "web", "cds", "shop/x", "allowed") + question(web, "web", "cds", "pay/x", "denied") + question(web, "api", "cds", "shop/x", "ended")
	if code, stdout, stderr := weir(t, "authz", "test", "-c", path, write(t, good)); code != exitOK || stdout != "ok: 3 questions\n" || stderr != "" {
		t.Errorf("got %d, %q, %q", code, stdout, stderr)
	}
	bad := write(t, "config: "+path+"\nquestions:\n"+question(web, "web", "cds", "shop/x", "denied")+question(web, "web", "cds", "pay/x", "allowed")+
		question(web, "api", "cds", "shop/x", "denied")+question(web, "web", "cds", "xdstp://far/a.B/x", "denied")+question(web, "web", "eds", "shop/x", "allowed"))
	code, stdout, stderr := weir(t, "authz", "test", bad)
	want := []string{
		bad + ":3:5: questions[0]: is allowed, and expected to be denied: " + path + ":6:5: authorization[0]: allows it",
		bad + ":4:5: questions[1]: is denied, and expected to be allowed: " + path + `:7:12: authorization[0].names: "pay/x" has to be`,
		bad + ":5:5: questions[2]: is ended, and expected to be denied: " + path + `:8:29: authorization[0].claims."node.cluster": it is "api"`,
		bad + `:6:5: questions[3]: no origin has the authority "far"`,
	}
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if code != exitFailed || stdout != "" || len(lines) != len(want) {
		t.Fatalf("got %d, %q, %s", code, stdout, stderr)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("got\n%s\nwant\n%s", lines[i], want[i])
		}
	}
	if code, _, stderr := weir(t, "authz", "test", write(t, good)); code != exitFailed || !strings.Contains(stderr, "weir.yaml") {
		t.Errorf("without a configuration: got %d, %q", code, stderr)
	}
}

// TestAuthzExplainsSecrets: of a secret by identity it says whether a rule names the identity.
func TestAuthzExplainsSecrets(t *testing.T) {
	const rules = `authorization:
  - { who: ["spiffe://corp/ns/{ns}/sa/*"], names: ["{ns}/key", "*"] }
  - { who: ["anonymous"], names: ["a/key"] }
`
	origin := func(group string) string {
		return "origins: [{ name: mesh, secrets: by_identity, group_by: [" + group + `], grpc: { addresses: ["unix:///o"] } }]` + "\n" + rules
	}
	mixed, apart := write(t, origin("cluster")), write(t, origin("cluster, identity"))
	for _, row := range []struct {
		path, who, ask string
		code           int
		want           string
	}{
		{mixed, "spiffe://corp/ns/a/sa/x", "sds a/key", exitOK, "authorization[0]: allows it"},
		{mixed, "spiffe://corp/ns/a/sa/x", "sds other", exitFailed, `authorization[0].names: "other" fits no pattern with a part of the identity`},
		{mixed, "spiffe://corp/ns/a/sa/x", "type.googleapis.com/envoy.api.v2.auth.Secret other", exitFailed, "fits no pattern with a part"},
		{mixed, "spiffe://corp/ns/a/sa/x", "cds other", exitOK, "allows it"},
		{mixed, "spiffe://corp/ns/a/sa/x", "sds *", exitOK, "the client gets what fits: a/key\n"},
		{apart, "spiffe://corp/ns/a/sa/x", "sds other", exitOK, "allows it"},
		{apart, "anonymous", "sds a/key", exitFailed, "is nearest"},
	} {
		code, stdout, _ := weir(t, append([]string{"authz", "explain", "-c", row.path, "--identity", row.who}, strings.Fields(row.ask)...)...)
		if code != row.code || !strings.Contains(stdout, row.want) {
			t.Errorf("%+v: got %d\n%s", row, code, stdout)
		}
	}
}
