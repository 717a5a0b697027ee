package relay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// stateNow is the ID of what a group holds now.
func stateNow(t testing.TB, r *rig) string {
	t.Helper()
	types, is := r.table.Origin("mesh").At(r.group.Key(), r.table.Revision())
	if !is {
		t.Fatal("there is no such group")
	}
	return stateID(types)
}

// TestStateIDs: tables that hold the same have the same ID, whatever the order in which it came.
// Content of endpoints and of secrets is no part of it; all else is.
func TestStateIDs(t *testing.T) {
	start := func() *rig {
		r := newRig(t, Config{})
		r.sub(xds.ClusterType, true, xds.Wildcard)
		r.sub(xds.RouteType, true, "r", "s")
		r.sub(xds.EndpointType, true, "a")
		r.sub(xds.SecretType, true, "k")
		r.open()
		return r
	}
	one, two := start(), start()
	if a, b := stateNow(t, one), stateNow(t, two); a != b || len(a) != 32 {
		t.Errorf("of nothing the IDs are %q and %q", a, b)
	}
	one.apply(made(xds.ClusterType, "1", nil, "a", "b"))
	one.apply(made(xds.RouteType, "1", nil, "r"))
	one.apply(made(xds.EndpointType, "1", nil, "a"))
	one.apply(made(xds.SecretType, "1", nil, "k"))
	two.apply(made(xds.EndpointType, "2", nil, "a"))
	two.apply(made(xds.RouteType, "7", nil, "r", "s"))
	two.apply(made(xds.ClusterType, "1", nil, "b"))
	if a, b := stateNow(t, one), stateNow(t, two); a == b {
		t.Errorf("different states have the one ID %q", a)
	}
	two.apply(made(xds.ClusterType, "1", nil, "a"))
	two.apply(made(xds.RouteType, "1", []string{"s"}, "r"))
	if a, b := stateNow(t, one), stateNow(t, two); a != b {
		t.Errorf("the same content has the IDs %q and %q", a, b)
	}
}

// TestStates: whatever came, and whatever was dropped of the history, the ID of each state that is
// listed is that of what the group held at its revision, and a state is whole if that is known.
func TestStates(t *testing.T) {
	rnd := newRand(t)
	for name, b := range map[string]history.Bounds{
		"all":      wholeHistory,
		"versions": {Versions: 2, Bytes: 1 << 30, Age: time.Hour},
		"bytes":    {Versions: 100, Bytes: 60_000, Age: time.Hour},
		"age":      {Versions: 100, Bytes: 1 << 30, Age: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStatesRig(t, rnd, b)
			whole, lost := 0, 0
			for i := range 600 {
				if w.step(); i%4 > 0 {
					continue
				}
				if wrong := rowsDiffer(w.table.Origin("mesh"), w.group); wrong != "" {
					t.Fatal(wrong)
				}
				for _, row := range w.table.Origin("mesh").States(w.group.Key(), 1000) {
					if row.Whole {
						whole++
					} else {
						lost++
					}
				}
			}
			if t.Logf("%d states were whole, and %d not", whole, lost); whole < 150 || (lost > 0) == (name == "all") && name != "age" {
				t.Errorf("%d states were whole, and %d not", whole, lost)
			}
		})
	}
}

// statesRig is a group to which things happen at random.
type statesRig struct {
	*rig
	rnd    *rand.Rand
	now    time.Time
	names  *Sub
	serial int
}

func newStatesRig(t *testing.T, rnd *rand.Rand, b history.Bounds) *statesRig {
	w := &statesRig{rig: newRig(t, Config{History: b}), rnd: rnd, now: zero}
	w.sub(xds.ClusterType, true, xds.Wildcard)
	w.sub(xds.ListenerType, true, xds.Wildcard)
	w.sub(xds.EndpointType, true, "n0", "n1")
	w.sub(xds.SecretType, true, "n0", "n1")
	w.names = w.sub(xds.RouteType, true, "n0", "n1")
	w.open()
	w.apply(made(xds.ClusterType, "0", nil, "n0"))
	w.apply(made(xds.ListenerType, "0", nil, "n0"))
	w.table.Advance(zero.Add(time.Minute))
	return w
}

// step has the origin change something, or a client ask for something else.
func (w *statesRig) step() {
	w.serial++
	w.now = w.now.Add(time.Duration(w.rnd.IntN(2000)) * time.Millisecond)
	w.table.Advance(w.now)
	name := fmt.Sprint("n", w.rnd.IntN(5))
	if w.rnd.IntN(8) == 0 {
		if w.rnd.IntN(2) == 0 {
			w.names.Update(w.now, []string{name}, nil)
		} else {
			w.names.Update(w.now, nil, []string{name})
		}
		w.group.lanes[mainLane].Take(w.now, false)
		w.group.lanes[sideLane].Take(w.now, false)
		return
	}
	types := []string{xds.ClusterType, xds.ListenerType, xds.RouteType, xds.EndpointType, xds.SecretType}
	u := made(types[w.rnd.IntN(len(types))], fmt.Sprint(w.serial%4), nil, name, fmt.Sprint("m", w.rnd.IntN(2)))
	if w.rnd.IntN(3) == 0 {
		u.Resources, u.Removed = u.Resources[1:], []string{name}
	}
	for _, l := range w.group.lanes {
		l.Apply(w.now, u)
	}
}

// TestStateRows: there is a state for each response that changed configuration, with what it
// changed, and one for how it began. Endpoints and secrets make none, nor does what clients begin to
// ask for. A state that comes back has its ID again, and was as good.
func TestStateRows(t *testing.T) {
	r := newRig(t, Config{History: wholeHistory})
	origin := r.table.Origin("mesh")
	r.sub(xds.ClusterType, true, xds.Wildcard)
	names := r.sub(xds.RouteType, true, "r")
	r.sub(xds.EndpointType, true, "a")
	r.sub(xds.SecretType, true, "k")
	r.open()
	r.apply(made(xds.ClusterType, "1", nil, "a", "b"))
	r.apply(made(xds.RouteType, "1", nil, "r"))
	r.table.Advance(zero.Add(time.Minute))
	for _, body := range []string{"1", "2"} {
		r.apply(made(xds.EndpointType, body, nil, "a"))
		r.apply(made(xds.SecretType, body, nil, "k"))
	}
	want := func(want ...string) (rows []StateRow) {
		t.Helper()
		rows = origin.States(r.group.Key(), 100)
		var got []string
		ids := map[string]string{}
		for i := len(rows) - 1; i >= 0; i-- {
			row := &rows[i]
			if ids[row.ID] == "" {
				ids[row.ID] = string(rune('A' + len(ids)))
			}
			if !row.Whole {
				t.Errorf("the state of %d is not whole", row.Revision)
			}
			text := fmt.Sprintf("%s +%d ~%d -%d %s", ids[row.ID], row.Added, row.Changed, row.Removed, strings.Join(row.Types, ","))
			if !row.Good.IsZero() {
				text += " good"
			}
			if row.Present {
				text += " present"
			}
			got = append(got, strings.Replace(text, "  ", " ", 1))
		}
		if !slices.Equal(got, want) {
			t.Errorf("the states are %q, want %q", got, want)
		}
		return rows
	}
	want("A +0 ~0 -0 present")
	origin.Good(zero, r.group.Key(), r.table.Revision())
	want("A +0 ~0 -0 good present")
	r.apply(made(xds.ClusterType, "2", []string{"b"}, "a", "c"))
	names.Update(zero, []string{"late"}, nil)
	r.group.lanes[mainLane].Take(zero, false)
	r.apply(made(xds.RouteType, "1", nil, "late"))
	r.apply(made(xds.RouteType, "2", nil, "r"))
	r.apply(made(xds.EndpointType, "3", nil, "a"))
	want("A +0 ~0 -0 good", "B +1 ~1 -1 cds", "C +0 ~1 -0 rds present")
	r.apply(made(xds.RouteType, "1", nil, "r"))
	r.apply(made(xds.ClusterType, "1", []string{"c"}, "a", "b"))
	rows := want("A +0 ~0 -0 good", "B +1 ~1 -1 cds", "C +0 ~1 -0 rds", "B +0 ~1 -0 rds", "A +1 ~1 -1 cds good present")
	if got := origin.States(r.group.Key(), 2); !slices.EqualFunc(got, rows[:2], func(a, b StateRow) bool { return a.ID == b.ID }) {
		t.Errorf("the newest two are %+v", got)
	}
	if at, since := origin.StateSince(r.group.Key()); at != rows[0].Revision || !since.Equal(zero) {
		t.Errorf("the present state is said to be of %d, %v", at, since)
	}
}

// TestResolve: states are found by what people write, and if none is, it is said what there is.
func TestResolve(t *testing.T) {
	r := newRig(t, Config{History: history.Bounds{Versions: 3, Bytes: 1 << 20, Age: time.Hour}})
	origin, key := r.table.Origin("mesh"), r.group.Key()
	r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	for i := range 6 {
		now := zero.Add(time.Duration(i) * time.Minute)
		r.group.lanes[mainLane].Apply(now, made(xds.ClusterType, fmt.Sprint(i%5), nil, "a"))
		r.table.Advance(now.Add(30 * time.Second))
	}
	// bodies 0 1 2 3 4 0, at revisions 1 to 6; those of 1 and 2 are lost, and of 3 the change
	rows := origin.States(key, 100)
	if len(rows) != 4 || rows[3].Revision != 3 || rows[0].Revision != 6 {
		t.Fatalf("the states are %+v", rows)
	}
	origin.Good(zero, key, 4)
	now := zero.Add(10 * time.Minute)
	for to, want := range map[string]string{
		"4": "4", "6": "6", "3": "3",
		"2":                             "revision 2 is not known: the oldest state that is known whole is of revision 3, 2001-09-09T01:48:40Z, and the newest good one of 4",
		"7":                             "there is no revision 7 yet: the newest is 6",
		rows[1].ID:                      "5",
		rows[1].ID[:12]:                 "5",
		strings.ToUpper(rows[2].ID[:8]): "4",
		"abc":                           "too short",
		strings.Repeat("0", 32):         "no state with the ID",
		"5m30s":                         "5",
		"6m":                            "5",
		"0s":                            "6",
		"8m":                            "3",
		"9m":                            "what was at 2001-09-09T01:47:40Z is not known: the oldest",
		"-1m":                           "in the future",
		"2001-09-09T01:50:00Z":          "4",
		"2031-09-09T01:50:00Z":          "in the future",
		"last-good":                     "4",
		"last good":                     "is no state: write a revision",
	} {
		revision, err := origin.resolve(key, to, now)
		if got := fmt.Sprint(revision); err == nil && got != want {
			t.Errorf("%s is revision %s, want %s", to, got, want)
		} else if err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %s", to, err, want)
		}
	}
	for range 3 {
		now = now.Add(time.Minute)
		r.group.lanes[mainLane].Apply(now, made(xds.ClusterType, now.String(), nil, "a"))
	}
	if _, err := origin.resolve(key, "last-good", now); err == nil || !strings.Contains(err.Error(), "no state before the present one, of revision 9, was seen good") {
		t.Errorf("the last good one is dropped: %v", err)
	}
	// going back to the good state makes none of before good
	r = newRig(t, Config{History: wholeHistory})
	origin, key = r.table.Origin("mesh"), r.group.Key()
	r.table.History().Began(zero)
	r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	for i := range 3 {
		if i == 1 {
			origin.Good(zero, key, r.table.Revision())
			r.table.Advance(zero.Add(time.Minute))
		}
		r.group.lanes[mainLane].Apply(zero.Add(time.Duration(i)*time.Hour), made(xds.ClusterType, fmt.Sprint(i%2), nil, "a"))
	}
	if revision, err := origin.resolve(key, "last-good", now); err == nil || !strings.Contains(err.Error(), "seen good, and that was") {
		t.Errorf("before the only good state: %d, %v", revision, err)
	}
	if revision, err := origin.resolve(key, zero.Format(time.RFC3339), zero.Add(9*time.Hour)); err != nil || revision != 0 {
		t.Errorf("as it began: %d, %v", revision, err)
	}
	if revision, err := origin.resolve(key, "10h", zero.Add(9*time.Hour)); err == nil || !strings.Contains(err.Error(), "is not known") {
		t.Errorf("before it began: %d, %v", revision, err)
	}
	for i := 3; ; i++ { // until the beginning of an ID has no letters
		if rows := origin.States(key, 2); i > 3 && strings.Trim(rows[1].ID[:leastID], "0123456789") == "" {
			if revision, err := origin.resolve(key, rows[1].ID[:leastID], zero.Add(9*time.Hour)); err != nil || revision != rows[1].Revision {
				t.Errorf("%s is revision %d, want %d: %v", rows[1].ID[:leastID], revision, rows[1].Revision, err)
			}
			break
		}
		r.group.lanes[mainLane].Apply(zero.Add(3*time.Hour), made(xds.ClusterType, fmt.Sprint(i), nil, "a"))
	}
	if _, err := origin.resolve("nobody", "4", now); err == nil || !strings.Contains(err.Error(), "no group nobody") {
		t.Errorf("of no group: %v", err)
	}
}

// TestEndedGroupsLoseNothing: that a group of one client ends makes nothing of the past of others
// unknown.
func TestEndedGroupsLoseNothing(t *testing.T) {
	r := newRig(t, Config{History: wholeHistory})
	origin := r.table.Origin("mesh")
	r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	r.apply(made(xds.ClusterType, "1", nil, "a"))
	r.table.Advance(zero.Add(time.Minute))
	r.apply(made(xds.ClusterType, "2", nil, "a"))
	for i := range 3 {
		r.apply(made(xds.ClusterType, fmt.Sprint("later", i), nil, "a"))
	}
	before := origin.States(r.group.Key(), 100)
	track := r.table.past.Track(history.Place{Origin: "mesh", Group: "dedicated", TypeURL: xds.ClusterType})
	was, is := r.group.store(xds.ClusterType).all[0].star.members.get("a").variants[0], (*xds.Variant)(nil)
	track.Note(history.Resource{Name: "x"}, history.Change{Revision: r.table.Revision(), At: zero, Was: was, Is: is})
	r.table.past.Forget("mesh", "dedicated")
	if after := origin.States(r.group.Key(), 100); len(after) != len(before) || len(after) != 5 || !after[4].Whole {
		t.Errorf("the states are %+v", after)
	}
}

// BenchmarkStates is the listing of what is kept of a group with many resources, a thousand of which
// change at a time.
func BenchmarkStates(b *testing.B) {
	r := newRig(b, Config{History: history.Bounds{Versions: 10, Bytes: 64 << 20, Age: time.Hour}})
	r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	var all []string
	for i := range 100_000 {
		all = append(all, fmt.Sprint("n", i))
	}
	r.apply(made(xds.ClusterType, "0", nil, all...))
	r.table.Advance(zero.Add(time.Minute))
	for i := range 100 {
		r.apply(made(xds.ClusterType, fmt.Sprint(1+i), nil, all[i*100:i*100+1000]...))
	}
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			if rows := r.table.Origin("mesh").States(r.group.Key(), 100); len(rows) < 50 {
				b.Fatal(len(rows))
			}
		}
	})
	b.Run("locked", func(b *testing.B) {
		for b.Loop() {
			(*r.group.all.Load())[0].back()
		}
	})
	b.Run("since", func(b *testing.B) {
		for b.Loop() {
			r.table.Origin("mesh").StateSince(r.group.Key())
		}
	})
}
