package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGamesWithoutDetector: what .ci/test runs without the race detector are tests that exist, in
// files that start no goroutine and have no bubble of virtual time, which is for goroutines.
func TestGamesWithoutDetector(t *testing.T) {
	script, err := os.ReadFile("../../.ci/test")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^games='\^\((.+)\)\$'$`).FindSubmatch(script)
	if line == nil {
		t.Fatal(".ci/test names no games")
	}
	found := map[string]string{}
	for _, folder := range []string{"../../downstream", "../../relay"} {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			why := concurrent(f)
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
					found[fn.Name.Name] += why // both folders may have one of the name
				}
			}
		}
	}
	for name := range strings.SplitSeq(string(line[1]), "|") {
		if why, ok := found[name]; !ok {
			t.Errorf("%s: there is no such test", name)
		} else if why != "" {
			t.Errorf("%s: its file has %s", name, why)
		}
	}
}

// concurrent is what a file has that is for more than one goroutine; "": nothing.
func concurrent(f *ast.File) (what string) {
	for _, i := range f.Imports {
		if i.Path.Value == `"testing/synctest"` {
			return "a bubble"
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			what = "a goroutine"
		case *ast.SelectorExpr:
			if n.Sel.Name == "Go" || n.Sel.Name == "Parallel" {
				what = "a goroutine"
			}
		}
		return what == ""
	})
	return what
}
