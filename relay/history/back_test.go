package history

import (
	"testing"
	"time"
)

// TestMarks: a group has a bounded number of marks, of what is known still. They go with the group,
// with its origin, and when nothing is kept any more.
func TestMarks(t *testing.T) {
	b := Bounds{Versions: 9, Bytes: 1 << 20, Age: time.Hour}
	l := New(nil)
	l.Mark("mesh", "a", Mark{1, zero}, 0)
	if len(l.Marks("mesh", "a")) > 0 {
		t.Error("marks are kept while nothing else is")
	}
	l.Bound(b, zero, 0)
	for _, r := range []uint64{5, 9, 7, 5} {
		l.Mark("mesh", "a", Mark{r, zero.Add(time.Duration(r))}, 0)
	}
	if m := l.Marks("mesh", "a"); len(m) != 3 || m[0].Revision != 5 || m[1].Revision != 7 || m[2].Revision != 9 {
		t.Errorf("marks %+v", m)
	}
	l.Mark("mesh", "a", Mark{10, zero}, 7)
	if m := l.Marks("mesh", "a"); len(m) != 3 || m[0].Revision != 7 {
		t.Errorf("of what is not known any more there are marks: %+v", m)
	}
	for r := range uint64(1000) {
		l.Mark("mesh", "b", Mark{100 + r, zero}, 0)
	}
	if m := l.Marks("mesh", "b"); len(m) != mostMarks || m[mostMarks-1].Revision != 1099 {
		t.Errorf("%d marks, the last %+v", len(m), m[len(m)-1])
	}
	l.Mark("other", "a", Mark{1, zero}, 0)
	l.Unmark("mesh", "b")
	if len(l.Marks("mesh", "b")) > 0 || len(l.Marks("mesh", "a")) == 0 {
		t.Error("of the two groups the wrong one lost its marks")
	}
	l.Forget("mesh", "")
	if len(l.marks) != 1 {
		t.Errorf("of the groups of an origin that ended there are marks: %+v", l.marks)
	}
	l.Bound(Bounds{}, zero, 0)
	if len(l.marks) > 0 {
		t.Errorf("nothing is kept but marks: %+v", l.marks)
	}
}
