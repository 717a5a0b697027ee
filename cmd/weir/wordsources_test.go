package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/metrics"
)

// helpWords are the help of each command.
func helpWords(t *testing.T) (out []sentence) {
	t.Helper()
	var visit func(path []string)
	visit = func(path []string) {
		code, stdout, stderr := weir(t, append(slices.Clone(path), "--help")...)
		if code != exitOK {
			t.Fatalf("weir %v --help: %d, %s", path, code, stderr)
		}
		for i, line := range strings.Split(stdout, "\n") {
			out = append(out, sentence{"weir " + strings.Join(path, " ") + " --help", i + 1, strings.TrimSpace(line)})
		}
		for _, m := range regexp.MustCompile(`(?m)^  ([a-z-]+) {2,}[A-Z]`).FindAllStringSubmatch(stdout, -1) {
			if m[1] != "help" && !slices.Contains(path, m[1]) {
				visit(append(slices.Clone(path), m[1]))
			}
		}
	}
	visit(nil)
	return out
}

// sayers are the functions whose strings users read: the log's, those of errors and of problems in a
// configuration, and those that write answers.
var sayers = []string{
	"Debug", "Info", "Warn", "Error", "Log", "Check", "New", "Errorf", "Problemf", "problem", "addf", "addAtf", "warnf", "warn", "note",
	"Sprintf", "Fprintf", "Fprintln", "Newf",
}

// saidIn are the fields of structs whose strings users read.
var saidIn = []string{"text", "Text", "msg", "Msg", "Help", "Why", "why", "meaning"}

// messageWords are messages of the log, errors, and problems of a configuration.
func messageWords(t *testing.T) (out []sentence) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{"bin", ".git", ".ci", "testdata", "weirtest", "relaytest", "weirload"}, d.Name()) {
			return fs.SkipDir
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if text := messageOf(n); text != "" {
				out = append(out, sentence{filepath.Clean(name), files.Position(n.Pos()).Line, text})
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// messageOf returns the text of a call of a sayer, or of a field that is said; "" if it is none.
func messageOf(n ast.Node) string {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && slices.Contains(saidIn, key.Name) {
			return literalOf(n.Value)
		}
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains(sayers, f.Sel.Name) {
			return ""
		}
		for _, arg := range n.Args[:min(3, len(n.Args))] { // after a code, a level, or where it is
			if text := literalOf(arg); strings.Contains(text, " ") {
				return text
			}
		}
	}
	return ""
}

// literalOf returns a string literal, or the concatenation of several.
func literalOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		return literalOf(e.X) + literalOf(e.Y)
	}
	return ""
}

// metricWords are the help texts of metrics.
func metricWords(t *testing.T) (out []sentence) {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics.New(registry).Gauges(func() metrics.Picture { return metrics.Picture{} })
	described := make(chan *prometheus.Desc, 1000)
	registry.Describe(described)
	close(described)
	desc := regexp.MustCompile(`^Desc\{fqName: "(\w+)", help: ("(?:[^"\\]|\\.)*"), `)
	for d := range described {
		m := desc.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("the library describes metrics in another way: %s", d)
		}
		text, err := strconv.Unquote(m[2])
		if err != nil {
			t.Fatalf("%v: %s", err, d)
		}
		out = append(out, sentence{"help of " + m[1], 1, text})
	}
	return out
}

// schemaWords are the descriptions of the configuration's keys, and of the chart's values.
func schemaWords(t *testing.T) (out []sentence) {
	t.Helper()
	const chart = "deploy/helm/weir/values.schema.json"
	for name, text := range map[string]string{"weir config schema": string(config.Schema()), chart: readText(t, root+"/"+chart)} {
		var tree any
		if err := json.Unmarshal([]byte(text), &tree); err != nil {
			t.Fatal(err)
		}
		var visit func(at string, node any)
		visit = func(at string, node any) {
			switch node := node.(type) {
			case map[string]any:
				for key, value := range node {
					if said, ok := value.(string); ok && key == "description" {
						out = append(out, sentence{name + at, 1, said})
					}
					visit(at+"."+key, value)
				}
			case []any:
				for i, value := range node {
					visit(fmt.Sprintf("%s[%d]", at, i), value)
				}
			}
		}
		visit("", tree)
	}
	return out
}

// commentWords are the comments of the files that users copy, and the chart's notes.
func commentWords(t *testing.T) (out []sentence) {
	t.Helper()
	comment := regexp.MustCompile(`(?:^|\s)#+ ?(.*)$`)
	for _, dir := range []string{"deploy/examples", "deploy/helm", "deploy/systemd", "deploy/kubernetes"} {
		err := filepath.WalkDir(root+"/"+dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !slices.Contains([]string{".yaml", ".conf", ".service", ".txt"}, filepath.Ext(name)) {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			notes, open := filepath.Ext(name) == ".txt", false
			for i, line := range strings.Split(string(text), "\n") {
				m := comment.FindStringSubmatch(line)
				if notes {
					m = []string{"", line}
				}
				alone := strings.HasPrefix(strings.TrimSpace(line), "#")
				switch {
				case m == nil || strings.TrimSpace(m[1]) == "":
					open = false
				case open && alone:
					out[len(out)-1].text += "\n" + strings.TrimSpace(m[1])
				default:
					out, open = append(out, sentence{filepath.Clean(name), i + 1, strings.TrimSpace(m[1])}), alone
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// literalWords are the sentences of the command line and of the admin port: their literals of four
// words or more.
func literalWords(t *testing.T) (out []sentence) {
	t.Helper()
	for _, dir := range []string{root + "/cmd/weir", root + "/cmd/weir/admin", root + "/metrics"} {
		names, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, is := n.(*ast.BasicLit)
				if !is {
					return true
				}
				if text := literalOf(lit); strings.Count(text, " ") > 2 {
					out = append(out, sentence{filepath.Clean(name), files.Position(lit.Pos()).Line, text})
				}
				return true
			})
		}
	}
	return out
}

// pageWords are the lines of the admin page's scripts, without comments.
func pageWords(t *testing.T) (out []sentence) {
	t.Helper()
	names, err := filepath.Glob(root + "/cmd/weir/admin/ui/*.js")
	if err != nil {
		t.Fatal(err)
	}
	comment := regexp.MustCompile(`(^| )// .*$`)
	for _, name := range names {
		for i, line := range strings.Split(readText(t, name), "\n") {
			if line = comment.ReplaceAllString(line, ""); strings.TrimSpace(line) != "" {
				out = append(out, sentence{filepath.Clean(name), i + 1, line})
			}
		}
	}
	return out
}
