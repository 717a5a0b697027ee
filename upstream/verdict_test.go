package upstream

import (
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/relaytest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
)

// asked opens a stream on which a and b of the opaque type were asked.
func (w *world) asked() *relaytest.Stream {
	w.t.Helper()
	w.want(opaque, "a", "b")
	s := w.origin.ExpectStream("a stream")
	s.Expect("the request")
	return s
}

func versionOf(r *relaytest.Request) string { return r.SotW.GetVersionInfo() }

func TestACK(t *testing.T) {
	both(t, options{}, func(w *world) {
		s := w.asked()
		n := s.Respond(opaque, "7", res("a", "1"))
		r := s.ExpectACK(opaque, n, "a good response is accepted at once (RELAY-31)")
		if w.up.cfg.SotW && versionOf(r) != "7" {
			t.Errorf("the ACK says version %q", versionOf(r))
		}
		if !w.up.cfg.SotW && len(r.Names())+len(r.Delta.ResourceNamesUnsubscribe)+len(r.Delta.InitialResourceVersions) != 0 {
			t.Errorf("a delta ACK changes nothing, got %v", r)
		}
		w.wantHeld(opaque, "the table has it", "a")
		s.WantIdle(time.Minute)
		st := w.lane(false)
		if len(st.Types) != 1 || st.Types[0].Version != "7" || st.Types[0].Names != 2 || !st.Open || !st.SilentSince.IsZero() {
			t.Errorf("the status does not say so: %+v", st)
		}
	})
}

func TestEveryDeltaNonceIsAnswered(t *testing.T) {
	in(t, options{}, func(w *world) {
		s := w.asked()
		for range 50 {
			s.Respond(opaque, "1", res("a", "1"))
		}
		w.origin.Await(0, func() bool { return s.Asked(opaque).ACKs == 50 }, "each response has its ACK (NONCE-8)")
		r := s.Requests()
		for i, r := range r[1:] {
			if want := s.Sent()[i].(*discovery.DeltaDiscoveryResponse).Nonce; r.Nonce() != want {
				t.Fatalf("ACK %d is of %q, want %q", i, r.Nonce(), want)
			}
		}
	})
}

func TestNACK(t *testing.T) {
	both(t, options{}, func(w *world) {
		s := w.asked()
		s.ExpectACK(opaque, s.Respond(opaque, "1", res("a", "1")), "a good one first")
		wrong := relaytest.Resource{Name: "b", Version: "2", Body: relaytest.Cluster("b", time.Second)}
		n := s.Respond(opaque, "2", res("a", "2"), wrong)
		r := s.ExpectNACK(opaque, n, `"b"`, "one with a part of another type is refused, naming the part")
		d := r.Detail()
		if codes.Code(d.Code) != codes.InvalidArgument || !strings.Contains(d.Message, opaque) || !strings.Contains(d.Message, cds) {
			t.Errorf("the detail says %v", d)
		}
		if w.up.cfg.SotW && versionOf(r) != "1" {
			t.Errorf("a NACK repeats the version before, got %q", versionOf(r))
		}
		w.wantHeld(opaque, "the good part is used (RELAY-32)", "a")
		if got := w.body("a"); got != "2" {
			t.Errorf("a has the body %q", got)
		}
		st := w.lane(false).Types[0]
		if st.NACKs != 1 || !strings.Contains(st.Reason, `"b"`) || st.Version != "1" {
			t.Errorf("the status does not say so: %+v", st)
		}
		w.wantLines(1, "rejected a response", "the log says it")
		s.ExpectACK(opaque, s.Respond(opaque, "3", res("b", "1")), "the next good one is accepted")
	})
}

// body is the text of an opaque resource held by name.
func (w *world) body(name string) string {
	w.t.Helper()
	text := ""
	for _, b := range []string{"1", "2", "3", "4"} {
		want := relaytest.Opaque(name, b)
		if string(w.raw(opaque, name)) == string(marshal(w.t, want)) {
			text = b
		}
	}
	return text
}

func TestSotWVersionSurvivesNACKs(t *testing.T) {
	in(t, options{sotw: true}, func(w *world) {
		s := w.asked()
		bad := relaytest.Resource{Name: "b", Body: relaytest.Cluster("b", time.Second)}
		r := s.ExpectNACK(opaque, s.Respond(opaque, "1", bad), "b", "the first response of the stream is refused")
		if versionOf(r) != "" {
			t.Errorf("nothing was accepted on this stream, and the NACK says %q", versionOf(r))
		}
		wantList(t, r, "", "s1-1", "a", "b")
		w.want(opaque, "c")
		wantList(t, s.Expect("a change of names keeps nonce and version"), "", "s1-1", "a", "b", "c")
	})
}

func TestDuplicateNames(t *testing.T) {
	both(t, options{}, func(w *world) {
		s := w.asked()
		n := s.Respond(opaque, "1", res("a", "1"), res("a", "2"), res("b", "1"))
		s.ExpectNACK(opaque, n, "listed twice", "one name with two contents is refused")
		w.wantHeld(opaque, "it is left untouched, the other is used", "b")
	})
}

func TestEmptyName(t *testing.T) {
	in(t, options{}, func(w *world) {
		s := w.asked()
		s.ExpectNACK(opaque, s.Respond(opaque, "1", relaytest.Resource{Version: "1"}), "neither name nor payload",
			"a resource with nothing in it is refused")
		s.ExpectACK(opaque, s.Respond(opaque, "1", relaytest.Resource{Version: "1", Body: relaytest.Opaque("", "1")}),
			"a nameless one among names is a stray, not an error (RELAY-93)")
		w.wantHeld(opaque, "and is not kept")
		w.wantLines(1, "has no name", "and the log says so")
	})
	in(t, options{sotw: true}, func(w *world) {
		w.want(lds, "l")
		s := w.origin.ExpectStream("a stream")
		s.Expect("asks for a name")
		nameless := relaytest.Resource{Body: &anypb.Any{TypeUrl: lds, Value: []byte{0x12, 0}}}
		s.ExpectACK(lds, s.Respond(lds, "1", nameless), "a nameless one among names is a stray, not an error (RELAY-93)")
		w.wantHeld(lds, "and is not kept")
		w.wantLines(1, "has no name", "and the log says so")
	})
	in(t, options{sotw: true}, func(w *world) {
		w.want(lds, "*")
		s := w.origin.ExpectStream("a stream")
		s.Expect("the wildcard")
		nameless := relaytest.Resource{Body: &anypb.Any{TypeUrl: lds, Value: []byte{0x12, 0}}}
		s.ExpectACK(lds, s.Respond(lds, "1", nameless), "a nameless listener is accepted (RELAY-18)")
	})
}

func TestLongName(t *testing.T) {
	both(t, options{config: func(c *Config) { c.NameBytes = 3 }}, func(w *world) {
		s := w.asked()
		s.ExpectNACK(opaque, s.Respond(opaque, "1", res("long", "1"), res("a", "1")), "limits.name_bytes", "a long name is refused")
		w.wantHeld(opaque, "the short one is used", "a")
	})
}

func TestEmptyVersions(t *testing.T) {
	both(t, options{}, func(w *world) {
		s := w.asked()
		n := s.Respond(opaque, "", relaytest.Resource{Name: "a", Body: relaytest.Opaque("a", "1")})
		s.ExpectACK(opaque, n, "versions may be empty (RELAY-91)")
		w.wantHeld(opaque, "the body counts", "a")
		s.End(nil)
		s, _ = w.gap(s, "a new stream")
		if r := s.Expect("presents no empty version"); !w.up.cfg.SotW && len(r.Delta.InitialResourceVersions) != 0 {
			t.Errorf("got %v", r.Delta.InitialResourceVersions)
		}
	})
}

func TestHeartbeatIsACKed(t *testing.T) {
	both(t, options{}, func(w *world) {
		s := w.asked()
		s.ExpectACK(opaque, s.Respond(opaque, "1", res("a", "1")), "a body")
		n := s.Respond(opaque, "1", relaytest.Resource{Name: "a", Version: "v1", TTL: time.Minute})
		s.ExpectACK(opaque, n, "a resource without payload is accepted (TTL-2)")
		w.wantHeld(opaque, "and changes nothing", "a")
	})
}

func TestEmptyDeltaNonce(t *testing.T) {
	in(t, options{}, func(w *world) {
		s := w.asked()
		s.Send(&discovery.DeltaDiscoveryResponse{TypeUrl: opaque})
		s.WantIdle(time.Minute)
		if st := w.lane(false).Types[0]; st.NACKs != 1 {
			t.Errorf("a response that cannot be answered counts as refused: %+v", st)
		}
		s.ExpectACK(opaque, s.Respond(opaque, "1", res("a", "1")), "and the stream goes on")
	})
}

func TestUnaskedType(t *testing.T) {
	both(t, options{}, func(w *world) {
		s := w.asked()
		s.Respond(cds, "1", relaytest.Resource{Name: "c", Version: "1", Body: relaytest.Cluster("c", time.Second)})
		s.WantIdle(time.Minute) // RELAY-33
		w.wantHeld(cds, "nothing is kept")
		w.wantLines(1, "not asked for", "the log says it once")
		s.ExpectACK(opaque, s.Respond(opaque, "1", res("a", "1")), "other types go on")
	})
}

func TestUnrequestedName(t *testing.T) {
	both(t, options{}, func(w *world) {
		s := w.asked()
		s.ExpectACK(opaque, s.Respond(opaque, "1", res("stray", "1"), res("a", "1")), "a stray is no error (RELAY-28)")
		w.wantHeld(opaque, "and is not kept", "a")
		s.ExpectACK(opaque, s.Respond(opaque, "2", res("stray", "2"), res("a", "1")), "nor is it the second time")
		w.wantLines(1, "not asked for: they are accepted", "the log says it once for the type")
		time.Sleep(2 * time.Hour)
		s.ExpectACK(opaque, s.Respond(opaque, "3", res("stray", "3"), res("a", "1")), "nor the third time")
		w.wantLines(2, "not asked for: they are accepted", "and again after an hour")
	})
}

func TestRefusalsSlowDown(t *testing.T) {
	both(t, options{}, func(w *world) {
		s := w.asked()
		bad := relaytest.Resource{Name: "b", Body: relaytest.Cluster("b", time.Second)}
		last := time.Now()
		for i, want := range []time.Duration{0, 1, 2, 4, 8} {
			n := s.Respond(opaque, "1", bad)
			r := s.ExpectNACK(opaque, n, "b", "an origin that answers each NACK with the same is answered ever later (RELAY-32)")
			if got := r.At.Sub(last); got != want*time.Second {
				t.Errorf("NACK %d came after %v, want %v", i+1, got, want*time.Second)
			}
			last = r.At
		}
		for range 4 {
			s.Respond(opaque, "1", bad)
			time.Sleep(61 * time.Second)
		}
		n := s.Respond(opaque, "1", bad)
		sent := time.Now()
		w.origin.Skip()
		s.WantIdle(59 * time.Second)
		if r := s.ExpectNACK(opaque, n, "b", "a minute is the longest"); r.At.Sub(sent) != time.Minute {
			t.Errorf("it took %v", r.At.Sub(sent))
		}
		s.ExpectACK(opaque, s.Respond(opaque, "1", res("a", "1")), "a good one is accepted at once")
		n = s.Respond(opaque, "1", bad)
		if r := s.ExpectNACK(opaque, n, "b", "and the next refusal is the first again"); !r.At.Equal(time.Now()) {
			t.Errorf("it came at %v", r.At)
		}
	})
}

func TestHeldRefusalGoesWithNewNames(t *testing.T) {
	in(t, options{sotw: true}, func(w *world) {
		s := w.asked()
		bad := relaytest.Resource{Name: "b", Body: relaytest.Cluster("b", time.Second)}
		s.ExpectNACK(opaque, s.Respond(opaque, "1", bad), "b", "refused")
		n := s.Respond(opaque, "1", bad)
		time.Sleep(500 * time.Millisecond)
		w.want(opaque, "c")
		r := s.ExpectNACK(opaque, n, "b", "new names with the nonce of a refused response must not accept it")
		wantList(t, r, "", n, "a", "b", "c")
		s.WantIdle(time.Minute)
	})
}

// TestNamesGoWithTheNewestNonce: names that are asked while a response is taken up go with its
// verdict, even if that is held. They went with the nonce before it, and now and then without a
// subscriber's doing: the table asks less once a name has come.
func TestNamesGoWithTheNewestNonce(t *testing.T) {
	slow := func(c *Config) {
		c.Log = c.Log.WithOptions(zap.Hooks(func(e zapcore.Entry) error {
			// the table has it, and the verdict is still to come
			if e.Message == "rejected a response" {
				time.Sleep(time.Second)
			}
			return nil
		}))
	}
	in(t, options{sotw: true, config: slow}, func(w *world) {
		s := w.asked()
		bad := relaytest.Resource{Name: "b", Body: relaytest.Cluster("b", time.Second)}
		n := s.Respond(opaque, "1", res("a", "1"), bad)
		time.Sleep(500 * time.Millisecond)
		w.want(opaque, "c")
		r := s.ExpectNACK(opaque, n, "b", "the next request answers the response")
		wantList(t, r, "", n, "a", "b", "c")

		time.Sleep(time.Minute) // or the line is not written again
		w.origin.Skip()
		n = s.Respond(opaque, "1", res("a", "1"), bad)
		sent := time.Now()
		time.Sleep(500 * time.Millisecond)
		w.want(opaque, "d")
		r = s.ExpectNACK(opaque, n, "b", "and so it does when the refusal is held (RELAY-32)")
		wantList(t, r, "", n, "a", "b", "c", "d")
		if after := r.At.Sub(sent); after != time.Second {
			t.Errorf("names wait for no pause: they went after %v", after)
		}
		s.WantIdle(time.Second)
	})
}

func TestOriginThatDoesNotReadIsCutOff(t *testing.T) {
	in(t, options{}, func(w *world) {
		s := w.asked()
		l := w.up.lanes.List()[0]
		l.mu.Lock()
		for range maxPending { // as if the wire were blocked
			l.types[opaque].pending = append(l.types[opaque].pending, verdict{})
		}
		l.types[opaque].holdTo = time.Now().Add(time.Hour)
		l.types[opaque].bad = 20
		l.mu.Unlock()
		s.Respond(opaque, "1", relaytest.Resource{Name: "b", Body: relaytest.Cluster("b", time.Second)})
		s.ExpectEnd("memory is bounded: the stream ends")
		w.wantLines(1, "wait for the origin to read", "the log says why")
	})
}

func TestOriginThatIgnoresInitialVersions(t *testing.T) {
	serving := relaytest.OriginConfig{Serving: true, Behaviour: relaytest.Behaviour{IgnoreInitialVersions: true}}
	in(t, options{origin: serving}, func(w *world) {
		for _, name := range []string{"a", "b", "c"} {
			w.origin.Put(opaque, res(name, "1"))
		}
		w.want(opaque, "*")
		for range 3 {
			s := w.origin.ExpectStream("a stream")
			w.origin.Await(0, func() bool { return s.Asked(opaque).ACKs > 0 }, "an answer")
			s.End(nil)
		}
		w.wantLines(1, "resume: none", "what came back unchanged is noticed, and said once (RELAY-46)")
	})
	serving.Behaviour = relaytest.Behaviour{}
	in(t, options{origin: serving}, func(w *world) {
		w.origin.Put(opaque, res("a", "1"))
		w.want(opaque, "*")
		for i := range 3 {
			s := w.origin.ExpectStream("a stream")
			w.origin.Await(0, func() bool { return s.Asked(opaque).ACKs > 0 }, "an answer")
			s.End(nil)
			// Equal content under a new version, as from an origin that restarted its counters, is
			// not the origin's fault.
			w.origin.Put(opaque, relaytest.Resource{Name: "a", Version: string(rune('p' + i)), Body: relaytest.Opaque("a", "1")})
		}
		w.wantLines(0, "resume: none", "an honest origin is not suspected")
	})
}

// TestChangesUndoneAfterAResume: a resource that changes and changes back, or goes and comes again,
// soon after a resume does not make an origin look as if it ignored the versions presented.
func TestChangesUndoneAfterAResume(t *testing.T) {
	in(t, options{origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		w.origin.Put(opaque, res("a", "1"))
		w.origin.Put(opaque, res("b", "1"))
		w.want(opaque, "*")
		w.origin.Await(0, func() bool { return w.origin.Asked(opaque).ACKs > 0 }, "an answer")
		w.origin.Open()[0].End(nil)
		time.Sleep(5 * time.Second)
		for _, step := range []func(){
			func() { w.origin.Put(opaque, res("a", "2")) },
			func() { w.origin.Put(opaque, res("a", "1")) },
			func() { w.origin.Remove(opaque, "b") },
			func() { w.origin.Put(opaque, res("b", "1")) },
		} {
			step()
			time.Sleep(time.Second)
		}
		w.wantHeld(opaque, "all is told", "*a", "*b")
		w.wantLines(0, "resume: none", "the origin is not suspected")
	})
}

func endpoint(name string) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: "v1", Body: relaytest.Endpoints(name, "127.0.0.1:1")}
}

func endpoints() []relaytest.Resource { return []relaytest.Resource{endpoint("a"), endpoint("b")} }

func bothClusters(version string) []relaytest.Resource {
	return []relaytest.Resource{{Name: "a", Version: version, Body: relaytest.Cluster("a", time.Second)}, {Name: "b", Version: version, Body: relaytest.Cluster("b", time.Second)}}
}

// TestSentAgainOnPurpose: an origin honours the versions presented, and sends endpoints anew all the
// same when it sends their clusters, as Consul does; and a resource whose content goes from A to B
// and back to A before it is sent. Neither looks as if the versions were ignored. Endpoints that come
// alone do.
func TestSentAgainOnPurpose(t *testing.T) {
	names := []string{"a", "b"}
	for _, c := range []struct {
		name  string
		again func(s *relaytest.Stream)
		lines int
	}{
		{"with their clusters", func(s *relaytest.Stream) {
			s.Respond(cds, "2", bothClusters("2")...)
			s.Respond(eds, "1", endpoints()...)
		}, 0},
		{"alone", func(s *relaytest.Stream) { s.Respond(eds, "1", endpoints()...) }, 1},
		{"in pieces", func(s *relaytest.Stream) {
			s.Respond(eds, "1", endpoints()[:1]...)
			s.Respond(eds, "1", endpoints()[1:]...)
		}, 1},
		{"one of them", func(s *relaytest.Stream) { s.Respond(eds, "1", endpoints()[:1]...) }, 0},
		{"changed back", func(s *relaytest.Stream) {
			s.Respond(eds, "2", endpoint("c"))
			time.Sleep(resumeBurst + time.Second)
			s.Respond(eds, "3", endpoints()...)
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, options{}, func(w *world) {
				w.want(cds, "*")
				w.want(eds, append(names, "c")...)
				s := w.origin.ExpectStream("a stream")
				asked := func() bool { return s.Asked(eds).Requests > 0 && s.Asked(cds).Requests > 0 }
				w.origin.Await(0, asked, "both are asked")
				s.Respond(cds, "1", bothClusters("1")...)
				s.Respond(eds, "1", endpoints()...)
				w.origin.Await(0, func() bool { return s.Asked(eds).ACKs == 1 && s.Asked(cds).ACKs == 1 }, "both are accepted")
				s.End(nil)
				s = w.origin.ExpectStream("another stream")
				w.origin.Await(0, asked, "both are asked again")
				c.again(s)
				time.Sleep(time.Minute)
				w.wantLines(c.lines, "resume: none", "the versions presented are ignored")
			})
		})
	}
}
