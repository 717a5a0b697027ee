package xds

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
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

// TestShare: groups that are sent the same body at the same time hold one Variant, and each its own
// where what is told of the response would be another.
func TestShare(t *testing.T) {
	among := &Sharing{}
	sent := func(version string, change func(*Provenance, *Resource)) *Variant {
		r := &Resource{Name: "of version " + version, Any: AppendString(AppendString(nil, 1, ClusterType), 2, "\x0a\x01c"), Version: version}
		from := &Provenance{TypeURL: ClusterType, Among: among, Version: "7", Revision: 1, Came: int64(time.Hour)}
		if change != nil {
			change(from, r)
		}
		r.PayloadType, r.Payload, _ = AnyParts(r.Any)
		return NewVariant(from, r, r.Version)
	}
	for _, version := range []string{"", "1"} {
		for what, x := range map[string]struct {
			change func(*Provenance, *Resource)
			shared bool
		}{
			"the revision":           {func(from *Provenance, _ *Resource) { from.Revision++ }, true},
			"part of a second":       {func(from *Provenance, _ *Resource) { from.Came += int64(time.Second) - 1 }, true},
			"a second":               {func(from *Provenance, _ *Resource) { from.Came -= int64(time.Second) }, false},
			"the response's version": {func(from *Provenance, _ *Resource) { from.Version = "8" }, version != ""},
			"its own version":        {func(_ *Provenance, r *Resource) { r.Version = "2" }, false},
			"the server":             {func(from *Provenance, _ *Resource) { from.Server++ }, false},
			"the origin":             {func(from *Provenance, _ *Resource) { from.Among = &Sharing{} }, false},
			"that none is shared":    {func(from *Provenance, _ *Resource) { from.Among = nil }, false},
			"that versions are told": {func(from *Provenance, _ *Resource) { from.Shown = true }, false},
			"the content":            {func(_ *Provenance, r *Resource) { r.Metadata = []byte{0x0a, 0} }, false},
		} {
			first := sent(version, nil).Share()
			if sent(version, nil).Share() != first {
				t.Fatal("two of the same are not one")
			}
			if v := sent(version, x.change); (v.Share() == first) != x.shared {
				t.Errorf("version %q: what differs by %s is shared: %t, want %t", version, what, !x.shared, x.shared)
			}
		}
		timed := sent(version, nil)
		if timed.EndAt(time.Unix(1, 0)); timed.Share() != timed {
			t.Error("a body with a TTL is shared")
		}
	}
}

// TestRecent: what several groups were sent is found without its digest, and only where the digest
// would be the same. A body that one group alone is sent is not looked for.
func TestRecent(t *testing.T) {
	resource := func() *Resource {
		r := &Resource{Name: "recent", Any: AppendString(AppendString(nil, 1, ClusterType), 2, "\x0a\x06recent")}
		r.PayloadType, r.Payload, _ = AnyParts(r.Any)
		return r
	}
	from := &Provenance{TypeURL: ClusterType}
	find := func(from *Provenance, r *Resource) *content {
		return recent.find(from, r, func(c *content) bool { return c.is(r) })
	}
	recent.credit.Store(0)
	first := NewVariant(from, resource(), "")
	if recent.credit.Load() != 0 {
		t.Error("a body of one group has others looked for")
	}
	if NewVariant(from, resource(), "2"); find(from, resource()) != first.content {
		t.Error("what two groups were sent is not found")
	}
	for what, change := range map[string]func(*Provenance, *Resource){
		"the type":               func(from *Provenance, _ *Resource) { from.TypeURL = OtherSpelling(ClusterType) },
		"that bytes may differ":  func(from *Provenance, _ *Resource) { from.Canonical = true },
		"the name":               func(_ *Provenance, r *Resource) { r.Name = "other" },
		"an alias":               func(_ *Provenance, r *Resource) { r.Aliases = []string{"a"} },
		"the bytes of the body":  func(_ *Provenance, r *Resource) { r.Any = append(r.Any, 0x18, 1) },
		"what is beside it":      func(_ *Provenance, r *Resource) { r.Metadata = []byte{0x0a, 0} },
		"that it is not to keep": func(_ *Provenance, r *Resource) { r.DoNotCache = true },
	} {
		from, r := *from, resource()
		change(&from, r)
		if c := find(&from, r); c != nil {
			t.Errorf("what differs by %s is found", what)
		}
		if NewVariant(&from, r, "").Digest != from.Digest(r) {
			t.Errorf("what differs by %s has the digest of another", what)
		}
	}
	recent.credit.Store(3)
	for i := range 5 {
		r := resource()
		r.Name = string(rune('a' + i))
		NewVariant(from, r, "")
	}
	if got := recent.credit.Load(); got != 0 {
		t.Errorf("after five bodies of one group, %d more are looked for", got)
	}
	runtime.KeepAlive(first)
}

// BenchmarkContentAgain is a body that comes to one group after another.
func BenchmarkContentAgain(b *testing.B) {
	for _, canonical := range []bool{false, true} {
		for _, size := range []int{400, 4000, 100_000} {
			b.Run(fmt.Sprintf("canonical=%t/bytes=%d", canonical, size), func(b *testing.B) {
				payload := AppendString(AppendString(nil, 1, "c1"), 28, strings.Repeat("x", size))
				r := &Resource{Name: "c1", Any: AppendString(AppendString(nil, 1, ClusterType), 2, string(payload))}
				r.PayloadType, r.Payload, _ = AnyParts(r.Any)
				from := &Provenance{TypeURL: ClusterType, Canonical: canonical}
				held := NewVariant(from, r, "")
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if !NewVariant(from, r, "").SharesBytes(held) {
						b.Fatal("it is stored twice")
					}
				}
			})
		}
	}
}
