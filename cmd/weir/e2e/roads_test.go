package e2e

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestRoads: from every kind of source, by every way out, each client holds what the source holds:
// from the start, after additions, changes and removals, while the source is dead, when it comes
// only then, when weir is restarted then, when the source is back with something else, and when
// weir is restarted while the source changes, with what it had kept and without. One weir has one
// source and all ways out.
func TestRoads(t *testing.T) {
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			walk(t, source)
		})
	}
}

// journey is one weir before one source, with its clients.
type journey struct {
	t      *testing.T
	config weirtest.Config
	kept   string // the directory of snapshots
	weir   *process
	ways   []namedWay
}

// way is a client, by one way out.
type way interface {
	// ask says what is wanted: all clusters and listeners, and endpoints and routes by these names.
	ask(names []string)
	// again goes on at a weir that was restarted, with what it holds.
	again()
	// held is what the client holds by now: the bodies by type URL and name.
	held() map[string]map[string]string
	// keeps says whether the client goes on holding endpoints and routes that are no more, as long
	// as it asks for them: stated says whether the source states that they are no more.
	keeps(stated bool) bool
	// check says what was wrong on the way.
	check(name string)
}

type namedWay struct {
	name string
	way
}

// roadTypes are the types that are asked for. byName are those of them that are asked for by name.
var (
	roadTypes = []string{relaytest.ClusterType, relaytest.EndpointType, relaytest.ListenerType, relaytest.RouteType}
	byName    = map[string]bool{relaytest.EndpointType: true, relaytest.RouteType: true}
)

// wanted is what a client asks for of a type.
func wanted(typeURL string, names []string) []string {
	if byName[typeURL] {
		return names
	}
	return []string{"*"}
}

// chain is one resource of each type, of one name, as a listener refers to a route and a cluster to
// endpoints. Another n is another content of endpoints and route.
func chain(name string, n int) []*anypb.Any {
	return []*anypb.Any{
		relaytest.EDSCluster(name, name), relaytest.Endpoints(name, net.JoinHostPort("127.0.0.1", strconv.Itoa(n))),
		apiListener(name, name), relaytest.Route(name, fmt.Sprint("cluster-", n)),
	}
}

func walk(t *testing.T, kind start) {
	w := world{}.put(chain("a", 1)...).put(chain("b", 2)...)
	from, config := kind(t, w)
	j := &journey{t: t, config: config, kept: filepath.Join(t.TempDir(), "snapshot")}
	sink := t.TempDir()
	config["listeners"] = []any{map[string]any{"v2": true}, map[string]any{"rest": true}}
	config["sinks"] = []any{map[string]any{"path": sink, "node": map[string]any{"id": "sink", "cluster": "e2e"}}}
	config.Set("cache.snapshot.path", j.kept)
	for key, short := range map[string]string{
		"cache.snapshot.interval": "200ms", "timing.firm_settle": "200ms", "timing.order_hold": "100ms",
		"timing.cold_wait": "2s", "timing.rest_wait": "200ms",
	} {
		config.Set(key, short)
	}
	j.weir = startWeir(t, config)
	j.ways = append(j.ways, namedWay{"sink", &files{t: t, dir: sink}})
	j.come("early", w)
	j.arrive(w, "what the source has")

	w = w.clone().put(chain("c", 3)...)
	from.publish(w)
	j.ask(w)
	j.arrive(w, "an addition")

	w = w.clone().put(chain("c", 4)...)
	w.put(slower(w[relaytest.ClusterType]["a"]), counted(w[relaytest.ListenerType]["a"]))
	from.publish(w)
	j.arrive(w, "changes")

	before := w
	w = w.clone().without("b")
	from.publish(w)
	j.arriveLess(w, before, from.states(), "a removal of what is asked for")
	j.ask(w)
	j.arrive(w, "a removal")

	from.die()
	j.come("late", w)
	j.arrive(w, "a newcomer, with a dead source")

	j.restart(nil)
	j.come("after the restart", w)
	j.arrive(w, "a restart, with a dead source")

	w = w.clone().without("c").put(chain("a", 5)...).put(chain("d", 6)...)
	from.revive(w)
	j.ask(w)
	j.arrive(w, "something else, from a source that is back")

	w = w.clone().without("d").put(chain("a", 7)...).put(chain("e", 8)...)
	j.restart(func() { from.publish(w) })
	j.ask(w)
	j.arrive(w, "a restart, with a source that changes meanwhile")

	w = w.clone().without("e").put(chain("a", 9)...).put(chain("f", 10)...)
	j.restart(func() {
		from.publish(w)
		if err := os.RemoveAll(j.kept); err != nil {
			t.Fatal(err)
		}
	})
	j.ask(w)
	j.arrive(w, "a restart from nothing, with a source that changes meanwhile")
	for _, c := range j.ways {
		c.check(c.name)
	}
}

// come adds a client by each way out.
func (j *journey) come(when string, w world) {
	j.t.Helper()
	next := waysOut(j.t, j)
	for _, name := range slices.Sorted(maps.Keys(next)) {
		next[name].ask(namesOf(w))
		j.ways = append(j.ways, namedWay{name + ", " + when, next[name]})
	}
}

// ask has all clients ask for the names that there are.
func (j *journey) ask(w world) {
	for _, c := range j.ways {
		c.ask(namesOf(w))
	}
}

// arrive waits until each client holds the world, and nothing else.
func (j *journey) arrive(w world, sentence string) {
	j.t.Helper()
	j.arriveLess(w, w, true, sentence)
}

// arriveLess waits until each client holds the world, and nothing else but what it may keep of the
// world before.
func (j *journey) arriveLess(w, before world, stated bool, sentence string) {
	j.t.Helper()
	begin := time.Now()
	for _, c := range j.ways {
		want := w
		if c.keeps(stated) {
			want = w.clone()
			for typeURL := range byName {
				want[typeURL] = maps.Clone(before[typeURL])
				maps.Copy(want[typeURL], w[typeURL])
			}
		}
		wrong := ""
		if weirtest.Until(patience, func() bool { wrong = differs(c.held(), want); return wrong == "" }) {
			continue
		}
		j.weir.show(j.t, "/origins", "/resources")
		j.t.Fatalf("%s: by %s: %s", sentence, c.name, wrong)
	}
	j.t.Logf("%s: %v", sentence, time.Since(begin).Round(time.Millisecond))
}

// restart has another process take the place of weir. Meanwhile something happens.
func (j *journey) restart(meanwhile func()) {
	j.t.Helper()
	j.weir.Stop()
	if meanwhile != nil {
		meanwhile()
	}
	j.weir = startWeir(j.t, j.config)
	for _, c := range j.ways {
		c.again()
	}
}

func namesOf(w world) []string {
	return slices.Sorted(maps.Keys(w[relaytest.EndpointType]))
}

// slower is a cluster with another timeout.
func slower(body *anypb.Any) *anypb.Any {
	c := open(body).(*cluster.Cluster)
	c.ConnectTimeout = durationpb.New(7 * time.Second)
	return relaytest.Body(c)
}

// counted is a listener with other names of statistics.
func counted(body *anypb.Any) *anypb.Any {
	l := open(body).(*listener.Listener)
	l.StatPrefix = "counted"
	return relaytest.Body(l)
}

// without is the world less what there is under a name.
func (w world) without(name string) world {
	for _, set := range w {
		delete(set, name)
	}
	return w
}

// differs says how what is held is not the world; "": it is.
func differs(held map[string]map[string]string, w world) string {
	for _, typeURL := range roadTypes {
		for name, body := range w[typeURL] {
			switch got, has := held[typeURL][name]; {
			case !has:
				return typeURL + ": lacks " + name
			case got != string(body.Value):
				return typeURL + ": has another content of " + name
			}
		}
		for name := range held[typeURL] {
			if w[typeURL][name] == nil {
				return typeURL + ": still has " + name
			}
		}
	}
	return ""
}
