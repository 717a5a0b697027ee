package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// answers are what the origin of these tests has of the types that it knows.
var answers = map[string]relaytest.Resource{
	cds: clusterOf("c", "1", time.Second),
	lds: {Name: "l", Version: "1", Body: relaytest.Listener("l", 80)},
	eds: {Name: "e", Version: "1", Body: relaytest.Endpoints("e", "10.0.0.1:80")},
}

// wantAll is what the clients want, those of the type that the origin does not know first.
func wantAll(g *relay.Group) (subs []*relay.Sub) {
	return []*relay.Sub{wantOf(g, opaque, "a"), wantOf(g, eds, "e"), wantOf(g, lds, "*"), wantOf(g, cds, "*")}
}

// refuseOpaque plays an origin for a time. It ends each stream on which a type was asked that it
// does not know, before it answers anything on it. mute is never answered.
func (w *world) refuseOpaque(d time.Duration, mute string) {
	answered := map[*relaytest.Stream]map[string]bool{}
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		for _, s := range w.origin.Open() {
			if s.Asked(opaque).Requests > 0 {
				s.End(status.Error(codes.InvalidArgument, "unknown type URL"))
				continue
			}
			if answered[s] == nil {
				answered[s] = map[string]bool{mute: true}
			}
			for typeURL, answer := range answers {
				if s.Asked(typeURL).Requests > 0 && !answered[s][typeURL] {
					answered[s][typeURL] = true
					s.Respond(typeURL, "1", answer)
				}
			}
		}
	}
}

// TestRefusedTypeInAColdGroup is RELAY-92: an origin that has answered nothing refuses each stream
// on which a client asks for a type that it does not know. The other types are answered soon.
func TestRefusedTypeInAColdGroup(t *testing.T) {
	both(t, options{}, func(w *world) {
		wantAll(w.group)
		w.refuseOpaque(14*time.Second, "") // the type that is refused may be tried first
		w.wantHeld(cds, "all but one type are answered", "*c")
		w.wantHeld(lds, "all but one type are answered", "*l")
		w.wantHeld(eds, "all but one type are answered", "e")
		w.refuseOpaque(20*time.Second, "")
		w.wantQuarantined("the origin refuses one type", opaque)
		if open := w.origin.Open(); len(open) != 1 {
			t.Errorf("%d streams are open, want the one of all other types", len(open))
		}
	})
}

// TestRefusedTypeOfClientsThatComeBack: the clients are sent away after cold_wait, and come back
// to a new group, as nothing is kept of one in which no client was sent anything.
func TestRefusedTypeOfClientsThatComeBack(t *testing.T) {
	slow := func(c *Config) { c.Backoff.Base = c.Backoff.Max } // as after a long outage
	both(t, options{config: slow}, func(w *world) {
		w.group.Release(time.Now())
		for range 5 {
			w.group = w.groupOf("edge")
			subs := wantAll(w.group)
			w.refuseOpaque(10*time.Second, "")
			if len(w.held(cds)) > 0 {
				return
			}
			w.group.Release(time.Now())
			for _, sub := range subs {
				sub.Close(time.Now())
			}
			time.Sleep(time.Second)
		}
		t.Error("the clusters were never answered")
	})
}

// TestSilentTypeInAColdGroup: of the types that are tried one after the other the first is left
// unanswered, which keeps the others waiting for seconds only.
func TestSilentTypeInAColdGroup(t *testing.T) {
	both(t, options{}, func(w *world) {
		wantAll(w.group)
		w.refuseOpaque(20*time.Second, cds)
		w.wantHeld(lds, "the types after it are answered", "*l")
		w.wantHeld(eds, "the types after it are answered", "e")
		w.refuseOpaque(30*time.Second, cds)
		w.wantQuarantined("silence is no refusal", opaque)
	})
}

// TestStartingOriginQuarantinesNothing: an origin starts, and ends streams with another status than
// UNAVAILABLE meanwhile. Then it answers all types.
func TestStartingOriginQuarantinesNothing(t *testing.T) {
	for _, code := range []codes.Code{codes.Unknown, codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded} {
		t.Run(code.String(), func(t *testing.T) {
			both(t, options{origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
				for typeURL, x := range answers {
					w.origin.Put(typeURL, x)
				}
				w.origin.Put(opaque, res("a", "1"))
				w.origin.Refuse(status.Error(code, "not ready"))
				wantAll(w.group)
				time.Sleep(time.Minute)
				w.wantQuarantined("the origin may be starting")
				refused := len(w.origin.Streams())
				if refused > 20 {
					t.Errorf("%d streams in a minute, want the pace of the backoff", refused)
				}
				w.origin.Refuse(nil)
				time.Sleep(12 * time.Second)
				w.wantHeld(cds, "all are answered", "*c")
				w.wantHeld(lds, "all are answered", "*l")
				w.wantHeld(eds, "all are answered", "e")
				w.wantHeld(opaque, "all are answered", "a")
				if got := w.apart(); len(got) > 0 {
					t.Errorf("no type is apart from the others, got %v", got)
				}
				w.wantLines(0, "quarantine", "no type is to blame")
				if open := w.origin.Open(); len(open) != 1 {
					t.Errorf("%d streams are open, want one that carries all", len(open))
				}
			})
		})
	}
}
