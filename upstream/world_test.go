package upstream

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	cds    = relaytest.ClusterType
	eds    = relaytest.EndpointType
	lds    = relaytest.ListenerType
	opaque = relaytest.OpaqueType
)

// world is one origin, one table and one Origin between them, in virtual time. Clients are the
// table's own handles.
type world struct {
	t      *testing.T
	origin *relaytest.Origin
	table  *relay.Table
	up     *Origin
	logs   *observer.ObservedLogs
	dials  atomic.Int64
	refuse atomic.Bool // dialling fails
	group  *relay.Group
	stop   func()
}

type options struct {
	sotw   bool
	table  func(*relay.Config)
	config func(*Config)
	origin relaytest.OriginConfig
	closed bool // the origin does not listen
	late   bool // the test begins Run
	level  zapcore.Level
}

// in runs f in a bubble.
func in(t *testing.T, o options, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(begin(t, o)) })
}

// both runs f in a bubble for each dialect.
func both(t *testing.T, o options, f func(w *world)) {
	t.Helper()
	t.Run("delta", func(t *testing.T) { in(t, o, f) })
	o.sotw = true
	t.Run("sotw", func(t *testing.T) { in(t, o, f) })
}

func begin(t *testing.T, o options) *world {
	t.Helper()
	n := relaytest.Memory()
	// Our default keepalive is too much for the library's default; only one test is about that.
	o.origin.Options = append([]grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second}),
	}, o.origin.Options...)
	w := &world{t: t, origin: relaytest.NewOrigin(t, n, o.origin)}
	if o.closed {
		w.down()
	}
	rc := relay.Config{Origins: []relay.OriginConfig{{Name: "mesh", SotW: o.sotw, GroupBy: []string{"cluster"}}}}
	if o.table != nil {
		o.table(&rc)
	}
	table, err := relay.New(rc)
	if err != nil {
		t.Fatal(err)
	}
	w.table = table
	core, logs := observer.New(o.level)
	w.logs = logs
	cfg := Config{Name: "mesh", Addresses: []string{"memory:1"}, SotW: o.sotw, NewGroupsPerSecond: 100, Log: zap.New(core)}
	cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		w.dials.Add(1)
		if w.refuse.Load() {
			return nil, errors.New("connection refused")
		}
		return n.Dial(ctx, address)
	}
	if o.config != nil {
		o.config(&cfg)
	}
	if w.up, err = New(cfg, table.Origin("mesh")); err != nil {
		t.Fatal(err)
	}
	w.group = w.groupOf("edge")
	if !o.late {
		w.run()
	}
	return w
}

// down stops the origin. The dialler refuses too, as bufconn begins each attempt with a timer that
// is due at once, which now and then crashes the race runtime in a bubble (Go 1.26).
func (w *world) down() {
	w.refuse.Store(true)
	w.origin.Stop()
}

// back starts it again.
func (w *world) back() {
	w.origin.Start()
	w.refuse.Store(false)
}

// run starts the Origin and the table's clock.
func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- w.up.Run(ctx) }()
	go func() { ended <- w.advance(ctx) }()
	w.stop = func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				w.t.Error(err)
			}
		}
		w.stop = func() {}
	}
	w.t.Cleanup(func() { w.stop() })
}

func (w *world) advance(ctx context.Context) error {
	for {
		var due <-chan time.Time
		if next := w.table.Advance(time.Now()); !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-due:
		case <-w.table.Deadlines():
		}
	}
}

func (w *world) groupOf(cluster string) *relay.Group {
	w.t.Helper()
	g, err := w.table.Origin("mesh").Group(relaytest.Node("n", cluster))
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

// want subscribes a new client to names of the type ("*" for the wildcard).
func (w *world) want(typeURL string, names ...string) *relay.Sub {
	return wantOf(w.group, typeURL, names...)
}

func wantOf(g *relay.Group, typeURL string, names ...string) *relay.Sub {
	sub := g.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: typeURL, Delta: true})
	sub.Update(time.Now(), names, nil)
	return sub
}

// held are the bodies in the table, name to text of the opaque payload, "*" before the names of
// wildcard members.
func (w *world) held(typeURL string) []string {
	var names []string
	inspect.Query(w.table.Origin("mesh"), inspect.ResourceQuery{TypeURL: typeURL}, func(r inspect.ResourceInfo) bool {
		if r.Body != nil && r.Wildcard {
			names = append(names, "*"+r.Name)
		} else if r.Body != nil {
			names = append(names, r.Name)
		}
		return true
	})
	slices.Sort(names)
	return names
}

func (w *world) wantHeld(typeURL, sentence string, names ...string) {
	w.t.Helper()
	synctest.Wait()
	if got := w.held(typeURL); !slices.Equal(got, names) {
		w.t.Fatalf("%s: the table holds %q, want %q", sentence, got, names)
	}
}

func (w *world) status() Status {
	synctest.Wait()
	return w.up.Status()
}

// lane is the status of the group's main or side lane.
func (w *world) lane(side bool) LaneStatus {
	w.t.Helper()
	for _, l := range w.status().Lanes {
		if l.Group == w.group.Key() && l.Side == side {
			return l
		}
	}
	return LaneStatus{}
}

// lines are the log lines that contain text in message or error.
func (w *world) lines(text string) []observer.LoggedEntry {
	synctest.Wait()
	return w.logs.Filter(func(e observer.LoggedEntry) bool {
		if strings.Contains(e.Message, text) {
			return true
		}
		for _, f := range e.Context {
			if err, ok := f.Interface.(error); ok && strings.Contains(err.Error(), text) {
				return true
			}
		}
		return false
	}).All()
}

func (w *world) wantLines(n int, text, sentence string) {
	w.t.Helper()
	if got := w.lines(text); len(got) != n {
		w.t.Errorf("%s: %d lines with %q, want %d: %v", sentence, len(got), text, n, got)
	}
}

// gap is how long after the stream before it the next stream came.
func (w *world) gap(before *relaytest.Stream, sentence string) (*relaytest.Stream, time.Duration) {
	w.t.Helper()
	s := w.origin.ExpectStream(sentence)
	return s, s.At.Sub(before.At)
}

func within(d, least, most time.Duration) bool { return d >= least && d <= most }

func res(name, body string) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: "v" + body, Body: relaytest.Opaque(name, body)}
}

var errBoom = errors.New("boom")

// raw is the payload held by name, as received.
func (w *world) raw(typeURL, name string) (body []byte) {
	synctest.Wait()
	inspect.Query(w.table.Origin("mesh"), inspect.ResourceQuery{TypeURL: typeURL, Name: name}, func(r inspect.ResourceInfo) bool {
		body = r.Body
		return body == nil
	})
	return body
}

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
