package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// TestHistoryIsBounded: ten thousand resources change all the time for an hour. What is kept stays
// within each of the bounds, whichever is reached first.
func TestHistoryIsBounded(t *testing.T) {
	const resources, every = 10_000, 4 * time.Minute
	names := make([]string, resources)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	for name, b := range map[string]history.Bounds{
		"versions": {Versions: 3, Bytes: 1 << 30, Age: 24 * time.Hour},
		"bytes":    {Versions: 1000, Bytes: 4 << 20, Age: 24 * time.Hour},
		"age":      {Versions: 1000, Bytes: 1 << 30, Age: 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{History: b})
			s := r.sub(xds.ClusterType, true, xds.Wildcard)
			r.open()
			most := history.Kept{}
			for now := zero; now.Before(zero.Add(time.Hour)); now = now.Add(every) {
				// once in each of these times, and not all at once
				for i := range 10 {
					part := names[i*resources/10 : (i+1)*resources/10]
					at := now.Add(time.Duration(i) * every / 10)
					r.group.lanes[mainLane].Apply(at, made(xds.ClusterType, at.String(), nil, part...))
					r.table.Advance(at)
					s.Take(at)
					k := r.table.History().Kept()
					most.Bytes, most.Versions = max(most.Bytes, k.Bytes), max(most.Versions, k.Versions)
					if !k.Oldest.IsZero() && at.Sub(k.Oldest) > b.Age+time.Second {
						t.Fatalf("a change of %v is kept at %v", k.Oldest, at)
					}
				}
			}
			rows, more := r.table.History().Changes(history.Query{Name: "n7", Most: 1000})
			if len(rows) == 0 && name != "bytes" || len(rows) > b.Versions || more {
				t.Errorf("%d versions of one resource", len(rows))
			}
			if most.Bytes > b.Bytes || most.Versions > b.Versions*resources || most.Versions < resources/2 {
				t.Errorf("%+v were kept, within %+v", most, b)
			}
			t.Logf("%+v were kept, within %+v", most, b)
		})
	}
}

// pastLines is the history as lines, the newest first.
func pastLines(t *Table) (lines []string) {
	rows, _ := t.History().Changes(history.Query{Most: 100})
	version := func(v *history.Version) string {
		if v == nil {
			return "-"
		}
		return v.Origin
	}
	for _, r := range rows {
		set := r.Set
		if set == "" {
			set = "by name"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s: %s -> %s", set, r.Name, r.Kind, version(r.Was), version(r.Is)))
	}
	return lines
}

// TestWhatIsAVersion: a first answer is none, nor is the same again or another TTL; what the guard
// or a freeze holds back is one when it passes; a removal and what comes after it are.
func TestWhatIsAVersion(t *testing.T) {
	want := func(r *rig, want ...string) {
		t.Helper()
		if got := pastLines(r.table); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the history is %q, want %q", got, want)
		}
	}
	on := history.Bounds{Versions: 10, Bytes: 1 << 20, Age: time.Hour}
	r := newRig(t, Config{History: on})
	r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	r.apply(made(xds.ClusterType, "1", nil, "a", "b"))
	r.table.Advance(zero.Add(time.Minute))
	want(r)
	r.apply(made(xds.ClusterType, "1", nil, "a"))
	timed := made(xds.ClusterType, "1", nil, "a")
	timed.Resources[0].TTL, timed.Resources[0].HasTTL = time.Hour, true
	r.apply(timed)
	want(r)
	r.apply(made(xds.ClusterType, "2", nil, "a", "c"))
	want(r, "* a changed: v1 -> v2", "* c added: - -> v2")
	r.apply(made(xds.ClusterType, "1", []string{"b"}, "a"))
	want(r, "* a changed: v2 -> v1", "* b removed: v1 -> -", "* a changed: v1 -> v2", "* c added: - -> v2")
	r.table.Advance(zero.Add(2 * time.Hour))
	want(r)

	r = newRig(t, Config{History: on})
	r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	r.apply(made(xds.ClusterType, "1", nil, "a"))
	r.table.Advance(zero.Add(time.Minute))
	r.table.Origin("mesh").Freeze(zero)
	r.apply(made(xds.ClusterType, "2", nil, "a"))
	want(r)
	r.table.Origin("mesh").Unfreeze()
	r.apply(made(xds.ClusterType, "2", nil, "a"))
	want(r, "* a changed: v1 -> v2")

	r = newRig(t, Config{History: on})
	r.sub(xds.EndpointType, true, "a", "b")
	r.open()
	r.apply(made(xds.EndpointType, "1", nil, "a"))
	want(r)
	r.apply(made(xds.EndpointType, "2", []string{"b"}, "a"))
	want(r, "by name a changed: v1 -> v2")
	r.apply(made(xds.EndpointType, "1", nil, "b"))
	want(r, "by name b added: - -> v1", "by name a changed: v1 -> v2")
	r.apply(made(xds.EndpointType, "", []string{"a"}))
	want(r, "by name a removed: v2 -> -", "by name b added: - -> v1", "by name a changed: v1 -> v2")
}

// TestGuardedIsNoVersion: a mass removal that is held back is noted when it is made.
func TestGuardedIsNoVersion(t *testing.T) {
	r := newRig(t, Config{
		History: history.Bounds{Versions: 10, Bytes: 1 << 20, Age: time.Hour},
		Origins: []OriginConfig{{Name: "mesh", SotW: true, Guard: gate.GuardConfig{Share: 0.5, Min: 1, Hold: time.Minute}}},
	})
	r.sub(xds.ClusterType, false, xds.Wildcard)
	list := func(names ...string) {
		u := made(xds.ClusterType, "1", nil, names...)
		u.Full = true
		r.apply(u)
	}
	r.open()
	list("a", "b", "c", "d")
	r.group.lanes[mainLane].Close()
	r.open()
	list("a")
	if got := pastLines(r.table); len(got) > 0 {
		t.Errorf("what is held back is noted: %q", got)
	}
	if n := r.table.Origin("mesh").ReleaseGuard(zero.Add(time.Second), ""); n != 3 {
		t.Fatalf("%d removals were held back", n)
	}
	if got := pastLines(r.table); len(got) != 3 {
		t.Errorf("the removals are noted as %q", got)
	}
}

// TestHistoryGoesFirst: when memory is short the history goes, and before what had retired.
func TestHistoryGoesFirst(t *testing.T) {
	r := newRig(t, Config{History: history.Bounds{Versions: 10, Bytes: 1 << 20, Age: time.Hour}})
	r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	for i := range 5 {
		r.apply(made(xds.ClusterType, fmt.Sprint(i), nil, "a", "b", "c"))
		r.table.Advance(zero.Add(time.Minute))
	}
	r.table.retired.add(retiredKey{name: "x"}, r.group.store(xds.ClusterType).all[0].star.members.get("a").variants, false)
	before := r.table.History().Kept().Bytes
	shed := r.table.Measured(1000, 999)
	if k := r.table.History().Kept(); int(shed) != before-k.Bytes || k.Bytes >= before {
		t.Errorf("%d bytes were given up, and of %d of the history %d are left", shed, before, k.Bytes)
	}
	if n, _ := r.table.Retired(); n != 1 {
		t.Error("what had retired went before the history")
	}
	r.table.Measured(1<<30, 1)
	if n, _ := r.table.Retired(); n != 0 || r.table.History().Kept().Versions != 0 {
		t.Error("something is left though memory is short")
	}
}

// TestSecretsHaveNoHistory: that a secret changed is noted, and no body of it is kept.
func TestSecretsHaveNoHistory(t *testing.T) {
	r := newRig(t, Config{History: history.Bounds{Versions: 10, Bytes: 1 << 20, Age: time.Hour}})
	r.sub(xds.SecretType, true, "a")
	r.open()
	for i := range 3 {
		r.apply(made(xds.SecretType, fmt.Sprint(i), nil, "a"))
	}
	rows, _ := r.table.History().Changes(history.Query{Most: 10})
	if len(rows) != 2 || rows[0].Was == nil || rows[0].Was.Body != nil || rows[1].Was.Body != nil {
		t.Errorf("the history is %+v", rows)
	}
	if types, _ := r.table.Origin("mesh").At(r.group.Key(), 1); !types[0].Names[0].Unknown {
		t.Errorf("an earlier secret is known: %+v", types)
	}
}

// BenchmarkHistory is BenchmarkApply with and without a history.
func BenchmarkHistory(b *testing.B) {
	for name, bounds := range map[string]history.Bounds{"off": {}, "on": {Versions: 10, Bytes: 64 << 20, Age: 24 * time.Hour}} {
		for _, changed := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/changed=%d", name, changed), func(b *testing.B) {
				r := newRig(b, Config{History: bounds})
				s := r.sub(xds.ClusterType, true, xds.Wildcard)
				r.open()
				var all []string
				for i := range 10_000 {
					all = append(all, fmt.Sprintf("n%d", i))
				}
				r.apply(made(xds.ClusterType, "0", nil, all...))
				r.table.Advance(zero.Add(time.Minute))
				s.Take(zero)
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					b.StopTimer()
					u := made(xds.ClusterType, fmt.Sprint("change", i), nil, all[:changed]...)
					b.StartTimer()
					r.apply(u)
					s.Take(zero)
				}
			})
		}
	}
}
