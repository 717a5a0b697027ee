package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// knock shakes hands with a server, and returns what the server thinks of the certificate, which
// shows at the first read.
func knock(t *testing.T, address string, c *tls.Config) error {
	t.Helper()
	c.MinVersion, c.NextProtos = tls.VersionTLS12, []string{"h2"}
	conn, err := tls.Dial("tcp", address, c)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// TestAllowed: on a listener that says who may connect, a client that its authority has signed and
// that fits no pattern gets no connection, of whatever kind the listener is. Each is counted, and
// of many one line is logged.
func TestAllowed(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	ca.IssueSPIFFE("web", 2, "spiffe://corp/ns/shop/sa/web")
	ca.IssueSPIFFE("bill", 3, "spiffe://corp/ns/bill/sa/api")
	ca.IssueDNS("host", 4, "a.shop.example")
	ca.Issue("client", 5)
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	only := tlsOf(ca, fmt.Sprintf(", client_ca: %q, allowed: [\"spiffe://corp/ns/shop/**\", \"dns:*.shop.example\"]", ca.Path("ca.pem")))
	w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\", %s }, { address: \"127.0.0.1:0\", rest: true, %s }]\n"+
		"admin: { address: \"127.0.0.1:0\", %s }\n", only, only, only)+filesOrigin(dir))
	shown := func(name string) *tls.Config {
		return &tls.Config{RootCAs: ca.Pool, Certificates: []tls.Certificate{ca.Pair(name)}}
	}
	for _, name := range []string{"web", "host"} {
		c := openClient(t, dial(t, w.listenAddress(), withTLS(shown(name))), relaytest.Delta)
		c.Request(relaytest.ClusterType)
		c.AwaitNames(relaytest.ClusterType, "a client that fits a pattern is served", "a")
	}
	ports := w.active.Load().ports
	for _, address := range []string{ports[0].Addr().String(), ports[1].Addr().String(), w.admin.listener.Addr().String()} {
		for range 2 {
			for _, name := range []string{"bill", "client"} {
				if err := knock(t, address, shown(name)); err == nil || !strings.Contains(err.Error(), "tls:") {
					t.Errorf("%s at %s: %v, want a refusal", name, address, err)
				}
			}
		}
	}
	admin := http.Client{Transport: &http.Transport{TLSClientConfig: shown("web"), DisableKeepAlives: true}}
	await(t, "each is counted", func() bool {
		resp, err := admin.Get("https://" + w.admin.listener.Addr().String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body) // what is cut off lacks the number
		return strings.Contains(string(body), `weir_handshake_failures_total{reason="not_allowed"} 8`)
	})
	lines := w.logs.FilterField(zap.String("reason", "not_allowed"))
	if lines.Len() != 1 || !strings.Contains(fmt.Sprint(lines.All()[0].ContextMap()["error"]), `"spiffe://corp/ns/bill/sa/api"`) {
		t.Errorf("the log says %v", lines.All())
	}
}

// TestAllowedResumed: a session that was begun where the client is allowed is of no use where it is
// not.
func TestAllowedResumed(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		b, ca := newBench(t), weirtest.NewAuthority(t, "ca")
		ca.Issue("server", 1)
		ca.Issue("client", 2)
		keys := b.keys(false)
		open := func(allowed ...string) *secured {
			s, err := b.certificates.port(&config.Config{}, "listeners[0].tls", roleListener, config.ServerTLS{
				Cert: ca.Path("server.pem"), Key: ca.Path("server.key"), ClientCA: ca.Path("ca.pem"), Tickets: keys,
				MinVersion: config.TLS12, Allowed: allowed,
			}, "h2")
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		first, second, third := b.serveTLS(open()), b.serveTLS(open("subject:CN=other")), b.serveTLS(open("subject:CN=client"))
		client := newVisitor(ca)
		client.MaxVersion = version
		b.resumes("a new client", client, first, false)
		b.resumes("where it is allowed", client, third, true)
		if resumed, err := client.talk(second); err == nil {
			t.Errorf("where it is not: resumed %v", resumed)
		}
	}
}

// TestServerIdentity: an origin that is not who it has to be is sent nothing, and the log says who
// it is. One that is named by its SPIFFE ID needs no host name.
func TestServerIdentity(t *testing.T) {
	ca, other := weirtest.NewAuthority(t, "ca"), weirtest.NewAuthority(t, "other")
	ca.Issue("plain", 1)
	ca.IssueSPIFFE("cp", 2, "spiffe://corp/ns/mesh/sa/cp")
	ca.IssueDNS("host", 3, "cp.example")
	other.IssueSPIFFE("cp", 4, "spiffe://corp/ns/mesh/sa/cp")
	ca.Issue("client", 5)
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	for _, row := range []struct {
		by      *weirtest.Authority
		shown   string
		tls     string // more keys
		refused string // part of the error; "": it is not
	}{
		{by: ca, shown: "cp", tls: `server_identity: "spiffe://corp/ns/mesh/sa/cp"`},
		{by: ca, shown: "cp", tls: `server_identity: "spiffe://corp/ns/*/sa/cp"`},
		{by: ca, shown: "cp", tls: `server_identity: "spiffe://corp/ns/mesh/sa/other"`, refused: `the server is "spiffe://corp/ns/mesh/sa/cp"`},
		{by: other, shown: "cp", tls: `server_identity: "spiffe://corp/ns/mesh/sa/cp"`, refused: "unknown authority"},
		{by: ca, shown: "plain", tls: `server_identity: "spiffe://corp/ns/mesh/sa/cp"`, refused: `the server is "subject:CN=plain"`},
		{by: ca, shown: "plain", tls: `server_identity: "subject:CN=plain"`},
		{by: ca, shown: "plain", tls: `server_identity: "subject:CN=cp"`, refused: `the server is "subject:CN=plain"`},
		{by: ca, shown: "host", tls: `server_identity: "dns:cp.example"`},
		{by: ca, shown: "host", tls: `server_identity: "dns:cp.example", server_name: other.example`, refused: "not other.example"},
		{by: ca, shown: "cp", tls: `server_name: cp.example`, refused: "cp.example"},
	} {
		for _, kind := range []string{"grpc", "rest"} {
			t.Run(row.tls+", "+row.shown+", "+kind, func(t *testing.T) {
				cp := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\", rest: %v, tls: { cert: %q, key: %q } }]\nadmin: { address: \"127.0.0.1:0\" }\n",
					kind == "rest", row.by.Path(row.shown+".pem"), row.by.Path(row.shown+".key"))+filesOrigin(dir))
				where := fmt.Sprintf("grpc: { addresses: [%q]", cp.listenAddress())
				if kind == "rest" {
					where = fmt.Sprintf("rest: { urls: [\"https://%s\"]", cp.listenAddress())
				}
				w := startWeir(t, freePorts+fmt.Sprintf("origins: [{ name: mesh, %s, tls: { ca: %q, %s } } }]\n", where, ca.Path("ca.pem"), row.tls)+
					"timing: { pause: 20ms, backoff: { base: 20ms, max: 100ms } }\n")
				c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
				c.Request(relaytest.ClusterType)
				if row.refused == "" {
					c.AwaitNames(relaytest.ClusterType, "the origin is who it has to be", "a")
					return
				}
				await(t, "the reason is shown", func() bool { return strings.Contains(strings.ReplaceAll(w.origin(t).Error, `\"`, `"`), row.refused) })
				if n := c.Count(relaytest.ClusterType); n != 0 {
					t.Errorf("%d resources come from an origin that is somebody else", n)
				}
			})
		}
	}
}
