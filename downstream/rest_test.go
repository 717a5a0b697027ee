package downstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

const clustersPath = "/v3/discovery:clusters"

// polling is a server that serves polls, and an HTTP client, in a bubble.
type polling struct {
	*live
	t    *testing.T
	http *http.Client
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	url  string
}

func newPolling(t *testing.T, change func(*Config, *ListenerConfig)) *polling {
	t.Helper()
	t.Cleanup(func() { time.Sleep(time.Second) }) // net/http closes some connections in half of one
	r := newRig(t)
	lc := ListenerConfig{Origin: r.origin, REST: true}
	cfg := Config{Table: r.table, Instance: "here"}
	if change != nil {
		change(&cfg, &lc)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	port := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(port, lc) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	wire := &http.Transport{DialContext: port.dial}
	t.Cleanup(wire.CloseIdleConnections)
	p := &polling{&live{rig: r, server: s}, t, &http.Client{Transport: wire}, port.dial, "http://weir"}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() { // the table's time
		defer close(done)
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				r.table.Advance(now)
			}
		}
	}()
	return p
}

// pipes is a port in a bubble. The connections of relaytest.Memory are not it: a deadline there may
// end a read that begins after it was taken back, and net/http reads beside a request.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept is part of net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close is part of net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr is part of net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// answer is what came of a poll.
type answer struct {
	code   int
	text   string
	header http.Header
	fields map[string]any
	names  []string
	took   time.Duration
	major  int // of HTTP
}

func (a *answer) version() string {
	v, _ := a.fields["versionInfo"].(string)
	return v
}

func (p *polling) post(path, body string) *answer {
	p.t.Helper()
	return p.do(http.MethodPost, path, strings.NewReader(body), nil)
}

func (p *polling) do(method, path string, body io.Reader, header http.Header) *answer {
	p.t.Helper()
	start := time.Now()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return &answer{text: err.Error()}
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return &answer{text: err.Error()}
	}
	_ = resp.Body.Close()
	a := &answer{code: resp.StatusCode, text: string(text), header: resp.Header, took: time.Since(start), major: resp.ProtoMajor}
	if resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Encoding") == "" {
		if err := json.Unmarshal(text, &a.fields); err != nil {
			p.t.Errorf("%v: %s", err, text)
		}
		list, _ := a.fields["resources"].([]any)
		for _, x := range list {
			name, _ := x.(map[string]any)["name"].(string)
			a.names = append(a.names, name)
		}
		slices.Sort(a.names)
	}
	return a
}

// later polls beside the test.
func (p *polling) later(path, body string) <-chan *answer {
	got := make(chan *answer, 1)
	go func() { got <- p.post(path, body) }()
	synctest.Wait()
	return got
}

// pollOf is a request of the usual node; more are fields that follow.
func pollOf(more ...string) string {
	return "{" + strings.Join(append([]string{`"node": {"id": "envoy-1", "cluster": "edge"}`}, more...), ", ") + "}"
}

// want fails unless a poll was answered with a status, and names if that is 200.
func (a *answer) want(t *testing.T, sentence string, code int, names ...string) *answer {
	t.Helper()
	if a.code != code || code == http.StatusOK && !slices.Equal(a.names, names) {
		t.Errorf("%s: want %d with %q, got %d with %q: %s", sentence, code, names, a.code, a.names, a.text)
	}
	return a
}

// restTest runs a test in a bubble.
func restTest(t *testing.T, change func(*Config, *ListenerConfig), run func(p *polling)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(newPolling(t, change)) })
}

// filled polls once, has the origin answer with clusters a and b, and waits until that counts as
// all there is for who holds something (REST-6).
func (p *polling) filled() *answer {
	p.t.Helper()
	first := p.later(clustersPath, pollOf())
	p.say(cds, "a=1", "b=1")
	a := (<-first).want(p.t, "the first poll waits until the set is complete", http.StatusOK, "a", "b")
	p.post(clustersPath, pollOf(`"versionInfo": "x"`)).want(p.t, "who holds something waits for longer", http.StatusServiceUnavailable)
	time.Sleep(5 * time.Second)
	return a
}

// TestPoll: the answer is all there is, in canonical JSON; the second with its version is 304, in
// either spelling and whatever else the request says (REST-1 to REST-4).
func TestPoll(t *testing.T) {
	restTest(t, nil, func(p *polling) {
		a := p.filled()
		if a.version() == "" || a.fields["typeUrl"] != cds || a.fields["nonce"] != nil {
			t.Errorf("the answer is %s", a.text)
		}
		if got := a.header.Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type %q", got)
		}
		for _, more := range [][]string{
			{`"versionInfo": "` + a.version() + `"`},
			{`"version_info": "` + a.version() + `"`},
			{`"version_info": "` + a.version() + `", "type_url": "` + lds + `", "response_nonce": "17", "of_a_later_version": 1`},
		} {
			b := p.post(clustersPath, pollOf(more...)).want(t, "nothing is new", http.StatusNotModified)
			if b.text != "" || b.took > 0 {
				t.Errorf("304 has a body %q or came after %v", b.text, b.took)
			}
		}
		p.say(cds, "c=1", "-a")
		time.Sleep(time.Second)
		next := p.post(clustersPath, pollOf(`"versionInfo": "`+a.version()+`"`)).want(t, "all there is", http.StatusOK, "b", "c")
		if next.version() == a.version() {
			t.Errorf("the version stays %q", a.version())
		}
	})
}

// TestPollOfNames: of a grouped type all names are told, and not what changed (REST-5); an empty
// list is everything, whatever the type (REST-4).
func TestPollOfNames(t *testing.T) {
	restTest(t, nil, func(p *polling) {
		names := `"resourceNames": ["a", "b"]`
		first := p.later("/v3/discovery:endpoints", pollOf(names))
		p.say(eds, "a=", "b=")
		a := <-first
		if a.code != http.StatusOK || strings.Count(a.text, `"clusterName"`) != 2 {
			t.Fatalf("got %d %s", a.code, a.text)
		}
		same := pollOf(names, `"versionInfo": "`+a.version()+`"`)
		p.post("/v3/discovery:endpoints", same).want(t, "nothing is new", http.StatusNotModified)
		p.say(eds, "a2=", "a=\x12\x00") // which is another body
		b := p.post("/v3/discovery:endpoints", same)
		if b.code != http.StatusOK || strings.Count(b.text, `"clusterName"`) != 2 {
			t.Errorf("a changed: want both names, got %d %s", b.code, b.text)
		}
		star := p.later("/v3/discovery:routes", pollOf())
		p.say(rds, "a=", "b=", "z=")
		(<-star).want(t, "without names all are asked for", http.StatusOK, "a", "b", "z")
	})
}

// TestPollOfTheUnknown: the relay answers within rest_wait. Of clusters an incomplete list would
// delete, so there is none; of endpoints what is known is told (REST-6).
func TestPollOfTheUnknown(t *testing.T) {
	restTest(t, nil, func(p *polling) {
		for _, path := range []string{clustersPath, "/v3/discovery:endpoints"} {
			a := p.post(path, pollOf(`"resourceNames": ["a", "b"]`)).want(t, "nothing is known", http.StatusServiceUnavailable)
			if a.took != 800*time.Millisecond || !strings.Contains(a.text, "timing.rest_wait") {
				t.Errorf("%s after %v", a.text, a.took)
			}
		}
		half := p.later("/v3/discovery:endpoints", pollOf(`"resourceNames": ["a", "b"]`))
		p.say(eds, "a=")
		if a := <-half; a.code != http.StatusOK || strings.Count(a.text, `"clusterName"`) != 1 || a.took != 800*time.Millisecond {
			t.Errorf("one of two endpoints is known: %d %s after %v", a.code, a.text, a.took)
		}
		half = p.later(clustersPath, pollOf(`"resourceNames": ["a", "b"]`))
		p.say(cds, "a=1")
		(<-half).want(t, "one of two clusters is known", http.StatusServiceUnavailable)
		whole := p.later(clustersPath, pollOf(`"resourceNames": ["a", "b"]`))
		p.say(cds, "-b")
		(<-whole).want(t, "the other does not exist", http.StatusOK, "a")
	})
}

// TestPollLingers: the origin is subscribed to what was polled, also by a poll that got no answer
// (REST-10).
func TestPollLingers(t *testing.T) {
	restTest(t, nil, func(p *polling) {
		p.post(clustersPath, pollOf()).want(t, "nothing is known", http.StatusServiceUnavailable)
		p.say(cds, "a=1") // fails the test if it was never asked
		time.Sleep(5 * time.Second)
		p.post(clustersPath, pollOf()).want(t, "what came meanwhile is there", http.StatusOK, "a")
		time.Sleep(30 * time.Second)
		p.say(cds, "b=1")
		p.post(clustersPath, pollOf()).want(t, "it is subscribed still", http.StatusOK, "a", "b")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if groups, _ := inspect.Sharing(p.origin); groups != 0 {
			t.Errorf("%d groups are left after the linger", groups)
		}
	})
}

// TestPollHold: an unchanged poll waits for a change, which is told in full, and not for longer
// than rest_hold (REST-7).
func TestPollHold(t *testing.T) {
	hold := func(cfg *Config, _ *ListenerConfig) { cfg.Timing.RESTHold = 20 * time.Second }
	restTest(t, hold, func(p *polling) {
		a := p.filled()
		same := pollOf(`"versionInfo": "` + a.version() + `"`)
		if b := p.post(clustersPath, same).want(t, "nothing changes", http.StatusNotModified); b.took != 20*time.Second {
			t.Errorf("it took %v", b.took)
		}
		held := p.later(clustersPath, same)
		time.Sleep(5 * time.Second)
		p.say(cds, "c=1")
		if b := (<-held).want(t, "the set changes", http.StatusOK, "a", "b", "c"); b.took > 6*time.Second {
			t.Errorf("the change was told after %v", b.took)
		}
		held = p.later("/v3/discovery:endpoints", pollOf(`"resourceNames": ["a", "b"]`))
		p.say(eds, "a=", "b=")
		first := <-held
		held = p.later("/v3/discovery:endpoints", pollOf(`"resourceNames": ["a", "b"]`, `"versionInfo": "`+first.version()+`"`))
		time.Sleep(time.Second)
		p.say(eds, "a=\x12\x00")
		if b := <-held; b.code != http.StatusOK || strings.Count(b.text, `"clusterName"`) != 2 {
			t.Errorf("a changed: want both names, got %d %s", b.code, b.text)
		}

		held = p.later(clustersPath, pollOf(`"versionInfo": "`+p.post(clustersPath, pollOf()).version()+`"`))
		go p.server.Drain(context.Background(), time.Second)
		if b := (<-held).want(t, "a drain ends the hold", http.StatusNotModified); b.took > 5*time.Second {
			t.Errorf("it took %v", b.took)
		}
	})
}

// TestPollStatus: what is no poll is told so (REST-8), and so is what is refused.
func TestPollStatus(t *testing.T) {
	reg := prometheus.NewRegistry()
	restTest(t, func(cfg *Config, lc *ListenerConfig) {
		cfg.Metrics, cfg.Limits.RequestBytes, cfg.Limits.NamesPerStream = metrics.New(reg), 2000, 3
		lc.RequireNodeID = true
	}, func(p *polling) {
		for _, row := range []struct {
			method, path, body string
			code               int
			words              string
		}{
			{"GET", clustersPath, "", 405, "POST"},
			{"PUT", clustersPath, pollOf(), 405, "POST"},
			{"POST", "/", pollOf(), 404, ""},
			{"POST", "/v3/discovery:virtual_hosts", pollOf(), 404, ""},
			{"POST", "/v3/discovery:ads", pollOf(), 404, ""},
			{"POST", "/v2/discovery:clusters", pollOf(), 404, ""},
			{"POST", clustersPath, "", 400, ""},
			{"POST", clustersPath, "{", 400, "decode"},
			{"POST", clustersPath, `{"node": 7}`, 400, "decode"},
			{"POST", clustersPath, "{}", 400, "node.id"},
			{"POST", clustersPath, pollOf(`"resourceLocators": [{"name": "a"}]`), 400, "resource_locators"},
			{"POST", clustersPath, pollOf(`"resourceNames": ["` + strings.Repeat("x", 2000) + `"]`), 413, "limits.request_bytes"},
			{"POST", clustersPath, pollOf(`"resourceNames": ["a", "b", "c", "d"]`), 429, "limits.names_per_stream"},
			{"POST", clustersPath, pollOf(`"resourceNames": ["xdstp://nobody/x"]`), 200, "lacks a type"},
			{"POST", "/v3/discovery:secrets", pollOf(), 403, "secrets"},
		} {
			a := p.do(row.method, row.path, strings.NewReader(row.body), nil)
			if a.code != row.code || !strings.Contains(a.text, row.words) || a.took > 0 {
				t.Errorf("%s %s %.80s: want %d with %q, got %d %q after %v", row.method, row.path, row.body, row.code, row.words, a.code, a.text, a.took)
			}
		}
		if got := testutil.ToFloat64(counter(t, reg, "weir_polls_total", "refused")); got != 8 {
			t.Errorf("%v polls count as refused, want 8", got)
		}
	})
}

// counter is the child of a metric with one label.
func counter(t *testing.T, reg *prometheus.Registry, name, value string) prometheus.Collector {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "x"})
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && len(m.GetLabel()) > 0 && m.GetLabel()[len(m.GetLabel())-1].GetValue() == value {
				g.Add(m.GetCounter().GetValue())
			}
		}
	}
	return g
}

// TestPollWithoutDescriptor: a resource that has no JSON is left out, named and counted, where that
// deletes nothing. A client that may hold it is answered 500, and keeps what it has (REST-9).
func TestPollWithoutDescriptor(t *testing.T) {
	reg := prometheus.NewRegistry()
	restTest(t, func(cfg *Config, _ *ListenerConfig) { cfg.Metrics = metrics.New(reg) }, func(p *polling) {
		// A TypedExtensionConfig's second field is an Any.
		const path = "/v3/discovery:extension_configs"
		const ecds = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
		first := p.later(path, pollOf())
		p.say(ecds, "a=", "b=\x0a\x03x/y")
		a := (<-first).want(t, "the others, to who holds nothing", http.StatusOK, "a")
		if left := a.header.Get("Weir-Left-Out"); !strings.Contains(left, "x/y") || !strings.Contains(left, "types[") || !strings.Contains(left, `\"b\"`) {
			t.Errorf("what is left out is told as %s", left)
		}
		if got := testutil.ToFloat64(counter(t, reg, "weir_polls_total", "no_descriptor")); got != 1 {
			t.Errorf("%v are counted", got)
		}
		time.Sleep(5 * time.Second)
		p.post(path, pollOf(`"versionInfo": "`+a.version()+`"`)).want(t, "nothing has changed", http.StatusNotModified)
		if may := p.post(path, pollOf(`"versionInfo": "older"`)); may.code != http.StatusInternalServerError || !strings.Contains(may.text, "x/y") {
			t.Errorf("who may hold it got %d %s", may.code, may.text)
		}
		p.say(ecds, "a=", "b=")
		p.post(path, pollOf(`"versionInfo": "`+a.version()+`"`)).want(t, "it has JSON again", http.StatusOK, "a", "b")
	})
}

// TestPollByNameWithoutDescriptor: a name that is left out deletes nothing, so the others are sent
// to any client, unless there are none (REST-9).
func TestPollByNameWithoutDescriptor(t *testing.T) {
	restTest(t, nil, func(p *polling) {
		const path = "/v3/discovery:extension_configs"
		const ecds = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
		first := p.later(path, pollOf(`"resourceNames": ["a", "b"]`, `"versionInfo": "older"`))
		p.say(ecds, "a=", "b=\x0a\x03x/y")
		(<-first).want(t, "the other", http.StatusOK, "a")
		if none := p.post(path, pollOf(`"resourceNames": ["b"]`)); none.code != http.StatusInternalServerError || !strings.Contains(none.text, "x/y") {
			t.Errorf("there is no other: got %d %s", none.code, none.text)
		}
		p.post(path, pollOf(`"resourceNames": ["a"]`)).want(t, "the other alone", http.StatusOK, "a")
	})
}

// TestPollRefusesLast: a poll that refuses what it was told last is counted as a NACK, and is
// answered (REST-5).
func TestPollRefusesLast(t *testing.T) {
	reg := prometheus.NewRegistry()
	restTest(t, func(cfg *Config, _ *ListenerConfig) { cfg.Metrics = metrics.New(reg) }, func(p *polling) {
		a := p.filled()
		who := poller{p.origin, cds, "envoy-1"}
		if got := p.server.pollers.version(who); got != a.version() {
			t.Errorf("version %q is remembered, want %q", got, a.version())
		}
		p.post(clustersPath, pollOf(`"errorDetail": {"message": "no"}`)).want(t, "all the same", http.StatusOK, "a", "b")
		nacks := 0.0
		families, _ := reg.Gather()
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "weir_downstream_nacks_total" {
					nacks += m.GetCounter().GetValue()
				}
			}
		}
		if nacks != 1 {
			t.Errorf("%v NACKs are counted, want 1", nacks)
		}
	})
}

// TestPollCompression: JSON is compressed where the listener is so configured and the client takes
// it, and compressed requests are taken, within the limit.
func TestPollCompression(t *testing.T) {
	restTest(t, func(cfg *Config, lc *ListenerConfig) { lc.Compression, cfg.Limits.RequestBytes = "gzip", 10_000 }, func(p *polling) {
		p.filled()
		zip := func(text string) io.Reader {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, _ = w.Write([]byte(text))
			_ = w.Close()
			return &b
		}
		gzipped := http.Header{"Content-Encoding": {"gzip"}, "Accept-Encoding": {"br, gzip;q=0.5"}}
		a := p.do("POST", clustersPath, zip(pollOf()), gzipped)
		if a.code != 200 || a.header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("got %d %v", a.code, a.header)
		}
		r, err := gzip.NewReader(strings.NewReader(a.text))
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := io.ReadAll(r); !bytes.Contains(text, []byte(`"versionInfo"`)) {
			t.Errorf("it holds %s", text)
		}
		p.do("POST", clustersPath, zip(pollOf()), http.Header{"Content-Encoding": {"gzip"}, "Accept-Encoding": {"gzip;q=0"}}).
			want(t, "a client that does not take it", 200, "a", "b")
		p.do("POST", clustersPath, zip(pollOf(fmt.Sprintf(`"resourceNames": [%q]`, strings.Repeat("x", 20_000)))), gzipped).
			want(t, "a bomb", http.StatusRequestEntityTooLarge)
	})
}

// TestManyPollers: the JSON is made once for all, and not at all for who holds it.
func TestManyPollers(t *testing.T) {
	restTest(t, nil, func(p *polling) {
		p.filled()
		a := p.post(clustersPath, pollOf()) // by now the origin has said what it is called
		made := len(p.server.renderer.all)
		for range 50 {
			p.post(clustersPath, pollOf(`"versionInfo": "`+a.version()+`"`)).want(t, "it holds that", http.StatusNotModified)
			p.post(clustersPath, pollOf()).want(t, "it does not", http.StatusOK, "a", "b")
		}
		if got := len(p.server.renderer.all); got != made {
			t.Errorf("the JSON was made %d times before, and %d after", made, got)
		}
	})
}

// TestPollsInDrain: a replica that drains answers no more polls, and says so.
func TestPollsInDrain(t *testing.T) {
	restTest(t, nil, func(p *polling) {
		p.filled()
		cold := p.later("/v3/discovery:listeners", pollOf())
		p.server.refuse()
		p.post(clustersPath, pollOf()).want(t, "another is to be asked", http.StatusServiceUnavailable)
		go p.server.Drain(context.Background(), time.Second)
		if a := (<-cold); a.code != http.StatusServiceUnavailable || a.took > 100*time.Millisecond {
			t.Errorf("the poll under way ends with %d after %v", a.code, a.took)
		}
	})
}

// TestPollTLS: a listener for polls speaks TLS with HTTP/1.1 and HTTP/2, and without TLS HTTP/2 as
// well; failed handshakes are counted.
func TestPollTLS(t *testing.T) {
	serverTLS, clientTLS := certificates(t)
	serverTLS.NextProtos = []string{"h2", "http/1.1"}
	for _, row := range []struct {
		name  string
		tls   bool
		major int
	}{{"http1", false, 1}, {"h2c", false, 2}, {"https1", true, 1}, {"https2", true, 2}} {
		t.Run(row.name, func(t *testing.T) {
			reg, n := prometheus.NewRegistry(), relaytest.TCP()
			l := newLive(t, n, func(cfg *Config, lc *ListenerConfig) {
				cfg.Metrics, lc.REST = metrics.New(reg), true
				if row.tls {
					lc.TLS = serverTLS
				}
			})
			protocols, scheme := &http.Protocols{}, "http://"
			protocols.SetHTTP1(row.major == 1)
			protocols.SetUnencryptedHTTP2(row.major == 2 && !row.tls)
			protocols.SetHTTP2(row.major == 2 && row.tls)
			wire := &http.Transport{Protocols: protocols, TLSClientConfig: clientTLS}
			defer wire.CloseIdleConnections()
			if row.tls {
				scheme = "https://"
			}
			p := &polling{l, t, &http.Client{Transport: wire}, nil, scheme + n.Addr()}
			first := make(chan *answer, 1)
			go func() { first <- p.post(clustersPath, pollOf()) }()
			l.asked(t, 1)
			l.say(cds, "a=1")
			l.settle()
			if a := (<-first).want(t, "over "+row.name, http.StatusOK, "a"); a.major != row.major {
				t.Errorf("it spoke HTTP/%d", a.major)
			}
			if !row.tls {
				return
			}
			stranger := &http.Client{Transport: &http.Transport{}}
			if resp, err := stranger.Get(p.url + clustersPath); err == nil {
				_ = resp.Body.Close()
				t.Error("a client that does not know the certificate is served")
			}
			await(t, "the handshake that failed is counted", func() bool {
				return testutil.ToFloat64(counter(t, reg, "weir_handshake_failures_total", "refused_by_client")) == 1
			})
		})
	}
}
