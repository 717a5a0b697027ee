package xds

import (
	"testing"
)

// TestEqualBodiesAreOne: what two origins send alike is stored once, and what each says of it is
// its own.
func TestEqualBodiesAreOne(t *testing.T) {
	resource := func() *Resource {
		r := &Resource{Name: "c1", Any: AppendString(AppendString(nil, 1, ClusterType), 2, "\x0a\x02c1"), Aliases: []string{"a"}}
		r.PayloadType, r.Payload, _ = AnyParts(r.Any)
		return r
	}
	of := func(server uint8) *Provenance { return &Provenance{TypeURL: ClusterType, Server: server} }
	a := NewVariant(of(1), resource(), "1")
	b := NewVariant(of(2), resource(), "2")
	if !a.SharesBytes(b) {
		t.Error("equal bodies of two servers are stored twice")
	}
	if a.OriginVersion() != "1" || b.OriginVersion() != "2" || a.From.Server != 1 || b.From.Server != 2 {
		t.Errorf("versions %q and %q of servers %d and %d", a.OriginVersion(), b.OriginVersion(), a.From.Server, b.From.Server)
	}
	for what, change := range map[string]func(*Provenance, *Resource){
		"do_not_cache":         func(_ *Provenance, r *Resource) { r.DoNotCache = true },
		"metadata":             func(_ *Provenance, r *Resource) { r.Metadata = []byte{0x0a, 0} },
		"an alias":             func(_ *Provenance, r *Resource) { r.Aliases = []string{"b"} },
		"the spelling":         func(_ *Provenance, r *Resource) { r.spelt = "C1" },
		"an unknown field":     func(_ *Provenance, r *Resource) { r.Any = append(r.Any, 0x18, 1) },
		"that versions are on": func(from *Provenance, _ *Resource) { from.Shown = true },
	} {
		from, r := of(1), resource()
		change(from, r)
		if c := NewVariant(from, r, "1"); c.SharesBytes(a) {
			t.Errorf("a body that differs by %s shares the bytes", what)
		}
	}
	shown := &Provenance{TypeURL: ClusterType, Shown: true}
	x, y, z := NewVariant(shown, resource(), "1"), NewVariant(shown, resource(), "1"), NewVariant(shown, resource(), "2")
	if !x.SharesBytes(y) || x.SharesBytes(z) {
		t.Error("of bodies that carry their origin's version, those of one version alone share the bytes")
	}
}
