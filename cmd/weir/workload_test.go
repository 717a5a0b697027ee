package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

const (
	weirID  = "spiffe://corp/ns/mesh/sa/weir"
	planeID = "spiffe://corp/ns/mesh/sa/plane"
	webID   = "spiffe://corp/ns/shop/sa/web"
	billID  = "spiffe://corp/ns/bill/sa/api"
)

// svid is a certificate of a workload.
func svid(ca *weirtest.Authority, id string, serial int64) tls.Certificate {
	name := strings.NewReplacer("/", "-", ":", "").Replace(id)
	ca.IssueSPIFFE(name, serial, id)
	return ca.Pair(name)
}

// agentOf is an agent that runs, and gives a certificate of an authority, which is all that it
// trusts.
func agentOf(t *testing.T, ca *weirtest.Authority, id string, serial int64) *spireAgent {
	t.Helper()
	a := newSpireAgent(t)
	a.start()
	a.give(spireWorkload{id: id, pair: svid(ca, id, serial), bundle: []*weirtest.Authority{ca}})
	return a
}

// workloads are a weir that is a control plane, and one that is its client, each with an agent.
type workloads struct {
	*reloading
	plane             *running
	agent, planeAgent *spireAgent
	files             files
}

// startWorkloads has both run. The clients allowed are those of ns/shop.
func startWorkloads(t *testing.T, agent, planeAgent *spireAgent) *workloads {
	t.Helper()
	w := &workloads{agent: agent, planeAgent: planeAgent, files: newFiles(t)}
	w.files.put(t, "cds.yaml", clusters("a"))
	w.plane = startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\", tls: { spiffe: %q, allowed: [%q] } }]\nadmin: { address: \"127.0.0.1:0\" }\n",
		planeAgent.address(), weirID)+filesOrigin(w.files))
	w.reloading = startReloading(t, w.text(planeID))
	return w
}

// text is the configuration of the weir in the middle.
func (w *workloads) text(server string) string {
	return fmt.Sprintf(`
listeners: [{ address: "127.0.0.1:0", tls: { spiffe: %q, allowed: ["spiffe://corp/ns/shop/**", "spiffe://other/**"] } }]
admin: { address: "127.0.0.1:0" }
origins: [{ name: mesh, grpc: { addresses: [%q], tls: { spiffe: %q, server_identity: %q } } }]
timing: { pause: 20ms, backoff: { base: 20ms, max: 100ms }, drain: 1s }
`, w.agent.address(), w.plane.listenAddress(), w.agent.address(), server)
}

// shown is what a client with a certificate goes by, which takes any server.
func shown(pair tls.Certificate) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
}

// client opens a stream with a certificate, and is served what there is.
func (w *workloads) client(sentence string, pair tls.Certificate, names ...string) *relaytest.Client {
	w.t.Helper()
	c := openClient(w.t, dial(w.t, w.listenAddress(), withTLS(shown(pair))), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, sentence, names...)
	return c
}

// serial is of the certificate that a listener shows.
func (w *workloads) serial() (serial int64) {
	w.t.Helper()
	c := shown(tls.Certificate{})
	c.VerifyConnection = func(s tls.ConnectionState) error {
		serial = s.PeerCertificates[0].SerialNumber.Int64()
		return nil
	}
	_ = knock(w.t, w.listenAddress(), c) // it is refused, after it has seen the certificate
	return serial
}

const (
	given   = "certificates of the Workload API are in use"
	noneYet = "the Workload API has no certificates; retrying"
	noneNew = "the Workload API does not answer; its last certificates stay in force; retrying"
)

// TestSPIFFE: a listener and an origin go by what the Workload API gives, as it is at each
// handshake. When it changes, no stream ends but those of an authority that is not trusted any
// more; and none when the agent dies: then what it gave last stays.
func TestSPIFFE(t *testing.T) {
	old, next := weirtest.NewAuthority(t, "old"), weirtest.NewAuthority(t, "next")
	w := startWorkloads(t, agentOf(t, old, weirID, 1), agentOf(t, old, planeID, 2))
	first := w.client("served by certificates of agents", svid(old, webID, 10), "a")
	if n := w.agent.openStreams(); n != 1 {
		t.Errorf("%d streams to the agent: a listener and an origin share one", n)
	}
	if _, body := w.get("/metrics"); !strings.Contains(body, `weir_tls_certificate_expiry_timestamp_seconds{role="svid"} 1.`) ||
		!strings.Contains(body, `weir_tls_certificate_expiry_timestamp_seconds{role="trust_bundle"} 1.`) {
		t.Error("the metrics lack when the certificates end")
	}

	since := w.origin(t).Since

	// The certificate is renewed.
	w.agent.give(spireWorkload{id: weirID, pair: svid(old, weirID, 3), bundle: []*weirtest.Authority{old}})
	await(t, "the next handshake shows the next certificate", func() bool { return w.serial() == 3 })

	// The authority is: first it is trusted, then it signs, then the old one is not trusted.
	if err := knock(t, w.listenAddress(), shown(svid(next, webID, 11))); err == nil {
		t.Error("a client of an authority that is not trusted yet is let in")
	}
	both := []*weirtest.Authority{next, old}
	w.planeAgent.give(spireWorkload{id: planeID, pair: svid(old, planeID, 4), bundle: both})
	w.agent.give(spireWorkload{id: weirID, pair: svid(old, weirID, 5), bundle: both})
	await(t, "both are trusted", func() bool { return w.serial() == 5 })
	second := w.client("a client of the next authority", svid(next, webID, 12), "a")
	w.files.put(t, "cds.yaml", clusters("a", "b"))
	for _, c := range []*relaytest.Client{first, second} {
		c.AwaitNames(relaytest.ClusterType, "no stream has ended", "a", "b")
		c.CheckClean()
	}
	if o := w.origin(t); !o.Since.Equal(since) || o.Failures != 0 {
		t.Errorf("the connection to the origin was cut: %+v", o)
	}
	only := []*weirtest.Authority{next}
	await(t, "the control plane has it, too", func() bool { return w.plane.logs.FilterMessage(given).Len() == 2 })
	w.agent.give(spireWorkload{id: weirID, pair: svid(next, weirID, 6), bundle: both})
	await(t, "the next authority has signed", func() bool { return w.serial() == 6 })
	w.planeAgent.give(spireWorkload{id: planeID, pair: svid(next, planeID, 7), bundle: only})
	await(t, "the control plane has the next alone", func() bool { return w.plane.logs.FilterMessage(given).Len() == 3 })
	w.agent.give(spireWorkload{id: weirID, pair: svid(next, weirID, 8), bundle: only})
	await(t, "the next alone is trusted", func() bool { return w.serial() == 8 })
	if err := knock(t, w.listenAddress(), shown(svid(old, webID, 13))); err == nil {
		t.Error("a client of the old authority is let in")
	}
	// Nothing was cut that is still vouched for; what is not any more is opened anew, or ended.
	await(t, "the origin is connected to anew", func() bool {
		return w.logs.FilterMessageSnippet("of an origin's server is no longer trusted").Len() == 1 && w.origin(t).Connected
	})
	if code := first.AwaitEnd("a client of the old authority"); code != codes.Unavailable {
		t.Errorf("it ends with %s", code)
	}
	first.CheckClean()

	// The agents die. The connection to the origin is opened anew.
	w.agent.stop()
	w.planeAgent.stop()
	await(t, "it is told, once", func() bool { return w.logs.FilterMessage(noneNew).Len() == 1 })
	w.applied(strings.Replace(w.text(planeID), "addresses:", "headers: { x: y }, addresses:", 1))
	w.files.put(t, "cds.yaml", clusters("a", "b", "c"))
	third := w.client("served without the agents, by an origin that was connected to without them", svid(next, webID, 14), "a", "b", "c")
	for _, c := range []*relaytest.Client{second, third} {
		c.AwaitNames(relaytest.ClusterType, "the clients of before are served, too", "a", "b", "c")
		c.CheckClean()
	}

	// An agent comes back.
	w.agent.start()
	w.agent.give(spireWorkload{id: weirID, pair: svid(next, weirID, 9), bundle: only})
	await(t, "the agent is asked again", func() bool { return w.serial() == 9 })
	if n := w.logs.FilterMessage(noneNew).Len(); n != 1 {
		t.Errorf("%d lines say that the agent is away", n)
	}
}

// TestSPIFFEWhoElse: an authority vouches for its own trust domain alone; who is none of those that
// may connect does not, and an origin that is somebody else is sent nothing.
func TestSPIFFEWhoElse(t *testing.T) {
	corp, other, stranger := weirtest.NewAuthority(t, "corp"), weirtest.NewAuthority(t, "other"), weirtest.NewAuthority(t, "stranger")
	agent, planeAgent := newSpireAgent(t), agentOf(t, corp, planeID, 1)
	agent.start()
	agent.give(spireWorkload{
		id: weirID, pair: svid(corp, weirID, 2), bundle: []*weirtest.Authority{corp},
		federated: map[string][]*weirtest.Authority{"spiffe://other": {other}},
	})
	w := startWorkloads(t, agent, planeAgent)
	client := w.client("a client of the own trust domain", svid(corp, webID, 3), "a")
	w.client("one of a federated trust domain", svid(other, "spiffe://other/x", 4), "a").CheckClean()
	corp.Issue("plain", 5)
	for reason, pairs := range map[string][]tls.Certificate{
		"not_allowed": {svid(corp, billID, 6)},
		"bad_certificate": {
			svid(other, webID, 7), svid(corp, "spiffe://other/x", 8), svid(stranger, webID, 9), svid(corp, "spiffe://third/x", 10),
			corp.Pair("plain"),
		},
		"no_certificate": {{}},
	} {
		for i, pair := range pairs {
			if err := knock(t, w.listenAddress(), shown(pair)); err == nil || !strings.Contains(err.Error(), "tls:") {
				t.Errorf("%s %d: %v, want a refusal", reason, i, err)
			}
		}
		await(t, "each is counted", func() bool {
			_, body := w.get("/metrics")
			return strings.Contains(body, fmt.Sprintf("weir_handshake_failures_total{reason=%q} %d\n", reason, len(pairs)))
		})
	}

	plane := func(by *weirtest.Authority, id string, serial int64) {
		n := w.plane.logs.FilterMessage(given).Len()
		w.planeAgent.give(spireWorkload{id: id, pair: svid(by, id, serial), bundle: []*weirtest.Authority{corp, by}})
		await(t, "the control plane has another certificate", func() bool { return w.plane.logs.FilterMessage(given).Len() > n })
	}
	headers := 0
	reconnected := func() string {
		headers++
		return strings.Replace(w.text(planeID), "addresses:", fmt.Sprintf("headers: { x: \"%d\" }, addresses:", headers), 1)
	}
	for _, row := range []struct {
		by        *weirtest.Authority
		id, error string
	}{
		{corp, "spiffe://corp/ns/mesh/sa/other", `the server is "spiffe://corp/ns/mesh/sa/other"`},
		{other, planeID, "unknown authority"},
		{stranger, planeID, "unknown authority"},
		{other, "spiffe://other/ns/mesh/sa/plane", `the server is "spiffe://other/ns/mesh/sa/plane"`},
		{corp, planeID, ""},
	} {
		plane(row.by, row.id, int64(20+headers))
		w.applied(reconnected())
		w.files.put(t, "cds.yaml", clusters("a", fmt.Sprint("b", headers)))
		if row.error != "" {
			await(t, "the reason is shown", func() bool { return strings.Contains(strings.ReplaceAll(w.origin(t).Error, `\"`, `"`), row.error) })
			if n := client.Count(relaytest.ClusterType); n != 1 {
				t.Errorf("a client has %d resources, some of an origin that is somebody else", n)
			}
			continue
		}
		client.AwaitNames(relaytest.ClusterType, "the control plane is itself again", "a", fmt.Sprint("b", headers))
		client.CheckClean()
	}
}

// TestSPIFFEOpenConnections: a connection to an origin whose certificate ends is not cut, also when
// what the Workload API gives is judged anew: it is only if the authority is not trusted any more.
func TestSPIFFEOpenConnections(t *testing.T) {
	ca, next := weirtest.NewAuthority(t, "ca"), weirtest.NewAuthority(t, "next")
	trusted := []*weirtest.Authority{ca}
	ends := time.Now().Add(4 * time.Second)
	ca.IssueSPIFFEUntil("brief", 2, planeID, ends)
	planeAgent := newSpireAgent(t)
	planeAgent.start()
	planeAgent.give(spireWorkload{id: planeID, pair: ca.Pair("brief"), bundle: trusted})
	w := startWorkloads(t, agentOf(t, ca, weirID, 1), planeAgent)
	client := w.client("served", svid(ca, webID, 3), "a")
	cut := func() int {
		return w.logs.FilterMessageSnippet("of an origin's server is no longer trusted").Len()
	}
	planeAgent.give(spireWorkload{id: planeID, pair: svid(ca, planeID, 4), bundle: trusted})
	time.Sleep(time.Until(ends) + time.Second)
	w.agent.give(spireWorkload{id: weirID, pair: svid(ca, weirID, 5), bundle: trusted})
	await(t, "it is judged", func() bool { return w.logs.FilterMessage(given).Len() == 2 })
	w.files.put(t, "cds.yaml", clusters("a", "b"))
	client.AwaitNames(relaytest.ClusterType, "the origin is heard", "a", "b")
	if cut() != 0 {
		t.Error("the connection to the origin is cut since its certificate has ended")
	}
	w.agent.give(spireWorkload{id: weirID, pair: svid(ca, weirID, 6), bundle: []*weirtest.Authority{next}})
	await(t, "the authority is not trusted any more", func() bool { return cut() == 1 })
}

// TestSPIFFEAtStart: a listener waits for its first certificate, for so long; then weir does not
// start. An origin fails to connect, says why, and is served when the agent is there.
func TestSPIFFEAtStart(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	b, nobody := newBench(t), newSpireAgent(t)
	b.svidWait = 50 * time.Millisecond
	files := config.ServerTLS{SPIFFE: nobody.address()}
	s, err := b.certificates.port(&config.Config{}, "listeners[0].tls", roleListener, files, "h2")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "why is logged", func() bool { return b.logs.FilterMessage(noneYet).Len() == 1 })
	if err := s.ready(t.Context()); err == nil || !strings.Contains(err.Error(), nobody.address()) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a port without a certificate: %v", err)
	}
	s.close()
	if len(b.agents) != 0 || len(b.list()) != 0 {
		t.Error("something is left of a port that was closed")
	}

	dir, late := newFiles(t), newSpireAgent(t)
	dir.put(t, "cds.yaml", clusters("a"))
	go func() {
		time.Sleep(time.Second / 2)
		late.refuse(status.Error(codes.PermissionDenied, "no identity issued"))
		late.start()
		time.Sleep(2 * time.Second)
		late.give(spireWorkload{id: planeID, pair: svid(ca, planeID, 1), bundle: []*weirtest.Authority{ca}})
	}()
	plane := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\", tls: { spiffe: %q } }]\nadmin: { address: \"127.0.0.1:0\" }\n", late.address())+filesOrigin(dir))
	if n := plane.logs.FilterMessage(noneYet).Len(); n != 2 {
		t.Errorf("%d lines say why it waits, want one that nobody is there, and one that the process is not known", n)
	}

	agent := newSpireAgent(t)
	w := startWeir(t, freePorts+fmt.Sprintf("origins: [{ name: mesh, grpc: { addresses: [%q], tls: { spiffe: %q, server_identity: %q } } }]\n",
		plane.listenAddress(), agent.address(), planeID)+"timing: { pause: 20ms, backoff: { base: 20ms, max: 100ms } }\n")
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	await(t, "the reason is shown", func() bool {
		return strings.Contains(w.origin(t).Error, "the Workload API at "+agent.address()+" gives no certificate")
	})
	agent.give(spireWorkload{id: weirID, pair: svid(ca, weirID, 2), bundle: []*weirtest.Authority{ca}})
	agent.start()
	c.AwaitNames(relaytest.ClusterType, "the agent is there", "a")
}

// TestSPIFFEUseless: what cannot be used leaves in force what was given before, and so does a stream
// that the agent ends, for whatever reason. The agent is asked again.
func TestSPIFFEUseless(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	b, agent := newBench(t), agentOf(t, ca, weirID, 1)
	s, err := b.certificates.port(&config.Config{}, "listeners[0].tls", roleListener, config.ServerTLS{SPIFFE: agent.address()}, "h2")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.end)
	if err := s.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	good := spireWorkload{id: weirID, pair: svid(ca, weirID, 2), bundle: []*weirtest.Authority{ca}}
	for name, bad := range map[string]func(){
		"no authority": func() { agent.give(spireWorkload{id: weirID, pair: good.pair}) },
		"another's key": func() {
			p := good.pair
			p.PrivateKey = svid(ca, weirID, 3).PrivateKey
			agent.give(spireWorkload{id: weirID, pair: p, bundle: good.bundle})
		},
		"no certificate": func() {
			agent.give(spireWorkload{id: weirID, pair: tls.Certificate{PrivateKey: good.pair.PrivateKey}, bundle: good.bundle})
		},
		"not known any more": func() { agent.refuse(status.Error(codes.PermissionDenied, "no identity issued")) },
		"a shutdown":         func() { agent.refuse(status.Error(codes.Canceled, "shutting down")) },
		"a fault":            func() { agent.refuse(status.Error(codes.InvalidArgument, "what?")) },
	} {
		t.Run(name, func(t *testing.T) {
			before := s.serial()
			bad()
			await(t, "it is told", func() bool { return b.logs.FilterMessage(noneNew).Len() == 1 })
			if s.serial() != before || s.ca.current.Load().pool.Equal(x509.NewCertPool()) {
				t.Error("what was given before is not in force any more")
			}
			good.pair = svid(ca, weirID, before+10)
			agent.give(good)
			await(t, "what is of use is taken", func() bool { return s.serial() == before+10 })
			b.logs.TakeAll()
		})
	}
}

// TestSPIFFEOfThePage: the page's configuration serves, with a socket and a control plane that are
// there.
func TestSPIFFEOfThePage(t *testing.T) {
	fenced, _ := blocksOf(t)
	at := slices.IndexFunc(fenced, func(b block) bool { return b.first == "# spiffe.yaml" })
	if at < 0 {
		t.Fatal("the page does not have it any more")
	}
	ca, dir := weirtest.NewAuthority(t, "ca"), newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	agent, planeAgent := agentOf(t, ca, weirID, 1), agentOf(t, ca, "spiffe://corp/ns/mesh/sa/control-plane", 2)
	plane := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\", tls: { spiffe: %q } }]\nadmin: { address: \"127.0.0.1:0\" }\n",
		planeAgent.address())+filesOrigin(dir))
	text := strings.ReplaceAll(fenced[at].text, "unix:///run/spire/sockets/agent.sock", agent.address())
	w := startWeir(t, moved(t, text, plane.listenAddress(), ""))
	c := openClient(t, dial(t, w.listenAddress(), withTLS(shown(svid(ca, webID, 3)))), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the page's weir serves", "a")
	c.CheckClean()
}
