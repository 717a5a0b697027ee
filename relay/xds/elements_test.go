package xds

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/relaytest"
	"google.golang.org/protobuf/proto"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
)

// bomb is a response of n empty elements of one field, two bytes each.
func bomb(field byte, n int) []byte {
	head, err := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "n"})
	if err != nil {
		panic(err)
	}
	return append(head, bytes.Repeat([]byte{field<<3 | 2, 0}, n)...)
}

// TestElementsAreCountedFirst: a response with more elements than its origin may fill is refused
// for one reason, which has the numbers, and at no cost for each of them. Its header is read.
func TestElementsAreCountedFirst(t *testing.T) {
	const n, most = 1_000_000, 1000
	for _, test := range []struct {
		name  string
		field byte
		delta bool
		want  string
	}{
		{"resources", 2, true, "1000000 resources"},
		{"resources, SotW", 2, false, "1000000 resources"},
		{"removed_resources", 6, true, "1000000 names"},
		{"removed_resource_names", 8, true, "1000000 names"},
		{"resource_errors", 9, true, "1000000 names"},
		{"resource_errors, SotW", 7, false, "1000000 names"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := bomb(test.field, n)
			var r *Response
			var u Update
			var bad *RejectError
			var err error
			spent := spentOn(func() {
				if r, err = ParseWithin(b, test.delta, most); err == nil {
					u, bad = Accept(r, 0)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if spent > 64<<10 {
				t.Errorf("%d bytes were allocated for it", spent)
			}
			if bad == nil || len(bad.Reasons) != 1 || !strings.Contains(bad.Error(), test.want) || !strings.Contains(bad.Error(), "1000 of origins[].limits.resources") {
				t.Fatalf("refused for %v", bad)
			}
			if bad.Limit != LimitResources || !u.Over || !u.Bad || !u.Unread || len(u.Resources)+len(u.Removed)+len(u.Errors) > 0 {
				t.Errorf("refused by %q, taken %+v", bad.Limit, u)
			}
			if r.TypeURL != ClusterType || r.Nonce != "n" || u.TypeURL != ClusterType {
				t.Errorf("the header is %q, %q", r.TypeURL, r.Nonce)
			}
		})
	}
}

func spentOn(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestElementsWithin: as many resources as there may be, and as many removals besides, are taken.
func TestElementsWithin(t *testing.T) {
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "n"}
	for i := range 10 {
		name := fmt.Sprint("c", i)
		m.Resources = append(m.Resources, &discoveryv3.Resource{Name: name, Resource: relaytest.Body(&clusterv3.Cluster{Name: name})})
		m.RemovedResources = append(m.RemovedResources, fmt.Sprint("gone", i))
	}
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseWithin(b, true, 10)
	if err != nil {
		t.Fatal(err)
	}
	if u, bad := Accept(r, 0); bad != nil || len(u.Resources) != 10 || len(u.Removed) != 10 {
		t.Errorf("taken %d and %d, refused %v", len(u.Resources), len(u.Removed), bad)
	}
	if r, err = ParseWithin(b, true, 9); err != nil {
		t.Fatal(err)
	}
	if _, bad := Accept(r, 0); bad == nil {
		t.Error("one more than there may be was taken")
	}
}

// TestAliasesAreCountedFirst: the aliases of all resources of a response are bounded, too, before
// they are read.
func TestAliasesAreCountedFirst(t *testing.T) {
	const n, most = 1_000_000, 1000
	any, err := proto.Marshal(relaytest.Body(&clusterv3.Cluster{Name: "a"}))
	if err != nil {
		t.Fatal(err)
	}
	many := AppendString(nil, FieldName, "a")
	many = append(many, bytes.Repeat([]byte{FieldAliases<<3 | 2, 0}, n)...)
	many = AppendString(many, FieldPayload, string(any))
	few := AppendString(nil, FieldName, "b")
	few = append(few, bytes.Repeat([]byte{FieldAliases<<3 | 2, 0}, most)...)
	few = AppendString(few, FieldPayload, string(any))
	for _, resources := range [][][]byte{{many}, {few, append([]byte{FieldAliases<<3 | 2, 0}, few...)}} {
		r := &Response{Delta: true, TypeURL: ClusterType, Nonce: "n", Resources: resources, most: most}
		var bad *RejectError
		if spent := spentOn(func() { _, bad = Accept(r, 0) }); spent > 200<<10 {
			t.Errorf("%d bytes were allocated for aliases", spent)
		}
		if bad == nil || bad.Limit != LimitResources || !strings.Contains(bad.Error(), "more aliases than the 1000") {
			t.Errorf("refused for %v", bad)
		}
	}
}

// FuzzParseWithin: what is within the limit is read as without one, and nothing beyond it.
func FuzzParseWithin(f *testing.F) {
	f.Add(bomb(2, 5), true, 3)
	f.Add(bomb(6, 5), true, 5)
	f.Add(bomb(7, 5), false, 4)
	f.Fuzz(func(t *testing.T, b []byte, delta bool, most int) {
		r, err := ParseWithin(b, delta, most)
		all, errAll := ParseResponse(b, delta)
		if (err == nil) != (errAll == nil) {
			t.Fatalf("%v with a limit, %v without", err, errAll)
		}
		if err != nil || most <= 0 {
			return
		}
		resources, stated := len(all.Resources), len(all.Removed)+len(all.RemovedNames)+len(all.Errors)
		if over := resources > most || stated > most; over != (r.over != "") {
			t.Fatalf("%d and %d of %d: %q", resources, stated, most, r.over)
		}
		if r.over == "" && len(r.Resources) != resources || r.over != "" && len(r.Resources)+len(r.Removed)+len(r.Errors) > 0 {
			t.Fatalf("%d of %d resources were read, %q", len(r.Resources), resources, r.over)
		}
		if r.TypeURL != all.TypeURL || r.Nonce != all.Nonce {
			t.Fatal("the header differs")
		}
	})
}
