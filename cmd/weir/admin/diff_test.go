package admin

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDiffLines: the lines of both texts are in the comparison, in order, and what is equal in a
// shortest edit is not told as different.
func TestDiffLines(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	text := func() (lines []string) {
		for range rnd.IntN(30) {
			lines = append(lines, string(rune('a'+rnd.IntN(5))))
		}
		return lines
	}
	for range 5000 {
		a, b := text(), text()
		var left, right []string
		edits := 0
		for _, l := range diffLines(a, b) {
			if l.kind != '+' {
				left = append(left, l.text)
			}
			if l.kind != '-' {
				right = append(right, l.text)
			}
			if l.kind != ' ' {
				edits++
			}
		}
		if want := len(a) + len(b) - 2*common(a, b); !slices.Equal(left, a) || !slices.Equal(right, b) || edits != want {
			t.Fatalf("of %q and %q: %q and %q with %d edits, want %d", a, b, left, right, edits, want)
		}
	}
}

// common is the length of the longest common subsequence.
func common(a, b []string) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		last := 0
		for j, y := range b {
			above := row[j+1]
			if row[j+1] = max(above, row[j]); x == y {
				row[j+1] = last + 1
			}
			last = above
		}
	}
	return row[len(b)]
}

// TestDiffJSON: what differs is told by paths and by lines with what is around them.
func TestDiffJSON(t *testing.T) {
	from := `{"name":"a", "list":[1,{"x":true},3,4,5,6,7,8], "gone":null, "old":{"k":"v"}, "z":1}`
	to := `{"name":"a", "list":[1,{"x":false},3,4,5,6,7,8,9], "old":"v", "z":2}`
	d, err := diffJSON(json.RawMessage(from), json.RawMessage(to), "v1", "v2")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(d.changes)
	if want := `[{"path":"$.list[1].x","from":true,"to":false},{"path":"$.list[8]","to":9},` +
		`{"path":"$.old","from":{"k":"v"},"to":"v"},{"path":"$.z","from":1,"to":2}]`; string(got) != want {
		t.Errorf("paths %s, want %s", got, want)
	}
	want := `--- v1
+++ v2
@@ -3,18 +3,16 @@
   "list": [
     1,
     {
-      "x": true
+      "x": false
     },
     3,
     4,
     5,
     6,
     7,
-    8
+    8,
+    9
   ],
-  "gone": null,
-  "old": {
-    "k": "v"
-  },
-  "z": 1
+  "old": "v",
+  "z": 2
 }
`
	if d.unified != want || d.truncated {
		t.Errorf("unified:\n%s", d.unified)
	}
	same, err := diffJSON(json.RawMessage(from), json.RawMessage(from), "v1", "v2")
	if err != nil || same.unified != "" || len(same.changes) > 0 {
		t.Errorf("of the same: %+v, %v", same, err)
	}
}

// TestDiffIsBounded: texts that have nothing in common take neither long nor much.
func TestDiffIsBounded(t *testing.T) {
	var texts [2]json.RawMessage
	for i := range texts {
		var lines []string
		for j := range 200_000 {
			lines = append(lines, fmt.Sprintf("%d", 2*j+i))
		}
		texts[i] = json.RawMessage("[" + strings.Join(lines, ",") + "]")
	}
	began := time.Now()
	d, err := diffJSON(texts[0], texts[1], "a", "b")
	if err != nil || !d.truncated || len(d.changes) != mostPaths || len(d.unified) > 1<<20 || len(d.unified) < 10_000 {
		t.Errorf("%d paths, %d bytes of text, cut: %v, %v", len(d.changes), len(d.unified), d.truncated, err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	if _, err := diffJSON(json.RawMessage(`"`+strings.Repeat("x", mostTextBytes)+`"`), texts[0], "a", "b"); err == nil {
		t.Error("a huge text is compared")
	}
}
