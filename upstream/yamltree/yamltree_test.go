package yamltree

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestText: the line is the one on which there are too many values of one document.
func TestText(t *testing.T) {
	for text, want := range map[string]int{
		"":                                       0,
		"a: b":                                   0,
		"a: b\nc: d\ne: f\n":                     3,
		"# a, b\n[c, d]":                         2,
		"a: b\n---\na: b\n---\na: b":             0,
		"x:\n- a\n- b\n- c\n- d\n":               5,
		"{a, b, c}":                              1,
		"url: http://a:1/b-c?d":                  0,
		"\xff\xfea\x00:\x00 \x00b\x00,\x00,\x00": 1,
	} {
		if got := Text([]byte(text), 6); got != want {
			t.Errorf("%q: line %d, and not %d", text, got, want)
		}
	}
}

// TestNode: aliases count as what they stand for, at their place.
func TestNode(t *testing.T) {
	for _, row := range []struct {
		text       string
		most, line int
	}{
		{"- a\n- b\n- c\n", 4, 0},
		{"- a\n- b\n- c\n", 3, 3},
		{"- &x [a, b]\n- *x\n", 8, 0},
		{"- &x [a, b]\n- *x\n", 7, 2},
		{"- &x [a, b]\n- &y [*x, *x]\n- [*y, *y]\n", 12, 2},
		{"a: {b: c}\n", 8, 1},
		{"a: {b: c}\n", 9, 0},
		{strings.Repeat("x", 640), 10, 1},
		{"&a [*a, *a]", 5, 0},
		{"&a {*a : *a}", 6, 0},
	} {
		var root yaml.Node
		if err := yaml.Load([]byte(row.text), &root); err != nil {
			t.Fatal(row.text, err)
		}
		n, line := Node(root.Content[0], row.most), 0
		if n != nil {
			line = n.Line
		}
		if line != row.line {
			t.Errorf("%q: more than %d values in line %d, and not %d", row.text, row.most, line, row.line)
		}
	}
}

// TestNodeIsCheap: what aliases stand for is counted, and not walked through.
func TestNodeIsCheap(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x]\n")
	for i := 1; i < 500; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	var root yaml.Node
	if err := yaml.Load([]byte(b.String()), &root); err != nil {
		t.Fatal(err)
	}
	c := counter{most: 1 << 30, anchored: map[*yaml.Node]int{}}
	c.add(&root)
	if c.over == nil || len(c.anchored) > 20 {
		t.Errorf("stopped at %v with %d anchors", c.over, len(c.anchored))
	}
}

// FuzzText: no document has more nodes than its text may have values.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		"a: b", "- a\n- - b\n  - c\n", "{a, b: c, ? d}", "[a: b, {c}, [], {}]", "? - a\n  - b\n: c\n", "a:\n- b\n", "&a ? &b\n: *a\n", "- ? a\n",
		"{\"a\":b,'c':d,[e]:f,{g}:h}", "[? ]", "[?,?]", "--- a\n--- b: c\n...\n{d}", "a: |\n  b: c\n", "a: 'b\n\n  c'\n", "!!x\n- !y\n", "\xff\xfea\x00:\x00 \x00b\x00",
		"\xfe\xff\x00a\x00:\x00 \x00b", "a:\rb:\r- c\r- d\r", "a:\u0085- b\u2028- c", "- -\t- a", "{a: ,: b}", "[:,: ]", "- - - -", "-\n-\n", "?\n?\n", "?\t?\ta",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		loader, err := yaml.NewLoader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		for range len(data) + 2 {
			var doc yaml.Node
			if loader.Load(&doc) != nil {
				return
			}
			if n := nodes(&doc) - 1; n > 0 && Text(data, n-1) == 0 { // the document is none
				t.Fatalf("%q has %d nodes, and may have fewer", data, n)
			}
		}
	})
}

func nodes(n *yaml.Node) int {
	count := 1
	for _, c := range n.Content {
		count += nodes(c)
	}
	return count
}
