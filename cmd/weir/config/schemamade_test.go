package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// manual are the files where the fields of Config are explained.
var manual = []string{
	"authorization.go", "cache.go", "canary.go", "config.go", "grpc.go", "limits.go", "listener.go", "origin.go", "sink.go", "timing.go", "tracing.go",
}

// fragment is a part of a JSON schema.
type fragment map[string]any

// variableIn matches a variable, which any value may contain: its value is known at the start.
const variableIn = `\$\{`

// TestSchemaIsMade: the schema is what the structs and their comments say.
func TestSchemaIsMade(t *testing.T) {
	want, err := makeSchema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema.json", want, 0o600); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(want, Schema()) {
		t.Error("schema.json is not what the structs say: cd cmd/weir/config && go test -run TestSchemaIsMade -update .")
	}
}

// makeSchema returns the JSON schema of a configuration file. It is made of the structs that the
// loader fills, with their comments.
func makeSchema() ([]byte, error) {
	c, err := readComments()
	if err != nil {
		return nil, err
	}
	s := schema{comments: c}
	root := s.of("", reflect.ValueOf(Default()).Elem(), "")
	root["$schema"], root["title"] = "http://json-schema.org/draft-07/schema#", "weir's configuration"
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

// comments has the explanations of struct fields, by Type.Field.
type comments map[string]comment

// comment explains a key.
type comment struct {
	meaning string // its first paragraph
	whole   string
}

// schema is a schema while it is built.
type schema struct{ comments comments }

// readComments reads the comments of all struct fields.
func readComments() (comments, error) {
	c := make(comments)
	for _, name := range manual {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			t, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if fields, ok := t.Type.(*ast.StructType); ok {
				c.fields(t.Name.Name, fields)
			}
			return false
		})
	}
	return c, nil
}

// fields reads the comments of one struct. A field without a comment shares that of the field
// before it, like Cert and Key.
func (c comments) fields(of string, fields *ast.StructType) {
	last := comment{}
	for _, f := range fields.Fields.List {
		if text := f.Doc.Text(); text != "" {
			meaning, _, _ := strings.Cut(text, "\n\n")
			last = comment{withoutName(meaning), withoutName(text)}
		}
		for _, name := range f.Names {
			c[of+"."+name.Name] = last
		}
	}
}

// named is the beginning of a field's comment: users know the key, and not the field.
var named = regexp.MustCompile(`^[A-Z]\w*( and [A-Z]\w*)? (is |are )?`)

// withoutName returns a comment on one line, as a sentence that does not name the field.
func withoutName(text string) string {
	text = named.ReplaceAllString(strings.Join(strings.Fields(text), " "), "")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// of describes the value at a generic path; v holds its default, and tag is of its key.
func (s schema) of(path string, v reflect.Value, tag reflect.StructTag) fragment {
	if _, scalar := scalars[v.Type()]; scalar {
		return scalarSchema(path, v, tag)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return s.of(path, newDefault(v.Type().Elem()), tag)
	case reflect.Struct:
		n := s.object(path, v)
		if v.Type() == acks { // or its first field alone
			return fragment{"anyOf": []any{n, s.of(path+".count", v.Field(0), "")}}
		}
		return n
	case reflect.Slice:
		n := fragment{"type": "array", "items": s.of(path+"[]", newDefault(v.Type().Elem()), "")}
		if tag.Get("required") != "" {
			n["minItems"] = 1
		}
		if v.Type() == patterns {
			n["minItems"] = 1
			return fragment{"anyOf": []any{n, fragment{"type": "string"}}}
		}
		return n
	case reflect.Map:
		return fragment{"type": "object", "additionalProperties": s.of(path+".*", newDefault(v.Type().Elem()), tag)}
	}
	// our own bug: no test of Schema passes with it
	panic("config: no schema for " + v.Type().String())
}

func (s schema) object(path string, v reflect.Value) fragment {
	properties, needed := fragment{}, []string{}
	for key, f := range keysOf(v.Type()) {
		n := s.of(strings.TrimPrefix(path+"."+key, "."), v.FieldByIndex(f.Index), f.Tag)
		if text := s.comments[v.Type().Name()+"."+f.Name].whole; text != "" {
			n["description"] = text
		}
		if properties[key] = n; f.Tag.Get("required") != "" {
			needed = append(needed, key)
		}
	}
	n := fragment{"type": "object", "additionalProperties": false, "properties": properties}
	if len(needed) > 0 {
		n["required"] = needed
	}
	return n
}

// scalarSchema describes a single value. Like the loader, it accepts a variable for any.
func scalarSchema(path string, v reflect.Value, tag reflect.StructTag) fragment {
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
		if allowed := choicesOf(path, tag); allowed != nil {
			kinds = []any{fragment{"enum": allowed}}
		}
	default:
		// our own bug: no test of Schema passes with it
		panic(fmt.Sprintf("config: no schema for %T", x))
	}
	if kinds != nil {
		text = fragment{"anyOf": append(kinds, numberText(variableIn))}
	}
	if shown, _ := scalarText(v); tag.Get("reserved") != "" {
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
