package main_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWhoLocks holds the convention of relay's doc.go ("Who locks"): an unexported function leaves
// locking to its caller, or its doc comment says that it locks.
func TestWhoLocks(t *testing.T) {
	for _, room := range []string{"relay", "downstream", "upstream"} {
		names, err := filepath.Glob(filepath.Join("..", "..", room, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			if files[name], err = os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
		if len(files) < 10 {
			t.Errorf("only %d files found in %s: is this the right directory?", len(files), room)
		}
		for _, complaint := range whoLocks(files) {
			t.Error(complaint)
		}
	}
}

// saysLocks is the word that the doc comment of an unexported function has if the function locks.
var saysLocks = regexp.MustCompile(`\blocks\b`)

// whoLocks gives what is wrong with the files of one package, which are parsed: a function that
// locks and does not say so, and a name that ends in Locked. A function that locks a mutex and
// unlocks none is a helper, and calling it is locking.
func whoLocks(files map[string][]byte) []string {
	fset := token.NewFileSet()
	var funcs []*ast.FuncDecl
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := parser.ParseFile(fset, name, files[name], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return []string{err.Error()}
		}
		for _, d := range f.Decls {
			if fd, is := d.(*ast.FuncDecl); is && fd.Body != nil {
				funcs = append(funcs, fd)
			}
		}
	}
	locks := map[string]bool{"Lock": true, "RLock": true, "TryLock": true}
	for _, fd := range funcs {
		if calls(fd, locks) && !calls(fd, map[string]bool{"Unlock": true, "RUnlock": true, "unlock": true, "unlockOrDrop": true}) {
			locks[fd.Name.Name] = true
		}
	}
	var complaints []string
	complain := func(fd *ast.FuncDecl, text string) {
		complaints = append(complaints, fmt.Sprintf("%s: %s %s", fset.Position(fd.Pos()), fd.Name.Name, text))
	}
	for _, fd := range funcs {
		if strings.HasSuffix(fd.Name.Name, "Locked") {
			complain(fd, "has a suffix for what all unexported functions expect")
		}
		if !fd.Name.IsExported() && calls(fd, locks) && !saysLocks.MatchString(fd.Doc.Text()) {
			complain(fd, "locks, and its doc comment does not say so")
		}
	}
	return complaints
}

// calls reports whether a function calls one of the methods, those of mutexes on a field mu.
func calls(fd *ast.FuncDecl, methods map[string]bool) (does bool) {
	ast.Inspect(fd.Body, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		sel, is := call.Fun.(*ast.SelectorExpr)
		if !is || !methods[sel.Sel.Name] {
			return true
		}
		on, _ := sel.X.(*ast.SelectorExpr)
		does = does || !ast.IsExported(sel.Sel.Name) || on != nil && on.Sel.Name == "mu"
		return true
	})
	return does
}

func TestWhoLocksSeesEachOffence(t *testing.T) {
	const silent, suffix = "get locks, and its doc comment does not say so", "getLocked has a suffix"
	for _, row := range []struct{ src, want string }{ // want: part of the only complaint; empty: none
		{"func (s *T) get() { s.mu.Lock(); defer s.mu.Unlock() }", silent},
		{"// get is a blocks of locksmiths.\nfunc (s *T) get() { s.mu.Lock(); defer s.mu.Unlock() }", silent},
		{"// get is one. It locks the T.\nfunc (s *T) get() { s.mu.Lock(); defer s.mu.Unlock() }", ""},
		{"func get(s *T) { s.t.mu.RLock(); s.t.mu.RUnlock() }", silent},
		{"func get(s *T) { if s.t.mu.TryLock() { s.t.mu.Unlock() } }", silent},
		{"func get(s *T) func() { return func() { s.mu.Lock(); s.mu.Unlock() } }", silent},
		{"func (s *T) Get() { s.mu.Lock(); defer s.mu.Unlock() }", ""},
		{"func (s *T) get() { s.door.Lock() }", ""},
		{"func (s *T) get() int { return s.n }", ""},
		{"func (s *T) getLocked() int { return s.n }", suffix},
		{"func GetLocked() {}", "GetLocked has a suffix"},
		{"// enter locks T.\nfunc (s *T) enter() { s.mu.Lock() }\nfunc (s *T) get() { s.enter(); s.mu.Unlock() }", silent},
		{"func (s *T) unlock() { s.mu.Unlock() }\nfunc (s *T) get() { s.mu.Lock(); s.unlock() }", silent},
		{"func", "expected"},
	} {
		got := whoLocks(map[string][]byte{"x.go": []byte("package p\n\n" + row.src)})
		if row.want == "" && len(got) != 0 || row.want != "" && (len(got) != 1 || !strings.Contains(got[0], row.want)) {
			t.Errorf("%s: %q, want %q", row.src, got, row.want)
		}
	}
}
