package snapshot

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/weir-xds/weir/relay"
)

// TestIdentityOfAGroup: a group's identity is written, and read as it was, whatever its characters.
// One without is written as before there were any, so files of then are read, and those of now are
// by builds of then.
func TestIdentityOfAGroup(t *testing.T) {
	// What builds before identities wrote of the same.
	old, err := hex.DecodeString("0a046d65736812026b311a014e22037479702a017632170a012a20013a1000000000000000000000000000000000")
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"", "anonymous", "spiffe://corp/ns/shop/sa/web", "subject:CN=\xff<b>"} {
		x := relay.TypeImage{Origin: "mesh", Group: "k1", Node: []byte("N"), Identity: who, TypeURL: "typ", Response: "v"}
		head := shardHead(&x, []setSummary{{SetImage: relay.SetImage{Selector: "*", Settled: true}}})
		back, sets, err := readShard(head)
		if err != nil || back.Identity != who || back.Group != "k1" || len(sets) != 1 {
			t.Errorf("%q is read as %+v, %v", who, back, err)
		}
		if who == "" && !bytes.Equal(head, old) {
			t.Errorf("a group without an identity is written as %x", head)
		}
	}
}
