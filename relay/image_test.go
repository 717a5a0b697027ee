package relay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// diskImages is what a snapshot keeps, as it would be written: nothing in it is shared with a
// table.
type diskImages map[string]diskImage

type diskImage struct {
	TypeImage
	bodies map[*xds.Variant]xds.BodyImage
	past   history.Past
}

func (x *TypeImage) key() string {
	return x.Origin + " " + x.Group + " " + x.TypeURL + " " + x.Params.Key()
}

// snapshot brings the images up to date, and tells of those that changed what they are.
func (d *diskImages) snapshot(t *Table, now time.Time) (out []string) {
	kept := diskImages{}
	since := func(of *TypeImage) uint64 {
		key := of.key()
		x, has := (*d)[key]
		if has {
			kept[key] = x
		}
		return x.Revision
	}
	images := slices.AppendSeq(slices.Collect(t.Images(since)), t.SecretImages(since))
	for _, x := range images {
		key := x.key()
		y := diskImage{TypeImage: x, bodies: map[*xds.Variant]xds.BodyImage{}}
		for _, v := range x.variants() {
			y.bodies[v] = v.Image(now, now)
		}
		y.past = t.keptPast(&x)
		for _, n := range y.past.Changes {
			if n.Was != nil && n.Was.Body != nil {
				y.bodies[n.Was.Body] = n.Was.Body.Image(now, now)
			}
		}
		if kept[key] = y; x.Empty() {
			delete(kept, key)
		}
		out = append(out, describe(&x)...)
	}
	*d = kept
	return out
}

// keptPast is what the history has of what is in an image.
func (t *Table) keptPast(x *TypeImage) (past history.Past) {
	of := history.Place{Origin: x.Origin, Group: x.Group, TypeURL: x.TypeURL}
	past.Changes = slices.Collect(t.past.Noted(of, x.Params.Key(), 0, x.Noted))
	past.Floor, _ = t.past.FloorOf(of)
	return past
}

func (x *TypeImage) variants() (vs []*xds.Variant) {
	for i := range x.Sets {
		vs = append(vs, x.Sets[i].Members...)
	}
	for i := range x.Names {
		vs = append(vs, x.Names[i].Variants...)
	}
	return vs
}

// restore puts them into another table, bodies made anew.
func (d *diskImages) restore(t *Table, now time.Time) (out []string) {
	for _, x := range *d {
		y := x.TypeImage
		made := map[*xds.Variant]*xds.Variant{}
		again := func(vs []*xds.Variant) (bodies []*xds.Variant) {
			for _, v := range vs {
				if made[v] == nil {
					body, err := t.RestoreBody(now, now, y.Origin, y.TypeURL, x.bodies[v])
					if err != nil {
						out = append(out, err.Error())
						continue
					}
					made[v] = body
				}
				bodies = append(bodies, made[v])
			}
			return bodies
		}
		y.Sets, y.Names = slices.Clone(y.Sets), slices.Clone(y.Names)
		for i := range y.Sets {
			y.Sets[i].Members = again(y.Sets[i].Members)
		}
		for i := range y.Names {
			y.Names[i].Variants = again(y.Names[i].Variants)
		}
		if x.Noted > 0 {
			y.Past = &history.Past{Floor: x.past.Floor}
			for _, n := range x.past.Changes {
				if n.Was != nil {
					was := *n.Was
					if n.Was = &was; was.Body != nil {
						was.Body = again([]*xds.Variant{was.Body})[0]
					}
				}
				y.Past.Changes = append(y.Past.Changes, n)
			}
		}
		if err := t.Restore(now, y); err != nil {
			out = append(out, err.Error())
		}
	}
	return out
}

// all is every image in words.
func (d *diskImages) all() (out []string) {
	for _, x := range *d {
		out = append(out, describe(&x.TypeImage)...)
	}
	slices.Sort(out)
	return out
}

// describe is an image in words, one line for each set and for all names.
func describe(x *TypeImage) (out []string) {
	say := func(vs []*xds.Variant) (words []string) {
		for _, v := range vs {
			_, value, _ := xds.AnyParts(v.Any())
			word := fmt.Sprintf("%s=%s@%s", v.Spelling(), xds.StringField(value, 2), v.OriginVersion())
			if len(v.Aliases) > 0 {
				word += "[" + strings.Join(v.Aliases, ",") + "]"
			}
			words = append(words, word)
		}
		slices.Sort(words)
		return words
	}
	flags := func(settled, retired bool) (words []string) {
		if settled {
			words = append(words, "settled")
		}
		if retired {
			words = append(words, "retired")
		}
		return words
	}
	for i := range x.Sets {
		y := &x.Sets[i]
		words := append(flags(y.Settled, y.Retired), say(y.Members)...)
		out = append(out, strings.TrimSpace(shortType(x.TypeURL)+" "+y.Selector+": "+strings.Join(words, " ")))
	}
	for i := range x.Names {
		y := &x.Names[i]
		words := append(flags(false, y.Retired), say(y.Variants)...)
		out = append(out, strings.TrimSpace(shortType(x.TypeURL)+" "+xds.Spelling(y.Name, y.Spelt)+": "+strings.Join(words, " ")))
	}
	if slices.Sort(out); x.Empty() {
		out = []string{shortType(x.TypeURL) + ": nothing"}
	}
	return out
}

// TestBodyImage: a body that was written down is the same body when it is made again, whatever is
// to it.
func TestBodyImage(t *testing.T) {
	now, wall := time.Unix(1e9, 0), time.Date(2030, 5, 1, 0, 0, 0, 0, time.UTC)
	name := &discoveryv3.ResourceName{Name: "c1", DynamicParameterConstraints: &discoveryv3.DynamicParameterConstraints{
		Type: &discoveryv3.DynamicParameterConstraints_Constraint{Constraint: &discoveryv3.DynamicParameterConstraints_SingleConstraint{
			Key: "env", ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: "prod"},
		}},
	}}
	meta := &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"a": {Fields: map[string]*structpb.Value{"b": structpb.NewStringValue("c")}}}}
	payload := relaytest.Body(&corev3.Node{Id: "x"})
	payload.TypeUrl = xds.ClusterType
	for sentence, r := range map[string]*discoveryv3.Resource{
		"plain":                  {Name: "c1", Version: "7", Resource: payload},
		"no version":             {Name: "c1", Resource: payload},
		"aliases":                {Name: "c1", Aliases: []string{"b", "a"}, Version: "7", Resource: payload},
		"constraints":            {ResourceName: name, Version: "7", Resource: payload},
		"metadata":               {Name: "c1", Version: "7", Resource: payload, Metadata: meta},
		"another spelling":       {Name: "xdstp://%6f/envoy.config.cluster.v3.Cluster/c?b=1&a=2", Version: "7", Resource: payload},
		"an empty name in delta": {Version: "7", Resource: payload},
	} {
		for _, cfg := range []OriginConfig{{Name: "mesh"}, {Name: "mesh", OriginVersions: true}, {Name: "mesh", SotW: true}} {
			table, err := New(Config{Origins: []OriginConfig{cfg}})
			if err != nil {
				t.Fatal(err)
			}
			u, _ := accept(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: xds.ClusterType, Nonce: "n", Resources: []*discoveryv3.Resource{r}})
			if cfg.SotW {
				u, _ = accept(t, &discoveryv3.DiscoveryResponse{TypeUrl: xds.ClusterType, Resources: []*anypb.Any{relaytest.Body(r)}})
			}
			v := xds.NewVariant(&xds.Provenance{TypeURL: xds.ClusterType, Server: 3, Shown: cfg.OriginVersions}, &u.Resources[0], u.Resources[0].Version)
			v.EndAt(now.Add(20 * time.Second))
			image := v.Image(now.Add(5*time.Second), wall)
			later := now.Add(-time.Hour) // another process, with another clock
			back, err := table.RestoreBody(later, wall.Add(4*time.Second), "mesh", xds.ClusterType, image)
			if err != nil {
				t.Errorf("%s: %v", sentence, err)
				continue
			}
			if !bytes.Equal(back.Delta(), v.Delta()) || back.Digest != v.Digest || back.Constraints.Key() != v.Constraints.Key() || back.Name != v.Name ||
				back.Spelt != v.Spelt || back.Nameless != v.Nameless || back.OriginVersion() != v.OriginVersion() || back.From.Server != 3 ||
				!slices.Equal(back.Aliases, v.Aliases) {
				t.Errorf("%s: %+v came back as %+v", sentence, v, back)
			}
			if left := back.Expires().Sub(later); left != 11*time.Second {
				t.Errorf("%s: 15 s were left, and 4 s passed on the wall: %v are left (RELAY-54)", sentence, left)
			}
			back, _ = table.RestoreBody(later, wall.Add(-time.Hour), "mesh", xds.ClusterType, image)
			if left := back.Expires().Sub(later); left != 15*time.Second {
				t.Errorf("%s: the wall clock was set back, and of 15 s are %v left", sentence, left)
			}
		}
	}
}

// TestRestoreRefuses: what cannot be is refused by what is wrong, and nothing of it is taken.
func TestRestoreRefuses(t *testing.T) {
	now := time.Unix(1e9, 0)
	cfg := Config{Origins: []OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}, Types: []string{xds.ClusterType, xds.EndpointType, xds.SecretType}}}}
	table, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	key, presented := cfg.Origins[0].nodeRules("weir").Group(&corev3.Node{Cluster: "edge"}, "")
	of := func(r xds.Resource) *xds.Variant {
		return xds.NewVariant(&xds.Provenance{TypeURL: xds.ClusterType}, &r, "1")
	}
	c := func(name string) *xds.Variant { return of(madeResource(xds.ClusterType, name, "1", "x")) }
	must, matching := madeResource(xds.ClusterType, "c1", "1", "x"), madeResource(xds.ClusterType, "c1", "1", "x")
	must.DoNotCache, matching.Constraints = true, compile(t, "env=prod")
	uncached, other, listener, constrained := of(must), c("c1"), c("c1"), of(matching)
	listener.From = &xds.Provenance{TypeURL: xds.ListenerType}
	for want, change := range map[string]func(*TypeImage){
		"the origin is not configured":               func(x *TypeImage) { x.Origin = "gone" },
		"the origin is not asked for the type":       func(x *TypeImage) { x.TypeURL = xds.ListenerType },
		"secrets are not restored":                   func(x *TypeImage) { x.TypeURL = xds.SecretType },
		"its node does not decode":                   func(x *TypeImage) { x.Node = []byte{0xff} },
		"group_by, or what is mapped":                func(x *TypeImage) { x.Group = "dedicated-1" },
		"not known to understand parameters":         func(x *TypeImage) { x.Params = constraints.NewParams(map[string]string{"env": "prod"}) },
		`set "*": "c1" has type`:                     func(x *TypeImage) { x.Sets[0].Members = []*xds.Variant{listener} },
		`set "*": "c1" must not be cached`:           func(x *TypeImage) { x.Sets[0].Members = []*xds.Variant{uncached} },
		`set "*": "c1" is listed twice`:              func(x *TypeImage) { x.Sets[0].Members = []*xds.Variant{c("c1"), other} },
		`set "*": has a resource without a body`:     func(x *TypeImage) { x.Sets[0].Members = []*xds.Variant{nil} },
		`set "*": is listed twice`:                   func(x *TypeImage) { x.Sets = append(x.Sets, x.Sets[0]) },
		`"some" is no collection`:                    func(x *TypeImage) { x.Sets[0].Selector = "some" },
		`set "xdstp://a/T/b/*": "c1" is no member`:   func(x *TypeImage) { x.Sets[0].Selector = "xdstp://a/T/b/*" },
		`name "c1": is listed twice`:                 func(x *TypeImage) { x.Names = append(x.Names, x.Names[0]) },
		`name "c1": "c1" does not match`:             func(x *TypeImage) { x.Names[0].Variants = []*xds.Variant{constrained} },
		`name "c1": "c2" does not use it`:            func(x *TypeImage) { x.Names[0].Variants = []*xds.Variant{c("c2")} },
		`name "c1": stands for "c1" and "c2"`:        func(x *TypeImage) { x.Names[0].Variants = []*xds.Variant{c("c1"), c("c2")} },
		`name "xdstp://A/T/b?d&c": is not canonical`: func(x *TypeImage) { x.Names[0].Name = "xdstp://A/T/b?d&c" },
		`name "c1": "c1" is listed twice`:            func(x *TypeImage) { x.Names[0].Variants = []*xds.Variant{c("c1"), c("c1")} },
	} {
		x := TypeImage{
			Origin: "mesh", Group: key, Node: relaytest.Marshal(presented), TypeURL: xds.ClusterType,
			Sets:  []SetImage{{Selector: xds.Wildcard, Settled: true, Members: []*xds.Variant{c("c1")}}},
			Names: []NameImage{{Name: "c1", Variants: []*xds.Variant{c("c1")}}},
		}
		change(&x)
		if err := table.Restore(now, x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if n := len(table.Origin("mesh").groupList()); n != 0 {
			t.Errorf("%s: %d groups came of it", want, n)
		}
	}
	x := TypeImage{Origin: "mesh", Group: key, Node: relaytest.Marshal(presented), TypeURL: xds.ClusterType, Sets: []SetImage{{Selector: xds.Wildcard}}}
	if err := table.Restore(now, x); err != nil {
		t.Fatal(err)
	}
	if err := table.Restore(now, x); err == nil || !strings.Contains(err.Error(), "it is in use already") {
		t.Errorf("twice: %v", err)
	}
	if g, err := table.Origin("mesh").Group(&corev3.Node{Cluster: "edge"}); err != nil || g.Key() != key || !proto.Equal(g.node, presented) {
		t.Errorf("a client of the group finds another: %v", g.Key())
	}
}

// fullNode has a field for each term of a group's key, and one that is mapped to a parameter.
func fullNode(t *testing.T) *corev3.Node {
	n := metadataNode(t, map[string]any{"z": 1e21, "role": "edge", "a": map[string]any{"x": nil, "y": true}})
	n.Locality, n.UserAgentName = &corev3.Locality{Region: "r", Zone: "z"}, "envoy"
	n.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{Metadata: n.Metadata}}
	n.ClientFeatures, n.DynamicParameters = []string{"b", "a"}, parameters("shard", "1", "env", "prod")
	return n
}

// TestRestoredGroupKeepsItsNode: the group of a client is found again by its key, and presents what
// it did, for each way to group.
func TestRestoredGroupKeepsItsNode(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, oc := range []OriginConfig{
		{Name: "mesh"},
		{Name: "mesh", GroupBy: []string{"cluster", "locality", "user_agent_name", "user_agent_version", "client_features", "metadata", "id", "dynamic_parameters"}},
		{Name: "mesh", GroupBy: []string{"id"}},
		{Name: "mesh", GroupBy: []string{"cluster", "id"}, NodeID: "fixed", NodeCluster: "fixed too"},
		{Name: "mesh", GroupBy: []string{"metadata.role"}, NodeCluster: "fixed"},
		{Name: "mesh", GroupBy: []string{"identity", "metadata", "id"}, IdentityTo: "role"},
		{Name: "mesh", GroupBy: []string{"identity"}, IdentityTo: "role", NodeID: "fixed"},
		{Name: "mesh", GroupBy: []string{"metadata"}, TP2: true, FromNode: map[string]string{"x": "metadata.a.x", "z": "metadata.z"}},
	} {
		for _, n := range []*corev3.Node{nil, {}, fullNode(t)} {
			var tables [2]*Table
			for i := range tables {
				var err error
				if tables[i], err = New(Config{Origins: []OriginConfig{oc}}); err != nil {
					t.Fatal(err)
				}
			}
			g, err := tables[0].Origin("mesh").GroupFor(n, "uid:1", nil)
			if err != nil {
				t.Fatal(err)
			}
			g.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType, Delta: true}).Update(now, []string{"*"}, nil)
			var disk diskImages
			disk.snapshot(tables[0], now)
			for _, problem := range disk.restore(tables[1], now) {
				t.Errorf("%v, %v: %s", oc, n, problem)
			}
			again := tables[1].Origin("mesh").groupList()
			if len(again) != 1 || again[0].key != g.key || !proto.Equal(again[0].node, g.node) {
				t.Errorf("%v, %v: came back as %v", oc, n, again[0].node)
			}
		}
	}
}

// FuzzRestoreBody: whatever a file has in it, it is refused or makes a body that is written down as
// it was made.
func FuzzRestoreBody(f *testing.F) {
	r := madeResource(xds.ClusterType, "c1", "1", "x")
	v := xds.NewVariant(&xds.Provenance{TypeURL: xds.ClusterType}, &r, "1")
	f.Add(v.Image(zero, zero).Resource, int64(0), int64(0), false)
	v.Aliases = []string{"a"}
	f.Add(v.Image(zero, zero).Resource, int64(5), int64(3), true)
	tables := map[bool]*Table{}
	for _, sotw := range []bool{false, true} {
		table, err := New(Config{Origins: []OriginConfig{{Name: "mesh", SotW: sotw}}})
		if err != nil {
			f.Fatal(err)
		}
		tables[sotw] = table
	}
	now := time.Unix(1e9, 0)
	f.Fuzz(func(t *testing.T, b []byte, expires, left int64, sotw bool) {
		image := xds.BodyImage{Resource: b, Left: time.Duration(left)}
		if expires != 0 {
			image.Expires = time.Unix(0, expires)
		}
		v, err := tables[sotw].RestoreBody(now, now, "mesh", xds.ClusterType, image)
		if err != nil {
			return
		}
		image = v.Image(now, now)
		again, err := tables[sotw].RestoreBody(now, now, "mesh", xds.ClusterType, image)
		if err != nil {
			t.Fatalf("was made and is refused: %v", err)
		}
		if next := again.Image(now, now); !bytes.Equal(next.Resource, image.Resource) || again.Digest != v.Digest || !bytes.Equal(again.Delta(), v.Delta()) {
			t.Fatalf("%x came back as %x", image.Resource, next.Resource)
		}
		if !v.Timed() || v.Expires().After(now) {
			if vs, _ := living([]*xds.Variant{v}, now); len(vs) != 1 {
				t.Fatal("it lives and is gone")
			}
		}
	})
}

func accept(t *testing.T, m proto.Message) (xds.Update, *xds.RejectError) {
	t.Helper()
	_, delta := m.(*discoveryv3.DeltaDiscoveryResponse)
	r, err := xds.ParseResponse(relaytest.Marshal(m), delta)
	if err != nil {
		t.Fatal(err)
	}
	return xds.Accept(r, 100)
}
