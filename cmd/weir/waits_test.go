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

	"github.com/weir-xds/weir/metrics"
)

// noWait is what a timer is for that no client's wait hangs on.
const noWait = "none"

// timersFor has each function that waits, or has something done later, with the reasons of the
// clients that wait for it. What nobody waits for has noWait first, and why.
var timersFor = map[string][]string{
	"downstream/enter.go sleep":      {"pace", "new_names"},
	"downstream/newnames.go settle":  {"new_names"},
	"downstream/stream.go pace":      {"pace"},
	"downstream/stream.go alarm":     {"deadlines: labelled in deadlines.go, by the compiler"},
	"downstream/arrivals.go alarm":   {"arrival"},
	"downstream/poll.go admit":       {"arrival"},
	"downstream/poll.go answer":      {"rest_wait", "rest_hold"},
	"downstream/poll.go again":       {"rest_hold"},
	"downstream/longsend.go place":   {"writer"},
	"downstream/longsend.go enter":   {noWait, "a place for what is long is left"},
	"downstream/receiving.go add":    {noWait, "a connection ends"},
	"downstream/loads.go first":      {noWait, "load reports are no configuration"},
	"downstream/life.go Recheck":     {noWait, "connections end"},
	"downstream/life.go close":       {noWait, "a connection ends"},
	"downstream/churn.go calm":       {noWait, "a connection ends"},
	"downstream/life.go grow":        {noWait, "a connection ends"},
	"downstream/connection.go leave": {noWait, "a connection ends"},
	"downstream/connection.go letGo": {noWait, "a connection ends"},
	"upstream/lane.go rest":          {"backoff"},
	"upstream/queue.go serve":        {"lane_queue", "backoff"},
	"upstream/queue.go connect":      {"lane_queue"},
	"upstream/pool.go connect":       {"connect"},
	"upstream/stream.go open":        {"connect"},
	"upstream/write.go write":        {"batch", "origin"},
	"upstream/server.go seek":        {noWait, "a lane with a stream looks for a better server"},
	"upstream/failback.go failBack":  {noWait, "a lane with a stream looks for a better server"},
	"upstream/failback.go try":       {noWait, "a lane with a stream looks for a better server"},
	"upstream/aggregate.go":          {noWait, "load reports are no configuration"},
	"upstream/audit.go":              {noWait, "what is held is compared with what the origin has"},
	"upstream/origin.go ask":         {noWait, "nobody has asked yet"},
	"upstream/loads.go":              {noWait, "load reports are no configuration"},
	"upstream/rest/lane.go wait":     {"backoff"},
	"upstream/rest/lane.go rest":     {"poll"},
	"upstream/rest/lane.go watch":    {"origin"},
	"upstream/rest/request.go ask":   {"origin"},
	"relay/timers.go":                {"timers: kinds are in timerKinds"},
	"downstream/churn.go greetLater": {"calmed"},
	"downstream/deadlines.go watch":  {"write_stalled"},
	"downstream/ended.go pause":      {noWait, "the process ends"},
	"downstream/life.go expire":      {noWait, "a stream of load reports ends with its certificate"},
}

// timerKinds has each kind of timer of the table, as timersFor has functions.
var timerKinds = map[string][]string{
	"lingerEnd":     {noWait, "what nobody wants goes"},
	"setPause":      {"settle", "confirm", "bad_part", "error"},
	"silentNames":   {"origin"},
	"silentHosts":   {"host"},
	"groupEnd":      {noWait, "a group without clients goes"},
	"laneQuiet":     {"quarantine"},
	"retryDue":      {"quarantine"},
	"expiries":      {noWait, "a TTL is over"},
	"laneDown":      {"cold_wait"},
	"confirmations": {"confirm"},
	"guardEnd":      {"guard"},
	"roomAgain":     {"bad_part", "origin"},
	"suspectNames":  {"origin"},
	"gatherEnd":     {"gather"},
	"unheardLong":   {"origin"},
	"restoredEnd":   {noWait, "what was restored is forgotten"},
	"listAgain":     {"ask"},
	"historyEnd":    {noWait, "old versions go"},
}

// waitCalls are what makes a function wait, or has something done later.
var waitCalls = []string{"time.NewTimer", "time.AfterFunc", "time.After", "time.NewTicker", "context.WithTimeout", "context.WithDeadline", "sleep"}

// TestWaitsAreLabelled: whatever waits on a client's way has a reason of the closed list, or is said
// to keep no client waiting, and each reason is told where it is waited for. A new timer fails here
// until that is said.
func TestWaitsAreLabelled(t *testing.T) {
	known := map[string]bool{}
	for _, r := range metrics.WaitReasons() {
		if !r.Labelled() || r.Meaning() == "" || known[r.String()] {
			t.Errorf("%d has no name and meaning of its own: %q, %q", r, r, r.Meaning())
		}
		known[r.String()] = true
	}
	for what, reasons := range mergedReasons() {
		for _, r := range reasons {
			if _, note, is := strings.Cut(r, ": "); !known[r] && !is && r != noWait || is && note == "" {
				t.Errorf("%s: %q is no reason", what, r)
			}
			if r == noWait {
				break
			}
		}
	}
	found, used := map[string]bool{}, map[string]bool{}
	for _, room := range []string{"relay", "downstream", "upstream", "upstream/rest"} {
		names, err := filepath.Glob(filepath.Join("..", "..", room, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatal(room, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			file := room + "/" + filepath.Base(name)
			for _, d := range f.Decls {
				fd, is := d.(*ast.FuncDecl)
				if !is || fd.Body == nil {
					continue
				}
				ast.Inspect(fd, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.CallExpr:
						if call := nameOf(n.Fun); slices.Contains(waitCalls, call) {
							key := file + " " + fd.Name.Name
							if _, whole := timersFor[file]; whole {
								key = file
							}
							if found[key] = true; timersFor[key] == nil {
								t.Errorf("%s calls %s: say in timersFor what clients wait for there", key, call)
							}
						}
					case *ast.SelectorExpr:
						if id, is := n.X.(*ast.Ident); is && id.Name == "metrics" {
							used[n.Sel.Name] = true
						}
					}
					return true
				})
			}
			if file == "relay/timers.go" {
				kinds := kindsOf(f)
				for _, kind := range kinds {
					if timerKinds[kind] == nil {
						t.Errorf("say in timerKinds what clients wait for until %s", kind)
					}
				}
				for kind := range timerKinds {
					if !slices.Contains(kinds, kind) {
						t.Errorf("there is no timer %s any more", kind)
					}
				}
				found[file] = true
			}
		}
	}
	for key := range timersFor {
		if !found[key] {
			t.Errorf("%s does not wait any more", key)
		}
	}
	for _, name := range waitConstants(t) {
		if !used[name] {
			t.Errorf("nobody waits for metrics.%s", name)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "deploy", "docs", "explain.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range metrics.WaitReasons() {
		if line := fmt.Sprintf("\n| `%s` | %s |\n", r, r.Meaning()); !strings.Contains(string(page), line) {
			t.Errorf("deploy/docs/explain.md lacks the line %s", line)
		}
	}
}

func mergedReasons() map[string][]string {
	all := maps.Clone(timersFor)
	maps.Copy(all, timerKinds)
	return all
}

// nameOf is what is called: package.Func, or func.
func nameOf(fun ast.Expr) string {
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if id, is := f.X.(*ast.Ident); is {
			return id.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// kindsOf are the constants of type timerKind.
func kindsOf(f *ast.File) (kinds []string) {
	for _, d := range f.Decls {
		g, is := d.(*ast.GenDecl)
		if !is || g.Tok != token.CONST || len(g.Specs) == 0 {
			continue
		}
		if first, is := g.Specs[0].(*ast.ValueSpec); !is || nameOf(first.Type) != "timerKind" {
			continue
		}
		for _, s := range g.Specs {
			for _, id := range s.(*ast.ValueSpec).Names {
				kinds = append(kinds, id.Name)
			}
		}
	}
	return kinds
}

// waitConstants are the names of the reasons in the source.
func waitConstants(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "metrics", "waits.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(Wait[A-Z]\w*)$`).FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	if len(names) != len(metrics.WaitReasons()) {
		t.Fatalf("%d constants found, of %d reasons", len(names), len(metrics.WaitReasons()))
	}
	return names
}
