package admin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/csds"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/cmd/weir/visible"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
)

// Config says what the port shows. It is not modified after New. Fields are required unless they
// say otherwise.
type Config struct {
	// Name and Version are the process's; Started is its start.
	Name, Version string
	Started       time.Time

	// Table has the groups and resources.
	Table *relay.Table
	// Origins, Clients and Readiness return the current state.
	Origins   func() []Origin
	Clients   func() []downstream.ClientStatus
	Readiness func() Readiness
	// Explain returns what the streams of a node have to do with a name of a type.
	Explain func(nodeID, typeURL, name string) []downstream.Explained
	// Rejections are what clients refused, the newest first.
	Rejections func() []downstream.Rejection
	// Decisions is what the rules of authorization decided.
	Decisions func() downstream.Decisions
	// Certificates are the next ends of validity by role, as in metrics.
	Certificates func() map[string]time.Time
	// Memory is what is used of the limit.
	Memory func() Memory
	// Follow begins to follow the client with a node id.
	Follow func(node string) (_ *downstream.Follower, stop func(), _ error)
	// Snapshot returns the state of the snapshot, or nil if there is none.
	Snapshot func() *Snapshot
	// Host is the name of the machine or pod; empty: it has none. Replicas asks the other replicas
	// how they are doing; nil: none is known.
	Host     string
	Replicas func(context.Context) []Replica
	// Metrics are served at /metrics.
	Metrics prometheus.Gatherer
	// Effective returns the configuration in force as YAML, with secrets masked. changed: only the
	// keys that differ from their defaults.
	Effective func(changed bool) ([]byte, ConfigState)
	// Readable returns a body as JSON.
	Readable func(*anypb.Any) json.RawMessage

	// Freeze has an operator keep the clients of a configured origin at what they have, or let them
	// go. It returns an answer of one line and whether anything has changed, or why not.
	Freeze func(origin string, on bool) (said string, changed bool, _ error)
	// Rollback has an operator take groups of a configured origin back to an earlier state, and
	// Rollforward let them go on. A RefusedOrder says why not.
	Rollback, Rollforward func(RollbackOrder) (Rolled, error)
	// Canary has an operator act on the candidate of a group of a configured origin; of no group,
	// on the only one. It returns an answer of one line, or why not.
	Canary func(ctx context.Context, origin, group string, act gate.Act, by string) (said string, err error)
	// Durable has on disk what an order of an operator has changed, and returns what to add to its
	// answer: "" if it is there. holds: it keeps clients at something.
	Durable func(ctx context.Context, holds bool) string
	// Drain begins an orderly shutdown and returns at once.
	Drain func()
	// TokenFile has the bearer token that requests need; it is read for each. Empty: none is
	// needed.
	TokenFile string
	// Trusts returns why the client certificate of a connection is not trusted any more, and nil if
	// it is, or there is none; nil: nothing says whom to trust.
	Trusts func(*tls.ConnectionState) error
	// Reachable: other machines can reach the address. Then everything except Open needs the token,
	// or, if there is none, a verified client certificate. Otherwise /healthz and /readyz need
	// nothing.
	Reachable bool
	// Hosts are the values of Host that are accepted, besides localhost, loopback and this
	// machine's addresses, with or without a port. Over a Unix socket any is.
	Hosts []string
	// Open are those of /healthz, /readyz and /metrics that are served to everybody, under any
	// Host.
	Open []string
	// Pprof serves /debug/pprof/.
	Pprof bool
	// ClientStatus serves client status requests in JSON, and GRPC all gRPC requests.
	ClientStatus, GRPC http.Handler

	// Counts counts refused requests; nil: not counted.
	Counts *metrics.Metrics
	// Log gets actions and refusals.
	Log *zap.Logger
	// Levels say what is logged.
	Levels *levels.Levels
}

// Admin has the handlers of the port.
type Admin struct {
	// Set once by New.
	cfg      Config
	hosts    []string // in normal form
	sessions *sessions
	ui       *ui

	board      board
	series     series
	roster     roster
	eventRooms chan struct{} // one for each open stream of events
	held       chan struct{} // one for each costly answer
	making     chan struct{} // one slot, for the costly answer that is being made
	status     chan struct{} // one slot, for the answer of client status that is made or read
	profiles   chan struct{} // one for each profile that is being taken
	ended      chan struct{} // closed when Run has ended

	leases                  leases
	tries                   tries
	wrongTokens, unreadable seldom
}

// New makes an Admin. An unusable token file is an error.
func New(cfg Config) (*Admin, error) {
	if cfg.TokenFile != "" {
		if _, err := ReadToken(cfg.TokenFile); err != nil {
			return nil, err
		}
	}
	a := &Admin{
		cfg: cfg, sessions: newSessions(), ui: newUI(), eventRooms: make(chan struct{}, mostEvents), held: make(chan struct{}, mostHeld),
		making: make(chan struct{}, 1), status: make(chan struct{}, 1), profiles: make(chan struct{}, mostProfiles), ended: make(chan struct{}),
	}
	a.board.compute = a.overview
	for _, text := range cfg.Hosts {
		if host := hostOf(text); host != "" {
			a.hosts = append(a.hosts, host)
		}
	}
	return a, nil
}

// Handler serves everything. The http.Server has to use this package's ConnContext.
func (a *Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /{$}", a.page)
	mux.HandleFunc("GET "+uiPath+"{file...}", a.uiFile)
	mux.HandleFunc("GET /overview", inJSON(a.getOverview))
	mux.HandleFunc("GET /replicas", inJSON(a.replicas))
	mux.HandleFunc("GET /events", answers(a.events))
	mux.HandleFunc("GET /series", answers(a.getSeries))
	mux.Handle("GET /metrics", a.metrics())
	for path, answer := range map[string]func(*http.Request) (any, error){
		"origins": a.origins, "groups": a.groups, "groups/suggest": a.suggest, "clients": a.clients, "explain": a.explain,
		"resources": a.resources, "nacks": a.nacks, "nacks/book": a.nackBook, "history": a.history, "history/diff": a.historyDiff,
		"history/chart": a.historyChart, "authz": a.authz,
	} {
		mux.HandleFunc("GET /"+path, a.costly(inJSON(answer)))
	}
	mux.HandleFunc("GET /config", answers(a.config))
	mux.HandleFunc("GET /explain/follow", answers(a.follow))
	mux.HandleFunc("GET /log", inJSON(a.levels))
	mux.HandleFunc("POST /log", inText(a.setLevel))
	if a.cfg.Pprof {
		a.handleProfiles(mux)
	}
	if a.cfg.TokenFile != "" {
		mux.HandleFunc("GET "+signInStyle, a.style)
		mux.Handle("GET "+signInPath, http.RedirectHandler("/", http.StatusSeeOther))
		mux.HandleFunc("POST "+signInPath, a.signIn)
		mux.HandleFunc("POST "+signOutPath, a.signOut)
	}
	mux.HandleFunc("POST "+csds.Path, a.clientStatus)
	mux.HandleFunc("POST /drain", a.drain)
	mux.HandleFunc("POST /origins/{name}/freeze", inText(a.freeze(true)))
	mux.HandleFunc("POST /origins/{name}/unfreeze", inText(a.freeze(false)))
	mux.HandleFunc("POST /origins/{name}/rollback", answers(a.rollback))
	mux.HandleFunc("POST /origins/{name}/rollforward", answers(a.rollforward))
	mux.HandleFunc("POST /origins/{name}/canary", inText(a.canary))
	mux.HandleFunc("POST /guard/release", inText(a.release))
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

// contentSecurity has browsers run scripts and styles of this port's files only, and talk to nobody
// else. With trusted types a script cannot turn a peer's text into markup.
const contentSecurity = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"frame-ancestors 'none'; form-action 'self'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// hardened keeps browsers from acting, or asking for anything, on behalf of other web sites, and
// bounds what is read of a request.
func (a *Admin) hardened(next http.Handler) http.Handler {
	refuse := func(w http.ResponseWriter) {
		a.cfg.Counts.AdminRefusal(foreignPage.reason)
		http.Error(w, foreignPage.text, foreignPage.code)
	}
	pages := http.NewCrossOriginProtection()
	pages.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { refuse(w) }))
	return pages.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if foreignRead(r) {
			refuse(w)
			return
		}
		if !isGRPC(r) { // whose server bounds messages
			r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		}
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurity)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	}))
}

func (a *Admin) metrics() http.Handler {
	plain := promhttp.HandlerFor(a.cfg.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	// Only OpenMetrics has exemplars.
	open := promhttp.HandlerFor(a.cfg.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, EnableOpenMetrics: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.cfg.Counts.HasExemplars() {
			open.ServeHTTP(w, r)
			return
		}
		plain.ServeHTTP(w, r)
	})
}

func (a *Admin) drain(w http.ResponseWriter, r *http.Request) {
	a.cfg.Log.Info("drain requested", who(r)...)
	a.cfg.Drain()
	a.board.outdated()
	w.WriteHeader(http.StatusAccepted)
	writeText(w, "draining\n")
}

func (a *Admin) config(w http.ResponseWriter, r *http.Request) error {
	p := a.params(r, "changed")
	changed := p.flag("changed")
	if p.err != nil {
		return p.err
	}
	text, state := a.cfg.Effective(changed)
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	writeText(w, state.comment()+string(text))
	return nil
}

// writeText writes an answer, with what peers have hidden in names shown: JSON stays the same. An
// error means that the client has left, which does not matter.
func writeText(w http.ResponseWriter, s string) {
	_, _ = w.Write([]byte(visible.Lines(s)))
}

// writeLine writes JSON without indentation: a long answer for a program.
func writeLine(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	writeText(w, string(text)+"\n")
}
