package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/downstream"
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
	// TokenFile holds the bearer token that all but the probes need; it is read
	// at each request. Empty: none is needed.
	TokenFile string
	// ForbidActions refuses them: others can reach the address, and nothing
	// tells who is asking.
	ForbidActions bool

	// Log takes what happens; nil: nothing is logged.
	Log *zap.Logger
}

// Admin serves the port.
type Admin struct{ cfg Config }

// New makes the handlers' state. An unusable token file is an error.
func New(cfg Config) (*Admin, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.TokenFile != "" {
		if _, err := readToken(cfg.TokenFile); err != nil {
			return nil, err
		}
	}
	return &Admin{cfg}, nil
}

// Handler serves everything.
func (a *Admin) Handler() http.Handler {
	inner := http.NewServeMux()
	inner.HandleFunc("GET /{$}", a.page)
	inner.Handle("GET /metrics", a.metrics())
	inner.HandleFunc("GET /origins", a.origins)
	inner.HandleFunc("GET /groups", a.groups)
	inner.HandleFunc("GET /clients", a.clients)
	inner.HandleFunc("GET /resources", a.resources)
	inner.HandleFunc("GET /nacks", a.nacks)
	inner.HandleFunc("GET /config", a.config)
	inner.HandleFunc("GET /debug/pprof/", pprof.Index)
	inner.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	inner.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	inner.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	inner.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	inner.Handle("POST /drain", a.action(a.drain))
	inner.Handle("POST /origins/{name}/freeze", a.action(a.freeze))
	inner.Handle("POST /origins/{name}/unfreeze", a.action(a.unfreeze))
	inner.Handle("POST /guard/release", a.action(a.release))

	outer := http.NewServeMux()
	outer.HandleFunc("GET /healthz", a.healthz)
	outer.HandleFunc("GET /readyz", a.readyz)
	outer.Handle("/", a.authorized(inner))
	return hardened(outer)
}

// Probes serves what a kubelet and Prometheus need, without a token.
func (a *Admin) Probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", a.metrics())
	return hardened(mux)
}

// hardened keeps browsers from doing or concluding anything on behalf of other
// web sites.
func hardened(next http.Handler) http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'")
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

// authorized admits requests that carry the token.
func (a *Admin) authorized(next http.Handler) http.Handler {
	if a.cfg.TokenFile == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want, err := readToken(a.cfg.TokenFile)
		if err != nil {
			a.cfg.Log.Error("the admin token cannot be read; requests are refused", zap.Error(err))
			http.Error(w, "the token cannot be read", http.StatusServiceUnavailable)
			return
		}
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		// Sums are equally long, so that the comparison does not tell the length.
		sum, wantSum := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
		if !ok || subtle.ConstantTimeCompare(sum[:], wantSum[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
			http.Error(w, "this needs the token of admin.token_file", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// readToken refuses an empty file, or an empty token would open the port.
func readToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("%s holds no token", path)
	}
	return token, nil
}

func (a *Admin) action(do http.HandlerFunc) http.Handler {
	if !a.cfg.ForbidActions {
		return do
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "others can reach this address: actions need admin.token_file or admin.tls.client_ca", http.StatusForbidden)
	})
}

func (a *Admin) drain(w http.ResponseWriter, r *http.Request) {
	a.cfg.Log.Info("a drain was asked for", zap.String("remote", r.RemoteAddr))
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
