package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// decoder fills a Config from a YAML tree. The library's decoder is not used because each value's
// position must be kept, every mistake must be found in one pass, and variables are replaced
// between parsing and typing.
//
// It always terminates: aliases may repeat a subtree, but the depth is that of the Go types, not of
// the document. What they repeat is bounded before (bound.go).
type decoder struct {
	*report
	env   func(string) (string, bool)
	dir   string // base of relative paths
	spent int    // bytes of the values so far, with variables written out
}

// newDecoder makes a decoder for the report's file; a nil env has no variables.
func newDecoder(r *report, env func(string) (string, bool)) *decoder {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	d := &decoder{report: r, env: env, dir: filepath.Dir(r.file)}
	if dir, err := filepath.Abs(d.dir); err == nil { // if it fails the path stays relative
		d.dir = dir
	}
	return d
}

// parseYAML returns the root of the only document; nil if the file is empty. After a syntax error
// nothing else is reported, since the rest cannot be trusted.
func parseYAML(src *report, data []byte) (*yaml.Node, error) {
	if tooCostly(src, data) {
		return nil, src.err()
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("starting the YAML loader: %w", err)
	}
	var doc, next yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntaxProblem(src, err)
	}
	switch err := loader.Load(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, syntaxProblem(src, err)
	default:
		src.addAtf(position{next.Line, next.Column}, "", "a second document begins here; only one is read")
	}
	if tooCostlyTree(src, &doc) {
		return nil, src.err()
	}
	if doc.Kind != yaml.DocumentNode {
		return &doc, nil
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

func syntaxProblem(src *report, err error) error {
	at, msg := position{1, 1}, err.Error()
	if le, ok := errors.AsType[*yaml.LoadError](err); ok {
		msg = le.Message
		if le.ContextMsg != "" {
			msg = le.ContextMsg + ": " + msg
		}
		at = position{max(1, le.Mark.Line), max(1, le.Mark.Column)}
	}
	src.addAtf(at, "", "not valid YAML: %s", msg)
	return src.err()
}

// document decodes the root. A file of comments only has a null root, and is the empty
// configuration. It returns false if there is nothing to check.
func (d *decoder) document(root *yaml.Node, c *Config) bool {
	if isNull(root) {
		return true
	}
	d.value("", root, reflect.ValueOf(c).Elem())
	return root.Kind == yaml.MappingNode
}

// value decodes n into v, which holds the default.
func (d *decoder) value(path string, n *yaml.Node, v reflect.Value) {
	d.at[path] = position{n.Line, n.Column}
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.addf(path, "YAML tags such as %s are not understood", n.Tag)
		return
	}
	if isNull(n) {
		d.addf(path, "has no value; give one or remove the key")
		return
	}
	if read, ok := scalars[v.Type()]; ok {
		d.scalar(path, n, v, read)
		return
	}
	if v.Type() == patterns && n.Kind == yaml.ScalarNode {
		one := reflect.New(patterns.Elem()).Elem()
		d.scalar(path, n, one, readString)
		v.Set(reflect.Append(reflect.MakeSlice(patterns, 0, 1), one))
		return
	}
	if v.Type() == acks && n.Kind == yaml.ScalarNode {
		d.value(path+".count", n, v.Field(0))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		fresh := newDefault(v.Type().Elem())
		d.value(path, n, fresh)
		v.Set(fresh.Addr())
	case reflect.Struct:
		d.fields(path, n, v)
	case reflect.Slice:
		d.list(path, n, v)
	case reflect.Map:
		d.entries(path, n, v)
	default:
		// our own bug: no key has a field of this kind
		panic("config: no decoder for " + v.Type().String()) // our own bug: a new type of key
	}
}

// patterns is the list that may be written as its only element.
var patterns = reflect.TypeFor[Patterns]()

// acks is the struct that may be written as its first field.
var acks = reflect.TypeFor[Acks]()

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// newDefault makes a value of type t with its defaults.
func newDefault(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	setDefaults(v)
	return v
}

// setDefaults sets the keys of a struct, and of those in it, to their defaults.
func setDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for _, f := range keysOf(v.Type()) {
		x, text := v.FieldByIndex(f.Index), f.Tag.Get("default")
		switch read := scalars[f.Type]; {
		case text == "":
			setDefaults(x)
		case f.Type.Kind() == reflect.Slice:
			x.Set(reflect.ValueOf(strings.Split(text, ",")))
		default:
			if err := read(x, text); err != nil {
				panic(fmt.Sprintf("config: the default of %s: %v", f.Name, err)) // our own bug: any test finds it
			}
		}
	}
}

// fields decodes a mapping into a struct.
func (d *decoder) fields(path string, n *yaml.Node, v reflect.Value) {
	if !d.isKind(path, n, yaml.MappingNode) {
		return
	}
	d.eachKey(path, n, func(key string, at position, value *yaml.Node) {
		sub := join(path, key)
		if text := removed[generic(sub)]; text != "" {
			d.addAtf(at, sub, "%s", text)
			return
		}
		f, ok := fieldOf(v.Type(), key)
		if !ok {
			d.unknown(at, sub, key, v.Type())
			return
		}
		field := v.FieldByIndex(f.Index)
		if f.Tag.Get("reserved") != "" {
			d.onlyDefault(sub, value, field)
			return
		}
		d.value(sub, value, field)
		if f.Tag.Get("path") != "" {
			field.SetString(d.absolute(field.String()))
		}
	})
}

// absolute returns a path relative to the directory of the configuration, wherever weir is started.
// An empty path stays empty.
func (d *decoder) absolute(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(d.dir, path)
}

func (d *decoder) unknown(at position, path, key string, of reflect.Type) {
	if key == "<<" {
		d.addAtf(at, path, "YAML merge keys are not understood")
		return
	}
	var known []string
	for k := range keysOf(of) {
		known = append(known, k)
	}
	if near, ok := Nearest(key, known); ok {
		d.addAtf(at, path, "unknown key; did you mean %q?", near)
		return
	}
	d.addAtf(at, path, "unknown key")
}

// onlyDefault reports any value other than the default in v.
func (d *decoder) onlyDefault(path string, n *yaml.Node, v reflect.Value) {
	trial := reflect.New(v.Type()).Elem()
	trial.Set(v)
	quiet := &decoder{report: newReport(d.file), env: d.env, spent: d.spent}
	quiet.value(path, n, trial)
	d.spent = quiet.spent
	d.at[path] = quiet.at[path]
	if len(quiet.problems) == 0 && same(trial, v) {
		return
	}
	d.addf(path, "not supported by this version yet; leave it out")
}

// list decodes a sequence into a slice, replacing the default.
func (d *decoder) list(path string, n *yaml.Node, v reflect.Value) {
	if !d.isKind(path, n, yaml.SequenceNode) {
		return
	}
	if most := len(n.Content); most > maxList && !unbounded[generic(path)] {
		d.addf(path, "has %d entries; at most %d are possible", most, maxList)
		return
	}
	items := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for i, c := range n.Content {
		item := newDefault(v.Type().Elem())
		d.value(fmt.Sprintf("%s[%d]", path, i), c, item)
		items = reflect.Append(items, item)
	}
	v.Set(items)
}

// entries decodes a mapping with free keys.
func (d *decoder) entries(path string, n *yaml.Node, v reflect.Value) {
	if !d.isKind(path, n, yaml.MappingNode) {
		return
	}
	m := reflect.MakeMap(v.Type())
	d.eachKey(path, n, func(key string, _ position, value *yaml.Node) {
		item := newDefault(v.Type().Elem())
		d.value(join(path, key), value, item)
		m.SetMapIndex(reflect.ValueOf(key), item)
	})
	v.Set(m)
}

// eachKey visits the keys of a mapping once each: the library leaves duplicates in the tree.
func (d *decoder) eachKey(path string, n *yaml.Node, visit func(string, position, *yaml.Node)) {
	first := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		at := position{k.Line, k.Column}
		if k.Kind == yaml.AliasNode && k.Alias != nil {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			d.addAtf(at, path, "a key must be plain text")
			continue
		}
		if len(k.Value) > maxKey {
			d.addAtf(at, path, "a key has more than %d bytes", maxKey)
			continue
		}
		if line, dup := first[k.Value]; dup {
			d.addAtf(at, join(path, k.Value), "given twice, first in line %d", line)
			continue
		}
		first[k.Value] = at.line
		visit(k.Value, at, value)
	}
}

var kindNames = map[yaml.Kind]string{
	yaml.MappingNode:  "a mapping",
	yaml.SequenceNode: "a list",
	yaml.ScalarNode:   "a single value",
}

func (d *decoder) isKind(path string, n *yaml.Node, want yaml.Kind) bool {
	if n.Kind == want {
		return true
	}
	d.addf(path, "must be %s, not %s", kindNames[want], kindNames[n.Kind])
	return false
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// join appends a key to a path; a key that would be ambiguous is quoted.
func join(path, key string) string {
	if !plainKey.MatchString(key) {
		key = fmt.Sprintf("%q", key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

var index = regexp.MustCompile(`\[\d+\]`)

// generic returns a path without its indices.
func generic(path string) string { return index.ReplaceAllString(path, "[]") }
