package intern

import (
	"runtime"
	"strings"
	"sync"
	"testing"
)

type text struct{ s string }

func equals(s string) func(*text) bool { return func(v *text) bool { return v.s == s } }

func TestFindsWhatIsHeld(t *testing.T) {
	table := New[int, text]()
	if v := table.Find(1, equals("a")); v != nil {
		t.Fatalf("an empty table has %q", v.s)
	}
	a := table.Put(1, &text{"a"}, equals("a"))
	if table.Find(1, equals("a")) != a {
		t.Error("what is held is not found")
	}
	if again := table.Put(1, &text{"a"}, equals("a")); again != a {
		t.Error("an equal value took the place of one that is held")
	}
	if v := table.Find(1, equals("b")); v != nil {
		t.Errorf("another value was taken for an equal one: %q", v.s)
	}
	b := table.Put(1, &text{"b"}, equals("b"))
	if b.s != "b" || table.Find(1, equals("b")) != b || a.s != "a" {
		t.Error("two values of one key do not both stay valid")
	}
	runtime.KeepAlive(a)
}

// TestNothingIsKeptAlive: values are freed with their last holder, and what is left of them in the
// table is bounded by what is held.
func TestNothingIsKeptAlive(t *testing.T) {
	table := New[int, text]()
	held := table.Put(-1, &text{"held"}, equals("held"))
	const values = 200_000
	for i := range values {
		table.Put(i, &text{strings.Repeat("x", 100)}, equals("none"))
		if i%20_000 == 0 {
			runtime.GC()
		}
	}
	if n := table.Len(); n > values/4 {
		t.Errorf("%d of %d keys are left of values that nobody holds", n, values)
	}
	if table.Find(-1, equals("held")) != held {
		t.Error("what is held was swept")
	}
	runtime.GC()
	if v := table.Find(values-1, func(*text) bool { return true }); v != nil {
		t.Error("a value that nobody holds was kept")
	}
	runtime.KeepAlive(held)
}

// TestAllGetTheSame: of many who store an equal value at the same time all hold one.
func TestAllGetTheSame(t *testing.T) {
	table := New[int, text]()
	got := make([]*text, 64)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			if got[i] = table.Find(7, equals("x")); got[i] == nil {
				got[i] = table.Put(7, &text{"x"}, equals("x"))
			}
		})
	}
	wg.Wait()
	for i := range got {
		if got[i] != got[0] {
			t.Fatalf("holders 0 and %d have two values", i)
		}
	}
}
