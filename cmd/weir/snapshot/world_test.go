package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// world is a table with one origin, a client of `*` and of names, and a keeper.
type world struct {
	t      testing.TB
	dir    string
	now    time.Time
	table  *relay.Table
	lane   *relay.Lane
	sub    map[string]*relay.Sub // by type
	keeper *Keeper
	cfg    Config
	log    *observer.ObservedLogs

	away    bool
	vouched time.Time
	frozen  time.Time
	changed time.Time // of frozen
	orders  []Order
	gates   []GateMemory
}

func newWorld(t testing.TB, dir string, edit ...func(*Config)) *world {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	w := &world{t: t, dir: dir, now: start, log: logs, sub: map[string]*relay.Sub{}, vouched: start}
	var err error
	if w.table, err = relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh", Secrets: true, SecretsByIdentity: true}}}); err != nil {
		t.Fatal(err)
	}
	w.cfg = Config{
		Path: dir, Interval: 10 * time.Second, Deployment: "weir", Table: w.table, Log: zap.New(core),
		Origins: func() []OriginState {
			return []OriginState{{Origin{
				Name: "mesh", Addresses: []string{"cp:1"}, Vouched: w.vouched, Frozen: w.frozen, FrozenChanged: w.changed, Rollbacks: w.orders, Gates: w.gates,
			}, w.away}}
		},
	}
	for _, e := range edit {
		e(&w.cfg)
	}
	w.keeper = New(w.cfg)
	t.Cleanup(w.end)
	return w
}

// end is what a process leaves that is killed: its descriptors are closed.
func (w *world) end() {
	w.keeper.close()
	if err := w.table.Check(); err != nil {
		w.t.Error(err)
	}
}

// want subscribes to names of a type, and opens the lane if there is none.
func (w *world) want(typeURL string, names ...string) {
	w.t.Helper()
	origin := w.table.Origin("mesh")
	if w.sub[typeURL] == nil {
		group, err := origin.Group(relaytest.Node("n", "c"))
		if err != nil {
			w.t.Fatal(err)
		}
		w.sub[typeURL] = group.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: typeURL, Delta: true})
	}
	w.sub[typeURL].Update(w.now, names, nil)
	w.ask()
}

func (w *world) ask() {
	w.t.Helper()
	if w.lane == nil {
		lanes := w.table.Origin("mesh").TakeLanes()
		if len(lanes) != 1 {
			w.t.Fatalf("%d lanes are wanted, want the main one", len(lanes))
		}
		w.lane = lanes[0]
		w.lane.Open(w.now, 0)
	}
	w.lane.Take(w.now, false)
}

// apply is an answer of the origin: bodies by name, "" for a removal.
func (w *world) apply(typeURL string, bodies map[string]string) {
	w.t.Helper()
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: "1"}
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		text := bodies[name]
		if text == "" {
			m.RemovedResources = append(m.RemovedResources, name)
			continue
		}
		m.Resources = append(m.Resources, &discoveryv3.Resource{Name: name, Version: "v-" + text[:min(len(text), 12)], Resource: body(typeURL, name, text)})
	}
	w.respond(m)
	w.now = w.now.Add(time.Minute) // it is quiet, so the set is whole
	w.table.Advance(w.now)
}

func (w *world) respond(m *discoveryv3.DeltaDiscoveryResponse) {
	w.t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := xds.ParseResponse(raw, true)
	if err != nil {
		w.t.Fatal(err)
	}
	update, rejected := xds.Accept(r, 1000)
	if rejected != nil {
		w.t.Fatal(rejected)
	}
	if _, ok := w.lane.Apply(w.now, &update); !ok {
		w.t.Fatal("the lane never asked for the type")
	}
}

func body(typeURL, name, text string) *anypb.Any {
	switch typeURL {
	case relaytest.EndpointType:
		return relaytest.Endpoints(name, text+":80")
	case relaytest.RouteType:
		return relaytest.Route(name, text)
	case xds.SecretType:
		return &anypb.Any{TypeUrl: typeURL, Value: append([]byte{0x0a, byte(len(name))}, name+"\x12\x00"+text...)}
	}
	return relaytest.EDSCluster(name, text)
}

// save is one round of the keeper; it fails unless that worked.
func (w *world) save() {
	w.t.Helper()
	w.keeper.save(w.now)
	if s := w.keeper.Status(); s.Error != "" {
		w.t.Fatal(s.Error)
	}
}

func (w *world) load() Restored {
	w.t.Helper()
	r := w.keeper.Load(w.now)
	if err := w.table.Check(); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// text is what a table holds, in a form that compares.
func (w *world) text() string { return tableText(w.table) }

func tableText(t *relay.Table) string {
	var lines []string
	every := func(*relay.TypeImage) uint64 { return 0 }
	for _, x := range slices.AppendSeq(slices.Collect(t.Images(every)), t.SecretImages(every)) {
		at := fmt.Sprintf("%s %s ", x.Origin, x.TypeURL[strings.LastIndexByte(x.TypeURL, '.')+1:])
		for _, set := range x.Sets {
			lines = append(lines, fmt.Sprintf("%s%s settled=%t", at, set.Selector, set.Settled))
			for _, v := range set.Members {
				lines = append(lines, at+set.Selector+" "+variantText(v))
			}
		}
		for _, n := range x.Names {
			lines = append(lines, at+"name "+n.Name+" "+n.Spelt)
			for _, v := range n.Variants {
				lines = append(lines, at+"name "+n.Name+" "+variantText(v))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func variantText(v *xds.Variant) string {
	return v.Name + " " + v.OriginVersion() + " " + v.Digest.String()
}

// said counts the log lines that have a text.
func (w *world) said(text string) int { return len(w.log.FilterMessageSnippet(text).All()) }
