package upstream

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// serving is an origin that serves a state and ends each stream on which a type of kills is asked.
func serving(kills map[string]error) relaytest.OriginConfig {
	return relaytest.OriginConfig{Serving: true, Behaviour: relaytest.Behaviour{Kill: kills}}
}

func unauthenticated() error { return status.Error(codes.Unauthenticated, "no such type") }

// heard has the origin answer another group, so that it can accuse a type (RELAY-92).
func (w *world) heard() {
	w.t.Helper()
	wantOf(w.groupOf("heard"), relaytest.RouteType, "r")
	s := w.origin.ExpectStream("a stream of another group")
	s.ExpectType(relaytest.RouteType, "asks for a route")
	s.Respond(relaytest.RouteType, "1", relaytest.Resource{Name: "r", Version: "1", Body: relaytest.Route("r", "c")})
	s.Expect("the ACK")
}

func clusterOf(name, version string, timeout time.Duration) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: version, Body: relaytest.Cluster(name, timeout)}
}

// apart are the types that are not on the group's lanes, with since when each is in quarantine.
func (w *world) apart() map[string]relay.QuarantineStatus {
	synctest.Wait()
	all := map[string]relay.QuarantineStatus{}
	for _, g := range inspect.Status(w.table.Origin("mesh")) {
		for _, as := range g.Quarantined {
			all[as.TypeURL] = as
		}
	}
	return all
}

func (w *world) wantQuarantined(sentence string, typeURLs ...string) {
	w.t.Helper()
	var got []string
	for typeURL, as := range w.apart() {
		if !as.Quarantined.IsZero() {
			got = append(got, typeURL)
		}
	}
	slices.Sort(got)
	slices.Sort(typeURLs)
	if !slices.Equal(got, typeURLs) {
		w.t.Errorf("%s: in quarantine are %q, want %q", sentence, got, typeURLs)
	}
}

// streamsWith are the streams on which the type was asked.
func (w *world) streamsWith(typeURL string) (ss []*relaytest.Stream) {
	synctest.Wait()
	for _, s := range w.origin.Streams() {
		if s.Asked(typeURL).Requests > 0 {
			ss = append(ss, s)
		}
	}
	return ss
}

// TestTypeThatEndsStreams is RELAY-92: all but the one type keep getting updates, on one lane.
func TestTypeThatEndsStreams(t *testing.T) {
	for _, code := range []codes.Code{codes.Unauthenticated, codes.InvalidArgument, codes.Unimplemented, codes.Internal} {
		t.Run(code.String(), func(t *testing.T) {
			reg := prometheus.NewPedanticRegistry()
			counted := 0.0
			both(t, options{
				origin: serving(map[string]error{opaque: status.Error(code, "no such type")}),
				config: func(c *Config) {
					if c.SotW {
						c.Metrics = metrics.New(reg)
					}
				},
			}, func(w *world) {
				w.origin.Put(cds, clusterOf("c", "1", time.Second))
				w.origin.Put(eds, relaytest.Resource{Name: "e", Version: "1", Body: relaytest.Endpoints("e", "10.0.0.1:80")})
				w.want(cds, "*")
				w.want(eds, "e")
				time.Sleep(10 * time.Second)
				main := w.origin.Open()[0]
				w.want(opaque, "a")
				main.ExpectEnd("the origin ends the stream")
				time.Sleep(5 * time.Second)
				w.wantQuarantined("it does the same to the stream of its own", opaque)
				for i := range 20 {
					w.origin.Put(cds, clusterOf("c", string(rune('a'+i)), time.Duration(i+2)*time.Second))
					time.Sleep(time.Minute)
					if got := string(w.raw(cds, "c")); got != string(marshal(t, relaytest.Cluster("c", time.Duration(i+2)*time.Second))) {
						t.Fatalf("minute %d: the clusters do not follow", i)
					}
				}
				open := w.origin.Open()
				if len(open) != 1 || open[0].Asked(cds).Requests == 0 || open[0].Asked(eds).Requests == 0 {
					t.Errorf("%d streams are open, want the one that carries all other types", len(open))
				}
				if n := len(w.streamsWith(cds)); n != 2 {
					t.Errorf("the clusters were asked on %d streams, want one more than without the other type", n)
				}
				if !w.status().Connected {
					t.Error("an origin that answers is connected")
				}
				w.wantLines(1, "in quarantine", "the log says so once")
				w.wantLines(1, "all other types go on", "and what that means for the others")
				w.wantLines(1, "tried apart", "and that the type was suspect")
				w.wantLines(0, "does not answer", "and nothing else is wrong")
				if w.up.cfg.SotW {
					counted = total(t, reg, "weir_upstream_quarantines_total")
				}
			})
			if counted != 1 {
				t.Errorf("%v types were counted, want one", counted)
			}
		})
	}
}

// TestQuarantineBackoff: the type is retried on a stream of its own, ever more rarely, until it is
// answered.
func TestQuarantineBackoff(t *testing.T) {
	both(t, options{origin: serving(map[string]error{opaque: unauthenticated()}), config: noJitter}, func(w *world) {
		w.origin.Put(cds, clusterOf("c", "1", time.Second))
		w.origin.Put(opaque, res("a", "1"))
		w.want(cds, "*")
		time.Sleep(10 * time.Second)
		w.want(opaque, "a")
		time.Sleep(3 * time.Hour)
		tries := w.streamsWith(opaque)[1:] // the first was the lane of all
		want, last := time.Second, tries[0].At
		for i, s := range tries {
			if s.Asked(cds).Requests != 0 {
				t.Fatalf("try %d is not on a stream of its own", i)
			}
			if i == 0 {
				continue
			}
			if d := s.At.Sub(last); !within(d, want-100*time.Millisecond, want+100*time.Millisecond) {
				t.Errorf("try %d came after %v, want %v", i, d, want)
			}
			last, want = s.At, min(time.Duration(float64(want)*1.6), 10*time.Minute)
		}
		if want != 10*time.Minute || len(tries) < 25 {
			t.Errorf("%d tries in three hours, want the longest wait to be reached", len(tries))
		}
		st := w.apart()[opaque]
		if st.Refused != len(tries) || !strings.Contains(st.Reason, "no such type") || !within(st.Quarantined.Sub(tries[0].At), 0, time.Second) {
			t.Errorf("the status does not say so after %d tries: %+v", len(tries), st)
		}
		w.origin.Behave(func(b *relaytest.Behaviour) { b.Kill = nil })
		w.wantHeld(opaque, "nothing of it is held")
		time.Sleep(11 * time.Minute)
		w.wantHeld(opaque, "an answer releases it", "a")
		w.wantQuarantined("an answer releases it")
		w.wantLines(1, "left quarantine", "the log says so")
		if open := w.origin.Open(); len(open) != 1 || open[0].Asked(opaque).Requests == 0 {
			t.Errorf("%d streams are open, want the one of all types, and the type back on it", len(open))
		}
		w.origin.Put(opaque, res("a", "2"))
		time.Sleep(time.Second)
		if got := w.body("a"); got != "2" {
			t.Errorf("and then a has the body %q, want the newest", got)
		}
		if n := len(w.streamsWith(cds)); n != 2 {
			t.Errorf("the clusters were asked on %d streams, want no break for the return", n)
		}
	})
}

// TestRestartingOriginQuarantinesNothing: an origin that restarts every 3 s, whatever it says, and
// answers nothing of one type.
func TestRestartingOriginQuarantinesNothing(t *testing.T) {
	for name, end := range map[string]error{
		"ok": nil, "unavailable": status.Error(codes.Unavailable, "restart"), "cancelled": status.Error(codes.Canceled, "restart"),
	} {
		t.Run(name, func(t *testing.T) {
			mute := relaytest.OriginConfig{Serving: true, Behaviour: relaytest.Behaviour{Mute: map[string]bool{opaque: true, eds: true}}}
			both(t, options{origin: mute}, func(w *world) {
				w.origin.Put(cds, clusterOf("c", "1", time.Second))
				w.want(cds, "*")
				w.want(eds, "e")
				for range 200 {
					w.want(opaque, "a")
					time.Sleep(3 * time.Second)
					for _, s := range w.origin.Open() {
						s.End(end)
					}
					if got := w.apart(); len(got) != 0 {
						t.Fatalf("a restart makes suspects: %v", got)
					}
				}
				if n := len(w.streamsWith(opaque)); n < 150 {
					t.Errorf("the silent type was asked on %d streams, want as many as there were", n)
				}
			})
		})
	}
}

// TestRestartsThatLookLikeRefusals: streams that end in any other way make suspects of what was
// never answered, but only a stream of its own that ends so convicts a type.
func TestRestartsThatLookLikeRefusals(t *testing.T) {
	mute := relaytest.OriginConfig{Serving: true, Behaviour: relaytest.Behaviour{Mute: map[string]bool{opaque: true}}}
	both(t, options{origin: mute}, func(w *world) {
		w.origin.Put(cds, clusterOf("c", "1", time.Second))
		w.want(cds, "*")
		time.Sleep(time.Minute)
		w.want(opaque, "a")
		time.Sleep(time.Second)
		w.origin.Open()[0].End(status.Error(codes.Internal, "crash"))
		time.Sleep(5 * time.Second)
		if got := w.apart(); len(got) != 1 || !got[opaque].Open || !got[opaque].Quarantined.IsZero() {
			t.Errorf("the suspect is tried on a stream of its own, got %+v", got)
		}
		time.Sleep(time.Minute)
		if got := w.apart(); len(got) != 0 || len(w.origin.Open()) != 1 {
			t.Errorf("it is silent and nothing else, and belongs to the others: %+v, %d streams", got, len(w.origin.Open()))
		}
		w.wantLines(0, "has not answered", "the silence of one type says nothing of the node")
		w.origin.Open()[0].End(status.Error(codes.Internal, "crash"))
		time.Sleep(3 * time.Second)
		if got := w.apart(); len(got) != 0 {
			t.Errorf("first asked long ago it is not suspect (RELAY-92): %+v", got)
		}
	})
}

// TestFirstStreamSuspectsAllTypes: the first stream of all ends for one of its types, before any
// was answered.
func TestFirstStreamSuspectsAllTypes(t *testing.T) {
	both(t, options{}, func(w *world) {
		answers := map[string]relaytest.Resource{
			cds: clusterOf("c", "1", time.Second),
			lds: {Name: "l", Version: "1", Body: relaytest.Listener("l", 80)},
			eds: {Name: "e", Version: "1", Body: relaytest.Endpoints("e", "10.0.0.1:80")},
		}
		w.heard()
		w.want(cds, "*")
		w.want(lds, "*")
		w.want(eds, "e")
		w.want(opaque, "a")
		s := w.origin.ExpectStream("a stream")
		w.origin.Await(0, func() bool { return len(s.Requests()) == 4 }, "asks for all")
		s.End(unauthenticated())
		ended := time.Now()
		own := map[string]*relaytest.Stream{}
		for range 4 {
			s := w.origin.ExpectStream("nothing but suspects is wanted, and each is tried")
			if d := s.At.Sub(ended); d > 100*time.Millisecond {
				t.Errorf("it comes after %v, want at once", d)
			}
			own[s.Expect("the stream asks").TypeURL()] = s
		}
		// not before all are open: what was answered goes back to the lane of all
		for typeURL, s := range own {
			if answer, ok := answers[typeURL]; ok {
				s.ExpectACK(typeURL, s.Respond(typeURL, "1", answer), "it is answered")
			} else {
				s.End(unauthenticated())
			}
			if n := len(s.Requests()); n > 2 {
				t.Errorf("a stream of %s has %d requests, want one, and an ACK", typeURL, n)
			}
		}
		if w.up.cfg.SotW {
			s := w.origin.ExpectStream("the lane of all is opened for what is answered")
			if d := s.At.Sub(ended); d > 100*time.Millisecond {
				t.Errorf("after %v, want at once: with nothing to ask it had no reason to back off", d)
			}
		}
		w.wantHeld(cds, "the answers count", "*c")
		w.wantHeld(lds, "all of them", "*l")
		w.wantHeld(eds, "all of them", "e")
		w.wantQuarantined("all but one are answered", opaque)
		time.Sleep(5 * time.Second)
		together := false
		for _, s := range w.origin.Open() {
			together = together || s.Asked(cds).Requests > 0 && s.Asked(lds).Requests > 0 && s.Asked(eds).Requests > 0
		}
		if open := w.origin.Open(); len(open) > 3 || !together {
			t.Errorf("%d streams are open, want the answered types together again (RELAY-20), the other group's, and one for the other type at most", len(open))
		}
	})
}

// TestOnlyATypeInQuarantine: nothing else is wanted, so nothing else proves that the origin is
// there.
func TestOnlyATypeInQuarantine(t *testing.T) {
	kills := map[string]error{opaque: unauthenticated()}
	both(t, options{origin: serving(kills), config: noJitter}, func(w *world) {
		w.origin.Put(opaque, res("a", "1"))
		sub := w.want(opaque, "a")
		time.Sleep(time.Second)
		w.wantQuarantined("an origin that never answered anything accuses no type")
		if _, open := sub.Upstream(); open {
			t.Error("an origin that never answered anything may refuse us altogether, and counts as out of reach (RELAY-8)")
		}
		time.Sleep(15 * time.Minute)
		ss := w.streamsWith(opaque)
		if d := time.Since(ss[len(ss)-1].At); d > 5*time.Second {
			t.Errorf("the last try was %v ago, but as far as is known the origin may refuse everybody", d)
		}
		w.origin.Behave(func(b *relaytest.Behaviour) { b.Kill = nil })
		time.Sleep(5 * time.Second)
		w.wantHeld(opaque, "it is answered", "a")
		sub.Close(time.Now())
		w.origin.Behave(func(b *relaytest.Behaviour) { b.Kill = map[string]error{eds: unauthenticated()} })
		time.Sleep(2 * time.Minute)
		sub = w.want(eds, "e")
		time.Sleep(time.Second)
		w.wantQuarantined("another type", eds)
		w.wantLines(0, "all other types go on", "there is no other")
		if since, open := sub.Upstream(); !open || since.After(time.Now()) {
			t.Errorf("its client waits as for an origin that is silent, not for one that is away (RELAY-95): %v, %v", since, open)
		}
		sub.Close(time.Now())
		time.Sleep(2 * time.Minute)
		if n := len(w.status().Lanes); n != 0 {
			t.Errorf("nothing is wanted, and %d lanes are run", n)
		}
	})
}

// TestQuarantineOfAWildcard: the wildcard of a type that ends streams, while another group is
// answered for it.
func TestQuarantineOfAWildcard(t *testing.T) {
	slow := func(c *Config) { c.Backoff.Base = 20 * time.Second } // no retry comes between
	both(t, options{config: slow, origin: relaytest.OriginConfig{Patience: time.Minute}}, func(w *world) {
		w.want(cds, "*")
		s := w.origin.ExpectStream("a stream")
		s.ExpectType(cds, "asks for the clusters")
		s.ExpectACK(cds, s.Respond(cds, "1", clusterOf("c", "1", time.Second)), "the clusters are answered")
		w.want(lds, "*")
		s.ExpectType(lds, "the listeners are asked")
		s.End(unauthenticated())
		s = w.origin.ExpectStream("a stream without the suspect")
		s.ExpectType(cds, "asks for the clusters")
		w.origin.WantNoStream(3 * time.Second)
		s.Respond(cds, "1", clusterOf("c", "1", time.Second))
		own := w.origin.ExpectStream("a stream for the suspect, once the other type was answered")
		own.ExpectType(lds, "asks for the listeners")
		if n := s.Asked(lds).Requests; n != 0 {
			t.Errorf("the lane of all asks for the suspect %d times", n)
		}
		own.End(status.Error(codes.Unavailable, "restart"))
		own = w.origin.ExpectStream("which is tried again if that ends as on a restart")
		own.ExpectType(lds, "asks for the listeners")
		w.wantQuarantined("that does not convict it")
		own.End(status.Error(codes.InvalidArgument, "no listeners for you"))
		w.wantQuarantined("that does", lds)

		other := wantOf(w.groupOf("other"), lds, "*")
		s2 := w.origin.ExpectStream("the lane of another group")
		s2.ExpectType(lds, "asks for the listeners, whatever became of them elsewhere")
		s2.Respond(lds, "1", relaytest.Resource{Name: "l", Version: "1", Body: relaytest.Listener("l", 80)})
		synctest.Wait()
		w.wantQuarantined("what one node is answered another may still be refused", lds)
		s2.End(unauthenticated())
		s2 = w.origin.ExpectStream("a new stream of that group")
		s2.ExpectType(lds, "a type that was answered is never suspect")
		other.Close(time.Now())
	})
}

// TestQuarantineOfBothLanes: a type wanted both ways has two streams to itself. The refusal of one
// is that of the type.
func TestQuarantineOfBothLanes(t *testing.T) {
	both(t, options{}, func(w *world) {
		w.heard()
		w.want(cds, "*")
		main := w.origin.ExpectStream("a stream")
		main.ExpectType(cds, "asks for the clusters")
		time.Sleep(10 * time.Second)
		w.want(lds, "*")
		main.ExpectType(lds, "all listeners are asked")
		w.want(lds, "l")
		side := w.origin.ExpectStream("the side lane")
		side.ExpectNames(lds, "asks for one", "l")
		main.End(unauthenticated())
		side.ExpectEnd("the names are as suspect as the wildcard, and cannot stay")
		main = w.origin.ExpectStream("a stream without the suspect")
		main.ExpectType(cds, "asks for the clusters")
		main.Respond(cds, "1", clusterOf("c", "1", time.Second))
		own := []*relaytest.Stream{w.origin.ExpectStream("a stream of its own"), w.origin.ExpectStream("and one for the names")}
		for _, s := range own {
			s.ExpectType(lds, "asks for listeners")
		}
		time.Sleep(time.Second)
		own[0].End(unauthenticated())
		own[1].ExpectEnd("while the type rests nothing of it is asked")
		w.wantQuarantined("it is convicted", lds)
		if n := len(w.origin.Open()); n != 2 {
			t.Errorf("%d streams are open, want the one of the clusters, and the other group's", n)
		}
		own = []*relaytest.Stream{w.origin.ExpectStream("it is tried again"), w.origin.ExpectStream("both ways")}
		var names *relaytest.Stream
		for _, s := range own {
			// An answer ends the other stream, so it comes after both requests.
			if r := s.ExpectType(lds, "asks for listeners"); len(r.Names()) == 1 {
				names = s
			}
		}
		names.Respond(lds, "1", relaytest.Resource{Name: "l", Version: "1", Body: relaytest.Listener("l", 80)})
		main.ExpectType(lds, "one answer releases both")
		w.wantQuarantined("it is released")
	})
}

// TestSuspectAnsweredElsewhere: an answer to any group clears a suspect that has not been tried
// yet.
func TestSuspectAnsweredElsewhere(t *testing.T) {
	both(t, options{}, func(w *world) {
		w.heard()
		w.want(cds, "*")
		s := w.origin.ExpectStream("a stream")
		s.ExpectType(cds, "asks for the clusters")
		time.Sleep(10 * time.Second)
		w.want(lds, "*")
		s.ExpectType(lds, "the listeners are asked")
		s.End(unauthenticated())
		s = w.origin.ExpectStream("a stream without them")
		s.ExpectType(cds, "asks for the clusters, and is not answered yet")
		wantOf(w.groupOf("other"), lds, "*")
		s2 := w.origin.ExpectStream("the lane of another group")
		s2.ExpectType(lds, "asks for the listeners")
		s2.Respond(lds, "1", relaytest.Resource{Name: "l", Version: "1", Body: relaytest.Listener("l", 80)})
		s2.Expect("the ACK")
		s.Respond(cds, "1", clusterOf("c", "1", time.Second))
		s.ExpectType(lds, "the suspect is asked among the others again")
		w.origin.WantNoStream(time.Minute)
		if got := w.apart(); len(got) != 0 {
			t.Errorf("%+v are apart", got)
		}
	})
}

// TestAnsweredElsewhere: what was answered to one group is suspect in none.
func TestAnsweredElsewhere(t *testing.T) {
	both(t, options{}, func(w *world) {
		wantOf(w.groupOf("other"), lds, "*")
		s := w.origin.ExpectStream("the lane of another group")
		s.ExpectType(lds, "asks for the listeners")
		s.ExpectACK(lds, s.Respond(lds, "1", relaytest.Resource{Name: "l", Version: "1", Body: relaytest.Listener("l", 80)}), "answered")
		w.want(eds, "e")
		s = w.origin.ExpectStream("a stream")
		s.ExpectType(eds, "asks for endpoints")
		time.Sleep(10 * time.Second)
		w.want(lds, "*")
		s.ExpectType(lds, "and then for the listeners")
		s.End(unauthenticated())
		s = w.origin.ExpectStream("a new stream")
		if r := s.ExpectType(lds, "asks for the listeners again"); r.At.Sub(s.At) > time.Second {
			t.Errorf("%v later, want with the endpoints", r.At.Sub(s.At))
		}
	})
}

// TestTrialsAreBounded: clients can make up types.
func TestTrialsAreBounded(t *testing.T) {
	in(t, options{}, func(w *world) {
		w.heard()
		for i := range 100 {
			w.want("type.googleapis.com/example."+string(rune('A'+i/10))+string(rune('A'+i%10)), "a")
		}
		s := w.origin.ExpectStream("a stream")
		w.origin.Await(0, func() bool { return len(s.Requests()) == 100 }, "asks for all of them")
		s.End(unauthenticated())
		time.Sleep(time.Second)
		if n := len(w.origin.Open()); n != 17 {
			t.Errorf("%d streams are open, want the other group's, and 16 types tried at a time", n)
		}
		for range 60 {
			for _, s := range w.origin.Open() {
				if s.Asked(relaytest.RouteType).Requests == 0 {
					s.End(unauthenticated())
				}
			}
			time.Sleep(time.Second)
		}
		if n := len(w.apart()); n != 100 {
			t.Errorf("%d types are apart, want all", n)
		}
		for typeURL, as := range w.apart() {
			if as.Refused == 0 {
				t.Errorf("%s was never tried", typeURL)
			}
		}
		if n := w.logs.Len(); n > 10 {
			t.Errorf("%d log lines", n)
		}
	})
}
