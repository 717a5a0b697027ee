package admin

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestUnifiedDiff: the diff, applied to the first text, makes the second, and says nothing of equal
// texts. Lines that are in both once are never in it as different.
func TestUnifiedDiff(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		var out strings.Builder
		for i := range 60 {
			if rnd.IntN(10) > 0 {
				fmt.Fprintf(&out, "%d\n", i)
			}
			if rnd.IntN(10) == 0 {
				fmt.Fprintf(&out, "%c\n", 'a'+rnd.IntN(3))
			}
		}
		return out.String() + "a\nb\nc\na\nb\nc\n" // so no letter is in a text once
	}
	for range 5000 {
		a, b := text(), text()
		unified, cut := unifiedDiff([]byte(a), []byte(b), "v1 x", "v2")
		if got := patched(t, a, unified); got != b || cut {
			t.Fatalf("of %q and %q:\n%s", a, b, unified)
		}
		for line := range strings.Lines(unified) {
			n := line[1:]
			if line[0] == '-' && n[0] <= '9' && n[0] >= '0' && strings.Contains("\n"+b, "\n"+n) {
				t.Fatalf("%q is in both texts:\n%s", n, unified)
			}
		}
		if unified, cut := unifiedDiff([]byte(a), []byte(a), "v1", "v2"); unified != "" || cut {
			t.Fatalf("of equal texts:\n%s", unified)
		}
	}
}

// patched applies a unified diff to a text.
func patched(t *testing.T, text, unified string) string {
	t.Helper()
	var out strings.Builder
	left, hunks, is := strings.SplitAfter(text, "\n"), 0, 0
	for line := range strings.Lines(unified) {
		switch kind := line[0]; {
		case hunks == 0 && (line == "--- v1 x\n" || line == "+++ v2\n"):
		case kind == '@':
			var at, n int
			if _, err := fmt.Sscanf(line, "@@ -%d,%d", &at, &n); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			for hunks++; is < at-1; is++ {
				out.WriteString(left[is])
			}
		case kind == '+':
			out.WriteString(line[1:])
		case left[is] != line[1:]:
			t.Fatalf("line %d is %q, and not %q:\n%s", is+1, left[is], line, unified)
		case kind == ' ':
			out.WriteString(left[is])
			is++
		default:
			is++
		}
	}
	return out.String() + strings.Join(left[is:], "")
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
@@ -3,7 +3,7 @@
   "list": [
     1,
     {
-      "x": true
+      "x": false
     },
     3,
     4,
@@ -10,11 +10,9 @@
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
	if lines := strings.Count(d.unified, "\n"); lines != mostDiffLines {
		t.Errorf("%d lines", lines)
	}
	if _, err := diffJSON(json.RawMessage(`"`+strings.Repeat("x", mostTextBytes)+`"`), texts[0], "a", "b"); err == nil {
		t.Error("a huge text is compared")
	}
}
