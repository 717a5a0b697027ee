package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// svidWait is how long a port waits for its first certificate before it is given up.
	svidWait = 30 * time.Second
	// svidMoment is how long a connection to an origin waits for it, before it fails as if the
	// origin had refused it.
	svidMoment = time.Second
	// agentPause is how long an agent is left alone if the library gives up asking it.
	agentPause = 5 * time.Second
)

// agent is a SPIFFE Workload API, as an agent of SPIRE serves it on a Unix socket. All places of
// the config file that name the socket share it. It gives certificates and authorities in place of
// files. Those that it gave last stay in force, whatever becomes of it.
type agent struct {
	// Set once by join.
	socket string
	first  chan struct{} // closed when latest is set
	cancel context.CancelFunc
	done   chan struct{} // closed when run has returned

	// Guarded by certificates.mu.
	users  int
	latest *workload // nil: it has given nothing
	silent error     // why it gives nothing now; nil: it does, or has not been asked
}

// workload is what an agent gives. It never changes.
type workload struct {
	id            string
	svid, bundles *loaded
}

func (w *workload) of(role string) *loaded {
	switch {
	case w == nil:
		return &loaded{}
	case role == roleSVID:
		return w.svid
	}
	return w.bundles
}

// join makes a place of the config file one that an agent gives certificates to. Closing the pair
// ends that.
func (c *certificates) join(path, socket string) (a *agent, pair, ca *material) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a = c.agents[socket]; a == nil {
		a = &agent{socket: socket, first: make(chan struct{}), done: make(chan struct{})}
		c.agents[socket] = a
		var ctx context.Context
		ctx, a.cancel = context.WithCancel(context.Background())
		go c.ask(ctx, a)
	}
	a.users++
	pair = &material{path: path, role: roleSVID, agent: a, drop: func() { c.leave(a) }}
	ca = &material{path: path, role: roleBundle, agent: a, drop: func() {}}
	for _, m := range []*material{pair, ca} {
		m.current.Store(a.latest.of(m.role))
		c.all = append(c.all, m)
	}
	return a, pair, ca
}

// leave ends an agent that nobody uses any more.
func (c *certificates) leave(a *agent) {
	c.mu.Lock()
	a.users--
	last := a.users == 0
	if last {
		delete(c.agents, a.socket)
	}
	c.mu.Unlock()
	if last {
		a.end()
	}
}

func (a *agent) end() {
	a.cancel()
	<-a.done
}

// end ends all agents, when nothing is served any more.
func (c *certificates) end() {
	c.mu.Lock()
	agents := c.agents
	c.agents = make(map[string]*agent)
	c.mu.Unlock()
	for _, a := range agents {
		a.end()
	}
}

// ask watches what an agent gives until ctx ends. The library gives up on some answers; a later one
// may be better.
func (c *certificates) ask(ctx context.Context, a *agent) {
	defer close(a.done)
	client, err := workloadapi.New(ctx, workloadapi.WithAddr(a.socket), workloadapi.WithDialOptions(
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second}}),
	))
	if err != nil { // our own bug: the configuration's checks have accepted the address
		c.missed(ctx, a, err)
		return
	}
	defer func() { _ = client.Close() }() // nothing is asked any more
	for ctx.Err() == nil {
		_ = client.WatchX509Context(ctx, agentWatcher{c, a, ctx}) // the watcher has been told why
		select {
		case <-ctx.Done():
		case <-time.After(agentPause):
		}
	}
}

// agentWatcher implements workloadapi.X509ContextWatcher.
type agentWatcher struct {
	certificates *certificates
	agent        *agent
	ctx          context.Context
}

// OnX509ContextUpdate takes what an agent gives into use.
func (w agentWatcher) OnX509ContextUpdate(x *workloadapi.X509Context) {
	next, err := workloadOf(x)
	if err != nil {
		w.OnX509ContextWatchError(err)
		return
	}
	w.certificates.give(w.agent, next)
}

// OnX509ContextWatchError notes why an agent gives nothing.
func (w agentWatcher) OnX509ContextWatchError(err error) { w.certificates.missed(w.ctx, w.agent, err) }

// give takes what an agent gives into use in all places.
func (c *certificates) give(a *agent, next *workload) {
	c.mu.Lock()
	first := a.latest == nil
	a.latest, a.silent = next, nil
	var changed []func()
	for _, m := range c.all {
		if m.agent != a {
			continue
		}
		m.current.Store(next.of(m.role))
		if f := m.changed.Load(); f != nil {
			changed = append(changed, *f)
		}
	}
	if first {
		close(a.first) // now all places have it, and who waited for it takes no lock
	}
	c.mu.Unlock()
	for _, f := range changed {
		f()
	}
	c.log.Info("certificates of the Workload API are in use", zap.String("socket", a.socket), zap.String("identity", next.id),
		zap.Time("expire", next.svid.ends))
}

// missed logs that an agent gives nothing, once for each kind of reason.
func (c *certificates) missed(ctx context.Context, a *agent, err error) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	before, latest := a.silent, a.latest
	a.silent = err
	c.mu.Unlock()
	if before != nil && status.Code(before) == status.Code(err) {
		return
	}
	fields := []zap.Field{zap.String("socket", a.socket), zap.Error(err)}
	if status.Code(err) == codes.PermissionDenied {
		fields = append(fields, zap.String("advice", "is there a registration entry for this process?"))
	}
	if latest == nil {
		c.log.Warn("the Workload API has no certificates; retrying", fields...)
		return
	}
	c.log.Warn("the Workload API does not answer; its last certificates stay in force; retrying",
		append(fields, zap.Time("expire", latest.svid.ends))...)
}

// given reports whether there are certificates, and waits for the first.
func (a *agent) given(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-a.first:
		return true
	case <-ctx.Done():
	case <-a.done:
	case <-timer.C:
	}
	return false
}

// none is why there is no certificate.
func (c *certificates) none(a *agent) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.silent == nil {
		return fmt.Errorf("the Workload API at %s has not answered", a.socket)
	}
	return fmt.Errorf("the Workload API at %s gives no certificate: %w", a.socket, a.silent)
}

// workloadOf is what an agent gives, if it is of use: its first certificate, and the authorities of
// all trust domains.
func workloadOf(x *workloadapi.X509Context) (*workload, error) {
	own := x.DefaultSVID()
	pair := &tls.Certificate{PrivateKey: own.PrivateKey, Leaf: own.Certificates[0]}
	svid := &loaded{pair: pair}
	for i, cert := range own.Certificates {
		pair.Certificate = append(pair.Certificate, cert.Raw)
		if i == 0 || cert.NotAfter.Before(svid.ends) {
			svid.begins, svid.ends = cert.NotBefore, cert.NotAfter
		}
	}
	bundles := &loaded{pool: x509.NewCertPool(), bundles: x.Bundles}
	for _, b := range x.Bundles.Bundles() {
		for _, cert := range b.X509Authorities() {
			bundles.pool.AddCert(cert)
			if b.TrustDomain() == own.ID.TrustDomain() && cert.NotAfter.After(bundles.ends) {
				bundles.begins, bundles.ends = cert.NotBefore, cert.NotAfter
			}
		}
	}
	if bundles.ends.IsZero() {
		return nil, fmt.Errorf("the trust bundle of %s holds no authority", own.ID.TrustDomain())
	}
	return &workload{own.ID.String(), svid, bundles}, nil
}
