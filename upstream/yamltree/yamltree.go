package yamltree

import (
	"bytes"

	"go.yaml.in/yaml/v4"
)

const (
	// ofMapping is what a mapping counts: it becomes a message or a struct, which has several times
	// the size of a node.
	ofMapping = 3
	// ofText is how many bytes of text count as one value more.
	ofText = 64
)

// Node counts the values of a tree with its aliases written out. It returns the node with which
// there are more than so many; nil: there are not. A mapping counts three, and a long text one for
// each 64 bytes. An alias in what it repeats counts one: whoever walks the tree bounds the depth.
func Node(root *yaml.Node, most int) *yaml.Node {
	c := counter{most: most, anchored: map[*yaml.Node]int{}}
	c.add(root)
	return c.over
}

type counter struct {
	most  int
	count int // at most twice most
	over  *yaml.Node
	// What the nodes with anchors count. An alias comes after its anchor.
	anchored map[*yaml.Node]int
}

func (c *counter) add(n *yaml.Node) {
	before := c.count
	c.count += 1 + len(n.Value)/ofText
	switch n.Kind {
	case yaml.MappingNode:
		c.count += ofMapping - 1
	case yaml.AliasNode:
		c.count += c.anchored[n.Alias]
	}
	if c.count > c.most {
		c.over = n
	}
	for i := 0; i < len(n.Content) && c.over == nil; i++ {
		c.add(n.Content[i])
	}
	if n.Anchor != "" {
		c.anchored[n] = c.count - before
	}
}

// Text returns the first line up to which a document of the text may have more than so many values,
// or 0. It never counts fewer values than the library makes nodes (FuzzText). In quoted texts and
// comments it counts what would be values elsewhere, and in collections with brackets up to twice
// as many as there are.
func Text(data []byte, most int) (line int) {
	line = 1
	for count, i := 1, 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '\n':
			line++
			continue
		case c == '-' && startsDocument(data, i):
			count = 1
			continue
		default:
			count += begun(data, i)
		}
		if count > most {
			return line
		}
	}
	return 0
}

// startsDocument reports whether a line of three dashes begins here. The documents of a file are
// read one after the other.
func startsDocument(data []byte, i int) bool {
	return (i == 0 || data[i-1] == '\n') && bytes.HasPrefix(data[i:], []byte("---")) && endsWord(data, i+3)
}

// begun returns how many nodes a character can begin, those included that are left out.
func begun(data []byte, i int) int {
	switch data[i] {
	case ',': // a key and its value
		return 2
	case '[': // the list and its first value
		return 2
	case '{': // the mapping, a key and its value
		return 3
	case ':': // a value, and the mapping that it is the first of
		if endsWord(data, i+1) || i > 0 && bytes.IndexByte([]byte(`"']}`), data[i-1]) >= 0 {
			return 2
		}
	case '?': // the same, and the value that may be left out
		if endsWord(data, i+1) {
			return 3
		}
	case '-': // a value; its list was counted where it is the value of something
		if endsWord(data, i+1) {
			return 1
		}
	}
	return 0
}

// endsWord reports whether what is at i ends the word before it. UTF-16 has a zero there, and the
// last two bytes begin the line breaks that are not ASCII.
func endsWord(data []byte, i int) bool {
	return i >= len(data) || bytes.IndexByte([]byte("\x00 \t\r\n,[]{}\xc2\xe2"), data[i]) >= 0
}
