package main

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestOriginSeesOneClient plays the same story with one client and with two hundred of both
// dialects, on four connections, who come in any order, name all or some of what the one names,
// accept, leave and come back. The origin gets the same requests, byte for byte (nonces too, since
// it says the same to both), in the same second of virtual time: names are collected for 10 ms
// (RELAY-24) from when somebody wanted something.
func TestOriginSeesOneClient(t *testing.T) {
	for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		t.Run(string(dialect), func(t *testing.T) {
			one, many := shielded(t, dialect, 1), shielded(t, dialect, 200)
			if len(one) < 15 {
				t.Errorf("the origin got %d requests, which is no story", len(one))
			}
			for i := range max(len(one), len(many)) {
				if i >= len(one) || i >= len(many) || one[i] != many[i] {
					t.Fatalf("request %d differs:\n  with one client:      %s\n  with two hundred: %s", i+1, at(one, i), at(many, i))
				}
			}
		})
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "none"
}

// shielded plays the story and returns what the origin got.
func shielded(t *testing.T, dialect relaytest.Dialect, clients int) (requests []string) {
	t.Helper()
	ok := t.Run(fmt.Sprintf("%d clients", clients), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newShield(t, dialect, clients)
			s.play()
			for _, r := range s.asked {
				requests = append(requests, fmt.Sprintf("stream %d at %v: %d bytes %s", r.Stream.N, r.At.Sub(s.begun).Truncate(time.Second), len(r.Raw), hex.EncodeToString(r.Raw)))
			}
		})
	})
	if !ok {
		t.FailNow()
	}
	return requests
}

type shield struct {
	t       *testing.T
	begun   time.Time
	origin  *relaytest.Origin
	hop     *hop
	clients []*shieldClient
	version int
	bodies  map[string][]byte // by name
	asked   []*relaytest.Request
	sotw    bool // the origin's dialect
}

type shieldClient struct {
	*relaytest.Client
	names []string // of endpoints
	some  bool     // not all of them
}

const shieldNames = 20

func newShield(t *testing.T, dialect relaytest.Dialect, clients int) *shield {
	s := &shield{t: t, begun: time.Now(), bodies: map[string][]byte{}, sotw: dialect == relaytest.SotW}
	s.origin = relaytest.NewOrigin(t, relaytest.Memory(), relaytest.OriginConfig{Serving: true, Options: []grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second}),
	}})
	for i := range shieldNames {
		s.put(relaytest.ClusterType, fmt.Sprint("c", i))
		s.put(eds, fmt.Sprint("e", i))
	}
	s.put(lds, "l")
	s.put(relaytest.RouteType, "r")
	s.hop = newHop(t, s.origin.Net(), dialect)
	var conn *grpc.ClientConn
	for i := range clients {
		if i%50 == 0 {
			conn = s.hop.net.Connect(t)
		}
		c := &shieldClient{Client: relaytest.NewClient(t, conn, relaytest.ClientConfig{
			Dialect: []relaytest.Dialect{relaytest.SotW, relaytest.Delta}[i%2],
		})}
		for _, at := range rand.Perm(shieldNames) {
			c.names = append(c.names, fmt.Sprint("e", at))
		}
		if i%3 == 2 {
			c.names, c.some = c.names[:5], true
		}
		s.clients = append(s.clients, c)
	}
	return s
}

// put has the origin serve another version.
func (s *shield) put(typeURL, name string) {
	s.version++
	r := relaytest.Resource{Name: name, Version: fmt.Sprint("v", s.version)}
	switch typeURL {
	case relaytest.ClusterType:
		r.Body = relaytest.Cluster(name, time.Duration(s.version)*time.Second)
	case eds:
		r.Body = relaytest.Endpoints(name, fmt.Sprint("10.0.0.1:", s.version))
	case lds:
		r.Body = relaytest.Listener(name, s.version)
	default:
		r.Body = relaytest.Route(name, fmt.Sprint("c", s.version))
	}
	s.bodies[name] = r.Body.Value
	s.origin.Put(typeURL, r)
}

// each has clients do something, in any order: those that name all there is, and after them those
// that name a part of it, as what the one client names is asked at once. Then everything comes to
// rest.
func (s *shield) each(clients []*shieldClient, do func(*shieldClient)) {
	for _, some := range []bool{false, true} {
		for _, i := range rand.Perm(len(clients)) {
			if c := clients[i]; c.some == some {
				do(c)
			}
		}
		synctest.Wait()
	}
	s.rest(time.Second)
}

func (s *shield) rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *shield) play() {
	open := func(c *shieldClient) { c.Open(relaytest.Node("n", "edge")) }
	s.each(s.clients, func(c *shieldClient) {
		open(c)
		c.Subscribe(relaytest.ClusterType, "*")
	})
	s.each(s.clients, func(c *shieldClient) { c.Subscribe(eds, c.names...) })
	s.each(s.clients, func(c *shieldClient) { c.Subscribe(lds, "*") })
	s.each(s.clients, func(c *shieldClient) { c.Subscribe(relaytest.RouteType, "r", "nowhere") })
	s.judge("at first")

	s.put(relaytest.ClusterType, "c3")
	s.put(eds, "e3")
	s.rest(time.Second)
	s.origin.Remove(relaytest.ClusterType, "c9")
	s.put(relaytest.ClusterType, "new")
	s.rest(time.Second)
	for i := range 10 { // all at one instant of virtual time, and each of them a response
		s.put(eds, fmt.Sprint("e", i%3))
		synctest.Wait()
	}
	s.rest(time.Second)
	s.judge("after changes")

	var away []*shieldClient
	for i, c := range s.clients {
		if i%3 != 0 {
			away = append(away, c)
		}
	}
	s.each(away, func(c *shieldClient) { c.Cancel() })
	s.put(relaytest.ClusterType, "c4")
	s.put(eds, "e4")
	s.rest(time.Second)
	types := []string{relaytest.ClusterType, eds, lds, relaytest.RouteType}
	back := func(c *shieldClient) {
		open(c)
		for _, typeURL := range types {
			c.Resume(typeURL)
		}
	}
	s.each(away, back)
	s.judge("after some have come back")

	// All of them, for less than linger. From a SotW request a name leaves with its last client
	// (RELAY-99), and how many at a time nobody can say: there the first client stays.
	leave := s.clients
	if s.sotw {
		leave = s.clients[1:]
	}
	s.each(leave, func(c *shieldClient) { c.Cancel() })
	s.rest(10 * time.Second)
	s.each(leave, back)
	s.put(lds, "l")
	s.rest(time.Second)
	s.judge("after all have come back")

	s.each(s.clients, func(c *shieldClient) { c.Unsubscribe(eds, "e0") })
	s.rest(2 * time.Minute) // nobody wants it any more
	s.put(eds, "e1")
	s.rest(time.Second)
	// nobody can say whether names are taken back one by one before the stream that carries them
	// ends
	s.asked = s.origin.Requests()
	s.each(s.clients, func(c *shieldClient) { c.Cancel() })
	s.rest(5 * time.Minute)
	if open := s.origin.Open(); len(open) > 0 {
		s.t.Errorf("%d streams to the origin are open, and there are no clients", len(open))
	}
}

// judge has all clients hold what the origin has, of what they named.
func (s *shield) judge(when string) {
	s.t.Helper()
	for i, c := range s.clients {
		if got := len(c.Held(relaytest.ClusterType)); got != shieldNames {
			s.t.Errorf("%s client %d holds %d clusters of %d", when, i, got, shieldNames)
		}
		for typeURL, names := range map[string][]string{
			relaytest.ClusterType: {"c3", "c4"}, eds: c.names, lds: {"l"}, relaytest.RouteType: {"r"},
		} {
			c.Look(func(held *relaytest.State) {
				for _, name := range names {
					if e, ok := held.Entry(typeURL, name); !ok || string(e.Body) != string(s.bodies[name]) {
						s.t.Errorf("%s client %d does not hold %s as the origin has it", when, i, name)
					}
				}
			})
		}
		c.CheckClean()
	}
}
