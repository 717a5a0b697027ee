package plan

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
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

var mutants = flag.String("mutants", "2", "how many lines of the plan TestMutants makes wrong; all: every one, and a part of what it prints: those")

// mutant is a mistake in the plan: one piece of a file is another one.
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
		all = append(all, mutant{file, at(n.Pos()), at(n.End()), wrong, fmt.Sprintf("%s:%d: %s -> %s", file, files.Position(n.Pos()).Line, line, wrong)})
	}
	condition := func(e ast.Expr) { add(e, "!("+text(e)+")") }
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return false
		case *ast.AssignStmt:
			if n.Tok == token.ASSIGN {
				add(n, "{}")
			}
		case *ast.ExprStmt:
			add(n, "{}")
		case *ast.IfStmt:
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

// TestMutants: each line of the plan that is made wrong is found by the rows or within 100 plays, but
// those in testdata/equivalent.txt, which says why.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds this package for each")
	}
	data, err := os.ReadFile("testdata/equivalent.txt")
	if err != nil {
		t.Fatal(err)
	}
	harmless := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			harmless[strings.TrimSpace(line)] = true
		}
	}
	all := append(mutantsOf(t, "plan.go"), mutantsOf(t, "next.go")...)
	known := 0
	for i := 0; i < len(all); i++ {
		_, what, _ := strings.Cut(all[i].name, ": ")
		if harmless[what] {
			known++
			all = append(all[:i], all[i+1:]...)
			i--
		}
	}
	if known < len(harmless) {
		t.Errorf("%d lines of testdata/equivalent.txt are none of the plan", len(harmless)-known)
	}
	var n int
	if _, err := fmt.Sscan(*mutants, &n); err == nil {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:min(n, len(all))]
	}
	var group sync.WaitGroup
	room := make(chan struct{}, 2)
	for _, m := range all {
		if n == 0 && *mutants != "all" && !strings.Contains(m.name, *mutants) {
			continue
		}
		room <- struct{}{}
		group.Go(func() {
			m.play(t, t.TempDir())
			<-room
		})
	}
	group.Wait()
	t.Logf("%d mutants, %d known to be harmless", len(all), known)
}

// play builds the package with a mistake and lets the rows and the model find it.
func (m *mutant) play(t *testing.T, dir string) {
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
	wrong, overlay, program := filepath.Join(dir, "wrong.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "plan.test")
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
	for _, test := range []string{"TestModel", "TestRows|TestComplete|TestHas"} {
		out, err := exec.CommandContext(ctx, program, "-test.run=^("+test+")$", "-seeds=100").CombinedOutput()
		if err != nil {
			first, _, _ := strings.Cut(string(out[max(0, strings.Index(string(out), "_test.go")):]), "\n")
			t.Logf("%s: %s: %s", test, m.name, first)
			return
		}
	}
	t.Errorf("not found: %s", m.name)
}
