package resort

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/anypb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	cds = relaytest.ClusterType
	eds = relaytest.EndpointType
	sds = xds.SecretType
)

// side is an origin, its table, and who asks the one for the other.
type side struct {
	*relaytest.Origin
	table *relay.Table
	part  *relay.Origin
	up    *upstream.Origin
	away  atomic.Bool // nobody listens
}

// world is two sides and what stands between them, in virtual time. The first side is away.
type world struct {
	t           *testing.T
	first, last *side
	end         func()
}

// both runs f in a bubble for each dialect of the last side; the first one speaks the other.
func both(t *testing.T, f func(w *world)) {
	t.Helper()
	for _, sotw := range []bool{false, true} {
		t.Run(map[bool]string{false: "delta", true: "sotw"}[sotw], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(begin(t, sotw, 0)) })
		})
	}
}

func begin(t *testing.T, sotw bool, settle time.Duration) *world {
	t.Helper()
	w := &world{t: t, first: newSide(t, !sotw, 0), last: newSide(t, sotw, settle)}
	w.first.away.Store(true)
	w.first.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	r := New(w.first.part, w.last.part, "another", nil)
	runs := []func(context.Context) error{w.first.up.Run, w.first.advance, w.last.up.Run, w.last.advance, r.Run}
	ended := make(chan error, len(runs))
	for _, run := range runs {
		go func() { ended <- run(ctx) }()
	}
	w.end = func() {
		cancel()
		for range runs {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		w.end = func() {}
	}
	t.Cleanup(func() { w.end() })
	return w
}

func newSide(t *testing.T, sotw bool, settle time.Duration) *side {
	t.Helper()
	n := relaytest.Memory()
	s := &side{Origin: relaytest.NewOrigin(t, n, relaytest.OriginConfig{Serving: true})}
	var err error
	if s.table, err = relay.New(relay.Config{Settle: settle, Origins: []relay.OriginConfig{
		{Name: "mesh", SotW: sotw, GroupBy: []string{"cluster"}, Secrets: true},
	}}); err != nil {
		t.Fatal(err)
	}
	s.part = s.table.Origin("mesh")
	s.up, err = upstream.New(upstream.Config{
		Name: "mesh", Addresses: []string{"memory:1"}, SotW: sotw, NewGroupsPerSecond: 100,
		Keepalive: upstream.Keepalive{Time: time.Hour},
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			if s.away.Load() {
				return nil, errors.New("connection refused")
			}
			return n.Dial(ctx, address)
		},
	}, s.part)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *side) advance(ctx context.Context) error {
	for {
		var due <-chan time.Time
		if next := s.table.Advance(time.Now()); !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-due:
		case <-s.table.Deadlines():
		}
	}
}

// client subscribes in the group of a cluster.
func (w *world) client(cluster, typeURL string, names ...string) (*relay.Group, *relay.Sub) {
	w.t.Helper()
	g, err := w.first.part.Group(relaytest.Node("n", cluster))
	if err != nil {
		w.t.Fatal(err)
	}
	s := g.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: typeURL, Delta: true})
	s.Update(time.Now(), names, nil)
	return g, s
}

// want fails unless a client is told of just these within a second.
func (w *world) want(s *relay.Sub, sentence string, names ...string) {
	w.t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	var got []string
	for s.Pending() {
		a := s.Take(time.Now())
		if a == nil {
			continue
		}
		for _, v := range a.Variants {
			got = append(got, v.Name)
		}
		for _, name := range a.Removed {
			got = append(got, "-"+name)
		}
		s.Ack(a.Receipt())
	}
	if slices.Sort(got); !slices.Equal(got, names) {
		w.t.Errorf("%s: told %q, want %q", sentence, got, names)
	}
}

// clusters are the clusters of the nodes that are presented to the last side now.
func (w *world) clusters() (of []string) {
	synctest.Wait()
	open := w.last.Open()
	for _, r := range w.last.Requests() {
		if n := r.Node(); n != nil && slices.Contains(open, r.Stream) {
			of = append(of, n.GetCluster())
		}
	}
	slices.Sort(of)
	return of
}

func (s *side) set(typeURL string, names ...string) {
	for _, name := range names {
		body := map[string]*anypb.Any{cds: relaytest.Cluster(name, time.Second), eds: relaytest.Endpoints(name)}[typeURL]
		if body == nil {
			body = &anypb.Any{TypeUrl: typeURL, Value: relaytest.Opaque(name, "1").Value}
		}
		s.Set(typeURL, name, "1", body)
	}
}

// TestAsksWhatIsLacking: only what is wanted of types of which nothing is known, group by group,
// each on one stream with its own node, and only while the first side is out of reach.
func TestAsksWhatIsLacking(t *testing.T) {
	both(t, func(w *world) {
		w.last.set(cds, "a", "b")
		w.last.set(eds, "e", "f", "g")
		w.last.set(sds, "s")
		_, edge := w.client("edge", cds, "*")
		_, named := w.client("edge", eds, "e", "none")
		_, core := w.client("core", eds, "f")
		_, secret := w.client("core", sds, "s")
		w.want(edge, "clusters", "a", "b")
		w.want(named, "endpoints", "e")
		w.want(core, "endpoints of another group", "f")
		w.want(secret, "a secret")
		if got := w.clusters(); !slices.Equal(got, []string{"core", "edge"}) {
			t.Errorf("the last side has streams of %q", got)
		}
		named.Update(time.Now(), []string{"g"}, []string{"e"})
		w.want(named, "a name more", "g")
		w.last.Remove(cds, "a")
		w.want(edge, "a member fewer", "-a")

		w.last.Stop()
		w.last.away.Store(true)
		w.want(edge, "the last side dies")
		_, late := w.client("edge", cds, "*")
		w.want(late, "who comes later", "b")
		w.last.away.Store(false)
		w.last.Start()

		w.first.set(cds, "b", "c")
		w.first.set(eds, "e", "f", "g")
		w.first.away.Store(false)
		w.first.Start()
		time.Sleep(90 * time.Second) // and what was let go of has lingered
		synctest.Wait()
		if got := w.clusters(); len(got) > 0 {
			t.Errorf("the first side has answered, and the last one still has streams of %q", got)
		}
		if n := len(inspect.Status(w.last.part)); n > 0 {
			t.Errorf("%d groups of the last side are left", n)
		}
		if n := inspect.StandIns(w.first.part); n > 0 {
			t.Errorf("%d resources stand in still", n)
		}
		w.want(edge, "the first side's", "c")
		w.first.Stop()
		w.first.away.Store(true)
		time.Sleep(time.Minute)
		_, late = w.client("edge", cds, "*")
		w.want(late, "the first side dies, and what is cached stays", "b", "c")
		if got := w.clusters(); len(got) > 0 {
			t.Errorf("the last side is asked again, for %q", got)
		}
	})
}

// TestGivesUpWhatIsUnwanted: what the first side's clients let go of is not asked for any more,
// when its linger is over.
func TestGivesUpWhatIsUnwanted(t *testing.T) {
	both(t, func(w *world) {
		w.last.set(cds, "a")
		w.last.set(eds, "e", "f")
		g, s := w.client("edge", cds, "*")
		_, named := w.client("core", eds, "e", "f")
		w.want(s, "clusters", "a")
		w.want(named, "endpoints", "e", "f")
		g.Release(time.Now())
		s.Close(time.Now())
		named.Update(time.Now(), nil, []string{"f"})
		time.Sleep(30 * time.Second)
		if got := w.clusters(); len(got) != 2 {
			t.Errorf("within linger the last side has streams of %q", got)
		}
		time.Sleep(2 * time.Minute)
		if got := w.clusters(); !slices.Equal(got, []string{"core"}) {
			t.Errorf("after it, of %q", got)
		}
		w.last.away.Store(true)
		w.last.Stop()
		w.last.Remove(cds, "a")
		w.last.set(cds, "b")
		_, s = w.client("edge", cds, "*")
		named.Update(time.Now(), []string{"f"}, nil)
		w.want(s, "what there was is not given again")
		w.want(named, "nor is a name")
		w.last.away.Store(false)
		w.last.Start()
		time.Sleep(5 * time.Second)
		w.want(s, "who comes back is told what there is now", "b")
		w.want(named, "a name, too", "f")
	})
}

// TestWaitsForTheFirst: while a stream to the first side is open, the last one is asked after half
// of cold_wait.
func TestWaitsForTheFirst(t *testing.T) {
	both(t, func(w *world) {
		w.last.set(cds, "a")
		w.first.Behave(func(b *relaytest.Behaviour) { b.Mute = map[string]bool{cds: true} })
		w.first.away.Store(false)
		w.first.Start()
		_, s := w.client("edge", cds, "*")
		time.Sleep(4 * time.Second)
		if got := w.clusters(); len(got) > 0 {
			t.Errorf("the last side has streams of %q", got)
		}
		time.Sleep(time.Second)
		w.want(s, "the first side is silent", "a")
	})
}

// TestFallbackSetIsWhole: part of a set is worse than none (RELAY-7).
func TestFallbackSetIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, false, 3*time.Second)
		w.last.set(cds, "a", "b")
		_, s := w.client("edge", cds, "*")
		_, named := w.client("edge", cds, "a")
		w.want(s, "it has not settled")
		w.want(named, "a name does not wait for it", "a")
		time.Sleep(3 * time.Second)
		w.want(s, "it has", "a", "b")
	})
}

// TestFallsBehind: what goes at once may be more than a subscription remembers, which then begins
// anew.
func TestFallsBehind(t *testing.T) {
	both(t, func(w *world) {
		var many []relaytest.Resource
		for i := range 2500 {
			name := fmt.Sprint("c", i)
			many = append(many, relaytest.Resource{Name: name, Version: "1", Body: relaytest.Cluster(name, time.Second)})
		}
		w.last.Replace(cds, many...)
		_, _ = w.client("edge", cds, "*")
		count := func() (n int) {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			inspect.Query(w.first.part, inspect.ResourceQuery{TypeURL: cds}, func(inspect.ResourceInfo) bool { n++; return true })
			return n
		}
		if n := count(); n != len(many) {
			t.Fatalf("there are %d clusters", n)
		}
		w.last.Replace(cds, many[:7]...)
		if n := count(); n != 7 {
			t.Errorf("there are %d clusters after most went", n)
		}
	})
}

// TestEnds: what is given stays with those who have it, and nobody new is.
func TestEnds(t *testing.T) {
	both(t, func(w *world) {
		w.last.set(cds, "a")
		_, s := w.client("edge", cds, "*")
		w.want(s, "clusters", "a")
		w.end()
		if f, n := w.first.part.Fallback(), inspect.StandIns(w.first.part); f != "" {
			t.Errorf("%q goes on standing in, with %d resources", f, n)
		}
		w.want(s, "nothing goes")
	})
}
