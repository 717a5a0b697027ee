package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weir-xds/weir/metrics"
)

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// over has a request come over a connection to a local address.
func over(local net.Addr) func(*http.Request) {
	return func(r *http.Request) {
		*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
	}
}

func header(key, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(key, value) }
}

// TestHosts: what is asked for under another name than the port's own is refused, or a web site
// that has its name turned to this address (DNS rebinding) reads and does everything by the
// browsers of its visitors.
func TestHosts(t *testing.T) {
	w := newWorld(t)
	w.cfg.Hosts = []string{"Weir.Example.com", "10.9.8.7", "own-name:19080", ":19080"}
	pod := over(&net.TCPAddr{IP: net.ParseIP("10.1.2.3"), Port: 19080})
	for _, name := range []string{
		"localhost", "localhost:19080", "LOCALHOST.", "127.0.0.1:1", "127.1.2.3", "[::1]:19080", "[::1]", "weir.example.com:443",
		"weir.example.com.", "10.9.8.7", "10.1.2.3:19080", "[::ffff:10.1.2.3]:19080", "own-name",
	} {
		want(t, w.get("/clients", host(name), pod), http.StatusOK)
		want(t, w.do(http.MethodPost, "/drain", host(name), pod), http.StatusAccepted)
	}
	w.drained = 0
	for _, name := range []string{
		"evil.example", "evil.example:19080", "", "localhost.evil.example", "127.0.0.1.evil.example", "xlocalhost", "10.1.2.4", "[2001:db8::1]:19080",
		"0.0.0.0", "weir.example.com@evil.example",
	} {
		for _, path := range []string{"/", "/overview", "/events", "/series", "/ui/style.css", "/clients", "/config", "/metrics", "/readyz", "/debug/pprof/heap"} {
			want(t, w.get(path, host(name), pod), http.StatusMisdirectedRequest, "admin.hosts")
		}
		want(t, w.do(http.MethodPost, "/drain", host(name), pod), http.StatusMisdirectedRequest, "admin.hosts")
		want(t, w.get("/healthz", host(name), pod), http.StatusOK)
	}
	if w.drained != 0 {
		t.Error("drained under another name")
	}
	// No browser reaches a Unix socket, and what is open is open to all.
	want(t, w.get("/clients", host("anything"), over(&net.UnixAddr{Name: "/run/weir.sock"})), http.StatusOK)
	w.cfg.Open = []string{"/metrics"}
	want(t, w.get("/metrics", host("weir.mesh.svc")), http.StatusOK)
	want(t, w.get("/clients", host("weir.mesh.svc")), http.StatusMisdirectedRequest)
}

// TestForeignPages: a page of another web site makes a browser do nothing.
func TestForeignPages(t *testing.T) {
	w := newWorld(t)
	for _, edit := range []func(*http.Request){
		header("Origin", "https://evil.example"), header("Origin", "http://localhost:1"), header("Origin", "null"),
		header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Site", "same-site"),
	} {
		want(t, w.do(http.MethodPost, "/drain", edit), http.StatusForbidden, "admin.hosts")
	}
	if w.drained != 0 {
		t.Fatal("drained by another site's page")
	}
	want(t, w.do(http.MethodPost, "/drain", header("Origin", "http://localhost:19080")), http.StatusAccepted)
}

// TestReachable: where others can reach the address, reading needs to be somebody as well, and only
// what is listed is open.
func TestReachable(t *testing.T) {
	w := newWorld(t)
	w.cfg.Reachable = true
	all := []string{"/", "/overview", "/series", "/ui/app.js", "/healthz", "/readyz", "/metrics", "/clients", "/config", "/debug/pprof/"}
	for _, path := range all {
		want(t, w.get(path), http.StatusForbidden, "admin.token_file or admin.tls.client_ca")
	}
	shown := func(r *http.Request) {
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{DNSNames: []string{"operator"}}}}}
	}
	unverified := func(r *http.Request) {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{DNSNames: []string{"operator"}}}}
	}
	for _, path := range all {
		want(t, w.get(path, shown), http.StatusOK)
		want(t, w.get(path, unverified), http.StatusForbidden)
	}
	w.cfg.TokenFile = tokenFile(t, "hush")
	for _, path := range all {
		want(t, w.get(path), http.StatusUnauthorized)
		want(t, w.get(path, bearer("hush")), http.StatusOK)
	}
	w.cfg.Open = []string{"/healthz", "/metrics"}
	for _, path := range w.cfg.Open {
		want(t, w.get(path), http.StatusOK)
		want(t, w.do(http.MethodPost, path), http.StatusUnauthorized)
	}
	want(t, w.get("/readyz"), http.StatusUnauthorized)
}

func TestPprofOff(t *testing.T) {
	w := newWorld(t)
	want(t, w.get("/"), http.StatusOK, "/debug/pprof/")
	w.cfg.Pprof = false
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1", "/debug/pprof/cmdline"} {
		want(t, w.get(path), http.StatusNotFound)
	}
	if body := w.get("/").Body.String(); strings.Contains(body, "pprof") {
		t.Error("the page leads to pprof")
	}
}

func tokenFile(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func from(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address }
}

// TestTries: who shows wrong tokens is slowed, by peer, without anybody waiting; it is counted, and
// logged once a minute.
func TestTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		reg := prometheus.NewRegistry()
		w.cfg.TokenFile, w.cfg.Counts = tokenFile(t, "hush"), metrics.New(reg)
		core, logs := observer.New(zap.WarnLevel)
		w.cfg.Log = zap.New(core)
		a, err := New(w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		guess := func(token string, edit ...func(*http.Request)) int {
			return ask(a, http.MethodGet, "/clients", append(edit, bearer(token))...).Code
		}
		wrong, slowed := 0, 0
		for i := range 1000 {
			switch code := guess(fmt.Sprint("guess ", i), from(fmt.Sprintf("192.0.2.1:%d", 1000+i))); code {
			case http.StatusUnauthorized:
				wrong++
			case http.StatusTooManyRequests:
				slowed++
			default:
				t.Fatalf("a guess is answered %d", code)
			}
		}
		if wrong != mostTries || slowed != 1000-mostTries {
			t.Errorf("%d of 1000 guesses at once were judged, %d told to wait; want %d", wrong, slowed, mostTries)
		}
		if code := guess("hush", from("192.0.2.1:9")); code != http.StatusTooManyRequests {
			t.Errorf("the right one is answered %d while its peer guesses: so the answer tells which it is", code)
		}
		if rec := ask(a, http.MethodGet, "/clients", bearer("hush"), from("192.0.2.1:9")); rec.Header().Get("Retry-After") == "" {
			t.Error("nobody says when to come again")
		}
		if code := guess("hush", from("192.0.2.2:9")); code != http.StatusOK {
			t.Errorf("another peer is answered %d", code)
		}
		if n := logs.FilterMessage("the admin port received wrong tokens").Len(); n != 1 {
			t.Errorf("%d lines of log, want 1", n)
		}
		for range 3 { // one more each second
			time.Sleep(tryEvery)
			if code := guess("hush", from("192.0.2.1:9")); code != http.StatusOK {
				t.Errorf("a second later the right one is answered %d", code)
			}
		}
		time.Sleep(sayEvery)
		guess("no", from("[2001:db8::1]:1"))
		lines := logs.FilterMessage("the admin port received wrong tokens").All()
		if len(lines) != 2 || lines[1].ContextMap()["since_the_last_line"] != int64(mostTries) || lines[1].ContextMap()["last_from"] != "2001:db8::/64" {
			t.Errorf("the log says %v", lines)
		}
		got, err := testutil.GatherAndCount(reg, "weir_admin_refusals_total")
		if err != nil || got != 6 {
			t.Errorf("%d series, %v", got, err)
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP weir_admin_refusals_total Requests refused by the admin port: unknown Host, page of another web site, no token or certificate, wrong token, or too many wrong tokens from one peer.
# TYPE weir_admin_refusals_total counter
weir_admin_refusals_total{reason="credentials"} 0
weir_admin_refusals_total{reason="host"} 0
weir_admin_refusals_total{reason="origin"} 0
weir_admin_refusals_total{reason="other"} 0
weir_admin_refusals_total{reason="slowed"} 992
weir_admin_refusals_total{reason="token"} 11
`), "weir_admin_refusals_total"); err != nil {
			t.Error(err)
		}
	})
}

// TestTriesAreBounded: peers that are made up cost neither memory nor those who are right.
func TestTriesAreBounded(t *testing.T) {
	var x tries
	now := time.Unix(1, 0)
	for i := range 10 * mostPeers {
		x.take(fmt.Sprint(i), now)
	}
	if len(x.peers) > mostPeers+1 {
		t.Errorf("%d peers are kept", len(x.peers))
	}
	if _, ok := x.take("a new one", now); ok {
		t.Error("those who are not told apart have tries without end")
	}
	now = now.Add(mostTries * tryEvery)
	for range mostTries {
		if _, ok := x.take("a new one", now); !ok {
			t.Error("who has waited has a try")
		}
	}
	if len(x.peers) > mostPeers {
		t.Errorf("%d peers are kept of whom nothing is to be known any more", len(x.peers))
	}
}

// signIn shows a token on the page, and gives the cookie.
func signIn(t *testing.T, a *Admin, token string, edit ...func(*http.Request)) (*httptest.ResponseRecorder, *http.Cookie) {
	t.Helper()
	form := func(r *http.Request) {
		r.Body = io.NopCloser(strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+r.Host)
		r.Header.Set("Accept", "text/html")
	}
	rec := ask(a, http.MethodPost, signInPath, append(edit, form)...)
	for _, c := range rec.Result().Cookies() {
		return rec, c
	}
	return rec, nil
}

func with(c *http.Cookie) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value}) }
}

// TestSignIn: a person opens the page with the token; what the browser then has is no token, cannot
// be read by scripts or sent for other sites, and ends.
func TestSignIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cfg.TokenFile, w.cfg.Reachable = tokenFile(t, "hush"), true
		a, err := New(w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		page := header("Accept", "text/html,application/xhtml+xml")
		rec := ask(a, http.MethodGet, "/", page)
		want(t, rec, http.StatusUnauthorized, `<form method="post" action="/sign-in">`, `type="password"`)
		if csp := rec.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self'") {
			t.Errorf("the form cannot be sent: %q", csp)
		}
		if body := ask(a, http.MethodGet, "/clients").Body.String(); strings.Contains(body, "<form") {
			t.Error("a program is shown the form")
		}
		rec, c := signIn(t, a, "hus")
		want(t, rec, http.StatusUnauthorized, "not the token", "<form")
		if c != nil {
			t.Fatal("a wrong token gives a cookie")
		}
		rec, c = signIn(t, a, "hush")
		want(t, rec, http.StatusSeeOther)
		if c == nil || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" || c.Domain != "" ||
			strings.Contains(c.Value, "hush") || c.MaxAge != int(sessionFor.Seconds()) {
			t.Fatalf("the cookie is %+v", c)
		}
		_, over := signIn(t, a, "hush", func(r *http.Request) { r.TLS = &tls.ConnectionState{}; r.URL.Scheme = "https" })
		if over == nil || !over.Secure || !strings.HasPrefix(over.Name, "__Host-") {
			t.Errorf("over TLS it is %+v", over)
		}
		want(t, ask(a, http.MethodGet, "/", page, with(c)), http.StatusOK, "<h1>weir", "/sign-out")
		want(t, ask(a, http.MethodGet, "/config", with(c)), http.StatusOK)
		changed := *c
		changed.Value = "A" + c.Value[1:]
		if changed.Value == c.Value {
			changed.Value = "B" + c.Value[1:]
		}
		want(t, ask(a, http.MethodGet, "/config", with(&changed)), http.StatusUnauthorized)

		// By cookie, an action is for a page of this port that says so.
		want(t, ask(a, http.MethodPost, "/drain", with(c)), http.StatusForbidden)
		want(t, ask(a, http.MethodPost, "/drain", with(c), header("Sec-Fetch-Site", "none")), http.StatusForbidden)
		want(t, ask(a, http.MethodPost, "/drain", with(c), header("Origin", "http://evil.example")), http.StatusForbidden)
		if w.drained != 0 {
			t.Fatal("drained")
		}
		want(t, ask(a, http.MethodPost, "/drain", with(c), header("Sec-Fetch-Site", "same-origin")), http.StatusAccepted)
		rec = ask(a, http.MethodPost, signOutPath, with(c), header("Sec-Fetch-Site", "same-origin"))
		if out := rec.Result().Cookies(); rec.Code != http.StatusSeeOther || len(out) != 1 || out[0].Name != c.Name || out[0].MaxAge >= 0 {
			t.Errorf("signing out: %d, %v", rec.Code, out)
		}

		// It ends with the process, with the token, and with time.
		other, err := New(w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		want(t, ask(other, http.MethodGet, "/config", with(c)), http.StatusUnauthorized)
		again := *c
		again.Name = other.sessions.name(false)
		want(t, ask(other, http.MethodGet, "/config", with(&again)), http.StatusUnauthorized)
		if err := os.WriteFile(w.cfg.TokenFile, []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		want(t, ask(a, http.MethodGet, "/config", with(c)), http.StatusUnauthorized)
		if err := os.WriteFile(w.cfg.TokenFile, []byte("hush"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sessionFor - time.Second)
		want(t, ask(a, http.MethodGet, "/config", with(c)), http.StatusOK)
		time.Sleep(2 * time.Second)
		want(t, ask(a, http.MethodGet, "/config", with(c)), http.StatusUnauthorized)
	})
}

// TestSignInIsSlowed: the form is no way around.
func TestSignInIsSlowed(t *testing.T) {
	w := newWorld(t)
	w.cfg.TokenFile = tokenFile(t, "hush")
	a, err := New(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range mostTries {
		rec, _ := signIn(t, a, "no")
		want(t, rec, http.StatusUnauthorized)
	}
	rec, c := signIn(t, a, "hush")
	want(t, rec, http.StatusTooManyRequests, "wait some seconds")
	if c != nil {
		t.Error("a cookie is given")
	}
	// Nor does a form without end cost anything.
	long := func(r *http.Request) { r.RemoteAddr = "192.0.2.9:1" }
	if rec, c = signIn(t, a, strings.Repeat("x", 1<<20), long); c != nil || rec.Code != http.StatusUnauthorized {
		t.Errorf("%d, %v", rec.Code, c)
	}
}

// TestWho: the log says who does something.
func TestWho(t *testing.T) {
	w := newWorld(t)
	core, logs := observer.New(zap.InfoLevel)
	w.cfg.Log = zap.New(core)
	spiffe, err := url.Parse("spiffe://corp/ops/ann")
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(r *http.Request) {
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{URIs: []*url.URL{spiffe}}}}}
	}
	user := func(r *http.Request) {
		*r = *r.WithContext(context.WithValue(r.Context(), socketUser{}, caller("uid 1000")))
	}
	for by, row := range map[string]struct {
		token string
		edit  func(*http.Request)
	}{
		"anonymous": {"", func(*http.Request) {}},
		"client certificate spiffe://corp/ops/ann": {"", certificate},
		"uid 1000": {"", user},
		"token":    {"hush", bearer("hush")},
		"client certificate spiffe://corp/ops/ann, token": {"hush", func(r *http.Request) { certificate(r); bearer("hush")(r) }},
	} {
		w.cfg.TokenFile = ""
		if row.token != "" {
			w.cfg.TokenFile = tokenFile(t, row.token)
		}
		for _, path := range []string{"/drain", "/origins/mesh/freeze", "/origins/mesh/unfreeze", "/guard/release"} {
			if rec := w.do(http.MethodPost, path, row.edit); rec.Code > 299 {
				t.Fatalf("%s by %s: %d", path, by, rec.Code)
			}
			lines := logs.TakeAll()
			if len(lines) != 1 || lines[0].ContextMap()["by"] != by || lines[0].ContextMap()["remote"] != "192.0.2.1:1234" {
				t.Errorf("%s by %s: the log says %v", path, by, lines)
			}
		}
	}
}
