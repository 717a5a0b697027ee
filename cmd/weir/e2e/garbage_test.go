package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// sick is an origin driven by hand that was well at first: weir and two clients hold clusters a and
// b at version 1.
type sick struct {
	t       *testing.T
	dialect relaytest.Dialect // upstream
	origin  *relaytest.Origin
	s       *relaytest.Stream
	clients map[relaytest.Dialect]*relaytest.Client
	held    world // by both clients
}

const (
	maxMessage  = 1 << 20
	undisturbed = time.Second // how long a client that is to be left alone is watched
)

// TestOriginSendsGarbage: whatever an origin sends, the last good stays, what can be used of it is
// used, and clients see nothing of the rest.
func TestOriginSendsGarbage(t *testing.T) {
	for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		for _, c := range []struct {
			name string
			test func(*sick)
		}{
			{"undecodable", (*sick).undecodable},
			{"too large", (*sick).tooLarge},
			{"another type inside", (*sick).anotherType},
			{"a type not asked for", (*sick).notAskedFor},
			{"duplicates", (*sick).duplicates},
			{"empty versions", (*sick).emptyVersions},
			{"empty name", (*sick).emptyName},
		} {
			t.Run(string(dialect)+"/"+c.name, func(t *testing.T) { c.test(fallSick(t, dialect)) })
		}
	}
}

func fallSick(t *testing.T, dialect relaytest.Dialect) *sick {
	t.Helper()
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Patience: patience})
	c := config(origin.Net().Addr(), dialect)
	c.Origin().Set("grpc.max_message", maxMessage)
	weir := startWeir(t, c)
	x := &sick{t: t, dialect: dialect, origin: origin, clients: weir.pair(t)}
	for _, client := range x.clients {
		client.Subscribe(relaytest.ClusterType)
	}
	x.s = origin.ExpectStream("weir opens a stream")
	x.s.ExpectType(relaytest.ClusterType, "weir asks for all clusters")
	x.wellAgain("1")
	return x
}

// res is a resource as the origin sends it.
func res(name, version string, body *anypb.Any) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: version, Body: body}
}

// wellAgain: a good response with a and b at a new version is ACKed and reaches both clients.
func (x *sick) wellAgain(version string) {
	x.t.Helper()
	x.held = world{}.put(clusterWith("a", version), clusterWith("b", version))
	set := x.held[relaytest.ClusterType]
	nonce := x.s.Respond(relaytest.ClusterType, version, res("a", version, set["a"]), res("b", version, set["b"]))
	x.s.ExpectACK(relaytest.ClusterType, nonce, "a good response is accepted")
	x.await("a good response reaches the clients")
}

func (x *sick) await(sentence string) {
	for _, client := range x.clients {
		awaitSet(client, relaytest.ClusterType, x.held, sentence)
	}
}

// quiet: the clients are sent nothing.
func (x *sick) quiet() {
	x.t.Helper()
	for _, client := range x.clients {
		client.WantIdle(undisturbed / 2)
	}
}

func (x *sick) clean() {
	x.t.Helper()
	for _, client := range x.clients {
		client.CheckClean()
	}
}

// comesBack: weir opens another stream and asks for the clusters. What it holds it says in delta.
func (x *sick) comesBack(versions map[string]string) {
	x.t.Helper()
	x.s.ExpectEnd("weir ends the stream, whose rest it cannot trust")
	x.s = x.origin.ExpectStream("weir opens another stream")
	r := x.s.ExpectType(relaytest.ClusterType, "weir asks for the clusters again")
	if r.Delta == nil {
		if v := r.SotW.GetVersionInfo(); v != "" {
			x.t.Errorf("the first request of a stream states version %q, want none (RELAY-42)", v)
		}
		return
	}
	got := r.Delta.GetInitialResourceVersions()
	if len(got) != len(versions) {
		x.t.Errorf("weir says it holds %v, want %v", got, versions)
	}
	for name, version := range versions {
		if got[name] != version {
			x.t.Errorf("weir says it holds %v, want %v", got, versions)
		}
	}
}

// undecodable: bytes that are no message end the stream, and nothing else.
func (x *sick) undecodable() {
	x.s.SendRaw([]byte{0xff, 0xff, 0xff})
	x.comesBack(map[string]string{"a": "1", "b": "1"})
	x.quiet()
	x.wellAgain("2")
	x.clean()
}

// tooLarge: a message above max_message likewise.
func (x *sick) tooLarge() {
	x.s.Respond(relaytest.ClusterType, "2", res("a", "2", clusterWith("a", strings.Repeat("x", 2*maxMessage))))
	x.comesBack(map[string]string{"a": "1", "b": "1"})
	x.quiet()
	x.wellAgain("2")
	x.clean()
}

// refused: a response of which a is good and b is not is NACKed with the reason, a is used and b
// stays.
func (x *sick) refused(reason string, bad ...relaytest.Resource) {
	x.t.Helper()
	a := clusterWith("a", "2")
	nonce := x.s.Respond(relaytest.ClusterType, "2", append([]relaytest.Resource{res("a", "2", a)}, bad...)...)
	r := x.s.ExpectNACK(relaytest.ClusterType, nonce, reason, "the response is refused by name")
	if r.SotW != nil && r.SotW.GetVersionInfo() != "1" {
		x.t.Errorf("the refusal states version %q, want the last accepted, 1", r.SotW.GetVersionInfo())
	}
	x.held.put(a)
	x.await("the good part of a bad response is used and the rest stays as it was")
	x.wellAgain("3")
	x.clean()
}

// anotherType: a resource that is not of the response's type.
func (x *sick) anotherType() {
	x.refused("b", res("b", "2", relaytest.Endpoints("b", "10.0.0.1:80")))
}

// duplicates: one name twice, with different bytes.
func (x *sick) duplicates() {
	x.refused("b", res("b", "2", clusterWith("b", "2")), res("b", "2", clusterWith("b", "two")))
}

// notAskedFor: a response of a type that nobody subscribed to is neither accepted nor refused
// (RELAY-33).
func (x *sick) notAskedFor() {
	x.s.Respond(relaytest.RouteType, "1", res("r", "1", relaytest.Route("r", "a")))
	x.origin.WantIdle(undisturbed)
	x.quiet()
	x.wellAgain("2")
	x.clean()
}

// emptyVersions: what has no version is as good as any other, but there is nothing to resume from,
// and what is not mentioned on the next stream is gone (RELAY-91).
func (x *sick) emptyVersions() {
	x.held = world{}.put(clusterWith("a", "nameless"), clusterWith("b", "nameless"))
	set := x.held[relaytest.ClusterType]
	nonce := x.s.Respond(relaytest.ClusterType, "", res("a", "", set["a"]), res("b", "", set["b"]))
	x.s.ExpectACK(relaytest.ClusterType, nonce, "resources without a version are accepted")
	x.await("changed content arrives although no version says that it changed")

	x.s.End(nil)
	x.comesBack(nil)
	nonce = x.s.Respond(relaytest.ClusterType, "", res("a", "", set["a"]))
	x.s.ExpectACK(relaytest.ClusterType, nonce, "the answer on the new stream is accepted")
	x.held = world{}.put(set["a"])
	x.await("what the origin does not mention any more goes, once it had time to")
	x.clean()
}

// emptyName: a delta resource without a name is a member of the wildcard like any other, for both
// dialects (RELAY-93). From a SotW origin it has no identity that delta could express: SotW clients
// alone get it (RELAY-18).
func (x *sick) emptyName() {
	body := clusterWith("", "nameless")
	set := x.held[relaytest.ClusterType]
	nonce := x.s.Respond(relaytest.ClusterType, "2", res("a", "1", set["a"]), res("b", "1", set["b"]), res("", "2", body))
	x.s.ExpectACK(relaytest.ClusterType, nonce, "a resource without a name is accepted")
	nameless := func(s *relaytest.State) bool {
		rs := s.Responses(relaytest.ClusterType)
		return slices.ContainsFunc(rs[len(rs)-1].Items, func(i relaytest.Item) bool {
			return i.Name == "" && string(i.Body.GetValue()) == string(body.Value)
		})
	}
	x.clients[relaytest.SotW].Await(0, nameless, "the resource without a name reaches the SotW client")
	if x.dialect == relaytest.SotW {
		x.clients[relaytest.Delta].WantIdle(undisturbed)
		x.wellAgain("3") // and its going is nothing to tell delta clients either
		x.clients[relaytest.Delta].CheckClean()
		return
	}
	x.clients[relaytest.Delta].Await(0, nameless, "the resource without a name reaches the delta client")
}
