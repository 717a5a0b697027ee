package node

import (
	"fmt"
	"math"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

func canaryNode(t *testing.T, metadata map[string]any) *corev3.Node {
	t.Helper()
	m, err := structpb.NewStruct(metadata)
	if err != nil {
		t.Fatal(err)
	}
	return &corev3.Node{
		Id: "web-0", Cluster: "shop", UserAgentName: "envoy", Metadata: m,
		Locality:             &corev3.Locality{Region: "eu", Zone: "eu-1"},
		UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: "1.34.2"},
	}
}

// TestCanaryMatch: each field is compared by its text, and one that the node lacks fits nothing.
func TestCanaryMatch(t *testing.T) {
	n := canaryNode(t, map[string]any{
		"text": "true", "bool": true, "whole": 7, "half": 0.5, "null": nil, "list": []any{"true"}, "empty": "",
		"LABELS": map[string]any{"canary": "yes", "app.kubernetes.io/name": "web", "deep": map[string]any{"er": 1}},
		"a.b":    "whole key", "a": map[string]any{"b": "path"},
	})
	for _, test := range []struct {
		term, value string
		fits        bool
	}{
		{"id", "web-0", true},
		{"cluster", "shop", true},
		{"user_agent_name", "envoy", true},
		{"user_agent_version", "1.34.2", true},
		{"locality", "eu/eu-1", true},
		{"locality", "eu", false},
		{"cluster", "shop2", false},
		{"cluster", "", false},
		{"metadata.text", "true", true},
		{"metadata.bool", "true", true},
		{"metadata.bool", "false", false},
		{"metadata.whole", "7", true},
		{"metadata.half", "0.5", true},
		{"metadata.null", "null", false},
		{"metadata.list", "true", false},
		{"metadata.empty", "", false},
		{"metadata.missing", "", false},
		{"metadata.missing", "true", false},
		{"metadata.LABELS.canary", "yes", true},
		{"metadata.LABELS.app.kubernetes.io/name", "web", true},
		{"metadata.LABELS.deep.er", "1", true},
		{"metadata.LABELS.text", "true", false},
		{"metadata.text.more", "true", false},
		{"metadata.a.b", "whole key", true},
		{"metadata.a.b", "path", false},
		{"dynamic_parameters", "", false},
	} {
		c := &Canary{Match: map[string]string{test.term: test.value}}
		if got := c.Is(n, ""); got != test.fits {
			t.Errorf("%s: %q: %v, want %v", test.term, test.value, got, test.fits)
		}
	}
	if (&Canary{Match: map[string]string{"metadata.text": "true"}}).Is(nil, "") {
		t.Error("a client without a node fits")
	}
}

// TestCanaryTermsTogether: fields and identity all have to fit, and a share adds to them.
func TestCanaryTermsTogether(t *testing.T) {
	n := canaryNode(t, map[string]any{"canary": true})
	shop := func(who string) bool { return strings.HasPrefix(who, "spiffe://corp/shop/") }
	both := &Canary{
		Match:      map[string]string{"metadata.canary": "true", "cluster": "shop"},
		Identities: []string{"spiffe://corp/shop/*"}, Identified: shop,
	}
	bank := canaryNode(t, map[string]any{"canary": true})
	bank.Cluster = "bank"
	for _, test := range []struct {
		name string
		c    *Canary
		n    *corev3.Node
		who  string
		is   bool
	}{
		{"all fit", both, n, "spiffe://corp/shop/web", true},
		{"another identity", both, n, "spiffe://corp/bank/web", false},
		{"another cluster", both, bank, "spiffe://corp/shop/web", false},
		{"identity alone", &Canary{Identities: both.Identities, Identified: shop}, nil, "spiffe://corp/shop/web", true},
		{"identity without a reader", &Canary{Identities: both.Identities}, n, "spiffe://corp/shop/web", false},
		{"share adds to match", &Canary{Match: both.Match, Share: 1}, bank, "", true},
		{"match adds to share", &Canary{Match: both.Match, Share: 1e-9}, n, "", true},
		{"nothing", &Canary{}, n, "", false},
		{"none", nil, n, "", false},
	} {
		if got := test.c.Is(test.n, test.who); got != test.is {
			t.Errorf("%s: %v, want %v", test.name, got, test.is)
		}
	}
}

// TestCanaryShareIsGolden: any replica of any build chooses the same clients. A change of this list
// moves canaries on an update of weir, while replicas of both builds serve.
func TestCanaryShareIsGolden(t *testing.T) {
	for id, want := range map[string]float64{
		"web-0": 0.22420960900380305, "web-1": 0.7829756956604005,
		"sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local": 0.5026386395941804,
	} {
		least := &Canary{Share: math.Nextafter(want, 1)}
		if n := (&corev3.Node{Id: id}); !least.Is(n, "") || (&Canary{Share: want}).Is(n, "") {
			t.Errorf("%q is at %v, want %v", id, place(id), want)
		}
	}
}

// TestCanaryShare: a share is that part of the ids, also of such as differ in a digit only; a
// larger one has all clients of a smaller one; and a client without an id is in none.
func TestCanaryShare(t *testing.T) {
	const ids = 20_000
	before := map[string]bool{}
	for _, share := range []float64{0, 0.001, 0.05, 0.5, 0.9, 1} {
		c, chosen := &Canary{Share: share}, map[string]bool{}
		for i := range ids {
			id := fmt.Sprintf("web-%d", i)
			if c.Is(&corev3.Node{Id: id}, "") {
				chosen[id] = true
			} else if before[id] {
				t.Fatalf("%s is a canary by less than %v, and not by that", id, share)
			}
		}
		// Five standard deviations: this holds for one list of ids in a million.
		if off := math.Abs(float64(len(chosen)) - share*ids); off > 5*math.Sqrt(ids*share*(1-share)) {
			t.Errorf("a share of %v are %d of %d", share, len(chosen), ids)
		}
		before = chosen
	}
	if (&Canary{Share: 1}).Is(&corev3.Node{Cluster: "shop"}, "spiffe://corp/shop") {
		t.Error("a client without an id is a canary by share")
	}
}

func TestCanaryEqual(t *testing.T) {
	match := func() map[string]string { return map[string]string{"cluster": "shop"} }
	a := &Canary{Match: match(), Identities: []string{"dns:a"}, Identified: func(string) bool { return true }, Share: 0.1}
	for _, test := range []struct {
		name string
		b    *Canary
		same bool
	}{
		{"the same", &Canary{Match: match(), Identities: []string{"dns:a"}, Share: 0.1}, true},
		{"share", &Canary{Match: match(), Identities: []string{"dns:a"}, Share: 0.2}, false},
		{"identities", &Canary{Match: match(), Identities: []string{"dns:b"}, Share: 0.1}, false},
		{"match", &Canary{Match: map[string]string{"cluster": "bank"}, Identities: []string{"dns:a"}, Share: 0.1}, false},
		{"off", &Canary{}, false},
		{"none", nil, false},
	} {
		if a.Equal(test.b) != test.same || test.b.Equal(a) != test.same {
			t.Errorf("%s: want %v", test.name, test.same)
		}
	}
	var none *Canary
	if !none.Equal(&Canary{}) || !(&Canary{}).Equal(nil) {
		t.Error("off is not off")
	}
}

func TestCheckCanaryTerm(t *testing.T) {
	for term, good := range map[string]bool{
		"id": true, "cluster": true, "locality": true, "user_agent_name": true, "user_agent_version": true, "metadata.x": true,
		"metadata.x.y": true, "metadata": false, "metadata.": false, "client_features": false, "identity": false, "canary": false, "": false,
	} {
		if err := CheckCanaryTerm(term); (err == nil) != good {
			t.Errorf("%q: %v", term, err)
		}
	}
}

// TestCanaryIsOfTheGroup: where groups are by all metadata, what makes a client a canary is no part
// of it. Canaries and the others are one group, which the origin is not told of.
func TestCanaryIsOfTheGroup(t *testing.T) {
	of := func(fields map[string]any) *corev3.Node {
		metadata, err := structpb.NewStruct(fields)
		if err != nil {
			t.Fatal(err)
		}
		return &corev3.Node{Cluster: "c", Metadata: metadata}
	}
	canary := of(map[string]any{"canary": "true", "zone": "a", "x": map[string]any{"y": 1}})
	other := of(map[string]any{"zone": "a"})
	rules := Rules{GroupBy: []string{"cluster", "metadata"}, Canary: &Canary{Match: map[string]string{"metadata.canary": "true", "metadata.x.y": "1"}}}
	key, presented := rules.Group(canary, "")
	if plain, _ := rules.Group(other, ""); plain != key {
		t.Error("canaries and the others have two keys")
	}
	if got := presented.GetMetadata().GetFields(); got["canary"] != nil || got["x"] != nil || got["zone"] == nil {
		t.Errorf("presented: %v", got)
	}
	if canary.Metadata.Fields["canary"] == nil {
		t.Error("the client's node has changed")
	}
	if elsewhere, _ := rules.Group(of(map[string]any{"zone": "b"}), ""); elsewhere == key {
		t.Error("what else is in the metadata counts no more")
	}
	rules.Canary = nil
	if off, _ := rules.Group(canary, ""); off == key {
		t.Error("without canaries the field is left out as well")
	}
}
