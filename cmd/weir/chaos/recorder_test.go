package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/weir-xds/weir/relay/relaytest"
)

// wants says what a recorder asks for of a type.
type wants struct {
	typeURL string
	wild    bool     // everything
	names   []string // otherwise these
	// or as many as there are clusters held, by their names, as proxies do with endpoints
	follow bool
}

// recorder is a client that comes back with what it holds whenever its stream ends, and writes down
// everything it is sent.
type recorder struct {
	// Set once.
	name    string
	dialect relaytest.Dialect
	wants   []wants
	sotw    bool // it, or weir with the origin, speaks state of the world
	conn    *grpc.ClientConn
	cancel  context.CancelFunc
	done    chan struct{}

	mu       sync.Mutex // guards all below
	history  history
	forgets  bool // keeps no history from now on
	held     holding
	versions map[string]string // SotW: the last version accepted, by type URL
	asking   map[string]map[string]bool
	streams  int
	messages int
	latest   time.Time          // when the last stream was opened
	drop     context.CancelFunc // ends the present stream
}

// clientParams is how recorders connect: as quickly as a test wants, with as many pings as are
// allowed.
func clientParams(creds credentials.TransportCredentials) []grpc.DialOption {
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	quick := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: 20 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		grpc.WithNoProxy(),
	}
}

// connect makes a connection, which tb closes; nil for credentials is plain text.
func connect(tb testing.TB, addr string, creds credentials.TransportCredentials) *grpc.ClientConn {
	tb.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, clientParams(creds)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// record starts a recorder on a connection that others may share; tb stops it.
func record(tb testing.TB, conn *grpc.ClientConn, name string, dialect relaytest.Dialect, ws ...wants) *recorder {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &recorder{
		name: name, dialect: dialect, sotw: dialect == relaytest.SotW, wants: ws, conn: conn, cancel: cancel, done: make(chan struct{}),
		held: holding{}, versions: map[string]string{}, asking: map[string]map[string]bool{},
		history: history{client: name, dialect: dialect, wild: map[string]bool{}, ordered: len(ws) == len(types)},
	}
	for _, w := range ws {
		r.history.wild[w.typeURL] = w.wild
	}
	go r.run(ctx)
	tb.Cleanup(r.stop)
	return r
}

// stop ends the recorder and waits for it.
func (r *recorder) stop() {
	r.cancel()
	<-r.done
}

// reconnect ends the present stream, from this side; the next follows at once.
func (r *recorder) reconnect() {
	r.mu.Lock()
	drop := r.drop
	r.mu.Unlock()
	if drop != nil {
		drop()
	}
}

// run keeps a stream open until ctx ends.
func (r *recorder) run(ctx context.Context) {
	defer close(r.done)
	for ctx.Err() == nil {
		stream, drop := context.WithCancel(ctx)
		r.mu.Lock()
		r.drop = drop
		r.mu.Unlock()
		err := r.stream(stream)
		drop()
		r.note(event{kind: ended, err: err})
		select {
		case <-time.After(time.Duration(20+rand.IntN(80)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// adsStream is one stream of either dialect.
type adsStream interface {
	first(w wants, names []string) error
	ack(w wants, nonce, version string) error
	names(w wants, nonce, version string, add, drop, all []string) error
	receive() (response, error)
}

// response is an answer of either dialect.
type response struct {
	event
	nonce, version string
}

// stream runs one stream to its end.
func (r *recorder) stream(ctx context.Context) error {
	s, err := r.open(ctx)
	if err != nil {
		return err
	}
	r.note(event{kind: opened})
	nonces := map[string]string{}
	for _, w := range r.wants {
		if err := s.first(w, r.naming(w)); err != nil {
			return r.why(s, err)
		}
	}
	for {
		resp, err := s.receive()
		if err != nil {
			return err
		}
		r.take(&resp)
		nonces[resp.typeURL] = resp.nonce
		for _, w := range r.wants {
			if w.typeURL == resp.typeURL {
				if err := s.ack(w, resp.nonce, resp.version); err != nil {
					return r.why(s, err)
				}
			}
			if w.follow && resp.typeURL == cds {
				if err := r.follow(s, w, nonces[w.typeURL]); err != nil {
					return r.why(s, err)
				}
			}
		}
	}
}

// why is what the stream ended with: a failed send says only that it did.
func (r *recorder) why(s adsStream, err error) error {
	for range 1000 {
		if _, e := s.receive(); e != nil {
			return e
		}
	}
	return err
}

// naming notes and gives the names that a first request asks for.
func (r *recorder) naming(w wants) []string {
	names := w.names
	if w.follow {
		r.mu.Lock()
		names = slices.Sorted(maps.Keys(r.held[cds]))
		r.mu.Unlock()
	}
	if w.wild {
		return nil
	}
	r.ask(w.typeURL, names)
	return names
}

// ask notes which names are wanted from now on.
func (r *recorder) ask(typeURL string, names []string) {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	r.mu.Lock()
	r.asking[typeURL] = set
	r.mu.Unlock()
	r.note(event{kind: asked, typeURL: typeURL, names: set})
}

// follow asks for the endpoints of the clusters held now.
func (r *recorder) follow(s adsStream, w wants, nonce string) error {
	r.mu.Lock()
	var add, drop []string
	for name := range r.held[cds] {
		if !r.asking[w.typeURL][name] {
			add = append(add, name)
		}
	}
	for name := range r.asking[w.typeURL] {
		if _, ok := r.held[cds][name]; !ok {
			drop = append(drop, name)
		}
	}
	all := slices.Sorted(maps.Keys(r.held[cds]))
	version := r.versions[w.typeURL]
	r.mu.Unlock()
	if len(add)+len(drop) == 0 {
		return nil
	}
	r.ask(w.typeURL, all)
	return s.names(w, nonce, version, add, drop, all)
}

// note writes an event down and applies it.
func (r *recorder) note(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.at = time.Now()
	switch e.kind {
	case opened:
		r.streams++
		r.latest = e.at
	case answer:
		r.messages++
	case asked, ended:
	}
	r.held.apply(&e)
	if !r.forgets {
		r.history.events = append(r.history.events, e)
	}
}

// take notes an answer; its version counts as accepted.
func (r *recorder) take(resp *response) {
	r.note(resp.event)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[resp.typeURL] = resp.version
}

// differs says what the recorder holds otherwise than it should, empty if nothing.
func (r *recorder) differs(state map[string]map[string]resource) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	want := map[string]func(string) bool{}
	for _, w := range r.wants {
		switch {
		case w.wild:
			want[w.typeURL] = func(string) bool { return true }
		case w.follow:
			want[w.typeURL] = func(name string) bool { _, ok := r.held[cds][name]; return ok }
		default:
			want[w.typeURL] = func(name string) bool { return slices.Contains(w.names, name) }
		}
	}
	return converged(state, r.held, want, r.sotw)
}

// past is a copy of the history so far.
func (r *recorder) past() *history {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.history
	h.events = slices.Clone(h.events)
	return &h
}

// counts are the streams opened and the answers received so far.
func (r *recorder) counts() (streams, messages int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams, r.messages
}

// openedSince reports whether a stream was opened after a moment.
func (r *recorder) openedSince(t time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest.After(t)
}

// known gives the versions held, as a delta client presents them.
func (r *recorder) known(typeURL string) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	versions := map[string]string{}
	for name, i := range r.held[typeURL] {
		versions[name] = i.version
	}
	return versions
}

// isCanary reports whether weir tries changes on it, if it has a gate.
func (r *recorder) isCanary() bool { return strings.HasPrefix(r.name, "canary ") }

func (r *recorder) node() *core.Node {
	if r.isCanary() {
		return relaytest.Node(r.name, "canary")
	}
	return relaytest.Node(r.name, "chaos")
}

// holds is a copy of what it holds.
func (r *recorder) holds() holding {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := holding{}
	for typeURL, set := range r.held {
		h[typeURL] = maps.Clone(set)
	}
	return h
}

// open opens a stream, waiting for the connection.
func (r *recorder) open(ctx context.Context) (adsStream, error) {
	client := discovery.NewAggregatedDiscoveryServiceClient(r.conn)
	if r.dialect == relaytest.SotW {
		s, err := client.StreamAggregatedResources(ctx, grpc.WaitForReady(true))
		return &sotw{s, r}, err
	}
	s, err := client.DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	return &delta{s, r}, err
}

type sotw struct {
	discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	r *recorder
}

func (s *sotw) first(w wants, names []string) error {
	s.r.mu.Lock()
	version := s.r.versions[w.typeURL]
	s.r.mu.Unlock()
	if w.follow && len(names) == 0 {
		return nil // nobody names anything yet, and to name nothing is to ask for everything
	}
	return s.Send(&discovery.DiscoveryRequest{TypeUrl: w.typeURL, ResourceNames: names, VersionInfo: version, Node: s.r.node()})
}

func (s *sotw) ack(w wants, nonce, version string) error {
	s.r.mu.Lock()
	names := slices.Sorted(maps.Keys(s.r.asking[w.typeURL]))
	s.r.mu.Unlock()
	if w.wild {
		names = nil
	}
	return s.Send(&discovery.DiscoveryRequest{TypeUrl: w.typeURL, ResourceNames: names, VersionInfo: version, ResponseNonce: nonce})
}

func (s *sotw) names(w wants, nonce, version string, _, _, all []string) error {
	return s.Send(&discovery.DiscoveryRequest{TypeUrl: w.typeURL, ResourceNames: all, VersionInfo: version, ResponseNonce: nonce})
}

func (s *sotw) receive() (response, error) {
	m, err := s.Recv()
	if err != nil {
		return response{}, err
	}
	resp := response{nonce: m.Nonce, version: m.VersionInfo}
	resp.event = event{kind: answer, typeURL: m.TypeUrl, full: fullState(m.TypeUrl)}
	for _, a := range m.Resources {
		i, err := read(a)
		if err != nil {
			return response{}, fmt.Errorf("a response that cannot be read: %w", err)
		}
		resp.items = append(resp.items, i)
	}
	return resp, nil
}

type delta struct {
	discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	r *recorder
}

func (d *delta) first(w wants, names []string) error {
	if w.follow && len(names) == 0 {
		return nil
	}
	return d.Send(&discovery.DeltaDiscoveryRequest{
		TypeUrl: w.typeURL, ResourceNamesSubscribe: names, InitialResourceVersions: d.r.known(w.typeURL), Node: d.r.node(),
	})
}

func (d *delta) ack(w wants, nonce, _ string) error {
	return d.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: w.typeURL, ResponseNonce: nonce})
}

func (d *delta) names(w wants, _, _ string, add, drop, _ []string) error {
	return d.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: w.typeURL, ResourceNamesSubscribe: add, ResourceNamesUnsubscribe: drop})
}

func (d *delta) receive() (response, error) {
	m, err := d.Recv()
	if err != nil {
		return response{}, err
	}
	resp := response{nonce: m.Nonce, version: m.SystemVersionInfo}
	resp.event = event{kind: answer, typeURL: m.TypeUrl, removed: m.RemovedResources}
	for _, res := range m.Resources {
		var i item
		if res.Resource == nil {
			continue
		}
		if i, err = read(res.Resource); err != nil {
			return response{}, fmt.Errorf("a response that cannot be read: %w", err)
		}
		i.version = res.Version
		resp.items = append(resp.items, i)
	}
	return resp, nil
}
