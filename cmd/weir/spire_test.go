package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	workloadapi "github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// spireWorkload is what an agent gives to a process.
type spireWorkload struct {
	id        string
	pair      tls.Certificate
	bundle    []*weirtest.Authority            // of the id's trust domain
	federated map[string][]*weirtest.Authority // by the SPIFFE ID of the trust domain
}

// spireAgent is an agent of SPIRE with one process: it speaks the real Workload API over a Unix
// socket, and gives what the test says.
type spireAgent struct {
	workloadapi.UnimplementedSpiffeWorkloadAPIServer

	// Set once by newSpireAgent.
	tb     testing.TB
	socket string

	mu      sync.Mutex // guards what follows
	gives   *workloadapi.X509SVIDResponse
	refuses error
	changed chan struct{} // closed, and replaced, when one of the two changes
	server  *grpc.Server  // nil: it does not run
	done    chan struct{} // closed when server has ended
	streams int
}

// newSpireAgent makes an agent that does not run yet. It ends with the test.
func newSpireAgent(tb testing.TB) *spireAgent {
	tb.Helper()
	dir, err := os.MkdirTemp("", "spire") // a test's own directory has too long a name for a socket
	if err != nil {
		tb.Fatal(err)
	}
	a := &spireAgent{tb: tb, socket: filepath.Join(dir, "agent.sock"), changed: make(chan struct{})}
	tb.Cleanup(func() {
		a.stop()
		_ = os.RemoveAll(dir) // the system does it some day
	})
	return a
}

// address returns the address of the socket.
func (a *spireAgent) address() string { return "unix://" + a.socket }

// start has the agent run.
func (a *spireAgent) start() {
	a.tb.Helper()
	l, err := net.Listen("unix", a.socket)
	if err != nil {
		a.tb.Fatal(err)
	}
	server, done := grpc.NewServer(), make(chan struct{})
	workloadapi.RegisterSpiffeWorkloadAPIServer(server, a)
	a.mu.Lock()
	a.server, a.done = server, done
	a.mu.Unlock()
	go func() {
		defer close(done)
		_ = server.Serve(l) // it ends with stop
	}()
}

// stop ends the agent as a crash does.
func (a *spireAgent) stop() {
	a.mu.Lock()
	server, done := a.server, a.done
	a.server = nil
	a.mu.Unlock()
	if server != nil {
		server.Stop()
		<-done
	}
}

// give has the agent give this from now on, also on streams that are open.
func (a *spireAgent) give(w spireWorkload) {
	a.tb.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(w.pair.PrivateKey)
	if err != nil {
		a.tb.Fatal(err)
	}
	var chain []byte
	for _, der := range w.pair.Certificate {
		chain = append(chain, der...)
	}
	next := &workloadapi.X509SVIDResponse{
		Svids:            []*workloadapi.X509SVID{{SpiffeId: w.id, X509Svid: chain, X509SvidKey: key, Bundle: concat(w.bundle)}},
		FederatedBundles: map[string][]byte{},
	}
	for domain, authorities := range w.federated {
		next.FederatedBundles[domain] = concat(authorities)
	}
	a.change(next, nil)
}

// refuse has the agent end all streams with an error.
func (a *spireAgent) refuse(err error) { a.change(nil, err) }

func (a *spireAgent) change(gives *workloadapi.X509SVIDResponse, refuses error) {
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

// openStreams returns how many streams are open.
func (a *spireAgent) openStreams() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.streams
}

// FetchX509SVID is the stream of certificates and authorities.
func (a *spireAgent) FetchX509SVID(_ *workloadapi.X509SVIDRequest, stream workloadapi.SpiffeWorkloadAPI_FetchX509SVIDServer) error {
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
