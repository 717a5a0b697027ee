package relay

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesReferDownwards holds the order of this package's files, which is an order to read them
// in: testdata/files.list names them from the bottom up, each with those above it that it refers to
// nevertheless. Such a reference may go, and no other may come: a declaration is put where it
// belongs instead, or a file.
func TestFilesReferDownwards(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "files.list"))
	if err != nil {
		t.Fatal(err)
	}
	height, allowed := map[string]int{}, map[reference]bool{}
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if _, twice := height[words[0]]; twice {
			t.Errorf("testdata/files.list has %s twice", words[0])
		}
		height[words[0]] = len(height)
		for _, to := range words[1:] {
			allowed[reference{words[0], to}] = true
		}
	}
	refs, files := references(t)
	for _, name := range files {
		if _, ok := height[name]; !ok {
			t.Errorf("testdata/files.list lacks %s: it belongs above what it refers to, and below what refers to it", name)
		}
	}
	if len(files) < len(height) {
		t.Errorf("testdata/files.list has %d files, and there are %d", len(height), len(files))
	}
	for r, example := range refs {
		if height[r.to] > height[r.from] && !allowed[r] {
			t.Errorf("%s refers upwards to %s, for %s", r.from, r.to, example)
		}
	}
	for r := range allowed {
		if _, ok := refs[r]; !ok || height[r.to] < height[r.from] {
			t.Errorf("%s does not refer upwards to %s any more: its line in testdata/files.list gets shorter", r.from, r.to)
		}
	}
	t.Logf("%d files, %d references between them, %d of them upwards", len(files), len(refs), len(allowed))
}

// reference is that something in one file uses what is declared in the other.
type reference struct{ from, to string }

// references are those between the files of this package, each with the name of something used,
// and the files.
func references(t *testing.T) (refs map[reference]string, names []string) {
	t.Helper()
	all, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range all {
		if strings.HasSuffix(name, "_test.go") || name == "doc.go" {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files, names = append(files, f), append(names, name)
	}
	// What other packages declare stays unknown, which costs nothing here but some methods of
	// values that they return.
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: noImporter{}, Error: func(error) {}}
	pkg, _ := conf.Check("relay", fset, files, info)
	refs = map[reference]string{}
	for id, obj := range info.Uses {
		if obj.Pkg() != pkg || !obj.Pos().IsValid() {
			continue
		}
		r := reference{fset.Position(id.Pos()).Filename, fset.Position(obj.Pos()).Filename}
		if r.from != r.to {
			refs[r] = id.Name
		}
	}
	if len(refs) < 100 {
		t.Fatalf("only %d references found among %d files", len(refs), len(files))
	}
	return refs, names
}

type noImporter struct{}

func (noImporter) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }
