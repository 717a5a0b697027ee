// Package spire is an agent of SPIRE for tests: it speaks the real Workload API over a Unix socket,
// and gives what the test says.
package spire

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// Workload is what an agent gives to a process.
type Workload struct {
	ID        string
	Pair      tls.Certificate
	Bundle    []*weirtest.Authority            // of the ID's trust domain
	Federated map[string][]*weirtest.Authority // by the SPIFFE ID of the trust domain
}

// Agent is an agent with one process.
type Agent struct {
	workload.UnimplementedSpiffeWorkloadAPIServer

	// Set once by New.
	tb     testing.TB
	socket string

	mu      sync.Mutex // guards what follows
	gives   *workload.X509SVIDResponse
	refuses error
	changed chan struct{} // closed, and replaced, when one of the two changes
	server  *grpc.Server  // nil: it does not run
	done    chan struct{} // closed when server has ended
	streams int
}

// New makes an agent that does not run yet. It ends with the test.
func New(tb testing.TB) *Agent {
	tb.Helper()
	dir, err := os.MkdirTemp("", "spire") // a test's own directory has too long a name for a socket
	if err != nil {
		tb.Fatal(err)
	}
	a := &Agent{tb: tb, socket: filepath.Join(dir, "agent.sock"), changed: make(chan struct{})}
	tb.Cleanup(func() {
		a.Stop()
		_ = os.RemoveAll(dir) // the system does it some day
	})
	return a
}

// Address returns the address of the socket.
func (a *Agent) Address() string { return "unix://" + a.socket }

// Start has the agent run.
func (a *Agent) Start() {
	a.tb.Helper()
	l, err := net.Listen("unix", a.socket)
	if err != nil {
		a.tb.Fatal(err)
	}
	server, done := grpc.NewServer(), make(chan struct{})
	workload.RegisterSpiffeWorkloadAPIServer(server, a)
	a.mu.Lock()
	a.server, a.done = server, done
	a.mu.Unlock()
	go func() {
		defer close(done)
		_ = server.Serve(l) // it ends with Stop
	}()
}

// Stop ends the agent as a crash does.
func (a *Agent) Stop() {
	a.mu.Lock()
	server, done := a.server, a.done
	a.server = nil
	a.mu.Unlock()
	if server != nil {
		server.Stop()
		<-done
	}
}

// Give has the agent give this from now on, also on streams that are open.
func (a *Agent) Give(w Workload) {
	a.tb.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(w.Pair.PrivateKey)
	if err != nil {
		a.tb.Fatal(err)
	}
	var chain []byte
	for _, der := range w.Pair.Certificate {
		chain = append(chain, der...)
	}
	next := &workload.X509SVIDResponse{
		Svids:            []*workload.X509SVID{{SpiffeId: w.ID, X509Svid: chain, X509SvidKey: key, Bundle: concat(w.Bundle)}},
		FederatedBundles: map[string][]byte{},
	}
	for domain, authorities := range w.Federated {
		next.FederatedBundles[domain] = concat(authorities)
	}
	a.change(next, nil)
}

// Refuse has the agent end all streams with an error.
func (a *Agent) Refuse(err error) { a.change(nil, err) }

func (a *Agent) change(gives *workload.X509SVIDResponse, refuses error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gives, a.refuses = gives, refuses
	close(a.changed)
	a.changed = make(chan struct{})
}

func concat(authorities []*weirtest.Authority) (der []byte) {
	for _, x := range authorities {
		der = append(der, x.DER()...)
	}
	return der
}

// Streams returns how many streams are open.
func (a *Agent) Streams() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.streams
}

// FetchX509SVID is the stream of certificates and authorities.
func (a *Agent) FetchX509SVID(_ *workload.X509SVIDRequest, stream workload.SpiffeWorkloadAPI_FetchX509SVIDServer) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	if len(md.Get("workload.spiffe.io")) != 1 {
		return status.Error(codes.InvalidArgument, "security header missing from request")
	}
	a.mu.Lock()
	a.streams++
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.streams--
		a.mu.Unlock()
	}()
	for {
		a.mu.Lock()
		gives, refuses, changed := a.gives, a.refuses, a.changed
		a.mu.Unlock()
		if refuses != nil {
			return refuses
		}
		if gives != nil {
			if err := stream.Send(gives); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}
