package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The bounds of a comparison, in time and memory.
const (
	mostDiffBytes = 1 << 20 // of an encoded body
	mostTextBytes = 8 << 20 // of its JSON
	mostPaths     = 1000    // that are listed
	mostDiffLines = 5000    // of the unified text
	mostEdits     = 1000    // lines beyond which what differs is shown as one block
	diffContext   = 3       // lines around what differs
)

// jsonDiff is what differs between two JSON texts.
type jsonDiff struct {
	changes   []pathChange
	unified   string
	truncated bool // one of them is not whole
}

// pathChange is a value that differs, or is on one side alone.
type pathChange struct {
	Path string `json:"path"` // as $.endpoints[0].priority
	From any    `json:"from,omitempty"`
	To   any    `json:"to,omitempty"`
}

// diffJSON compares two JSON texts: by the paths of their values, and by lines. a and b are what
// the two are called.
func diffJSON(from, to json.RawMessage, a, b string) (d jsonDiff, err error) {
	texts, values := [2]string{}, [2]any{}
	for i, raw := range []json.RawMessage{from, to} {
		var buf bytes.Buffer
		if len(raw) > mostTextBytes {
			return d, fmt.Errorf("a version has %d bytes as JSON, and up to %d are compared", len(raw), mostTextBytes)
		}
		if err := json.Indent(&buf, raw, "", "  "); err != nil {
			return d, errors.New("a version cannot be shown as JSON")
		}
		texts[i] = buf.String()
		decoder := json.NewDecoder(&buf)
		decoder.UseNumber()
		if err := decoder.Decode(&values[i]); err != nil {
			return d, errors.New("a version cannot be shown as JSON")
		}
	}
	d.changes = []pathChange{}
	d.paths("$", values[0], values[1])
	lines := diffLines(strings.Split(texts[0], "\n"), strings.Split(texts[1], "\n"))
	d.write(lines, a, b)
	return d, nil
}

// paths adds what differs at a path and below.
func (d *jsonDiff) paths(path string, from, to any) {
	switch x := from.(type) {
	case map[string]any:
		if y, ok := to.(map[string]any); ok {
			keys := maps.Clone(x)
			maps.Copy(keys, y)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				d.paths(path+"."+key, x[key], y[key])
			}
			return
		}
	case []any:
		if y, ok := to.([]any); ok {
			for i := range max(len(x), len(y)) {
				var v, w any
				if i < len(x) {
					v = x[i]
				}
				if i < len(y) {
					w = y[i]
				}
				d.paths(path+"["+strconv.Itoa(i)+"]", v, w)
			}
			return
		}
	default:
		if from == to { // which have the same type, and so no parts
			return
		}
	}
	if len(d.changes) == mostPaths {
		d.truncated = true
		return
	}
	d.changes = append(d.changes, pathChange{path, from, to})
}

// diffLine is a line of both texts (' '), of the first ('-') or of the second ('+').
type diffLine struct {
	kind byte
	text string
}

// diffLines compares texts by lines, by the algorithm of Myers. What is between the equal lines at
// both ends and differs too much is one block: the time and the memory are bounded.
func diffLines(a, b []string) (lines []diffLine) {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	add := func(kind byte, texts []string) {
		for _, text := range texts {
			lines = append(lines, diffLine{kind, text})
		}
	}
	add(' ', a[:head])
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	if middle, ok := myers(x, y); ok {
		lines = append(lines, middle...)
	} else {
		add('-', x)
		add('+', y)
	}
	add(' ', a[len(a)-tail:])
	return lines
}

// myers finds the shortest edit of a to b; false: it has more than mostEdits lines.
func myers(a, b []string) (lines []diffLine, ok bool) {
	most := min(len(a)+len(b), mostEdits)
	furthest := make([]int, 2*most+2) // by diagonal, from -most on
	var trace [][]int                 // the parts of furthest that each round saw
	for d := 0; d <= most; d++ {
		trace = append(trace, slices.Clone(furthest[most-d:most+d+2]))
		for k := -d; k <= d; k += 2 {
			at := most + k
			var x int
			if k == -d || k != d && furthest[at-1] < furthest[at+1] {
				x = furthest[at+1]
			} else {
				x = furthest[at-1] + 1
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			if furthest[at] = x; x >= len(a) && x-k >= len(b) {
				return retrace(a, b, trace), true
			}
		}
	}
	return nil, false
}

// retrace gives the lines of the edit that ends in the last round.
func retrace(a, b []string, trace [][]int) (lines []diffLine) {
	x, y := len(a), len(b)
	same := func(fromX, fromY int) {
		for x > fromX && y > fromY {
			x, y = x-1, y-1
			lines = append(lines, diffLine{' ', a[x]})
		}
	}
	for d := len(trace) - 1; d > 0; d-- {
		seen, k := trace[d], x-y
		from, line := k-1, diffLine{kind: '-'}
		if k == -d || k != d && seen[d+k-1] < seen[d+k+1] {
			from, line.kind = k+1, '+'
		}
		fromX := seen[d+from]
		fromY := fromX - from
		if same(fromX, fromY); line.kind == '+' {
			line.text = b[fromY]
		} else {
			line.text = a[fromX]
		}
		lines = append(lines, line)
		x, y = fromX, fromY
	}
	same(0, 0)
	slices.Reverse(lines)
	return lines
}

// write writes the lines as a unified diff.
func (d *jsonDiff) write(lines []diffLine, a, b string) {
	var out strings.Builder
	written, x, y := 0, 1, 1 // numbers of the next lines of both
	for i := 0; i < len(lines); {
		if lines[i].kind == ' ' {
			x, y, i = x+1, y+1, i+1
			continue
		}
		// a hunk: from the context before to where more equal lines follow than two contexts have
		from, to, equal := max(i-diffContext, 0), i, 0
		for j := i; j < len(lines) && equal <= 2*diffContext; j++ {
			if equal++; lines[j].kind != ' ' {
				equal, to = 0, j+1
			}
		}
		to = min(to+diffContext, len(lines))
		x, y = x-(i-from), y-(i-from)
		hunk := lines[from:to]
		if more := written + len(hunk) - mostDiffLines; more > 0 {
			hunk, d.truncated = hunk[:len(hunk)-more], true
		}
		left, right := 0, 0
		for _, l := range hunk {
			if l.kind != '+' {
				left++
			}
			if l.kind != '-' {
				right++
			}
		}
		if written == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", a, b)
		}
		written += len(hunk)
		fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@\n", x, left, y, right)
		for _, l := range hunk {
			out.WriteByte(l.kind)
			out.WriteString(l.text + "\n")
		}
		if x, y, i = x+left, y+right, to; d.truncated {
			break
		}
	}
	d.unified = out.String()
}
