package fleet

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// script is a server that does what a test says, and remembers what it was sent. It is the plane
// behind the control endpoint, too.
type script struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	world.Counter
	t       *testing.T
	world   *world.World
	addr    string
	control string
	stop    func() // ends all streams, so that what they were sent can be looked at

	// What it does otherwise than it should; set before anybody comes.
	// streams that are ended after their first request
	endFirst  int
	first     func(client int) []int                 // resources in the first response
	withholds func(client int, change int) bool      // no response for that change
	delays    func(client, change int) time.Duration // before the response
	hangsUp   func(client, change int) bool          // the stream ends instead of the response

	mu      sync.Mutex
	streams []*scripted
	stamps  []world.Stamp // by resource
	changes int
	sent    int64 // bytes
}

// scripted is one stream.
type scripted struct {
	number int
	hungUp chan struct{}
	delta  discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	sotw   discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer

	mu       sync.Mutex // held for sends; guards all below
	nonces   int
	deltaGot []*discovery.DeltaDiscoveryRequest
	sotwGot  []*discovery.DiscoveryRequest
}

func newScript(t *testing.T, kind world.Kind, resources int) *script {
	t.Helper()
	w, err := world.New(world.Options{Kind: kind, Resources: resources, Bytes: 200})
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, world: w, stamps: make([]world.Stamp, resources)}
	for i := range s.stamps {
		s.stamps[i] = world.Now()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	discovery.RegisterAggregatedDiscoveryServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	control := httptest.NewServer(world.Control(w, s))
	s.stop = sync.OnceFunc(func() {
		control.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	s.addr, s.control = l.Addr().String(), strings.TrimPrefix(control.URL, "http://")
	return s
}

func (s *script) join(c *scripted) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endFirst > 0 {
		s.endFirst--
		return status.Error(codes.Unavailable, "not today")
	}
	c.number = len(s.streams)
	s.streams = append(s.streams, c)
	return nil
}

func (s *script) DeltaAggregatedResources(g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	c := &scripted{delta: g, hungUp: make(chan struct{})}
	return s.serve(c, func() error {
		r, err := g.Recv()
		if err == nil {
			c.mu.Lock()
			c.deltaGot = append(c.deltaGot, r)
			c.mu.Unlock()
		}
		return err
	})
}

func (s *script) StreamAggregatedResources(g discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	c := &scripted{sotw: g, hungUp: make(chan struct{})}
	return s.serve(c, func() error {
		r, err := g.Recv()
		if err == nil {
			c.mu.Lock()
			c.sotwGot = append(c.sotwGot, r)
			c.mu.Unlock()
		}
		return err
	})
}

// serve answers the first request, and then reads until the client has gone or is hung up on.
func (s *script) serve(c *scripted, receive func() error) error {
	if receive() != nil {
		return nil
	}
	if err := s.join(c); err != nil {
		return err
	}
	s.send(c, s.firstOf(c))
	gone := make(chan struct{})
	go func() { // ends with the stream
		defer close(gone)
		for receive() == nil {
		}
	}()
	select {
	case <-gone:
		return nil
	case <-c.hungUp:
		return status.Error(codes.Unavailable, "hung up")
	}
}

func (s *script) firstOf(c *scripted) []int {
	if s.first != nil {
		return s.first(c.number)
	}
	return s.all()
}

func (s *script) all() []int {
	var all []int
	for i := range s.world.Len() {
		all = append(all, i)
	}
	return all
}

// send writes one response with these resources.
func (s *script) send(c *scripted, indices []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nonces++
	nonce := strings.Repeat("n", c.nonces)
	typeURL := s.world.Kind().TypeURL()
	delta := &discovery.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: nonce}
	sotw := &discovery.DiscoveryResponse{TypeUrl: typeURL, Nonce: nonce, VersionInfo: "v" + nonce}
	s.mu.Lock()
	for _, i := range indices {
		body := &anypb.Any{TypeUrl: typeURL, Value: s.world.Encode(i, s.stamps[i])}
		delta.Resources = append(delta.Resources, &discovery.Resource{Name: world.Name(i), Version: "1", Resource: body})
		sotw.Resources = append(sotw.Resources, body)
	}
	if c.delta != nil {
		s.sent += int64(proto.Size(delta))
	} else {
		s.sent += int64(proto.Size(sotw))
	}
	s.mu.Unlock()
	if c.delta != nil {
		_ = c.delta.Send(delta) // a client that has gone is another test's matter
	} else {
		_ = c.sotw.Send(sotw)
	}
}

// Change is part of world.Plane: delta clients are sent what changed, the others everything.
func (s *script) Change(indices []int, stamp world.Stamp) error {
	s.mu.Lock()
	for _, i := range indices {
		s.stamps[i] = stamp
	}
	change, streams := s.changes, slices.Clone(s.streams)
	s.changes++
	s.mu.Unlock()
	for _, c := range streams {
		if s.withholds != nil && s.withholds(c.number, change) {
			continue
		}
		if s.hangsUp != nil && s.hangsUp(c.number, change) {
			close(c.hungUp)
			continue
		}
		if s.delays != nil {
			time.Sleep(s.delays(c.number, change)) // real time is what is measured
		}
		if c.delta != nil {
			s.send(c, indices)
		} else {
			s.send(c, s.all())
		}
	}
	return nil
}

// config is for clients of the script that ask for everything.
func (s *script) config(d Dialect, clients int) Config {
	return Config{
		Server: s.addr, Control: s.control, Dialect: d, TypeURL: s.world.Kind().TypeURL(), Clients: clients,
		Resources: s.world.Len(), Patience: 20 * time.Second,
	}
}

func run(t *testing.T, c Config) (*Report, error) {
	t.Helper()
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f.Run(t.Context())
}

// mustRun is run where nothing may go wrong.
func mustRun(t *testing.T, c Config) *Report {
	t.Helper()
	r, err := run(t, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestCountsInDelta(t *testing.T) {
	s := newScript(t, world.Clusters, 4)
	c := s.config(Delta, 3)
	c.Changes = 5
	r := mustRun(t, c)
	equal(t, "changes", r.Changes, 5)
	equal(t, "lost", r.ChangesLost, 0)
	equal(t, "deliveries", r.Deliveries, 3*5)
	equal(t, "deliveries expected", r.DeliveriesExpected, 3*5)
	equal(t, "responses", r.Responses, 3*(1+5))
	equal(t, "resources", r.ResourcesReceived, 3*(4+5))
	equal(t, "bytes", r.Bytes, s.sent)
	equal(t, "stream ends", r.StreamEnds, 0)
	equal(t, "clients of the storm", r.StormClients, 2)
	if r.LatencyP50 <= 0 || r.LastP50 < r.LatencyP50 || r.LatencyMax != r.LastMax || r.StormSeconds <= 0 || r.MeasuredSeconds <= 0 {
		t.Errorf("times make no sense: %+v", r)
	}
	s.stop()
	for _, c := range s.streams {
		s.judgeDelta(c, 1+1+5)
	}
}

// TestRest: it comes when everything was measured, the clients are still there, and memory is
// looked at once more.
func TestRest(t *testing.T) {
	const rest = 300 * time.Millisecond
	for name, changes := range map[string]int{"after changes": 3, "after the storm": 0} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, world.Clusters, 2)
			c := s.config(Delta, 2)
			c.Changes, c.Rest, c.PIDs, c.Heap = changes, rest, []int{os.Getpid()}, s.control
			var said []string
			began := time.Time{}
			c.Say = func(line string) {
				if said = append(said, line); strings.HasPrefix(line, "all is measured") {
					began = time.Now()
				}
			}
			r := mustRun(t, c)
			if len(said) != 2 || began.IsZero() || time.Since(began) < rest {
				t.Errorf("it said %q, and was over %v after that", said, time.Since(began))
			}
			if r.Servers[0].RSSRested == 0 || r.Servers[0].InUse < 1<<20 || r.Servers[0].InUse > 1<<30 || r.MeasuredSeconds >= rest.Seconds() && changes == 0 {
				t.Errorf("found was %+v", r.Servers[0])
			}
			equal(t, "changes", r.Changes, changes)
			equal(t, "stream ends", r.StreamEnds, 0)
		})
	}
}

// TestComeBack: clients that all went and came back are measured as those that stayed, and their
// streams are none that ended.
func TestComeBack(t *testing.T) {
	s := newScript(t, world.Clusters, 2)
	c := s.config(Delta, 3)
	c.Changes, c.PIDs = 2, []int{os.Getppid()}
	c.Away = func(context.Context) ([]int, error) { return []int{os.Getpid()}, nil }
	r := mustRun(t, c)
	equal(t, "streams", len(s.streams), 6)
	equal(t, "stream ends", r.StreamEnds, 0)
	equal(t, "deliveries", r.Deliveries, 6)
	equal(t, "resumed", r.Resumed, 0)
	if r.ReturnSeconds <= 0 || len(r.Servers) != 1 || r.Servers[0].PID != os.Getpid() {
		t.Errorf("the return: %+v", r)
	}
}

// judgeDelta looks at what a client sent: a subscription, and an acknowledgement for each response,
// in their order.
func (s *script) judgeDelta(c *scripted, most int) {
	s.t.Helper()
	// the last acknowledgement may have been cut off by the end
	if n := len(c.deltaGot); n > most || n < most-1 {
		s.t.Errorf("client %d sent %d requests, not %d", c.number, n, most)
	}
	for i, r := range c.deltaGot {
		equal(s.t, "type", r.TypeUrl, s.world.Kind().TypeURL())
		equal(s.t, "nonce", r.ResponseNonce, strings.Repeat("n", i))
		equal(s.t, "refusal", r.ErrorDetail == nil, true)
		equal(s.t, "node", r.Node != nil, i == 0)
		equal(s.t, "names", len(r.ResourceNamesSubscribe), 0)
	}
	equal(s.t, "node.cluster", c.deltaGot[0].Node.GetCluster(), "weirload")
}

func TestCountsInStateOfTheWorld(t *testing.T) {
	s := newScript(t, world.Clusters, 4)
	c := s.config(SotW, 3)
	c.Changes = 5
	r := mustRun(t, c)
	equal(t, "deliveries: what did not change is none", r.Deliveries, 3*5)
	equal(t, "responses", r.Responses, 3*(1+5))
	equal(t, "resources", r.ResourcesReceived, 3*(1+5)*4)
	equal(t, "bytes", r.Bytes, s.sent)
	s.stop()
	for _, c := range s.streams {
		for i, r := range c.sotwGot {
			equal(t, "nonce", r.ResponseNonce, strings.Repeat("n", i))
			equal(t, "version", r.VersionInfo, map[bool]string{true: "", false: "v" + r.ResponseNonce}[i == 0])
			equal(t, "names", len(r.ResourceNames), 0)
		}
	}
}

// TestNames: clients name what is theirs, in state of the world in each request.
func TestNames(t *testing.T) {
	for _, d := range []Dialect{Delta, SotW} {
		s := newScript(t, world.Endpoints, 5)
		// as many as were named: the first state is complete
		s.first = func(int) []int { return []int{0, 1, 2} }
		c := s.config(d, 2)
		c.Names = 3
		mustRun(t, c)
		s.stop()
		for _, c := range s.streams {
			var lists [][]string
			for _, r := range c.deltaGot[:min(1, len(c.deltaGot))] {
				lists = append(lists, r.ResourceNamesSubscribe)
			}
			for _, r := range c.sotwGot {
				lists = append(lists, r.ResourceNames)
			}
			for _, list := range lists {
				ofOne := slices.Equal(list, []string{world.Name(0), world.Name(1), world.Name(2)})
				ofTwo := slices.Equal(list, []string{world.Name(3), world.Name(4), world.Name(0)})
				if !ofOne && !ofTwo {
					t.Errorf("%s: names are %v", d, list)
				}
			}
		}
	}
	s := newScript(t, world.Endpoints, 5)
	mustRun(t, s.config(SotW, 1))
	s.stop()
	equal(t, "the name of all endpoints", strings.Join(s.streams[0].sotwGot[0].ResourceNames, " "), "*")
}

func TestLastClientTellsTheTimeOfAChange(t *testing.T) {
	s := newScript(t, world.Clusters, 1)
	const wait = 30 * time.Millisecond
	s.delays = func(client, _ int) time.Duration {
		if client == 3 {
			return wait
		}
		return 0
	}
	c := s.config(Delta, 4)
	c.Changes = 3
	r := mustRun(t, c)
	if least := ms(wait); r.LastP50 < least || r.LatencyMax < least || r.LatencyP50 >= r.LastP50 {
		t.Errorf("p50 of deliveries %v ms, to the last client %v ms, with a client that is told %v later", r.LatencyP50, r.LastP50, wait)
	}
}

func TestLostChangesAreTold(t *testing.T) {
	s := newScript(t, world.Clusters, 2)
	s.withholds = func(client, change int) bool { return client == 1 && change == 1 }
	c := s.config(Delta, 2)
	c.Changes, c.Patience = 3, 300*time.Millisecond
	r := mustRun(t, c)
	equal(t, "lost", r.ChangesLost, 1)
	equal(t, "deliveries", r.Deliveries, 5)
	equal(t, "deliveries expected", r.DeliveriesExpected, 6)

	s = newScript(t, world.Clusters, 2)
	s.withholds = func(client, _ int) bool { return client == 1 }
	c = s.config(Delta, 2)
	c.Changes, c.Patience = 10, 100*time.Millisecond
	if _, err := run(t, c); !errors.Is(err, errPaceLost) {
		t.Errorf("of a server that tells one client nothing: %v", err)
	}
}

func TestStreamsThatEndAreOpenedAgain(t *testing.T) {
	s := newScript(t, world.Clusters, 2)
	s.endFirst = 2
	c := s.config(Delta, 3)
	c.Changes = 2
	r := mustRun(t, c)
	equal(t, "stream ends", r.StreamEnds, 2)
	equal(t, "deliveries", r.Deliveries, 6)
	if !strings.Contains(r.LastEnd, "not today") {
		t.Errorf("the last end is told as %q", r.LastEnd)
	}
}

// TestWhatComesWithAFirstStateIsNoDelivery: a client whose stream ended has the change with
// everything else when it is back.
func TestWhatComesWithAFirstStateIsNoDelivery(t *testing.T) {
	for _, d := range []Dialect{Delta, SotW} {
		s := newScript(t, world.Clusters, 2)
		s.hangsUp = func(client, change int) bool { return client == 1 && change == 1 }
		c := s.config(d, 2)
		c.Changes, c.Patience = 4, 3*time.Second // in which it is back
		r := mustRun(t, c)
		equal(t, "stream ends", r.StreamEnds, 1)
		equal(t, "lost", r.ChangesLost, 1)
		equal(t, "deliveries", r.Deliveries, 2*4-1)
	}
}

func TestFirstStateThatStaysIncomplete(t *testing.T) {
	s := newScript(t, world.Clusters, 3)
	s.first = func(int) []int { return []int{0, 1} }
	c := s.config(Delta, 2)
	c.Patience = 200 * time.Millisecond
	if _, err := run(t, c); err == nil || !strings.Contains(err.Error(), "0 of 1 clients have their first state") {
		t.Errorf("the error is %v", err)
	}
	c.Resources, c.Changes = 0, 1 // then the first response is all there is to know
	if r := mustRun(t, c); r.Deliveries != 2 {
		t.Errorf("%d deliveries, not 2", r.Deliveries)
	}
}

func TestOpenLoop(t *testing.T) {
	s := newScript(t, world.Clusters, 10)
	c := s.config(Delta, 3)
	c.Rate, c.For = 100, 200*time.Millisecond
	r := mustRun(t, c)
	equal(t, "changes", r.Changes, 20)
	equal(t, "deliveries", r.Deliveries, 60)
	equal(t, "loop", r.Loop, "open")
	if r.ChurnSeconds < 0.19 {
		t.Errorf("the churn took %v s", r.ChurnSeconds)
	}
}

func TestObserver(t *testing.T) {
	s := newScript(t, world.Clusters, 2)
	c := s.config(Delta, 2)
	c.Control, c.For = "", 400*time.Millisecond
	var told []string
	began := make(chan struct{})
	c.Say = func(line string) { told = append(told, line); close(began) }
	changed := make(chan error, 1)
	go func() {
		<-began
		time.Sleep(100 * time.Millisecond) // it measures from just after that line
		changed <- s.Change([]int{0}, world.Now())
	}()
	r := mustRun(t, c)
	if err := <-changed; err != nil {
		t.Fatal(err)
	}
	equal(t, "changes", r.Changes, 1)
	equal(t, "deliveries", r.Deliveries, 2)
	equal(t, "loop", r.Loop, "observed")
	equal(t, "lines", len(told), 1)
	equal(t, "plane", r.Plane, nil)
}

// TestBadClients: they are not counted, and none of them acknowledges more than it should.
func TestBadClients(t *testing.T) {
	s := newScript(t, world.Clusters, 2)
	c := s.config(Delta, 1)
	c.Deaf, c.Mute, c.Slow = 1, 1, 1
	c.Changes, c.Idle = 3, 200*time.Millisecond // in which all have come
	r := mustRun(t, c)
	equal(t, "deliveries", r.Deliveries, 3)
	s.stop()
	var requests []int
	for _, c := range s.streams {
		requests = append(requests, len(c.deltaGot))
	}
	slices.Sort(requests)
	if len(requests) != 4 || requests[0] != 1 || requests[1] != 1 || requests[2] < 2 {
		t.Errorf("requests by client: %v; two should have sent one, the others more", requests)
	}
}

func TestSharedConnections(t *testing.T) {
	s := newScript(t, world.Clusters, 2)
	c := s.config(Delta, 5)
	c.PerConnection, c.Changes = 2, 2
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "connections", len(f.conns), 3)
	equal(t, "deliveries", r.Deliveries, 10)
	equal(t, "clients of the storm", r.StormClients, 4)
}

// TestSeveralServers: connections take the servers in turn.
func TestSeveralServers(t *testing.T) {
	one, two := newScript(t, world.Clusters, 2), newScript(t, world.Clusters, 2)
	c := one.config(Delta, 5)
	c.Server, c.Control, c.For = one.addr+","+two.addr, "", 10*time.Millisecond
	mustRun(t, c)
	one.stop()
	two.stop()
	equal(t, "streams of the first", len(one.streams), 3)
	equal(t, "streams of the second", len(two.streams), 2)
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	c := Config{Server: addr, Dialect: Delta, TypeURL: "t", Clients: 1}
	if _, err := run(t, c); err == nil || !strings.Contains(err.Error(), "server: ") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the error is %v", err)
	}
	s := newScript(t, world.Clusters, 1)
	c = s.config(Delta, 1)
	c.Control, c.Changes = addr, 1
	if _, err := run(t, c); err == nil || !strings.Contains(err.Error(), "control "+addr) {
		t.Errorf("the error is %v", err)
	}
	c = s.config(Delta, 1)
	c.PIDs = []int{1 << 30}
	if _, err := run(t, c); err == nil || !strings.Contains(err.Error(), "server-pid") {
		t.Errorf("the error is %v", err)
	}
}

func TestInterrupted(t *testing.T) {
	s := newScript(t, world.Clusters, 1)
	c := s.config(Delta, 2)
	c.For = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	c.Say = func(string) { cancel() }
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestGroups(t *testing.T) {
	s := newScript(t, world.Clusters, 1)
	c := s.config(Delta, 5)
	c.Groups = 2
	mustRun(t, c)
	s.stop()
	seen := map[string]int{}
	for _, c := range s.streams {
		seen[c.deltaGot[0].Node.GetCluster()]++
	}
	if seen["weirload-0"] != 3 || seen["weirload-1"] != 2 {
		t.Errorf("clients by node.cluster: %v", seen)
	}
}
