package config

import (
	"embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"strings"
	"time"
)

// manual is where the fields of Config are explained.
//
//go:embed authorization.go canary.go config.go limits.go listener.go origin.go sink.go tracing.go
var manual embed.FS

// fragment is a part of a JSON schema.
type fragment map[string]any

// variableIn matches a variable, which any value may contain: its value is known at the start.
const variableIn = `\$\{`

// Schema returns the JSON schema of a configuration file, for editors. It is made of the structs
// that the loader fills, with their comments. It cannot check everything that Parse does, and
// requires plain YAML: a string that YAML takes for a number has to be quoted.
func Schema() ([]byte, error) {
	s := schema{comments: make(map[string]string)}
	if err := s.read(); err != nil {
		return nil, err
	}
	root := s.of("", reflect.ValueOf(Default()).Elem())
	root["$schema"], root["title"] = "http://json-schema.org/draft-07/schema#", "weir's configuration"
	return json.MarshalIndent(root, "", "  ")
}

// schema is a schema while it is built.
type schema struct{ comments map[string]string } // by Type.Field

// read reads the comments of all struct fields.
func (s schema) read() error {
	files, err := fs.Glob(manual, "*.go")
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := manual.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			t, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if fields, ok := t.Type.(*ast.StructType); ok {
				s.fields(t.Name.Name, fields)
			}
			return false
		})
	}
	return nil
}

// fields reads the comments of one struct. A field without a comment shares that of the field
// before it, like Cert and Key.
func (s schema) fields(of string, fields *ast.StructType) {
	last := ""
	for _, f := range fields.Fields.List {
		if text := strings.Join(strings.Fields(f.Doc.Text()), " "); text != "" {
			last = text
		}
		for _, name := range f.Names {
			s.comments[of+"."+name.Name] = last
		}
	}
}

// of describes the value at a generic path; v holds its default.
func (s schema) of(path string, v reflect.Value) fragment {
	if _, scalar := scalars[v.Type()]; scalar {
		return scalarSchema(path, v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if unsupported[path] {
			return fragment{"not": fragment{}}
		}
		return s.of(path, newDefault(v.Type().Elem()))
	case reflect.Struct:
		n := s.object(path, v)
		if v.Type() == acks { // or its first field alone
			return fragment{"anyOf": []any{n, s.of(path+".count", v.Field(0))}}
		}
		return n
	case reflect.Slice:
		n := fragment{"type": "array"}
		if n["items"] = s.of(path+"[]", newDefault(v.Type().Elem())); unsupported[path] {
			n["maxItems"] = 0
		} else if required[path] {
			n["minItems"] = 1
		}
		if v.Type() == patterns {
			n["minItems"] = 1
			return fragment{"anyOf": []any{n, fragment{"type": "string"}}}
		}
		return n
	case reflect.Map:
		return fragment{"type": "object", "additionalProperties": s.of(path+".*", newDefault(v.Type().Elem()))}
	}
	// our own bug: no test of Schema passes with it
	panic("config: no schema for " + v.Type().String())
}

func (s schema) object(path string, v reflect.Value) fragment {
	properties, needed := fragment{}, []string{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := f.Tag.Get("yaml")
		if key == "" {
			continue
		}
		at := strings.TrimPrefix(path+"."+key, ".")
		n := s.of(at, v.Field(i))
		if text := s.comments[v.Type().Name()+"."+f.Name]; text != "" {
			n["description"] = text
		}
		if properties[key] = n; required[at] {
			needed = append(needed, key)
		}
	}
	n := fragment{"type": "object", "additionalProperties": false, "properties": properties}
	if len(needed) > 0 {
		n["required"] = needed
	}
	return n
}

// required are the keys without a default.
var required = map[string]bool{
	"origins": true, "origins[].name": true, "origins[].grpc.addresses": true, "origins[].files.path": true, "sinks[].path": true,
	"origins[].rest.urls": true, "origins[].fallback.files.path": true, "origins[].fallback.grpc.addresses": true,
	"origins[].fallback.rest.urls": true, "authorization[].who": true,
	"origins[].canary.check.prometheus.url": true, "origins[].canary.check.prometheus.query": true,
	"origins[].canary.check.prometheus.threshold": true, "origins[].canary.check.http.url": true,
}

// scalarSchema describes a single value. Like the loader, it accepts a variable for any.
func scalarSchema(path string, v reflect.Value) fragment {
	text := fragment{"type": "string"}
	var kinds []any // of which the value has one
	switch x := v.Interface().(type) {
	case bool:
		kinds = []any{fragment{"type": "boolean"}, fragment{"enum": []string{"true", "false"}}}
	case int:
		kinds = []any{fragment{"type": "integer", "minimum": 0}, numberText(`^[0-9]+$`)}
	case float64:
		kinds = []any{fragment{"type": "number", "minimum": 0}, numberText(`^[0-9.]+(e[+-]?[0-9]+)?$`)}
	case Bytes:
		kinds = []any{fragment{"type": "integer", "minimum": 0}, numberText(`^[0-9]+ *([KMGT]i?B|B)?$`)}
	case time.Duration:
		kinds = []any{fragment{"const": 0}, numberText(`^(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h))+$|^0$`)}
	case fs.FileMode:
		kinds = []any{numberText(`^[0-7]{1,4}$`)}
	case string:
		allowed, limited := choices[path]
		if !limited {
			break
		}
		if x == "" {
			allowed = append([]string{""}, allowed...)
		}
		kinds = []any{fragment{"enum": allowed}}
	default:
		// our own bug: no test of Schema passes with it
		panic(fmt.Sprintf("config: no schema for %T", x))
	}
	if kinds != nil {
		text = fragment{"anyOf": append(kinds, numberText(variableIn))}
	}
	if shown, _ := scalarText(v); unsupported[path] {
		text = fragment{"const": v.Interface()}
		if _, ok := v.Interface().(time.Duration); ok {
			text = fragment{"enum": []any{0, "0", shown.Value}}
		}
	} else if shown.Value != "" && !strings.HasSuffix(path, "[]") && !strings.HasSuffix(path, ".*") {
		text["default"] = defaultOf(v, shown.Value)
	}
	return text
}

// defaultOf returns a default as written in a file.
func defaultOf(v reflect.Value, shown string) any {
	switch x := v.Interface().(type) {
	case bool, int, float64:
		return x
	}
	return shown
}

func numberText(pattern string) fragment { return fragment{"type": "string", "pattern": pattern} }
