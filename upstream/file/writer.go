package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/weir-xds/weir/relay/xds"
)

// writer converts a YAML tree to JSON, with every key and value on a line of its own. So the line
// in an error of the JSON parser leads back to the node: it is found by writing once more.
type writer struct {
	b      []byte
	most   int        // bytes; bounds what aliases expand to
	values int        // so far, as maxValues counts them
	anys   int        // around what is being written
	nested *yaml.Node // the first in more than xds.MaxAnys; nil: none
	lines  int        // written so far
	want   int        // the line to find; 0: none

	steps []step
	// where and found are the position and path of the line wanted, or of err.
	where position
	found []step
	err   error
}

// step is a key, or an index if the key is empty.
type step struct {
	key   string
	index int
}

// maxDepth is more than any configuration needs, and ends an alias to its own parent.
const maxDepth = 256

func (w *writer) done() bool { return w.err != nil || w.found != nil }

func (w *writer) fail(n *yaml.Node, format string, args ...any) {
	if !w.done() {
		w.err = fmt.Errorf(format, args...)
		w.mark(n)
	}
}

func (w *writer) mark(n *yaml.Node) {
	w.where, w.found = at(n), append([]step{}, w.steps...)
}

// begin starts a line for a node.
func (w *writer) begin(n *yaml.Node) {
	w.b = append(w.b, '\n')
	w.lines++
	if w.lines+1 == w.want {
		w.mark(n)
	}
	if len(w.b) > w.most {
		w.fail(n, "with its aliases written out the file is longer than the limit of %d bytes", w.most)
	}
	if w.values++; w.values > maxValues {
		w.fail(n, "the resource has more than %d values with its aliases written out", maxValues)
	}
}

// trail returns the field path of the place found.
func (w *writer) trail() string {
	var b strings.Builder
	for _, s := range w.found {
		switch {
		case s.key == "":
			fmt.Fprintf(&b, "[%d]", s.index)
		case b.Len() > 0:
			b.WriteString("." + s.key)
		default:
			b.WriteString(s.key)
		}
	}
	return b.String()
}

func (w *writer) value(n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = target(n)
	}
	w.begin(n)
	switch {
	case w.done():
	case len(w.steps) > maxDepth:
		w.fail(n, "is nested deeper than %d levels", maxDepth)
	case n.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(n.Tag, "!!"):
		w.fail(n, "YAML tags such as %s are not understood", n.Tag)
	case n.Kind == yaml.MappingNode:
		w.mapping(n)
	case n.Kind == yaml.SequenceNode:
		w.sequence(n)
	case n.Kind == yaml.ScalarNode:
		w.scalar(n)
	default:
		w.fail(n, "is neither a mapping, nor a list, nor a value")
	}
}

// ignoreTag marks a key that Envoy's loader leaves out: its value is there for its anchors.
const ignoreTag = "!ignore"

func (w *writer) mapping(n *yaml.Node) {
	w.values += ofMessage - 1
	if child(n, "@type") != nil {
		w.anys++
		defer func() { w.anys-- }()
	}
	if w.anys > xds.MaxAnys && w.nested == nil {
		w.nested = n
	}
	w.b = append(w.b, '{')
	first := true
	for i := 0; i+1 < len(n.Content) && !w.done(); i += 2 {
		k := target(n.Content[i])
		if k.Tag == ignoreTag {
			continue
		}
		if k.Kind != yaml.ScalarNode {
			w.fail(n.Content[i], "a key must be plain text")
			return
		}
		w.steps = append(w.steps, step{key: k.Value})
		if !first {
			w.b = append(w.b, ',')
		}
		first = false
		w.begin(n.Content[i])
		if k.Tag == "!!merge" {
			w.fail(n.Content[i], "YAML merge keys (<<) are not understood")
		}
		w.string(k.Value)
		w.b = append(w.b, ':')
		w.value(n.Content[i+1])
		w.steps = w.steps[:len(w.steps)-1]
	}
	w.b = append(w.b, '}')
}

func (w *writer) sequence(n *yaml.Node) {
	w.b = append(w.b, '[')
	for i := 0; i < len(n.Content) && !w.done(); i++ {
		w.steps = append(w.steps, step{index: i})
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.value(n.Content[i])
		w.steps = w.steps[:len(w.steps)-1]
	}
	w.b = append(w.b, ']')
}

var (
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	errNumber  = errors.New("is no number")
)

func (w *writer) scalar(n *yaml.Node) {
	switch n.Tag {
	case "!!null":
		w.b = append(w.b, "null"...)
	case "!!bool":
		w.b = strconv.AppendBool(w.b, strings.EqualFold(n.Value, "true"))
	case "!!int", "!!float":
		s, err := number(n.Value)
		if err != nil {
			w.fail(n, "%q %w", n.Value, err)
			return
		}
		w.b = append(w.b, s...)
	default: // strings, and what YAML takes for times
		w.string(n.Value)
	}
}

// number writes a YAML number as JSON, which has no bases, underscores or infinities.
func number(s string) (string, error) {
	if jsonNumber.MatchString(s) {
		return s, nil
	}
	if i, err := strconv.ParseInt(s, 0, 64); err == nil {
		return strconv.FormatInt(i, 10), nil
	}
	if u, err := strconv.ParseUint(s, 0, 64); err == nil {
		return strconv.FormatUint(u, 10), nil
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(strings.Replace(s, ".inf", "inf", 1), "_", ""), 64)
	if s == ".nan" || s == ".NaN" || s == ".NAN" {
		f, err = math.NaN(), nil
	}
	switch {
	case err != nil:
		return "", errNumber
	case math.IsNaN(f):
		return `"NaN"`, nil
	case math.IsInf(f, 1):
		return `"Infinity"`, nil
	case math.IsInf(f, -1):
		return `"-Infinity"`, nil
	}
	return strconv.FormatFloat(f, 'g', -1, 64), nil
}

func (w *writer) string(s string) {
	b, err := json.Marshal(s)
	if err != nil { // strings always marshal
		panic(err)
	}
	w.b = append(w.b, b...)
}
