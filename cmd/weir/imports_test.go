package main_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/weir-xds/weir"

// edges says which rooms a room may import, besides itself: the shape of the program, to be changed
// only together with the design.
var edges = map[string][]string{
	"constraints": nil,
	"metrics":     nil,
	"relay":       {"constraints", "metrics"},
	"upstream":    {"relay", "constraints", "metrics"},
	"downstream":  {"relay", "constraints", "metrics"},
	"cmd":         {"relay", "upstream", "downstream", "constraints", "metrics", "deploy"},
	"deploy":      nil,
}

// leaves are packages of pure values and rules, and the one that only looks, and what of ours each
// may import: nothing else, not even of its own room.
var leaves = map[string][]string{
	"downstream/authz":    nil,
	"downstream/identity": nil,

	"relay/cursor":  {"relay/plan", "relay/state", "relay/xds", "constraints"},
	"relay/gate":    nil,
	"relay/history": {"relay/xds", "metrics"},
	"relay/intern":  nil,
	"relay/node":    {"constraints"},
	"relay/plan":    {"relay/state", "relay/xds"},
	"relay/state":   {"relay/xds", "constraints"},
	"relay/xds":     {"relay/intern", "constraints"},
	looker:          {"relay", "relay/xds", "constraints", "metrics"},
}

// looker is the package that says what a table holds: nothing of the table may depend on it.
const looker = "relay/inspect"

// topLevel is all that may stand beside the dot files.
var topLevel = []string{
	"cmd", "relay", "upstream", "downstream", "constraints", "metrics", "deploy",
	"go.mod", "go.sum", "README.md", "Makefile", "LICENSE",
}

// fakes is the package of scripted origins and recording clients: no shipped file may import it,
// hence it counts as test code and need not be as pure as the rest of relay.
const fakes = "relay/relaytest"

// runner starts the real binary for tests, and is test code too.
const runner = "cmd/weir/weirtest"

// loadTool measures servers from outside: it may not know them from within.
const loadTool = "cmd/weirload"

// clockFuncs read or wait for the clock; relay takes the time as an argument instead.
var clockFuncs = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}

// TestShape parses every shipped Go file and fails on an import, a goroutine, a clock or a context
// that does not belong where it stands.
func TestShape(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := eachShipped(root, func(name, rel string) error {
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files++
		for _, complaint := range inspect(rel, src) {
			t.Error(complaint)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Errorf("only %d Go files found: is this the right directory?", files)
	}
}

// eachShipped calls f with each shipped Go file below root, which is the module's: its path, and the
// same in the module.
func eachShipped(root string, f func(name, rel string) error) error {
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir():
			return enter(name, rel)
		case !strings.HasSuffix(rel, ".go"), strings.HasSuffix(rel, "_test.go"):
			return nil
		}
		return f(name, rel)
	})
}

// enter skips what the go command skips, and nested modules, which are not part of the product.
func enter(name, rel string) error {
	if rel == "." {
		return nil
	}
	base := path.Base(rel)
	if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// inspect gives what is wrong with one shipped file, by its path in the module.
func inspect(rel string, src []byte) []string {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, rel, src, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	var complaints []string
	complain := func(n ast.Node, format string, args ...any) {
		complaints = append(complaints, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), fmt.Sprintf(format, args...)))
	}
	dir := path.Dir(rel)
	room, _, _ := strings.Cut(dir, "/")
	allowed, known := edges[room]
	if !known {
		complain(file, "no Go package may live in %s", dir)
	}
	pure := room == "relay" && !within(dir, fakes)

	imported := map[string]string{} // path by the name it has in this file
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			complain(spec, "%v", err)
			continue
		}
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = p
		if target, ours := strings.CutPrefix(p, module+"/"); ours {
			to, _, _ := strings.Cut(target, "/")
			if to != room && !slices.Contains(allowed, to) {
				complain(spec, "%s may not import %s", room, target)
			}
			if may, leaf := leaves[dir]; leaf && (to == room || slices.Contains(allowed, to)) && !slices.Contains(may, target) {
				complain(spec, "%s may not import %s", dir, target)
			}
			if target == looker && room == "relay" {
				complain(spec, "%s may not import %s", dir, target)
			}
			if within(dir, loadTool) && !within(target, loadTool) {
				complain(spec, "%s may not import %s", loadTool, target)
			}
			if within(target, fakes) && !within(dir, fakes) && !within(dir, runner) {
				complain(spec, "only tests may import %s", fakes)
			}
		}
		if pure && within(p, "google.golang.org/grpc") {
			complain(spec, "relay speaks no gRPC")
		}
		if name == "." {
			complain(spec, "an import under the name . hides what is used")
		}
	}

	for _, line := range wideComments(src) {
		complaints = append(complaints, fmt.Sprintf("%s:%d: a comment has more than %d columns", rel, line, columns))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok && pure {
			complain(n, "relay starts no goroutine")
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		switch imported[x.Name] {
		case "time":
			if pure && slices.Contains(clockFuncs, sel.Sel.Name) {
				complain(n, "relay reads no clock: time.%s", sel.Sel.Name)
			}
		case "context":
			isRoot := sel.Sel.Name == "Background" || sel.Sel.Name == "TODO"
			inMain := room == "cmd" && file.Name.Name == "main"
			if isRoot && !inMain && !within(dir, fakes) {
				complain(n, "context.%s belongs to main and tests", sel.Sel.Name)
			}
		}
		return true
	})
	return complaints
}

// columns is how wide a line of comment may be, a tab being four.
const columns = 100

// wideComments are the numbers of the lines that are comment alone, and too wide. What is indented,
// as a drawing is, may be wider, and so may a word that is too long by itself, as a URL may be.
func wideComments(src []byte) (lines []int) {
	for i, line := range strings.Split(string(src), "\n") {
		text, is := strings.CutPrefix(strings.TrimSpace(line), "//")
		width := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
		if is && width > columns && len(strings.Fields(text)) > 1 && !strings.HasPrefix(text, "go:") && !strings.HasPrefix(text, "\t") {
			lines = append(lines, i+1)
		}
	}
	return lines
}

// within says whether p is dir or below it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir+"/")
}

// TestShapeSeesEachOffence keeps the checks above honest: every one of them is shown something to
// object to, and something like it that is right.
func TestShapeSeesEachOffence(t *testing.T) {
	ours := func(to string) string { return "package p; import _ \"" + module + "/" + to + "\"" }
	for _, row := range []struct {
		rel, src string
		want     string // part of the only complaint; empty: none
	}{
		{"constraints/x.go", ours("metrics"), "constraints may not import metrics"},
		{"metrics/x.go", ours("constraints"), "metrics may not import constraints"},
		{"relay/x.go", ours("upstream"), "relay may not import upstream"},
		{"relay/x.go", ours("metrics"), ""},
		{"relay/sub/x.go", ours("downstream/authz"), "relay may not import downstream/authz"},
		{"relay/gate/x.go", ours("relay"), "relay/gate may not import relay"},
		{"relay/gate/x.go", ours("relay/node"), "relay/gate may not import relay/node"},
		{"relay/gate/x.go", ours("constraints"), "relay/gate may not import constraints"},
		{"relay/gate/x.go", ours("upstream"), "relay may not import upstream"},
		{"relay/gate/x.go", `package gate; import "time"; var t = time.Now()`, "relay reads no clock: time.Now"},
		{"relay/node/x.go", ours("constraints"), ""},
		{"relay/node/x.go", ours("metrics"), "relay/node may not import metrics"},
		{"relay/x.go", ours("relay/gate"), ""},
		{"relay/x.go", ours("relay/inspect"), "relay may not import relay/inspect"},
		{"relay/inspect/x.go", ours("relay"), ""},
		{"relay/inspect/x.go", ours("relay/node"), "relay/inspect may not import relay/node"},
		{"relay/inspect/x.go", `package inspect; import "time"; var t = time.Now()`, "relay reads no clock: time.Now"},
		{"cmd/weir/x.go", ours("relay/inspect"), ""},
		{"upstream/x.go", ours("downstream"), "upstream may not import downstream"},
		{"upstream/file/x.go", ours("upstream"), ""},
		{"upstream/x.go", ours("upstream/file"), ""},
		{"downstream/x.go", ours("upstream/file"), "downstream may not import upstream/file"},
		{"downstream/x.go", ours("relay"), ""},
		{"downstream/x.go", ours("downstream/identity"), ""},
		{"downstream/authz/x.go", ours("relay"), "downstream/authz may not import relay"},
		{"downstream/identity/x.go", ours("relay"), "downstream/identity may not import relay"},
		{"downstream/identity/x.go", ours("downstream"), "downstream/identity may not import downstream"},
		{"downstream/x.go", ours("cmd/weir/config"), "downstream may not import cmd/weir/config"},
		{"cmd/weir/x.go", ours("cmd/weir/config"), ""},
		{"cmd/weir/x.go", ours("upstream/file"), ""},
		{"cmd/weirload/x.go", ours("cmd/weirload/fleet"), ""},
		{"cmd/weirload/x.go", ours("downstream"), "cmd/weirload may not import downstream"},
		{"deploy/x.go", ours("cmd/weir/config"), "deploy may not import cmd/weir/config"},
		{"relay/x.go", "package p\n\n// " + strings.Repeat("word ", 20), "a comment has more than 100 columns"},
		{"relay/x.go", "package p\n\n// " + strings.Repeat("word ", 19), ""},
		{"helpers/x.go", "package p", "no Go package may live in helpers"},
		{"x.go", "package p", "no Go package may live in ."},
		{"cmd/weir/x.go", ours("relay/relaytest"), "only tests may import relay/relaytest"},
		{"relay/x.go", `package p; import "google.golang.org/grpc/codes"`, "relay speaks no gRPC"},
		{"relay/x.go", `package p; import "google.golang.org/protobuf/proto"`, ""},
		{"downstream/x.go", `package p; import "google.golang.org/grpc"`, ""},
		{"relay/relaytest/x.go", `package p; import "context"; var c = context.Background()`, ""},
		{"relay/relaytest/x.go", `package p; import "google.golang.org/grpc"; func f() { go f() }`, ""},
		{"relay/x.go", `package p; func f() { go f() }`, "relay starts no goroutine"},
		{"upstream/x.go", `package p; func f() { go f() }`, ""},
		{"relay/x.go", `package p; import "time"; var t = time.Now()`, "relay reads no clock: time.Now"},
		{"relay/x.go", `package p; import clock "time"; var t = clock.NewTimer`, "relay reads no clock: time.NewTimer"},
		{"relay/x.go", `package p; import "time"; var t = time.After(1)`, "relay reads no clock: time.After"},
		{"relay/x.go", `package p; import "time"; var t = time.Since(time.Time{})`, "relay reads no clock: time.Since"},
		{"relay/x.go", `package p; import "time"; const t = time.Second`, ""},
		{"upstream/x.go", `package p; import "time"; var t = time.Now()`, ""},
		{"relay/x.go", `package p; import . "time"`, "an import under the name . hides"},
		{"upstream/x.go", `package p; import "context"; var c = context.Background()`, "context.Background belongs to main"},
		{"cmd/weir/admin/x.go", `package admin; import "context"; var c = context.TODO()`, "context.TODO belongs to main"},
		{"cmd/weir/x.go", `package main; import "context"; var c = context.Background()`, ""},
		{"relay/x.go", `package`, "expected"},
	} {
		got := inspect(row.rel, []byte(row.src))
		if row.want == "" && len(got) != 0 || row.want != "" && (len(got) != 1 || !strings.Contains(got[0], row.want)) {
			t.Errorf("%s %q: %q, want %q", row.rel, row.src, got, row.want)
		}
	}
}

func TestTopLevel(t *testing.T) {
	root := filepath.Join("..", "..")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	for _, name := range strangers(names, string(ignored)) {
		t.Errorf("%s does not belong to the top level", name)
	}
}

// strangers gives the names that are neither agreed nor dot files nor, being leftovers of a build,
// ignored by git.
func strangers(names []string, gitignore string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		if slices.Contains(topLevel, name) || strings.HasPrefix(name, ".") {
			return true
		}
		return slices.ContainsFunc(strings.Fields(gitignore), func(pattern string) bool {
			ok, err := path.Match(strings.Trim(pattern, "/"), name)
			return ok && err == nil
		})
	})
}

func TestTopLevelSeesStrangers(t *testing.T) {
	got := strangers([]string{".ci", "bin", "cmd", "internal", "LICENSE", "notes.txt", "pkg", "cpu.prof"}, "/bin/\n*.prof\n")
	if want := []string{"internal", "notes.txt", "pkg"}; !slices.Equal(got, want) {
		t.Errorf("strangers are %q, want %q", got, want)
	}
}
