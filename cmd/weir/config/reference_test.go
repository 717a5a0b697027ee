package config

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the reference of deploy/docs/configuration.md")

const (
	referencePage  = "../../../deploy/docs/configuration.md"
	referenceBegin = "<!-- Generated: cd cmd/weir/config && go test -run TestReference -update . -->\n"
	referenceEnd   = "<!-- End of the generated part. -->\n"
)

// TestReference: the page's reference by key is what the comments of the structs say.
func TestReference(t *testing.T) {
	text, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), referenceBegin)
	_, after, ends := strings.Cut(rest, referenceEnd)
	if !begins || !ends {
		t.Fatalf("configuration.md does not have %q and %q", referenceBegin, referenceEnd)
	}
	want := before + referenceBegin + "\n" + reference(t) + referenceEnd + after
	if *update {
		if err := os.WriteFile(referencePage, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("configuration.md is not what the comments say: go test -run TestReference -update .; it should have\n%s", reference(t))
	}
	if n := len(strings.Fields(want)); n > 4000 {
		t.Errorf("configuration.md has %d words, and may have 4000", n)
	}
}

// TestReferenceExplainsEveryKey: each key has a sentence, and the default that it names is the one
// that the loader uses.
func TestReferenceExplainsEveryKey(t *testing.T) {
	r := newReference(t)
	keys := 0
	r.visit = func(path string, v reflect.Value, c comment) {
		keys++
		if n := len(strings.Fields(c.meaning)); n < 2 || n > 45 || !strings.HasSuffix(c.meaning, ".") {
			t.Errorf("%s is explained as %q", path, c.meaning)
		}
		if states := defaultIn(c.whole); !agrees(states, v) && !tagged(path, "required") {
			t.Errorf("%s: the comment states the default %q, and it is %q", path, states, shownDefault(v))
		}
	}
	r.all()
	if keys < 200 {
		t.Errorf("only %d keys are found", keys)
	}
}

// referencing writes the reference. Each section is a table of the keys of one struct.
type referencing struct {
	comments comments
	out      strings.Builder
	sections []section               // to write
	shown    map[reflect.Type]string // the section that has the keys of a struct
	visit    func(path string, v reflect.Value, c comment)
}

type section struct {
	path string
	v    reflect.Value // its struct, at the defaults
	text string        // of its first line
}

func newReference(t *testing.T) *referencing {
	t.Helper()
	c, err := readComments()
	if err != nil {
		t.Fatal(err)
	}
	return &referencing{comments: c, shown: map[reflect.Type]string{}}
}

func reference(t *testing.T) string {
	t.Helper()
	r := newReference(t)
	r.all()
	return r.out.String()
}

func (r *referencing) all() {
	r.sections = []section{{path: "", v: reflect.ValueOf(Default()).Elem()}}
	for len(r.sections) > 0 {
		s := r.sections[0]
		r.sections = r.sections[1:]
		r.section(s)
	}
}

func (r *referencing) section(s section) {
	title := s.path
	if title == "" {
		title = "Top level"
	}
	fmt.Fprintf(&r.out, "### %s\n\n", title)
	if s.text != "" {
		fmt.Fprintf(&r.out, "%s\n\n", s.text)
	}
	r.out.WriteString("|Key|Type|Default|Reload|Meaning|\n|---|---|---|---|---|\n")
	queued := r.sections
	r.sections = nil
	r.rows(s.path, "", s.v)
	r.sections = append(r.sections, queued...)
	r.out.WriteString("\n")
}

// rows writes a row for each key of a struct; under is the path of the keys within the section.
func (r *referencing) rows(path, under string, v reflect.Value) {
	for i := 0; i < v.NumField(); i++ {
		f := v.Type().Field(i)
		key := f.Tag.Get("yaml")
		at := strings.TrimPrefix(path+"."+key, ".")
		if key == "" || f.Tag.Get("reserved") != "" {
			continue
		}
		c, value := r.comments[v.Type().Name()+"."+f.Name], v.Field(i)
		if r.visit != nil {
			r.visit(at, value, c)
		}
		keys := "`" + under + key + "`"
		for i+1 < v.NumField() && r.comments[v.Type().Name()+"."+v.Type().Field(i+1).Name] == c { // Cert and Key
			i++
			keys += ", `" + under + v.Type().Field(i).Tag.Get("yaml") + "`"
		}
		below, of := structOf(at, value)
		kind := kindOf(value.Type(), f.Tag.Get("path") != "")
		switch {
		case !of.IsValid():
		case path == "":
			r.sections = append(r.sections, section{below, of, cell(c.meaning)})
			continue
		case r.shown[of.Type()] != "":
			kind = r.shown[of.Type()]
		case of.NumField() > 4:
			r.shown[of.Type()] = "as [" + below + "](#" + anchorOf(below) + ")"
			r.sections = append(r.sections, section{below, of, ""})
			kind = "[keys](#" + anchorOf(below) + ")"
		default:
			r.shown[of.Type()] = "as `" + below + "`"
			r.row(keys, kind, at, c)
			r.rows(below, under+key+".", of)
			continue
		}
		r.row(keys, kind, at, c)
	}
}

func (r *referencing) row(keys, kind, path string, c comment) {
	how := ReloadOf(path)
	if how == "" { // the key that identifies an element of a list
		how = ReloadOf(path[:strings.LastIndexByte(path, '.')])
	}
	fmt.Fprintf(&r.out, "|%s|%s|%s|%s|%s|\n", keys, kind, defaultCell(path, c), how, cell(c.meaning))
}

// structOf returns the struct below a key, and its path.
func structOf(path string, v reflect.Value) (string, reflect.Value) {
	if _, scalar := scalars[v.Type()]; scalar {
		return "", reflect.Value{}
	}
	switch v.Kind() {
	case reflect.Struct:
		return path, v
	case reflect.Pointer:
		return structOf(path, newDefault(v.Type().Elem()))
	case reflect.Slice:
		return structOf(path+"[]", newDefault(v.Type().Elem()))
	case reflect.Map:
		return structOf(path+".*", newDefault(v.Type().Elem()))
	}
	return "", reflect.Value{}
}

// kindOf is the cell of a key's type.
func kindOf(t reflect.Type, file bool) string {
	switch {
	case file:
		return "path"
	case t == reflect.TypeFor[int](), t == reflect.TypeFor[float64]():
		return "number"
	case t == reflect.TypeFor[Bytes]():
		return "size"
	case t == reflect.TypeFor[fs.FileMode]():
		return "mode"
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() == reflect.Map || t.Kind() == reflect.Struct || t.Kind() == reflect.Pointer:
		return "map"
	}
	return strings.ToLower(t.Name())
}

var stated = regexp.MustCompile(` ?Default: (.+)\.$`)

// defaultIn returns the default that a comment states.
func defaultIn(text string) string {
	if m := stated.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

func defaultCell(path string, c comment) string {
	if tagged(path, "required") {
		return "required"
	}
	text, more, _ := strings.Cut(defaultIn(c.whole), ", ")
	if strings.HasPrefix(text, "[") {
		return "`" + defaultIn(c.whole) + "`"
	}
	if text == "empty" && more != "" {
		return more
	}
	return strings.TrimSuffix(text+", "+more, ", ")
}

// cell returns a sentence without its default and rule ids.
func cell(text string) string {
	text = strings.TrimSuffix(stated.ReplaceAllString(text, ""), " Required.")
	return strings.ReplaceAll(regexp.MustCompile(` \([A-Z]+-\d+[^)]*\)`).ReplaceAllString(text, ""), "|", `\|`)
}

// shownDefault returns the default that the loader uses; "" if it is empty.
func shownDefault(v reflect.Value) string {
	if n, scalar := scalarText(v); scalar {
		return n.Value
	}
	if list, ok := v.Interface().([]string); ok && len(list) > 0 {
		return "[" + strings.Join(list, ", ") + "]"
	}
	return ""
}

// agrees reports whether a comment's default is the one that the loader uses.
func agrees(stated string, v reflect.Value) bool {
	first, _, _ := strings.Cut(stated, ", ")
	if d, ok := v.Interface().(time.Duration); ok {
		said, err := time.ParseDuration(first)
		return err == nil && said == d
	}
	is := shownDefault(v)
	return stated == is || first == is || is == ""
}

// anchorOf is the anchor of a heading.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(".[]*", r) {
			return -1
		}
		return r
	}, heading)
}
