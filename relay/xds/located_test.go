package xds

import (
	"bytes"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
	"google.golang.org/protobuf/encoding/protowire"
)

// TestLocatedImage: the constraints survive a restart as they were written.
func TestLocatedImage(t *testing.T) {
	name := AppendResourceName(nil, 8, "a", string(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), relaytest.Marshal(relaytest.Or(relaytest.Is("b", "1"), relaytest.Is("a", "1"))))))
	var r Resource
	if err := ParseResource(append(name, 0x12, 0x00), &r); err != nil {
		t.Fatal(err)
	}
	acc := acceptance{}
	if why := acc.checkConstraints(&r); why != "" {
		t.Fatal(why)
	}
	v := NewVariant(&Provenance{TypeURL: ClusterType}, &r, "")
	var back Resource
	if err := ParseResource(v.resource(), &back); err != nil || !bytes.Equal(back.RawConstraints, r.RawConstraints) {
		t.Errorf("written %x, want %x: %v", back.RawConstraints, r.RawConstraints, err)
	}
}
