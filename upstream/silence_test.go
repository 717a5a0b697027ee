package upstream

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
)

func TestSilenceIsLoggedOnce(t *testing.T) {
	fixed := func(c *relay.Config) { c.Origins[0].NodeID, c.Origins[0].NodeCluster = "me", "mine" }
	both(t, options{table: fixed}, func(w *world) {
		const text = "has not answered"
		w.want(cds, "*")
		s := w.origin.ExpectStream("a stream")
		s.Expect("the request")
		time.Sleep(9900 * time.Millisecond)
		w.wantLines(0, text, "ten seconds are allowed")
		if w.lane(false).SilentSince.IsZero() {
			t.Error("the status shows since when it is silent")
		}
		time.Sleep(200 * time.Millisecond)
		w.wantLines(1, text, "then the log says so")
		w.wantLines(1, "origins[].node and origins[].group_by", "and where to look")
		fields := w.lines(text)[0].ContextMap()
		if fields["node_id"] != "me" || fields["node_cluster"] != "mine" || fields["origin"] != "mesh" {
			t.Errorf("it names the node that was sent, got %v", fields)
		}
		time.Sleep(time.Hour)
		s.End(nil)
		s, _ = w.gap(s, "a new stream")
		time.Sleep(time.Hour)
		w.wantLines(1, text, "once until it answers")
		w.origin.Skip()
		s.Respond(cds, "1", relaytest.Resource{Name: "c", Version: "", Body: relaytest.Cluster("c", time.Second)})
		s.Expect("the ACK")
		if !w.lane(false).SilentSince.IsZero() {
			t.Error("an answer ends the silence")
		}
		s.End(nil)
		s, _ = w.gap(s, "a new stream")
		s.Expect("the request")
		time.Sleep(11 * time.Second)
		w.wantLines(2, text, "a new silence is a new line")
		w.wantLines(1, "may not know the node", "which does not say that of a node that was answered")
		w.wantLines(1, "it has answered this node before", "but that it was")
	})
}

func TestOneSilentTypeIsNoSilence(t *testing.T) {
	mute := relaytest.OriginConfig{Serving: true, Behaviour: relaytest.Behaviour{Mute: map[string]bool{eds: true}}}
	both(t, options{origin: mute}, func(w *world) {
		w.want(cds, "*")
		w.want(eds, "e")
		time.Sleep(time.Minute)
		w.wantLines(0, "has not answered", "an origin that answers another type knows the node (RELAY-95)")
		if w.lane(false).Types[0].AnsweredAt.IsZero() || !w.lane(false).Types[1].AnsweredAt.IsZero() {
			t.Errorf("the status tells them apart: %+v", w.lane(false).Types)
		}
	})
}

// TestSilenceAboutANameThatIsGone: an origin that has answered the group knows its node. That it
// says nothing of names after a resume may be because they are gone.
func TestSilenceAboutANameThatIsGone(t *testing.T) {
	in(t, options{}, func(w *world) {
		const text = "has not answered"
		w.want(opaque, "a", "gone")
		s := w.origin.ExpectStream("a stream")
		s.Expect("the request")
		s.Respond(opaque, "1", res("a", "1"))
		s.Expect("the ACK")
		s.End(nil)
		s, _ = w.gap(s, "a new stream")
		if r := s.Expect("the request"); len(r.Delta.InitialResourceVersions) != 1 {
			t.Fatalf("%v presents %v", r, r.Delta.InitialResourceVersions)
		}
		time.Sleep(time.Minute)
		w.wantLines(0, text, "it has nothing new to say")
		w.want(cds, "*")
		s.ExpectType(cds, "the clusters are asked")
		time.Sleep(time.Minute)
		w.wantLines(1, text, "a wildcard is always answered")
	})
}

// TestNameThatIsNotThere: of one name that does not exist the log says once that the origin may not
// have it, and nothing of names too many.
func TestNameThatIsNotThere(t *testing.T) {
	in(t, options{sotw: true}, func(w *world) {
		w.want(opaque, "a")
		s := w.origin.ExpectStream("a stream")
		s.Expect("the request")
		s.Respond(opaque, "1", res("a", "1"))
		s.Expect("the ACK")
		w.want(opaque, "gone")
		time.Sleep(time.Hour) // it answers no request that has the name, on any stream
		w.wantLines(1, "perhaps because", "it is asked again and again")
		w.wantLines(1, "perhaps because it does not have it", "as there is one name")
		w.origin.Skip()
	})
}
