package admin

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/csds"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
)

// Config says what is shown. It is not modified after New; all but the fields
// that say otherwise are required.
type Config struct {
	// Name and Version are the process's, Started its birth.
	Name, Version string
	Started       time.Time

	// Table is asked for groups and resources.
	Table *relay.Table
	// Origins, Clients and Readiness give the present state.
	Origins   func() []Origin
	Clients   func() []downstream.ClientStatus
	Readiness func() Readiness
	// Snapshot is how the last known good on disk stands; nil: there is none.
	Snapshot func() *Snapshot
	// Metrics is what /metrics shows.
	Metrics prometheus.Gatherer
	// Effective is the configuration in force, secrets masked, as YAML.
	Effective func() ([]byte, ConfigState)
	// Readable is a body as JSON.
	Readable func(*anypb.Any) json.RawMessage

	// Drain begins an orderly end and returns at once.
	Drain func()
	// TokenFile holds the bearer token that requests need; it is read at each. Empty: none is
	// needed.
	TokenFile string
	// Reachable: others than this machine can reach the address. Then everything but Open needs the
	// token, or without one a client certificate that the port has verified. If not, /healthz and
	// /readyz need nothing.
	Reachable bool
	// Hosts are what requests may name as their Host, besides localhost, loopback and the addresses
	// of this machine, with or without a port. Requests over a Unix socket may name anything.
	Hosts []string
	// Open are those of OpenPaths that are answered to everybody, under any Host.
	Open []string
	// Pprof serves /debug/pprof/.
	Pprof bool
	// ClientStatus is posted requests for client status in JSON, and GRPC serves whatever comes
	// over HTTP/2 as gRPC; nil: they are not there.
	ClientStatus, GRPC http.Handler

	// Counts counts who was refused; nil: nothing is counted.
	Counts *metrics.Metrics
	// Log takes what happens; nil: nothing is logged.
	Log *zap.Logger
}

// Admin serves the port.
type Admin struct {
	// Set once by New.
	cfg      Config
	hosts    []string // in one spelling
	sessions *sessions

	tries                   tries
	wrongTokens, unreadable seldom
}

// New makes the handlers' state. An unusable token file is an error.
func New(cfg Config) (*Admin, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.TokenFile != "" {
		if _, err := ReadToken(cfg.TokenFile); err != nil {
			return nil, err
		}
	}
	a := &Admin{cfg: cfg, sessions: newSessions()}
	for _, text := range cfg.Hosts {
		if host := hostOf(text); host != "" {
			a.hosts = append(a.hosts, host)
		}
	}
	return a, nil
}

// Handler serves everything. The server's ConnContext is to be that of this package.
func (a *Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /{$}", a.page)
	mux.Handle("GET /metrics", a.metrics())
	mux.HandleFunc("GET /origins", a.origins)
	mux.HandleFunc("GET /groups", a.groups)
	mux.HandleFunc("GET /groups/suggest", a.suggest)
	mux.HandleFunc("GET /clients", a.clients)
	mux.HandleFunc("GET /resources", a.resources)
	mux.HandleFunc("GET /nacks", a.nacks)
	mux.HandleFunc("GET /config", a.config)
	if a.cfg.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	if a.cfg.TokenFile != "" {
		mux.Handle("GET "+signInPath, http.RedirectHandler("/", http.StatusSeeOther))
		mux.HandleFunc("POST "+signInPath, a.signIn)
		mux.HandleFunc("POST "+signOutPath, a.signOut)
	}
	if a.cfg.ClientStatus != nil {
		mux.Handle("POST "+csds.Path, a.cfg.ClientStatus)
	}
	mux.HandleFunc("POST /drain", a.drain)
	mux.HandleFunc("POST /origins/{name}/freeze", a.freeze)
	mux.HandleFunc("POST /origins/{name}/unfreeze", a.unfreeze)
	mux.HandleFunc("POST /guard/release", a.release)
	return a.hardened(a.admitted(a.split(mux)))
}

// Probes serves what a kubelet and Prometheus need, to everybody and under any Host.
func (a *Admin) Probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", a.metrics())
	return a.hardened(mux)
}

// hardened keeps browsers from doing or concluding anything on behalf of other
// web sites.
func (a *Admin) hardened(next http.Handler) http.Handler {
	pages := http.NewCrossOriginProtection()
	pages.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a.cfg.Counts.AdminRefusal(foreignPage.reason)
		http.Error(w, foreignPage.text, foreignPage.code)
	}))
	return pages.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	}))
}

func (a *Admin) metrics() http.Handler {
	return promhttp.HandlerFor(a.cfg.Metrics, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError,
	})
}

func (a *Admin) drain(w http.ResponseWriter, r *http.Request) {
	a.cfg.Log.Info("a drain was asked for", who(r)...)
	a.cfg.Drain()
	w.WriteHeader(http.StatusAccepted)
	writeText(w, "draining\n")
}

func (a *Admin) config(w http.ResponseWriter, _ *http.Request) {
	text, state := a.cfg.Effective()
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	writeText(w, state.comment()+string(text))
}

// writeText writes to somebody who may have left, which is their business.
func writeText(w http.ResponseWriter, s string) {
	_, _ = w.Write([]byte(s))
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	writeText(w, string(text)+"\n")
}
