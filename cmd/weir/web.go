package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/csds"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/cmd/weir/sensitive"
	"github.com/weir-xds/weir/downstream"
)

// Modes of Unix sockets. The admin port shows more than the listeners do, so its socket is the
// owner's alone.
const (
	adminSocketMode  = 0o600
	probesSocketMode = 0o660
)

// closeWait bounds how long requests in flight may take at the end.
const closeWait = time.Second

// web is one HTTP port.
type web struct {
	name     string
	listener net.Listener
	server   *http.Server
}

// The times of ports that are not for clients. Programs that ask rarely, as Prometheus does,
// connect again: a connection that says nothing takes a place (ownPlaces).
const (
	headerWait = 5 * time.Second
	idleWait   = 20 * time.Second
	// probesWrite is how long an answer of the probes port may take to be read.
	probesWrite = 30 * time.Second
	// webStreams bounds the requests at a time on one connection of HTTP/2.
	webStreams = 64
)

// newWeb makes a port with so many places, without its handler.
func newWeb(name string, raw net.Listener, places int, t *tls.Config, log *zap.Logger) *web {
	own := newOwnPlaces(raw, placesOf(places, fileLimit()), log)
	l := net.Listener(own)
	if t != nil {
		l = tls.NewListener(own, t)
	}
	// Failed handshakes and the like are the peer's fault.
	errorLog, err := zap.NewStdLogAt(log, zap.DebugLevel)
	if err != nil {
		panic(err) // cannot happen: the level exists
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &web{name, l, &http.Server{
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: webStreams, WriteByteTimeout: 30 * time.Second},
		ReadHeaderTimeout: headerWait,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      2 * time.Minute, // profiles extend it by their own time
		IdleTimeout:       idleWait,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          errorLog,
		ConnState:         own.state,
	}}
}

// serve serves until the port is closed.
func (w *web) serve() error {
	if err := w.server.Serve(w.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s, %s: %w", w.name, w.listener.Addr(), err)
	}
	return nil
}

// close shuts the port down: gracefully if requests end in time, otherwise at once.
func (w *web) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	if w.server.Shutdown(ctx) != nil {
		_ = w.server.Close() // nothing else can be done
	}
}

// webs returns the HTTP ports that are open.
func (p *process) webs() []*web {
	if p.probes == nil {
		return []*web{p.admin}
	}
	return []*web{p.probes, p.admin}
}

// allWebs returns webs, and the port for siblings, which is served before all else.
func (p *process) allWebs() []*web {
	if p.siblings.port == nil {
		return p.webs()
	}
	return append([]*web{p.siblings.port}, p.webs()...)
}

// openAdmin opens the ports for operators.
func (p *process) openAdmin(ctx context.Context) error {
	cfg := p.config()
	c := &cfg.Admin
	secured, err := p.tls.port(cfg, "admin.tls", roleAdmin, c.TLS, "h2", "http/1.1")
	if err != nil {
		return err
	}
	if err := secured.ready(ctx); err != nil {
		return cfg.Problemf("admin.tls.spiffe", "%v", err)
	}
	l, err := listen(ctx, c.Address, adminSocketMode)
	if err != nil {
		return cfg.Problemf("admin.address", "cannot listen on %s: %v", c.Address, err)
	}
	p.admin = newWeb("admin", l, adminPlaces, secured.server(), p.logger(levels.Admin))
	version, _ := buildVersion()
	host, err := instance(cfg)
	if err != nil {
		return err
	}
	clients := csds.New(csds.Config{Table: p.table, Clients: func() *downstream.Server { return p.server }, Blank: sensitive.Blank})
	calls := p.operatorCalls(clients)
	p.admin.server.RegisterOnShutdown(calls.Stop) // open streams would take closeWait
	pages, err := admin.New(admin.Config{
		Name: cfg.Name, Version: version, Started: p.started, Host: host, Replicas: p.replicasOf(),
		Table: p.table, Metrics: p.registry, Effective: p.effective, Readiness: p.readiness,
		Readable: func(body *anypb.Any) json.RawMessage { return readable(body, p.active.Load().types) },
		Origins: func() []admin.Origin {
			states, _ := p.originStates()
			return states
		},
		Clients: func() []downstream.ClientStatus { return p.server.Clients() },
		Explain: func(nodeID, typeURL, name string) []downstream.Explained {
			return p.server.Explain(nodeID, typeURL, name)
		},
		Rejections: func() []downstream.Rejection { return p.server.Rejections() },
		Decisions:  func() downstream.Decisions { return p.server.Decisions() },
		Follow:     func(node string) (*downstream.Follower, func(), error) { return p.server.Follow(node) },
		Snapshot:   p.kept.status,
		Certificates: func() map[string]time.Time {
			ends, _ := p.tls.expiry()
			return ends
		},
		Memory: func() admin.Memory {
			return admin.Memory{Used: p.memory.used.Load(), Limit: p.memory.limit.Load(), Short: p.table.Tight()}
		},
		Freeze: func(origin string, on bool) (string, bool, error) {
			return p.rollbacks.freeze(origin, on, time.Now())
		},
		Rollback: p.rollback, Rollforward: p.rollforward,
		Canary:    p.operateCanary,
		Durable:   p.kept.durable,
		Drain:     p.drain,
		TokenFile: c.TokenFile,
		Trusts:    secured.stillTrusts(),
		Reachable: !local(l.Addr()),
		Hosts:     append(slices.Clone(c.Hosts), c.Address),
		Open:      c.Open,
		Pprof:     c.Pprof,
		GRPC:      calls, ClientStatus: clients,
		Counts: p.metrics,
		Log:    p.logger(levels.Admin),
		Levels: p.levels,
	})
	if err != nil {
		return cfg.Problemf("admin.token_file", "%v", err)
	}
	p.pages = pages
	p.admin.server.Handler, p.admin.server.ConnContext = p.whenRestored(pages.Handler()), admin.ConnContext
	address := cfg.Probes.Address
	if address == "" {
		return nil
	}
	if l, err = listen(ctx, address, probesSocketMode); err != nil {
		return cfg.Problemf("probes.address", "cannot listen on %s: %v", address, err)
	}
	p.probes = newWeb("probes", l, probesPlaces, nil, p.logger(levels.Admin))
	// Kubelet and Prometheus speak HTTP/1.1 in plain text, and their requests have no bodies.
	p.probes.server.Protocols.SetHTTP2(false)
	p.probes.server.Protocols.SetUnencryptedHTTP2(false)
	p.probes.server.ReadTimeout, p.probes.server.WriteTimeout = headerWait, probesWrite
	p.probes.server.Handler = p.whenRestored(pages.Probes())
	return nil
}

// restoredWait is how long a request waits for the end of the restoring. A kubelet gives a probe a
// second.
const restoredWait = 900 * time.Millisecond

// whenRestored answers for the pages while the process restores what it starts with, or asks its
// siblings: it is alive, and not ready.
func (p *process) whenRestored(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			ctx, cancel := context.WithTimeout(r.Context(), restoredWait)
			defer cancel()
			select {
			case <-p.restored:
			case <-ctx.Done():
				http.Error(w, "starting: the snapshot is being restored, or siblings are asked (cache.seed.timeout)", http.StatusServiceUnavailable)
				return
			}
		}
		pages.ServeHTTP(w, r)
	})
}

// stillTrusts returns why the client certificate of an open connection is not trusted any more, as
// admin.Config has it: it has ended, or the files that say whom to trust have changed.
func (s *secured) stillTrusts() func(*tls.ConnectionState) error {
	judge := s.judge(x509.ExtKeyUsageClientAuth)
	if judge == nil {
		return nil
	}
	return func(state *tls.ConnectionState) error {
		if all := state.PeerCertificates; len(all) > 0 && time.Now().After(all[0].NotAfter) {
			return errors.New("the certificate has ended")
		}
		return judge(state)
	}
}

// local reports whether only this machine can reach an address.
func local(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return !ok || t.IP.IsLoopback()
}

// healthEvery is how often the health of whoever watches it is looked at.
const healthEvery = time.Second

// operatorCalls makes the gRPC services of the admin port: client status, channelz, health and
// reflection. The port itself does HTTP, and decides who may call.
//
// channelz shows the connections of the listeners and to origins. grpc-go begins to note these
// because the service is linked, whoever asks: some 60 bytes for each connection, and two
// atomic additions for each message.
func (p *process) operatorCalls(clients *csds.Server) *grpc.Server {
	s := grpc.NewServer(admin.CallOptions()...)
	statusv3.RegisterClientStatusDiscoveryServiceServer(s, clients)
	channelz.RegisterChannelzServiceToServer(s)
	healthpb.RegisterHealthServer(s, health{ready: func() bool { return p.readiness().Ready }, services: s.GetServiceInfo})
	reflection.Register(s)
	return s
}

// health answers like /readyz, over gRPC, for the port and each of its services alike.
type health struct {
	healthpb.UnimplementedHealthServer
	ready    func() bool
	services func() map[string]grpc.ServiceInfo
}

// Check answers once. A service that the port does not have is NOT_FOUND.
func (h health) Check(_ context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	now := h.status(req.GetService())
	if now == healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Errorf(codes.NotFound, "%q is no service of this port", req.GetService())
	}
	return &healthpb.HealthCheckResponse{Status: now}, nil
}

// Watch answers at once and after each change, until the caller or the process ends. A service that
// the port does not have is SERVICE_UNKNOWN, as the health protocol has it.
func (h health) Watch(req *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	last := healthpb.HealthCheckResponse_UNKNOWN
	for {
		if now := h.status(req.GetService()); now != last {
			last = now
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// status is the state of a service of the port; "": of all.
func (h health) status(service string) healthpb.HealthCheckResponse_ServingStatus {
	if _, known := h.services()[service]; service != "" && !known {
		return healthpb.HealthCheckResponse_SERVICE_UNKNOWN
	}
	if h.ready() {
		return healthpb.HealthCheckResponse_SERVING
	}
	return healthpb.HealthCheckResponse_NOT_SERVING
}
