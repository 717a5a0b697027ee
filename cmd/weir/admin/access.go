package admin

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"go.uber.org/zap"
)

// Who is answered: the Host and origin checks, and the caller of a request.

// caller identifies the sender of a request in the log: "client certificate spiffe://...", "token",
// "session", "uid 0", "anonymous".
type caller string

const (
	anonymous caller = "anonymous"
	byToken   caller = "token"
	bySession caller = "session"
)

type callerKey struct{}

// who returns the caller of an action, for the log.
func who(r *http.Request) []zap.Field {
	return []zap.Field{zap.String("by", nameOf(r)), zap.String("remote", r.RemoteAddr)}
}

// nameOf is what the caller of a request is called.
func nameOf(r *http.Request) string {
	by, _ := r.Context().Value(callerKey{}).(caller)
	return string(by)
}

// refusal is the answer to a request that is not served.
type refusal struct {
	code   int
	reason string // label of weir_admin_refusals_total
	text   string
}

var (
	foreignHost = &refusal{
		http.StatusMisdirectedRequest, "host",
		"this port does not answer to that Host: ask for it by its address or as localhost, or list the name in admin.hosts",
	}
	foreignPage = &refusal{
		http.StatusForbidden, "origin",
		"pages of other web sites neither act nor read here; this page does under localhost, its address or a name in admin.hosts",
	}
	nobody = &refusal{
		http.StatusForbidden, "credentials",
		"others can reach this address: this needs admin.token_file or admin.tls.client_ca",
	}
	noToken    = &refusal{http.StatusUnauthorized, "credentials", "this needs the token of admin.token_file"}
	wrongToken = &refusal{http.StatusUnauthorized, "token", "that is not the token of admin.token_file"}
	tooMany    = &refusal{http.StatusTooManyRequests, "slowed", "too many wrong tokens came from there: wait some seconds"}
	unreadable = &refusal{http.StatusServiceUnavailable, "credentials", "the token cannot be read"}
	untrusted  = &refusal{http.StatusForbidden, "credentials", "the certificate of this connection is not trusted any more"}
)

// Error has a refusal be the cause of the end of a context.
func (r *refusal) Error() string { return r.text }

// admitted serves permitted requests, and answers all others with the reason.
func (a *Admin) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by, refused := a.judge(r)
		if refused != nil {
			a.refuse(w, r, refused)
			return
		}
		l, done := a.admit(r, by)
		defer done()
		// A gRPC server that loses its context sends no status, so calls end by interceptors.
		ctx := l.ctx
		if isGRPC(r) {
			ctx = r.Context()
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, leaseKey{}, l)))
	})
}

func (a *Admin) refuse(w http.ResponseWriter, r *http.Request, why *refusal) {
	a.cfg.Counts.AdminRefusal(why.reason)
	if why == untrusted {
		w.Header().Set("Connection", "close")
	}
	if isGRPC(r) {
		refuseGRPC(w, why)
		return
	}
	switch why.code {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "5")
	}
	if why.code != http.StatusMisdirectedRequest && a.cfg.TokenFile != "" && wantsPage(r) {
		a.signInPage(w, why)
		return
	}
	http.Error(w, why.text, why.code)
}

// wantsPage reports whether a browser shows the answer to a person.
func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.URL.Path == signInPath) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// judge returns the caller of a request, or why it is not served.
func (a *Admin) judge(r *http.Request) (caller, *refusal) { return a.judgeBy(r, a.try) }

// judgeAgain is judge for a request that was admitted. A token that was right is no guess, so it
// uses up no tries, and guesses of others do not count.
func (a *Admin) judgeAgain(r *http.Request) (caller, *refusal) {
	return a.judgeBy(r, func(_ *http.Request, given, want string) *refusal {
		if !equal(given, want) {
			return wrongToken
		}
		return nil
	})
}

// judgeBy judges a request, and its token by try.
func (a *Admin) judgeBy(r *http.Request, try func(r *http.Request, given, want string) *refusal) (caller, *refusal) {
	if a.cfg.Trusts != nil && r.TLS != nil && a.cfg.Trusts(r.TLS) != nil {
		return "", untrusted
	}
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	// A liveness check gets no information, and may use any name for the host.
	if reading && (r.URL.Path == "/healthz" && !a.cfg.Reachable || slices.Contains(a.cfg.Open, r.URL.Path)) {
		return anonymous, nil
	}
	if !a.hasName(r) {
		return "", foreignHost
	}
	by := connected(r)
	switch {
	case a.cfg.TokenFile == "" && (!a.cfg.Reachable || certified(r)):
		return by, nil
	case a.cfg.TokenFile == "":
		return "", nobody
	case reading && r.URL.Path == "/readyz" && !a.cfg.Reachable, r.URL.Path == signInPath, reading && r.URL.Path == signInStyle:
		return by, nil
	}
	with, refused := a.credentials(r, try)
	switch {
	case refused != nil:
		return "", refused
	case with == bySession && !reading && !sameOrigin(r):
		return "", foreignPage
	case by != anonymous:
		with = by + ", " + with
	}
	return with, nil
}

// hasName reports whether a request names this port in Host. A web site can have its own name
// resolve to this address (DNS rebinding): then browsers send that name, and treat the answer as
// the site's own.
func (a *Admin) hasName(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if _, socket := local.(*net.UnixAddr); socket {
		return true // browsers cannot reach it
	}
	host := hostOf(r.Host)
	if host == "localhost" || slices.Contains(a.hosts, host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	ip = plain(ip)
	if t, ok := local.(*net.TCPAddr); ok && plain(t.AddrPort().Addr()) == ip {
		return true
	}
	return ip.IsLoopback() || ofThisMachine(ip)
}

// hostOf returns the host of a Host header, or of a config value, in normal form.
func hostOf(text string) string {
	host := text
	if h, _, err := net.SplitHostPort(text); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if ip, err := netip.ParseAddr(host); err == nil {
		return plain(ip).String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func plain(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

func ofThisMachine(ip netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addrs, func(x net.Addr) bool {
		p, err := netip.ParsePrefix(x.String())
		return err == nil && plain(p.Addr()) == ip
	})
}

// sameOrigin reports whether the browser states that a page of this port sends the request.
// Requests from other sites' pages were refused before; this refuses those that state nothing.
func sameOrigin(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "same-origin" || r.Header.Get("Origin") != ""
}

// foreignRead reports whether a browser asks for something on behalf of a page of another web site,
// or of another port. That page cannot read the answer, and it would cost. A link to a page is
// followed.
func foreignRead(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false // CrossOriginProtection judges it
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "": // the browser is old, or the port is reached in plain text under another name than localhost
		origin := r.Header.Get("Origin")
		u, err := url.Parse(origin)
		return origin != "" && (err != nil || u.Host != r.Host)
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// certified reports whether the client showed a certificate that admin.tls.client_ca verifies.
func certified(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }

// connected returns the caller as the connection identifies it.
func connected(r *http.Request) caller {
	if certified(r) {
		return "client certificate " + caller(identityOf(r.TLS.VerifiedChains[0][0]))
	}
	if user, ok := r.Context().Value(socketUser{}).(caller); ok {
		return user
	}
	return anonymous
}

// identityOf returns whom a certificate is for: its first URI, as in SPIFFE, else its first DNS
// name, else its subject.
func identityOf(cert *x509.Certificate) string {
	switch {
	case len(cert.URIs) > 0:
		return cert.URIs[0].String()
	case len(cert.DNSNames) > 0:
		return cert.DNSNames[0]
	}
	return cert.Subject.String()
}

// peerOf returns whom wrong tokens count for: a network, or on a Unix socket the user.
func peerOf(r *http.Request) string {
	if peer, is := NetworkOf(r.RemoteAddr); is {
		return peer
	}
	return string(connected(r))
}

// NetworkOf returns what the host at an address with a port is given: an IPv4 address, or an IPv6
// network of 64 bits.
func NetworkOf(address string) (network string, is bool) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return "", false
	}
	ip, bits := plain(at.Addr()), 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // the address has that many bits
	return p.String(), true
}
