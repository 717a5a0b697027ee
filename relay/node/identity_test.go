package node

import (
	"slices"
	"testing"

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
