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

// masked lists the keys whose values may be credentials. The keys themselves are shown.
var masked = map[string]bool{
	"origins[].grpc.headers":          true,
	"origins[].rest.headers":          true,
	"origins[].fallback.grpc.headers": true,
	"origins[].fallback.rest.headers": true,

	"origins[].canary.check.prometheus.headers": true,
	"origins[].canary.check.http.headers":       true,

	"tracing.headers": true,
}

// YAML returns the effective configuration, with defaults and with secrets masked: a file with the
// same meaning, except for the masks (TestShowReadsBack).
func (c *Config) YAML() ([]byte, error) {
	root := shown("", reflect.ValueOf(c).Elem())
	out, err := yaml.Dump(root)
	if err != nil {
		return nil, fmt.Errorf("writing the configuration as YAML: %w", err)
	}
	return visible.YAML(out), nil
}

// shown returns the tree that decodes to a value; nil for what is not there.
func shown(path string, v reflect.Value) *yaml.Node {
	if text, ok := scalarText(v); ok {
		return text
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return shown(path, v.Elem())
	case reflect.Struct:
		return shownFields(path, v)
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for i := range v.Len() {
			n.Content = append(n.Content, shown(path+"[]", v.Index(i)))
		}
		return n
	case reflect.Map:
		return shownEntries(path, v)
	}
	panic("config: no form for " + v.Type().String())
}

func shownFields(path string, v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("yaml")
		if key == "" {
			continue
		}
		if value := shown(join(path, key), v.Field(i)); value != nil {
			n.Content = append(n.Content, plainText(key), value)
		}
	}
	return n
}

func shownEntries(path string, v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		value := shown(join(path, key.String()), v.MapIndex(key))
		if masked[path] {
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
