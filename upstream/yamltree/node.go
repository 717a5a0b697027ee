package yamltree

import "go.yaml.in/yaml/v4"

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
