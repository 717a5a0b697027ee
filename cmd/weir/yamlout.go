package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"

	"github.com/weir-xds/weir/cmd/weir/visible"
)

// writeYAML prints JSON as YAML, with its order of fields and its form of numbers. The tree is made
// here, since the YAML parser cannot read all JSON: it refuses surrogate pairs, long keys and some
// control characters.
func writeYAML(w io.Writer, text []byte) error {
	if !json.Valid(text) { // which bounds how deeply it is nested
		return errors.New("turning JSON into YAML: it is not valid JSON")
	}
	decode := json.NewDecoder(bytes.NewReader(text))
	decode.UseNumber()
	out, err := yaml.Dump(yamlNode(decode))
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	_, err = w.Write(visible.YAML(out))
	return err
}

// yamlNode makes a node of the next value of valid JSON.
func yamlNode(decode *json.Decoder) *yaml.Node {
	token, _ := decode.Token() // it is valid
	switch v := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if v == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for decode.More() {
			n.Content = append(n.Content, yamlNode(decode))
		}
		_, _ = decode.Token() // the closing bracket
		return n
	case string:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}
		if visible.Any(v) {
			n.Style = yaml.DoubleQuotedStyle // only there it can be shown
		}
		return n
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(token)}
}
