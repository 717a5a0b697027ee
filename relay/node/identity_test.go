package node

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// TestIdentityIsInTheKey: clients of two identities are in two groups where GroupBy has it, and
// nowhere else. "anonymous" is an identity like another, and no node can claim one. Nothing of the
// identity is presented but the id of the group, in which it is hashed.
func TestIdentityIsInTheKey(t *testing.T) {
	who := []string{"anonymous", "uid:1000", "spiffe://corp/ns/shop/sa/web", "spiffe://corp/ns/shop/sa/we", ""}
	claims := metadataNode(t, map[string]any{"identity": "uid:1000"})
	claims.Id, claims.Cluster = "uid:1000", "uid:1000"
	for _, terms := range [][]string{{}, {"cluster"}, {"id", "metadata"}} {
		without, with := Rules{GroupBy: terms}, Rules{GroupBy: append([]string{Identity}, terms...)}
		seen, base := map[string]string{}, ""
		for i, id := range who {
			key, up := without.Group(claims, id)
			if i > 0 && key != base {
				t.Errorf("%v: %q is in a group of its own", terms, id)
			}
			base = key
			own, other := with.Group(claims, id)
			if before, known := seen[own]; known || own == key {
				t.Errorf("%v: %q and %q are in one group", with.GroupBy, id, before)
			}
			seen[own] = id
			if other.Id == with.GroupID(own) {
				other.Id = up.Id
			}
			if !proto.Equal(up, other) {
				t.Errorf("%v: presented is %v, want %v", with.GroupBy, other, up)
			}
			if again, _ := with.Group(nil, id); len(terms) == 0 && again != own {
				t.Errorf("%q: the node counts", id)
			}
			if fields := with.Fields(claims, id); fields[Identity] != id || with.IdentityOf(id) != id {
				t.Errorf("%q: the fields are %v", id, fields)
			}
			if _, is := without.Fields(claims, id)[Identity]; is || without.IdentityOf(id) != "" {
				t.Errorf("%v: the key has an identity", terms)
			}
		}
	}
	if err := CheckGroupBy([]string{Identity}); err != nil || !slices.Contains(groupTerms, Identity) {
		t.Error(err)
	}
}

// TestIdentityTo: the identity is presented in place of what a client says under the key, so that
// no client sets it, in its metadata or by leaving it out. It is so where GroupBy has the identity,
// and in dedicated groups. Elsewhere nothing is under the key. What the client says there counts
// for no group either.
func TestIdentityTo(t *testing.T) {
	claims := []map[string]any{
		{"TEAM": "web"},
		{"TEAM": "web", "WHO": "uid:0"},
		{"TEAM": "web", "WHO": map[string]any{"WHO": "uid:0"}},
		{"TEAM": "web", "WHO": nil},
	}
	for terms, keys := range map[string]string{
		"": "", "identity": "WHO", "cluster metadata.TEAM": "TEAM", "identity cluster metadata.TEAM": "TEAM WHO",
		"metadata": "TEAM", "identity metadata": "TEAM WHO", "identity metadata id": "TEAM WHO",
	} {
		r := Rules{GroupBy: strings.Fields(terms), IdentityTo: "WHO"}
		first := ""
		for _, claim := range claims {
			n := metadataNode(t, claim)
			before := proto.Clone(n)
			key, up := r.Group(n, "uid:7")
			if first == "" {
				first = key
			}
			if got := strings.Join(slices.Sorted(maps.Keys(up.GetMetadata().GetFields())), " "); key != first || got != keys {
				t.Errorf("%q, %v: presented are %q, want %q; a group of its own: %v", terms, claim, got, keys, key != first)
			}
			if got := up.GetMetadata().GetFields()["WHO"].GetStringValue(); strings.Contains(keys, "WHO") != (got == "uid:7") {
				t.Errorf("%q, %v: the identity presented is %q", terms, claim, got)
			}
			if again, same := r.Group(up, "uid:7"); again != r.restored(up, key) || !proto.Equal(same.GetMetadata(), up.GetMetadata()) {
				t.Errorf("%q: what is presented makes another group", terms)
			}
			if _, is := r.Fields(up, "uid:7")["metadata.WHO"]; is {
				t.Errorf("%q: the identity is a field twice", terms)
			}
			mine := r.Dedicated(n, "uid:7")
			if f := mine.GetMetadata().GetFields(); len(f) != 2 || f["WHO"].GetStringValue() != "uid:7" || f["TEAM"].GetStringValue() != "web" {
				t.Errorf("dedicated: presented is %v", mine)
			}
			if !proto.Equal(n, before) {
				t.Error("the client's node is changed")
			}
		}
	}
	named := Rules{IdentityTo: "NAMESPACE"}
	claimed, silent := metadataNode(t, map[string]any{"NAMESPACE": "claimed"}), metadataNode(t, map[string]any{})
	if got := named.Watched(claimed); got != named.Watched(silent) {
		t.Errorf("what nobody is told counts as a difference: %v", got)
	}
	if n := named.Dedicated(nil, "anonymous"); n.GetMetadata().GetFields()["NAMESPACE"].GetStringValue() != "anonymous" {
		t.Errorf("a client without a node: %v", n)
	}
	own := Rules{GroupBy: []string{Identity}, IdentityTo: "WHO"}
	if _, up := own.Group(nil, ""); up.Metadata != nil {
		t.Errorf("weir itself is presented as %v", up)
	}
	extra := metadataNode(t, map[string]any{"WHO": "x"})
	extra.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 4095, protowire.BytesType), "y"))
	if up := own.Dedicated(extra, "uid:7"); len(up.ProtoReflect().GetUnknown()) == 0 {
		t.Error("a dedicated stream lacks what this build does not know")
	}
}

// restored is the key that a group of this presented node has.
func (r Rules) restored(up *corev3.Node, key string) string {
	if up.Id == r.GroupID(key) && slices.Contains(r.GroupBy, "id") {
		bare := proto.Clone(up).(*corev3.Node)
		bare.Id = ""
		key, _ = r.Group(bare, "uid:7")
	}
	return key
}

// TestIdentityAsText: an identity of any bytes can be presented, and no two look alike.
func TestIdentityAsText(t *testing.T) {
	r, seen := Rules{IdentityTo: "WHO"}, map[string]bool{}
	for _, who := range []string{"subject:CN=a", "subject:CN=\xff", "subject:CN=\xfe", `subject:CN=\xff`, "subject:CN=\x00<\u00e9"} {
		up := r.Dedicated(nil, who)
		if _, err := proto.Marshal(up); err != nil {
			t.Errorf("%q: %v", who, err)
		}
		seen[up.Metadata.Fields["WHO"].GetStringValue()] = true
	}
	if len(seen) != 5 {
		t.Errorf("presented are %v", seen)
	}
}
