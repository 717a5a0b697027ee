package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// json reads JSON into the same tree as YAML. The YAML parser cannot read JSON: it refuses
// surrogate pairs and long keys.
func (p *parser) json(data []byte) {
	if !utf8.Valid(data) {
		p.fail(position{}, "", "is not UTF-8")
		return
	}
	t := &tree{data: data, dec: json.NewDecoder(bytes.NewReader(data)), place: position{1, 1}}
	t.dec.UseNumber()
	for {
		t.values = 0
		n, err := t.node(0)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			p.fail(t.errorPlace(err), "", "not valid JSON: %s", err)
			return
		}
		p.document(n)
	}
}

// tree builds nodes from JSON tokens.
type tree struct {
	data   []byte
	dec    *json.Decoder
	values int // of this document

	// offset is where place is.
	offset int
	place  position
}

// advance counts lines and columns up to an offset.
func (t *tree) advance(to int) position {
	for ; t.offset < to && t.offset < len(t.data); t.offset++ {
		switch {
		case t.data[t.offset] == '\n':
			t.place = position{t.place.line + 1, 1}
		case utf8.RuneStart(t.data[t.offset]):
			t.place.column++
		}
	}
	return t.place
}

// next returns the next token, and where it begins.
func (t *tree) next() (json.Token, position, error) {
	start := int(t.dec.InputOffset())
	for start < len(t.data) && bytes.IndexByte([]byte(" \t\r\n,:"), t.data[start]) >= 0 {
		start++
	}
	where := t.advance(start)
	token, err := t.dec.Token()
	return token, where, err
}

func (t *tree) errorPlace(err error) position {
	if se, ok := errors.AsType[*json.SyntaxError](err); ok {
		return t.advance(int(se.Offset) - 1)
	}
	return t.place
}

var (
	errDepth  = fmt.Errorf("nested deeper than %d levels", maxDepth)
	errValues = fmt.Errorf("has more than %d values"+divideIt, maxValues)
	errClose  = errors.New("a bracket closes that was not opened")
)

func (t *tree) node(depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	if t.values++; t.values > maxValues {
		return nil, errValues
	}
	token, where, err := t.next()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: where.line, Column: where.column}
	switch v := token.(type) {
	case nil:
		n.Tag = "!!null"
	case bool:
		n.Tag, n.Value = "!!bool", fmt.Sprint(v)
	case json.Number:
		n.Tag, n.Value = "!!float", v.String()
	case string:
		n.Tag, n.Value = "!!str", v
	case json.Delim:
		switch v {
		case '{':
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		case '[':
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		default:
			return nil, errClose
		}
		return n, t.children(n, depth)
	}
	return n, nil
}

func (t *tree) children(n *yaml.Node, depth int) error {
	for t.dec.More() {
		c, err := t.node(depth + 1)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		n.Content = append(n.Content, c)
	}
	_, _, err := t.next() // the closing bracket
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
