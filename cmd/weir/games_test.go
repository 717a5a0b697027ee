package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGamesWithoutDetector: what .ci/test runs without the race detector are tests that exist, and
// that start no goroutine and have no bubble of virtual time, which is for goroutines; nor does any
// function of the folder's tests, or method of the same file, that they come to.
func TestGamesWithoutDetector(t *testing.T) {
	script, err := os.ReadFile("../../.ci/test")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^games='\^\((.+)\)\$'$`).FindSubmatch(script)
	packages := regexp.MustCompile(`(?m)^played=\((.+?)\)`).FindSubmatch(script)
	if line == nil || packages == nil {
		t.Fatal(".ci/test names no games, or not their packages")
	}
	var folders []testCode
	elsewhere := otherTests(t, strings.Fields(string(packages[1])))
	names := strings.Split(string(line[1]), "|")
	for folder := range strings.FieldsSeq(string(packages[1])) {
		code := readTestCode(t, filepath.Join("../..", folder))
		if !slices.ContainsFunc(names, func(name string) bool { return code[name] != nil }) {
			t.Errorf("%s has no game", folder)
		}
		folders = append(folders, code)
	}
	for _, name := range names {
		found := false
		for _, code := range folders { // several may have one of the name
			if _, is := code[name]; is {
				found = true
				if why := code.concurrent(name, map[string]bool{}); why != "" {
					t.Errorf("%s: %s", name, why)
				}
			}
		}
		if !found {
			t.Errorf("%s: there is no such test", name)
		}
		if folder, is := elsewhere[name]; is {
			t.Errorf("%s: package %s has one of the name, which would be run by nobody", name, folder)
		}
	}
}

// otherTests are the functions of tests in all folders but these, with their folders.
func otherTests(t *testing.T, but []string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		folder := "./" + strings.TrimPrefix(path, "../../")
		if err != nil || !d.IsDir() || slices.Contains(but, folder) {
			return err
		}
		for name := range readTestCode(t, path) {
			found[name] = folder
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// testCode has the functions of a folder's tests by name, and the methods by their file and name,
// whatever they are methods of.
type testCode map[string][]testFunc

type testFunc struct {
	*ast.FuncDecl
	file string
}

func readTestCode(t *testing.T, folder string) testCode {
	t.Helper()
	code := testCode{}
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				name := fn.Name.Name
				if fn.Recv != nil {
					name = path + "." + name
				}
				code[name] = append(code[name], testFunc{fn, path})
			}
		}
	}
	return code
}

// concurrent is what a function of that name, or one that it calls, has for more than one goroutine;
// "": nothing.
func (code testCode) concurrent(name string, seen map[string]bool) (what string) {
	if seen[name] {
		return ""
	}
	seen[name] = true
	for _, fn := range code[name] {
		ast.Inspect(fn.FuncDecl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				what = name + " has a goroutine"
			case *ast.SelectorExpr:
				if x, _ := n.X.(*ast.Ident); x != nil && x.Name == "synctest" {
					what = name + " has a bubble"
				} else if n.Sel.Name == "Go" || n.Sel.Name == "Parallel" {
					what = name + " has a goroutine"
				}
			case *ast.CallExpr:
				switch f := n.Fun.(type) {
				case *ast.Ident:
					what = code.concurrent(f.Name, seen)
				case *ast.SelectorExpr:
					what = code.concurrent(fn.file+"."+f.Sel.Name, seen)
				}
			}
			return what == ""
		})
	}
	return what
}
