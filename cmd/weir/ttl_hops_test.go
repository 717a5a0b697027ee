package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/relaytest/seed"
	"github.com/weir-xds/weir/upstream"
)

// TestTTLOverTwoHops plays an origin that sends, renews, removes and dies at random, and judges
// clients of all kinds behind two weirs in a row every 5 ms of virtual time: nothing outlives its
// promise by more than 10 ms, nothing dies early, no heartbeat comes that the origin did not send
// (RELAY-47..50, RELAY-53, RELAY-55), and that of one listener deletes no other (TTL-11, TTL-12).
func TestTTLOverTwoHops(t *testing.T) {
	drawn := seed.Of(t, 0)
	dialects := []relaytest.Dialect{relaytest.Delta, relaytest.SotW}
	for _, first := range dialects {
		for _, second := range dialects {
			t.Run(fmt.Sprintf("%v then %v", first, second), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newTTLPlay(t, rand.New(rand.NewPCG(drawn, 0)), first, second)
					p.play(45 * time.Second)
				})
			})
		}
	}
}

const (
	ttlStep  = 5 * time.Millisecond
	ttlSlack = 10 * time.Millisecond
	lds, eds = relaytest.ListenerType, relaytest.EndpointType
)

// hop is a weir but for its process: a table, its clock, the two edges.
type hop struct {
	net    *relaytest.Net
	table  *relay.Table
	refuse atomic.Bool // its upstream cannot be dialled
}

func newHop(t *testing.T, from *relaytest.Net, dialect relaytest.Dialect) *hop {
	t.Helper()
	return newHopOf(t, from, relay.OriginConfig{Name: "up", SotW: dialect == relaytest.SotW})
}

// newHopOf is newHop of an origin with a configuration; with canaries it has the feed of its tiers.
func newHopOf(t *testing.T, from *relaytest.Net, oc relay.OriginConfig) *hop {
	t.Helper()
	sotw := oc.SotW
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{oc}})
	if err != nil {
		t.Fatal(err)
	}
	h := &hop{net: relaytest.Memory(), table: table}
	up, err := upstream.New(upstream.Config{
		Name: "up", Addresses: []string{"memory:1"}, SotW: sotw, Pause: time.Millisecond,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			// bufconn begins each attempt with a timer that is due at once, which can crash the
			// race runtime
			if h.refuse.Load() {
				return nil, errors.New("connection refused")
			}
			return from.Dial(ctx, address)
		},
	}, table.Origin("up"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := downstream.New(downstream.Config{Table: table, Instance: "here"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.net.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var fed errgroup.Group
	feeds{}.start(ctx, &fed, table, "here")
	ended := make(chan error, 4)
	go func() { ended <- fed.Wait() }()
	go func() { ended <- server.Serve(l, downstream.ListenerConfig{Origin: table.Origin("up")}) }()
	go func() { ended <- up.Run(ctx) }()
	go func() { ended <- advance(ctx, table) }()
	t.Cleanup(func() {
		server.Stop()
		cancel()
		for range 4 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if err := table.Check(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// ttlPlay is one play: what the origin promised and sent, and what the clients held when they were
// looked at last.
type ttlPlay struct {
	t        *testing.T
	rand     *rand.Rand
	origin   *relaytest.Origin
	first    *hop
	up       bool
	versions map[ttlName]int           // of what the origin has
	read     map[*relaytest.Stream]int // messages of it that were looked at
	promises map[ttlName]time.Time
	// promises before this step: a client may have been told by them within it
	earlier map[ttlName]time.Time
	sent    map[ttlName][]time.Time
	clients []*ttlClient
}

type ttlName struct{ typeURL, name string }

type ttlClient struct {
	*relaytest.Client
	name  string
	knows bool // TTLs
	sotw  bool
	held  map[ttlName]bool
	heard int // responses that were judged
}

func newTTLPlay(t *testing.T, r *rand.Rand, first, second relaytest.Dialect) *ttlPlay {
	p := &ttlPlay{
		t: t, rand: r, up: true, versions: map[ttlName]int{}, read: map[*relaytest.Stream]int{},
		promises: map[ttlName]time.Time{}, sent: map[ttlName][]time.Time{},
	}
	p.origin = relaytest.NewOrigin(t, relaytest.Memory(), relaytest.OriginConfig{Serving: true, Options: []grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second}),
	}})
	for i := range 4 {
		p.put(ttlName{lds, fmt.Sprint("l", i)})
		p.put(ttlName{eds, fmt.Sprint("e", i)})
	}
	p.origin.Put(lds, relaytest.Resource{Name: "stays", Version: "1", Body: relaytest.Listener("stays", 1)})
	p.first = newHop(t, p.origin.Net(), first)
	edge := newHop(t, p.first.net, second)
	for _, h := range []*hop{p.first, edge} {
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			for _, knows := range []bool{true, false} {
				c := &ttlClient{knows: knows, sotw: d == relaytest.SotW, held: map[ttlName]bool{}}
				c.name = fmt.Sprintf("%v client, knows TTLs %v, at the edge %v", d, knows, h == edge)
				c.Client = relaytest.NewClient(t, h.net.Connect(t), relaytest.ClientConfig{Dialect: d})
				var features []string
				if knows {
					features = []string{"xds.config.supports-resource-ttl", "xds.config.resource-in-sotw"}
				}
				c.Open(relaytest.Node("c", "edge", features...))
				c.Subscribe(lds, "*")
				c.Subscribe(eds, "e0", "e1", "e2", "e3")
				p.clients = append(p.clients, c)
			}
		}
	}
	return p
}

// ttl is between one and nine seconds, and never one of weir's own periods.
func (p *ttlPlay) ttl() time.Duration {
	return time.Duration(1000+p.rand.IntN(8000)) * time.Millisecond
}

// put has the origin serve a new version.
func (p *ttlPlay) put(n ttlName) {
	p.versions[n]++
	p.origin.Put(n.typeURL, p.resource(n, true))
}

func (p *ttlPlay) resource(n ttlName, body bool) relaytest.Resource {
	r := relaytest.Resource{Name: n.name, Version: fmt.Sprint("v", p.versions[n]), TTL: p.ttl()}
	switch {
	case !body:
	case n.typeURL == lds:
		r.Body = relaytest.Listener(n.name, p.versions[n])
	default:
		r.Body = relaytest.Endpoints(n.name, fmt.Sprint("10.0.0.1:", p.versions[n]))
	}
	return r
}

func (p *ttlPlay) play(d time.Duration) {
	end, next := time.Now().Add(d), time.Now().Add(5*time.Second) // all sets have settled by then
	for time.Now().Before(end) {
		time.Sleep(ttlStep)
		synctest.Wait()
		p.earlier = maps.Clone(p.promises)
		if !time.Now().Before(next) {
			p.act()
			next = time.Now().Add(time.Duration(p.rand.IntN(1200)) * time.Millisecond)
			synctest.Wait()
		}
		p.listen()
		for _, c := range p.clients {
			p.judge(c)
		}
		if p.t.Failed() {
			return
		}
	}
	for _, c := range p.clients {
		c.CheckClean()
	}
}

// act is the origin's next step.
func (p *ttlPlay) act() {
	names := slices.SortedFunc(maps.Keys(p.versions), func(a, b ttlName) int {
		return slices.Compare([]string{a.typeURL, a.name}, []string{b.typeURL, b.name})
	})
	n := names[p.rand.IntN(len(names))]
	switch step := p.rand.IntN(12); {
	case step == 0 && p.up:
		p.first.refuse.Store(true)
		p.origin.Stop()
		p.up = false
	case !p.up && step < 4:
		p.origin.Start()
		p.first.refuse.Store(false)
		p.up = true
	case !p.up || !p.settled():
	case step == 1 && n.typeURL == lds:
		p.origin.Remove(lds, n.name)
		p.promises[n] = time.Now()
		p.versions[n]++
	case step < 4:
		p.put(n)
	default: // most of the time
		p.renew(n)
	}
}

// settled reports whether the first weir has been connected for a moment: what the origin does now
// it does on an open stream.
func (p *ttlPlay) settled() bool {
	return slices.ContainsFunc(p.origin.Open(), func(s *relaytest.Stream) bool { return time.Since(s.At) > 50*time.Millisecond })
}

// renew sends a heartbeat on the stream, if it is one: what is spoken of was sent on it.
func (p *ttlPlay) renew(n ttlName) {
	for _, s := range p.origin.Open() {
		version, told := "", false
		for _, m := range s.Sent() {
			for _, x := range itemsOf(m) {
				if x.typeURL == n.typeURL {
					version = x.version
				}
				told = told || x.ttlName == n && x.resource.GetVersion() == fmt.Sprint("v", p.versions[n])
			}
		}
		if left := time.Until(p.promises[n]); told && left > ttlSlack {
			s.Respond(n.typeURL, version, p.resource(n, false))
		}
	}
}

// sentItem is a resource that the origin sent with a TTL.
type sentItem struct {
	ttlName
	version  string // of the response
	resource *discovery.Resource
}

func itemsOf(m proto.Message) (items []sentItem) {
	switch m := m.(type) {
	case *discovery.DeltaDiscoveryResponse:
		for _, r := range m.Resources {
			items = append(items, sentItem{ttlName{m.TypeUrl, r.Name}, m.SystemVersionInfo, r})
		}
	case *discovery.DiscoveryResponse:
		for _, a := range m.Resources {
			r := new(discovery.Resource)
			if a.MessageIs(r) && a.UnmarshalTo(r) == nil {
				items = append(items, sentItem{ttlName{m.TypeUrl, r.Name}, m.VersionInfo, r})
			}
		}
	}
	return items
}

// listen takes in what the origin has sent since.
func (p *ttlPlay) listen() {
	now := time.Now()
	for _, s := range p.origin.Streams() {
		sent := s.Sent()
		for _, m := range sent[p.read[s]:] {
			for _, x := range itemsOf(m) {
				if x.resource.Ttl != nil {
					p.promises[x.ttlName] = now.Add(x.resource.Ttl.AsDuration())
					p.sent[x.ttlName] = append(p.sent[x.ttlName], now)
				}
			}
		}
		p.read[s] = len(sent)
	}
}

func (p *ttlPlay) judge(c *ttlClient) {
	now, held := time.Now(), map[ttlName]bool{}
	c.Look(func(s *relaytest.State) {
		for n := range p.versions {
			if _, ok := s.Entry(n.typeURL, n.name); ok && (s.Error(n.typeURL, n.name).GetCode() == 0) {
				held[n] = true
			}
		}
		if _, ok := s.Entry(lds, "stays"); !ok && c.held[ttlName{lds, "stays"}] {
			p.t.Errorf("%s lost a listener that has no TTL", c.name)
		} else if ok {
			held[ttlName{lds, "stays"}] = true
		}
	})
	for n := range p.versions {
		left := p.promises[n].Sub(now)
		switch {
		case held[n] && left < -ttlSlack:
			p.t.Errorf("%s holds %v, which was promised until %v ago", c.name, n, -left)
		case !held[n] && c.held[n] && left > ttlSlack:
			p.t.Errorf("%s lost %v, which is promised for %v more", c.name, n, left)
		}
	}
	c.held = held
	for _, r := range c.Responses("")[c.heard:] {
		c.heard++
		p.judgeResponse(c, r)
	}
}

func (p *ttlPlay) judgeResponse(c *ttlClient, r *relaytest.Response) {
	for _, i := range r.Items {
		n := ttlName{r.TypeURL(), i.Name}
		until := p.promises[n]
		if p.earlier[n].After(until) {
			until = p.earlier[n] // it may have been told just before
		}
		switch {
		case i.TTL == nil && !i.Wrapped:
		case !c.knows:
			p.t.Errorf("%s, which does not know TTLs, was sent one of %v", c.name, n)
		case i.TTL != nil && *i.TTL < time.Millisecond:
			p.t.Errorf("%s was sent a TTL of %v", c.name, *i.TTL)
		case i.TTL != nil && r.At.Add(*i.TTL).After(until.Add(ttlSlack)):
			p.t.Errorf("%s was promised %v for %v, which is %v too long", c.name, n, *i.TTL, r.At.Add(*i.TTL).Sub(until))
		case i.Version == "":
			p.t.Errorf("%s was sent %v without a version", c.name, n)
		}
		if !i.Heartbeat() {
			continue
		}
		if c.sotw && n.typeURL == lds {
			p.t.Errorf("%s was sent a heartbeat of %v, which would delete all others", c.name, n)
		}
		if times := p.sent[n]; len(times) == 0 || r.At.Sub(times[len(times)-1]) > ttlSlack {
			p.t.Errorf("%s was sent a heartbeat of %v that the origin did not send", c.name, n)
		}
	}
}
