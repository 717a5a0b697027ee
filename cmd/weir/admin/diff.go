package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/rogpeppe/go-internal/diff"
)

// The bounds of a comparison, in time and memory.
const (
	mostDiffBytes = 1 << 20 // of an encoded body
	mostTextBytes = 8 << 20 // of its JSON
	mostPaths     = 1000    // that are listed
	mostDiffLines = 5000    // of the unified text
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
	texts, values := [2][]byte{}, [2]any{}
	for i, raw := range []json.RawMessage{from, to} {
		var buf bytes.Buffer
		if len(raw) > mostTextBytes {
			return d, fmt.Errorf("a version has %d bytes as JSON, and up to %d are compared", len(raw), mostTextBytes)
		}
		if err := json.Indent(&buf, raw, "", "  "); err != nil {
			return d, errors.New("a version cannot be shown as JSON")
		}
		buf.WriteByte('\n')
		texts[i] = buf.Bytes()
		decoder := json.NewDecoder(bytes.NewReader(texts[i]))
		decoder.UseNumber()
		if err := decoder.Decode(&values[i]); err != nil {
			return d, errors.New("a version cannot be shown as JSON")
		}
	}
	d.changes = []pathChange{}
	Differences("$", values[0], values[1], func(path string, from, to any) {
		if d.truncated = len(d.changes) == mostPaths; !d.truncated {
			d.changes = append(d.changes, pathChange{path, from, to})
		}
	})
	unified, cut := unifiedDiff(texts[0], texts[1], a, b)
	d.unified, d.truncated = unified, d.truncated || cut
	return d, nil
}

// Differences calls found for each path at which two values of decoded JSON differ.
func Differences(path string, a, b any, found func(path string, a, b any)) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			keys := maps.Clone(x)
			maps.Copy(keys, y)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				Differences(path+"."+key, x[key], y[key], found)
			}
			return
		}
	case []any:
		if y, ok := b.([]any); ok {
			for i := range max(len(x), len(y)) {
				var v, w any
				if i < len(x) {
					v = x[i]
				}
				if i < len(y) {
					w = y[i]
				}
				Differences(path+"["+strconv.Itoa(i)+"]", v, w, found)
			}
			return
		}
	default:
		if a == b { // which have the same type, and so no parts
			return
		}
	}
	found(path, a, b)
}

// unifiedDiff compares two texts by lines, in time n log n. A diff that is too long is cut.
func unifiedDiff(from, to []byte, a, b string) (text string, truncated bool) {
	unified := diff.Diff(a, from, b, to)
	if unified == nil {
		return "", false
	}
	unified = unified[len("diff "+a+" "+b+"\n"):] // its first line has what the next two have
	end := 0
	for range mostDiffLines {
		line := bytes.IndexByte(unified[end:], '\n')
		if line < 0 {
			return string(unified), false
		}
		end += line + 1
	}
	return string(unified[:end]), end < len(unified)
}
