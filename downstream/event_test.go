package downstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
)

// shown is an event in few words.
func (e *Event) shown() string {
	said := string(e.Kind)
	switch e.Kind {
	case EventJoined:
		said += fmt.Sprintf(" %s %s %s", e.Origin, e.Dialect, e.NodeCluster)
	case EventSubscribed:
		said += fmt.Sprintf(" %d %v", e.Named, e.Names)
	case EventSent:
		said += fmt.Sprintf(" %d in %d", e.Resources, e.Messages)
	case EventNacked:
		said += " " + e.Text
	case EventEnded:
		said += " " + e.Why
	}
	return said
}

// TestFollow: who follows a client gets what happens to it, in order, and nothing of others; and the
// log has all of it at level debug.
func TestFollow(t *testing.T) {
	for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		for _, level := range []zapcore.Level{zap.DebugLevel, zap.InfoLevel} {
			t.Run(fmt.Sprint(dialect, " ", level), func(t *testing.T) { testFollow(t, dialect, level) })
		}
	}
}

func testFollow(t *testing.T, dialect relaytest.Dialect, level zapcore.Level) {
	core, logs := observer.New(level)
	l := newLive(t, relaytest.TCP(), func(cfg *Config, _ *ListenerConfig) { cfg.Log = zap.New(core) })
	f, stop, err := l.server.Follow("envoy-1")
	if err != nil {
		t.Fatal(err)
	}
	var events []*Event
	upTo := func(n int) {
		t.Helper()
		for len(events) < n {
			select {
			case e := <-f.Events():
				events = append(events, e)
			case <-time.After(patience):
				t.Fatalf("%d events, want %d", len(events), n)
			}
		}
	}
	other := relaytest.NewClient(t, l.net.Connect(t), relaytest.ClientConfig{Dialect: dialect})
	other.Open(relaytest.Node("envoy-2", "edge"))
	other.Request(eds, "a")
	c := l.open(t, relaytest.ClientConfig{Dialect: dialect, ManualACK: true})
	c.Request(eds, "a", "b")
	l.asked(t, 3)
	l.say(eds, "a=1", "b=1")
	c.Expect(eds, "the first answer")
	c.ACK(eds)
	upTo(4)
	l.say(eds, "a=2")
	c.Expect(eds, "the change")
	c.NACK(eds, "no port")
	upTo(6)
	c.Request(eds, "b")
	l.asked(t, 2)
	c.Cancel()
	want := []string{
		"joined mesh " + string(dialect) + " edge", "subscribed 2 [a b]", "sent 2 in 1", "acked", "sent 1 in 1", "nacked no port",
		"subscribed 0 []", "ended client",
	}
	if dialect == relaytest.SotW {
		want[6] = "subscribed 1 [b]"
	}
	upTo(len(want))
	// The stream's reader and its writer tell what they did, each in order.
	slices.SortStableFunc(events, func(a, b *Event) int { return a.At.Compare(b.At) })
	for i, e := range events {
		if got := e.shown(); got != want[i] {
			t.Fatalf("%q, want %q: %+v", got, want[i], e)
		}
		if e.NodeID != "envoy-1" || e.Stream == 0 || e.Peer == "" || e.At.IsZero() {
			t.Errorf("%+v", e)
		}
		if e.Kind == EventSent && (e.Bytes == 0 || e.Nonce == "" || e.TypeURL != eds || e.Source == nil || e.First == 0 || e.Rev < e.First ||
			dialect == relaytest.SotW && e.Version == "") {
			t.Errorf("%+v", e)
		}
	}
	stop()
	if level == zap.InfoLevel {
		if n := logs.FilterLevelExact(zap.DebugLevel).Len(); n > 0 {
			t.Errorf("%d lines of debug", n)
		}
		return
	}
	await(t, "the log has it all", func() bool {
		n := 0
		for _, e := range logs.FilterLevelExact(zap.DebugLevel).All() {
			if e.ContextMap()["client"] == "envoy-1" {
				n++
			}
		}
		return n == len(want)
	})
	if logs.FilterMessage("a client stream is open").Len() != 2 {
		t.Errorf("the log has %v", logs.All())
	}
}

// TestSlowFollower: what one who follows does not read in time costs that, and is counted. Nobody
// else is kept waiting. There are few who follow at a time.
func TestSlowFollower(t *testing.T) {
	w := &watchers{log: zap.NewNop()}
	s := &Server{cfg: Config{watchers: w}}
	var stops []func()
	for range maxFollowers {
		_, stop, err := s.Follow("a")
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, stop)
	}
	if _, _, err := s.Follow("a"); err == nil {
		t.Error("too many may follow")
	}
	stops[0]()
	f, stop, err := s.Follow("a")
	if err != nil {
		t.Fatal(err)
	}
	for range followed + 3 {
		w.tell(&stream{}, &Event{NodeID: "a"})
		w.tell(&stream{}, &Event{NodeID: "b"})
	}
	if n, missed := len(f.Events()), f.Missed(); n != followed || missed != 3 || f.Missed() != 0 {
		t.Errorf("%d events, %d missed", n, missed)
	}
	for _, stop := range append(stops[1:], stop) {
		if !w.wants("a") || w.wants("b") {
			t.Error("it is not known who is followed")
		}
		stop()
	}
	if w.wants("a") || (*watchers)(nil).wants("a") {
		t.Error("nobody follows any more")
	}
}

// TestFollowSecrets: of secrets there is no version, and no text of a NACK (RELAY-76).
func TestFollowSecrets(t *testing.T) {
	r := newRig(t)
	p := r.client(false)
	st := newStreamType(r.set, sds, "sotw")
	st.sentVersion = "w1"
	p.session.telling = true
	p.session.eventSent(r.now, st, nil, &sent{}, 0, nil)
	p.session.eventJudged(r.now, EventAcked, st, &sent{})
	nack, _ := nackOf(r.now, sds, "1", &statuspb.Status{Message: "the key is hunter2"})
	for _, n := range p.session.notes {
		if said := fmt.Sprintf("%+v", n.event); strings.Contains(said, "w1") {
			t.Errorf("said: %s", said)
		}
	}
	if strings.Contains(nack.Message, "hunter2") {
		t.Error(nack.Message)
	}
}

// TestUnwatchedMakesNoEvent: while nobody wants to know, it costs no object to find that out.
func TestUnwatchedMakesNoEvent(t *testing.T) {
	w := &watchers{log: zap.NewNop(), traces: noTraces{}}
	if n := testing.AllocsPerRun(100, func() {
		if w.wants("envoy-1") {
			t.Error("somebody wants to know")
		}
	}); n != 0 {
		t.Errorf("%v objects", n)
	}
}

type noTraces struct{}

func (noTraces) Open() bool  { return false }
func (noTraces) Note(*Event) {}

// TestFollowPolls: a poll is a short life.
func TestFollowPolls(t *testing.T) {
	l := newLive(t, relaytest.TCP(), nil)
	f, stop, err := l.server.Follow("envoy-1")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	c := l.open(t, relaytest.ClientConfig{Dialect: relaytest.Delta})
	c.Request(cds, "a")
	l.asked(t, 1)
	l.say(cds, "a=1")
	c.Expect(cds, "the answer")
	for range 3 {
		<-f.Events()
	}
	in := &discoveryv3.DiscoveryRequest{Node: relaytest.Node("envoy-1", "edge"), ResourceNames: []string{"a"}}
	if err := l.net.Connect(t).Invoke(t.Context(), "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters", in, &discoveryv3.DiscoveryResponse{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"joined mesh sotw edge", "subscribed 1 [a]", "sent 1 in 1", "ended client"} {
		e := <-f.Events()
		for e.Kind == EventAcked { // the stream's
			e = <-f.Events()
		}
		if e.shown() != want {
			t.Fatalf("%q, want %q", e.shown(), want)
		}
	}
}

// TestHeldIsTold: an answer that is held back is told of when the wait begins, with its reason, and
// when it is written, with how long that was.
func TestHeldIsTold(t *testing.T) {
	r := newRig(t)
	core, _ := observer.New(zap.DebugLevel)
	r.set.watchers = &watchers{log: zap.New(core)}
	p := hasClusters(r.client(true))
	p.says(cds, "a=2")
	p.gets("the clusters", "cds a=2")
	p.says(lds, "l=2")
	p.session.notes = nil
	p.gets("not the listeners")
	p.wait(100 * time.Millisecond)
	told := func(kind EventKind) *Event {
		t.Helper()
		for _, n := range p.session.notes {
			if n.event != nil && n.event.Kind == kind && n.event.TypeURL == lds {
				return n.event
			}
		}
		t.Fatalf("no event %s", kind)
		return nil
	}
	if e := told(EventWaits); e.Why != "clusters" {
		t.Errorf("%+v", e)
	}
	p.acks(cds)
	p.gets("the listeners", "lds l=2")
	if e := told(EventSent); e.Why != "clusters" || e.Held != 100*time.Millisecond || e.Waited != 100*time.Millisecond || e.Resources != 1 {
		t.Errorf("%+v", e)
	}
}
