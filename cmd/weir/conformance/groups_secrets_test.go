package conformance

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

const sds = relaytest.SecretType

// secretCases are about type Secret.
var secretCases = []testCase{
	{"RELAY-74", "secrets are refused by their names unless an origin has them enabled, and no origin hears of them", func(t *testing.T) {
		secretsRefused(t, setup{})
	}},
	{"RELAY-74", "by identity they are refused to who has none, over loopback, too, whatever the rules allow", func(t *testing.T) {
		secretsRefused(t, setup{config: func(c weirtest.Config) {
			c.Origin().Set("secrets", "by_identity")
			c["authorization"] = []any{map[string]any{"who": []any{"anonymous"}}}
		}})
	}},
	{"RELAY-74", "virtual: by identity each is given its own, and what a rule allows to it in particular", func(t *testing.T) {
		virtual(t, "../../../downstream", "TestEachIdentityHasItsOwnSecret")
		virtual(t, "../../../downstream", "TestScripts/secrets_identity")
	}},
	{"RELAY-74 SOTW-4", "over loopback each client is served on a stream of its own, in SotW with all it named", perDialect(secretsServed)},
	{"RELAY-74 RELAY-29", "so it is on streams of the service of their own, both ways", perDialect(secretsApart)},
	{"RELAY-74", "each origin has them enabled by itself", perDialect(secretsOfOthers)},
	{"RELAY-74 RELAY-77", "across the network: nothing in plain text, nor without a certificate", secretsAbroad},
	{"RELAY-74 RELAY-77", "virtual: who gets secrets, connection by connection", func(t *testing.T) {
		virtual(t, "../../../downstream", "TestWhoGetsSecrets")
		virtual(t, "../../../downstream", "TestCaller")
		virtual(t, "../../../downstream", "TestSecretsOfOtherOrigins")
	}},
	{"RELAY-77", "virtual: an origin that secrets would come from in plain text is refused in the file", func(t *testing.T) {
		virtual(t, "../../../cmd/weir/config", "TestProblems/secrets_in_plain")
	}},
	{"RELAY-75", "a secret is kept while the origin is down and a client has it, and not a moment longer", perDialect(secretsDropped)},
	{"RELAY-75", "virtual: nothing of them lingers", func(t *testing.T) { virtual(t, "../../../relay", "TestSecretsDoNotLinger") }},
	{"RELAY-76", "admin pages and the log have a secret by its name alone", perDialect(secretsUnseen)},
	{"RELAY-76", "virtual: nor do errors of files repeat what is in them", func(t *testing.T) {
		virtual(t, "../../../upstream/file", "TestErrorsDoNotRepeatSecrets")
	}},
}

func withSecrets(c weirtest.Config) { c.Origin().Set("secrets", "dedicated") }

func secretAt(name, value string) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: "origin-version-of-" + value, Body: relaytest.Secret(name, value)}
}

// holds waits until a client has exactly these secrets.
func holdsSecrets(c *relaytest.Client, sentence string, want ...relaytest.Resource) {
	c.Await(0, func(s *relaytest.State) bool {
		for _, r := range want {
			if s.Body(sds, r.Name) != string(r.Body.Value) {
				return false
			}
		}
		return s.Count(sds) == len(want)
	}, sentence)
}

func secretsRefused(t *testing.T, with setup) {
	w := start(t, with)
	w.origin.Put(sds, secretAt("s", "hunter2"))
	w.origin.Put(cds, cdsAt("a", 1))
	for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		c := w.as(d, relaytest.Node("i", "edge"))
		c.Subscribe(sds, "s", "t")
		if d == relaytest.Delta {
			c.Await(0, inError(sds, codes.PermissionDenied, "s", "t"), "each name is refused")
		}
		c.AwaitNames(cds, "the rest of the stream is served", "a")
		c.Skip()
		c.WantIdle(quiet)
		if d == relaytest.SotW && len(c.Responses(sds)) > 0 {
			t.Error("a response without secrets says that there are none (SOTW-9)")
		}
		c.CheckClean()
	}
	if n := w.origin.Asked(sds).Requests; n != 0 {
		t.Errorf("the origin was asked for secrets %d times", n)
	}
}

// secretServices are the methods of the service of their own.
var secretServices = map[relaytest.Dialect]string{
	relaytest.Delta: "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets",
	relaytest.SotW:  "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets",
}

func secretsApart(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{config: func(c weirtest.Config) {
		withSecrets(c)
		c.Origin().Set("grpc.aggregated", false)
	}})
	w.origin.Put(sds, secretAt("s", "one"))
	for _, id := range []string{"one", "two"} {
		c := w.clientWith(relaytest.ClientConfig{Dialect: d, Method: secretServices[d]})
		c.Open(relaytest.Node(id, "edge"))
		c.Subscribe(sds, "s")
		holdsSecrets(c, "the secret arrives", secretAt("s", "one"))
		c.CheckClean()
	}
	if n := len(w.origin.Open()); n != 2 {
		t.Errorf("%d upstream streams, want one for each client", n)
	}
}

func secretsServed(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{config: withSecrets})
	w.origin.Put(sds, secretAt("s", "one"))
	w.origin.Put(sds, secretAt("t", "two"))
	w.origin.Put(sds, secretAt("others", "three"))
	c, other := w.clientWith(relaytest.ClientConfig{Dialect: d}), w.clientWith(relaytest.ClientConfig{Dialect: d})
	other.Open(relaytest.Node("client-2", "edge"))
	c.Subscribe(sds, "s", "t")
	other.Subscribe(sds, "s")
	holdsSecrets(c, "both arrive", secretAt("s", "one"), secretAt("t", "two"))
	holdsSecrets(other, "and the other client's", secretAt("s", "one"))
	ids := map[string]int{}
	for _, s := range w.origin.Open() {
		if s.Asked(sds).Requests > 0 {
			ids[s.Requests()[0].Node().GetId()]++
		}
	}
	if ids["client-1"] != 1 || ids["client-2"] != 1 || len(ids) != 2 {
		t.Errorf("streams with secrets by node id: %v, want one of each client", ids)
	}
	c.Skip()
	w.origin.Put(sds, secretAt("t", "four"))
	r := c.Expect(sds, "the changed one arrives")
	want := 1
	if d == relaytest.SotW {
		want = 2
	}
	if n := len(r.Items); n != want {
		t.Errorf("one of two named secrets changed, and %d are sent, want %d", n, want)
	}
	holdsSecrets(c, "the client holds both", secretAt("s", "one"), secretAt("t", "four"))
	c.CheckClean()
	other.CheckClean()
}

func secretsOfOthers(t *testing.T, d relaytest.Dialect) {
	f := federate(t, setup{config: func(c weirtest.Config) {
		all := c["origins"].([]any)
		if len(all) > 1 {
			all[1].(map[string]any)["secrets"] = "dedicated" // east's
		} else {
			withSecrets(c) // of the next weir in the row
		}
	}})
	theirs, ours := secretAt(urn("east", sds, "s"), "one"), secretAt("s", "two")
	f.east.Put(sds, theirs)
	f.origin.Put(sds, ours)
	c := f.client(d)
	c.Subscribe(sds, theirs.Name, "s")
	holdsSecrets(c, "the secret of the origin that has them enabled arrives", theirs)
	if d == relaytest.Delta {
		refusedWith(t, c, sds, "s", codes.PermissionDenied)
	}
	c.Skip()
	c.WantIdle(quiet)
	if n := f.origin.Asked(sds).Requests; n > 0 {
		t.Errorf("the other is asked for secrets %d times", n)
	}
	c.CheckClean()
}

// abroad is an address of this host that is not loopback, so that what is sent to it counts as sent
// across the network.
func abroad(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this host has no address but loopback")
	return ""
}

func secretsAbroad(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	pair := ca.Pair("client")
	server := map[string]any{"cert": ca.Path("server.pem"), "key": ca.Path("server.key")}
	mutual := map[string]any{"cert": ca.Path("server.pem"), "key": ca.Path("server.key"), "client_ca": ca.Path("ca.pem")}
	encrypted := &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}
	known := encrypted.Clone()
	known.Certificates = []tls.Certificate{pair}
	address := net.JoinHostPort(abroad(t), "0")
	for _, c := range []struct {
		name   string
		tls    map[string]any
		client *tls.Config
		why    string // of the refusal; "": served
	}{
		{"plain text", nil, nil, "RELAY-77"},
		{"without a certificate", server, encrypted, "RELAY-74"},
		{"with a certificate", mutual, known, ""},
	} {
		w := start(t, setup{config: withSecrets, edge: func(f weirtest.Config) {
			l := map[string]any{"address": address}
			if c.tls != nil {
				l["tls"] = c.tls
			}
			f["listeners"] = append(f["listeners"].([]any), l)
		}})
		w.origin.Put(sds, secretAt("s", "hunter2"))
		w.origin.Put(cds, cdsAt("a", 1))
		var options []grpc.DialOption
		if c.client != nil {
			options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(c.client)))
		}
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			x := newClient(t, weirtest.Connect(t, w.weir.Addrs[len(w.weir.Addrs)-1], options...), relaytest.ClientConfig{Dialect: d})
			x.Open(relaytest.Node("client-1", "edge"))
			x.Subscribe(sds, "s")
			x.Subscribe(cds, "*")
			x.AwaitNames(cds, c.name+": clusters are served", "a")
			switch {
			case c.why == "":
				holdsSecrets(x, c.name+": so is the secret", secretAt("s", "hunter2"))
			case d == relaytest.Delta:
				x.Await(0, inError(sds, codes.PermissionDenied, "s"), c.name+": the name is refused")
				x.Look(func(s *relaytest.State) {
					if text := s.Error(sds, "s").GetMessage(); !strings.Contains(text, c.why) {
						t.Errorf("%s: refused with %q", c.name, text)
					}
				})
			default:
				x.Skip()
				x.WantIdle(quiet)
			}
			x.CheckClean()
		}
		if n := w.origin.Asked(sds).Requests; n > 0 && c.why != "" {
			t.Errorf("%s: the origin was asked for secrets", c.name)
		}
	}
}

func secretsDropped(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{config: func(c weirtest.Config) {
		withSecrets(c)
		c.Set("cache.linger", "10m")
	}, edge: func(c weirtest.Config) { c.Set("timing.cold_wait", "2s") }})
	w.origin.Put(sds, secretAt("s", "hunter2"))
	c := w.clientWith(relaytest.ClientConfig{Dialect: d})
	c.Subscribe(sds, "s")
	holdsSecrets(c, "the secret arrives", secretAt("s", "hunter2"))
	w.origin.Stop()
	c.Skip()
	c.WantIdle(quiet)
	body, err := weirtest.Fetch("http://" + w.weir.Admin + "/resources?type=sds")
	if err != nil || !strings.Contains(body, `"name": "s"`) && !strings.Contains(body, `"name":"s"`) {
		t.Errorf("while a client has it, it is kept: %v, %s", err, body)
	}
	c.CheckClean()
	before := len(c.Responses(sds))
	c.Cancel()
	w.awaitGone("sds", "without a client it is gone, whatever linger says")
	c.Open(relaytest.Node("client-1", "edge"))
	c.Subscribe(sds, "s")
	if code := c.AwaitEnd("who comes back finds nothing"); code != codes.Unavailable || len(c.Responses(sds)) > before {
		t.Errorf("it ended with %v, after %d responses", c.Err(), len(c.Responses(sds))-before)
	}
}

func secretsUnseen(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{config: func(c weirtest.Config) {
		withSecrets(c)
		c.Set("log.level", "debug")
	}})
	secret := secretAt("the-name", "hunter2")
	w.origin.Put(sds, secret)
	w.origin.SetVersionInfo(sds, "origin-version-of-all")
	c := w.manual(d)
	c.Subscribe(sds, "the-name")
	c.Expect(sds, "the secret arrives")
	var versions []string
	c.Look(func(s *relaytest.State) {
		e, _ := s.Entry(sds, "the-name")
		versions = append(versions, e.Version, s.Version(sds))
	})
	c.ACK(sds)
	w.origin.Put(sds, secretAt("the-name", "hunter3"))
	c.Expect(sds, "a changed one arrives")
	c.NACK(sds, "cannot use hunter3")
	w.awaitStanding(sds, "weir hears the refusal", func(s standing) bool { return s.NACKs == 1 })
	if !weirtest.Until(weirtest.Patience, func() bool { return strings.Contains(w.weir.Output(), "a client refused a response") }) {
		t.Error("the refusal is not in the log")
	}
	pages := map[string]string{"the log": w.weir.Output()}
	for _, path := range []string{
		"/", "/groups", "/clients", "/nacks", "/authz", "/origins", "/metrics", "/config", "/resources", "/resources?bodies=true", "/resources?type=sds&name=the-name",
	} {
		body, err := weirtest.Fetch("http://" + w.weir.Admin + path)
		if err != nil {
			t.Fatal(err)
		}
		pages[path] = body
	}
	if !strings.Contains(pages["/resources"], "the-name") {
		t.Errorf("a secret is shown by its name: %s", pages["/resources"])
	}
	forbidden := []string{"hunter", "origin-version", hex.EncodeToString([]byte("hunter")), base64.StdEncoding.EncodeToString([]byte("hunter"))}
	for _, v := range versions {
		if v != "" {
			forbidden = append(forbidden, v)
		}
	}
	if len(forbidden) < 5 {
		t.Fatal("the client was told no version at all")
	}
	for page, text := range pages {
		for _, f := range forbidden {
			if i := strings.Index(text, f); i >= 0 {
				t.Errorf("%s shows %q: ...%s", page, f, text[max(0, i-200):min(len(text), i+100)])
			}
		}
	}
	c.CheckClean()
}
