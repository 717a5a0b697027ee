package config

import (
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-xds/weir/cmd/weir/visible"
)

// Masked replaces a secret.
const Masked = "***"

// YAML returns the effective configuration, with defaults and with secrets masked: a file with the
// same meaning, except for the masks (TestShowReadsBack).
func (c *Config) YAML() ([]byte, error) {
	out, err := yaml.Dump(shown(reflect.ValueOf(c).Elem(), ""))
	if err != nil {
		return nil, fmt.Errorf("writing the configuration as YAML: %w", err)
	}
	return visible.YAML(out), nil
}

// shown returns the tree that decodes to a value; nil for what is not there. tag is of its key.
func shown(v reflect.Value, tag reflect.StructTag) *yaml.Node {
	if text, ok := scalarText(v); ok {
		return text
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return shown(v.Elem(), tag)
	case reflect.Struct:
		return shownFields(v)
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for i := range v.Len() {
			n.Content = append(n.Content, shown(v.Index(i), ""))
		}
		return n
	case reflect.Map:
		return shownEntries(v, tag.Get("secret") != "")
	}
	panic("config: no form for " + v.Type().String()) // our own bug: a new type of key
}

func shownFields(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for key, f := range keysOf(v.Type()) {
		if value := shown(v.FieldByIndex(f.Index), f.Tag); value != nil {
			n.Content = append(n.Content, plainText(key), value)
		}
	}
	return n
}

func shownEntries(v reflect.Value, masked bool) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		value := shown(v.MapIndex(key), "")
		if masked {
			value = text(Masked)
		}
		name := text(key.String())
		name.Value = key.String() // variables are replaced in values only
		n.Content = append(n.Content, name, value)
	}
	return n
}

// scalarText is the inverse of the scalars table.
func scalarText(v reflect.Value) (*yaml.Node, bool) {
	switch x := v.Interface().(type) {
	case string:
		return text(x), true
	case bool:
		return plainText(strconv.FormatBool(x)), true
	case int:
		return plainText(strconv.Itoa(x)), true
	case float64:
		return plainText(strconv.FormatFloat(x, 'g', -1, 64)), true
	case Bytes:
		return plainText(x.String()), true
	case time.Duration:
		return plainText(x.String()), true
	case fs.FileMode:
		return text(fmt.Sprintf("%04o", uint32(x))), true
	}
	return nil, false
}

// text returns a string node, quoted if it would be read as something else, or something in it
// cannot be seen. Dollar signs are doubled, since the reader replaces variables.
func text(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.ReplaceAll(s, "$", "$$")}
	if visible.Any(s) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func plainText(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: s}
}

// ChangedYAML returns the keys of the effective configuration that differ from their defaults, with
// secrets masked. It has the same meaning as YAML.
func (c *Config) ChangedYAML() ([]byte, error) {
	out, err := yaml.Dump(differing(reflect.ValueOf(c).Elem(), reflect.ValueOf(c.plain()).Elem(), ""))
	if err != nil {
		return nil, fmt.Errorf("writing the configuration as YAML: %w", err)
	}
	return visible.YAML(out), nil
}

// plain is what the configuration would be with its listeners and origins and none of their keys.
func (c *Config) plain() *Config {
	p := Default()
	p.Listeners = make([]Listener, len(c.Listeners))
	for i := range p.Listeners {
		setDefaults(reflect.ValueOf(&p.Listeners[i]).Elem())
	}
	p.Origins = slices.Clone(c.Origins)
	for i := range p.Origins {
		p.Origins[i].GroupBy, p.Origins[i].Default = nil, false // depend on other keys by default
		p.Origins[i].Canary.Urgent = slices.Clone(p.Origins[i].Canary.Urgent)
	}
	p.normalise()
	for i := range p.Origins {
		var o Origin
		setDefaults(reflect.ValueOf(&o).Elem())
		normaliseTypes(o.Canary.Urgent)
		o.GroupBy, o.Default = p.Origins[i].GroupBy, p.Origins[i].Default
		p.Origins[i] = o
	}
	return p
}

// differing returns the tree of a value without what is as in its default. What is there only
// because a list or a pointer has it stays, as an empty mapping.
func differing(v, plain reflect.Value, tag reflect.StructTag) *yaml.Node {
	switch v.Kind() {
	case reflect.Pointer:
		switch {
		case v.IsNil():
			return nil
		case plain.IsNil():
			return differing(v.Elem(), newDefault(v.Type().Elem()), tag)
		}
		return differing(v.Elem(), plain.Elem(), tag)
	case reflect.Struct:
		if _, scalar := scalarText(v); !scalar {
			return differingFields(v, plain)
		}
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for i := range v.Len() {
			item := newDefault(v.Type().Elem())
			if v.Len() == plain.Len() {
				item = plain.Index(i)
			}
			n.Content = append(n.Content, differing(v.Index(i), item, ""))
		}
		return n
	}
	return shown(v, tag)
}

func differingFields(v, plain reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for key, f := range keysOf(v.Type()) {
		is, was := v.FieldByIndex(f.Index), plain.FieldByIndex(f.Index)
		if sameNode(shown(is, f.Tag), shown(was, f.Tag)) {
			continue
		}
		if value := differing(is, was, f.Tag); value != nil {
			n.Content = append(n.Content, plainText(key), value)
		}
	}
	return n
}

// sameNode reports whether two trees are equal; nil is what is not there.
func sameNode(a, b *yaml.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Kind == b.Kind && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, sameNode)
}
