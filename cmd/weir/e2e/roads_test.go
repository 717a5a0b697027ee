package e2e

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestRoads: from every kind of source, by every way out, each client holds what the source holds: from
// the start, after additions, changes and removals, while the source is dead, when it comes only then,
// when weir is restarted then, and when the source is back with something else.
// One weir has one source and all ways out.
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
	weir   *process
	ways   []namedWay
}

// way is a client, by one way out.
type way interface {
	// ask says what is wanted: all clusters, and endpoints by these names.
	ask(endpoints []string)
	// again goes on at a weir that was restarted, with what it holds.
	again(endpoints []string)
	// held is what the client holds by now: the bodies by type URL and name.
	held() map[string]map[string]string
	// check says what was wrong on the way.
	check(name string)
}

type namedWay struct {
	name string
	way
}

// roadTypes are the types that are asked for.
var roadTypes = []string{relaytest.ClusterType, relaytest.EndpointType}

func walk(t *testing.T, kind start) {
	w := world{}.put(
		relaytest.EDSCluster("a", "a"), relaytest.EDSCluster("b", "b"),
		relaytest.Endpoints("a", "127.0.0.1:1"), relaytest.Endpoints("b", "127.0.0.1:2"),
	)
	from, config := kind(t, w)
	sink := t.TempDir()
	config["listeners"] = []any{map[string]any{"v2": true}, map[string]any{"rest": true}}
	config["sinks"] = []any{map[string]any{
		"path": sink, "types": []any{"cds", "eds"},
		"node": map[string]any{"id": "sink", "cluster": "e2e"},
	}}
	config.Set("cache.snapshot.path", filepath.Join(t.TempDir(), "snapshot"))
	for key, short := range map[string]string{
		"cache.snapshot.interval": "200ms", "timing.firm_settle": "200ms", "timing.order_hold": "100ms",
		"timing.cold_wait": "2s", "timing.rest_wait": "200ms",
	} {
		config.Set(key, short)
	}
	j := &journey{t: t, config: config, weir: startWeir(t, config)}
	j.ways = append(j.ways, namedWay{"sink", &files{t: t, dir: sink}})
	j.come("early", w)
	j.arrive(w, "what the source has")

	w = w.clone().put(relaytest.EDSCluster("c", "c"), relaytest.Endpoints("c", "127.0.0.1:3"))
	from.publish(w)
	j.ask(w)
	j.arrive(w, "an addition")

	w = w.clone().put(slower(w[relaytest.ClusterType]["a"]), relaytest.Endpoints("c", "127.0.0.1:4"))
	from.publish(w)
	j.arrive(w, "changes")

	w = w.clone().without("b")
	from.publish(w)
	j.ask(w)
	j.arrive(w, "a removal")

	from.die()
	j.come("late", w)
	j.arrive(w, "a newcomer, with a dead source")

	j.restart(w)
	j.come("after the restart", w)
	j.arrive(w, "a restart, with a dead source")

	w = w.clone().without("c").put(
		relaytest.EDSCluster("a", "a"), relaytest.Endpoints("a", "127.0.0.1:5"),
		relaytest.EDSCluster("d", "d"), relaytest.Endpoints("d", "127.0.0.1:6"),
	)
	from.revive(w)
	j.ask(w)
	j.arrive(w, "something else, from a source that is back")
	for _, c := range j.ways {
		c.check(c.name)
	}
}

// come adds a client by each way out.
func (j *journey) come(when string, w world) {
	j.t.Helper()
	next := waysOut(j.t, j)
	for _, name := range slices.Sorted(maps.Keys(next)) {
		next[name].ask(wantedOf(w))
		j.ways = append(j.ways, namedWay{name + ", " + when, next[name]})
	}
}

// ask has all clients ask for the endpoints that there are.
func (j *journey) ask(w world) {
	for _, c := range j.ways {
		c.ask(wantedOf(w))
	}
}

// arrive waits until each client holds the world, and nothing else.
func (j *journey) arrive(w world, sentence string) {
	j.t.Helper()
	begin := time.Now()
	for _, c := range j.ways {
		wrong := ""
		if weirtest.Until(patience, func() bool { wrong = differs(c.held(), w); return wrong == "" }) {
			continue
		}
		j.weir.show(j.t, "/origins", "/resources")
		j.t.Fatalf("%s: by %s: %s", sentence, c.name, wrong)
	}
	j.t.Logf("%s: %v", sentence, time.Since(begin).Round(time.Millisecond))
}

// restart has another process take the place of weir.
func (j *journey) restart(w world) {
	j.t.Helper()
	j.weir.Stop()
	j.weir = startWeir(j.t, j.config)
	for _, c := range j.ways {
		c.again(wantedOf(w))
	}
}

func wantedOf(w world) []string {
	return slices.Sorted(maps.Keys(w[relaytest.EndpointType]))
}

// slower is a cluster with another timeout.
func slower(body *anypb.Any) *anypb.Any {
	c := open(body).(*cluster.Cluster)
	c.ConnectTimeout = durationpb.New(7 * time.Second)
	return relaytest.Body(c)
}

// without is the world less a cluster and its endpoints.
func (w world) without(name string) world {
	delete(w[relaytest.ClusterType], name)
	delete(w[relaytest.EndpointType], name)
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
