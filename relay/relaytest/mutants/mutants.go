// Package mutants makes the lines of a package wrong, one at a time, to see that its tests find
// each.
package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Play makes lines of files of the package in the working directory wrong, and fails if its tests
// do not find one: first all of tests[0], then of tests[1], and so on, with args. which is how many
// lines, drawn; "all"; or a part of what is printed of a line. Those in the file except are left
// out: it says which change nothing that could be seen, and which are not found yet.
func Play(t *testing.T, which, except string, files, tests []string, args ...string) {
	t.Helper()
	known := map[string]bool{}
	data, err := os.ReadFile(except)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			known[strings.TrimSpace(line)] = true
		}
	}
	var all []mutant
	left := map[string]bool{}
	for _, file := range files {
		for _, m := range mutantsOf(t, file) {
			_, what, _ := strings.Cut(m.name, ": ")
			if what = strings.TrimSpace(what); known[what] {
				left[what] = true
			} else {
				all = append(all, m)
			}
		}
	}
	for what := range known {
		if !left[what] {
			t.Errorf("a line of %s is none of the package: %s", except, what)
		}
	}
	var n int
	if _, err := fmt.Sscan(which, &n); err == nil {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:min(n, len(all))]
	}
	var group sync.WaitGroup
	room := make(chan struct{}, 2)
	for _, m := range all {
		if n == 0 && which != "all" && !strings.Contains(m.name, which) {
			continue
		}
		room <- struct{}{}
		group.Go(func() {
			m.play(t, t.TempDir(), tests, args...)
			<-room
		})
	}
	group.Wait()
	t.Logf("%d mutants, %d left out", len(all), len(left))
}

// mutant is a mistake: one piece of a file is another one.
type mutant struct {
	file     string
	from, to int
	text     string
	name     string
}

// mutantsOf are the mistakes that are made in a file: a statement is left out, a condition is the
// other way round, or goes by one half of itself alone.
func mutantsOf(t *testing.T, file string) (all []mutant) {
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := func(p token.Pos) int { return files.Position(p).Offset }
	text := func(n ast.Node) string { return string(source[at(n.Pos()):at(n.End())]) }
	add := func(n ast.Node, wrong string) {
		line, _, _ := strings.Cut(text(n), "\n")
		all = append(all, mutant{file, at(n.Pos()), at(n.End()), wrong, fmt.Sprintf("%s:%d: %s -> %s", file, files.Position(n.Pos()).Line, line, strings.Join(strings.Fields(wrong), " "))})
	}
	condition := func(e ast.Expr) { add(e, "!("+text(e)+")") }
	first := map[ast.Stmt]bool{} // statements before a condition
	without := func(s ast.Stmt) {
		if first[s] {
			add(s, "")
		} else {
			add(s, "{}")
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return false
		case *ast.AssignStmt:
			if n.Tok == token.ASSIGN {
				without(n)
			}
		case *ast.ExprStmt:
			without(n)
		case *ast.SwitchStmt:
			first[n.Init] = true
		case *ast.IfStmt:
			first[n.Init] = true
			condition(n.Cond)
		case *ast.CaseClause:
			for _, e := range n.List {
				if _, is := e.(*ast.SelectorExpr); !is {
					condition(e)
				}
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				add(n, text(n.X))
				add(n, text(n.Y))
			}
		case *ast.ReturnStmt:
			if len(n.Results) == 1 {
				if id, is := n.Results[0].(*ast.Ident); is && id.Name == "true" {
					add(n.Results[0], "false")
				} else if is && id.Name == "false" {
					add(n.Results[0], "true")
				}
			}
		}
		return true
	})
	return all
}

// play builds the package with a mistake and lets its tests find it, one after the other.
func (m *mutant) play(t *testing.T, dir string, tests []string, args ...string) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		t.Error(err)
		return
	}
	file, err := filepath.Abs(m.file)
	if err != nil {
		t.Error(err)
		return
	}
	wrong, overlay, program := filepath.Join(dir, "wrong.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "its.test")
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {file: wrong}})
	if err != nil {
		t.Error(err)
		return
	}
	text := string(source[:m.from]) + m.text + string(source[m.to:])
	if err := errors.Join(os.WriteFile(wrong, []byte(text), 0o600), os.WriteFile(overlay, replaced, 0o600)); err != nil {
		t.Error(err)
		return
	}
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, ".").CombinedOutput(); err != nil {
		if strings.Contains(string(out), "declared and not used") || strings.Contains(string(out), "imported and not used") {
			t.Logf("the compiler: %s", m.name)
			return
		}
		t.Errorf("%s: %v: %s", m.name, err, out)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // what does not end is found, too
	defer cancel()
	for _, test := range tests {
		out, err := exec.CommandContext(ctx, program, append([]string{"-test.run=^(" + test + ")$"}, args...)...).CombinedOutput()
		if err != nil {
			first, _, _ := strings.Cut(string(out[max(0, strings.Index(string(out), "_test.go")):]), "\n")
			t.Logf("%s: %s: %s", test, m.name, first)
			return
		}
	}
	t.Errorf("not found: %s", m.name)
}
