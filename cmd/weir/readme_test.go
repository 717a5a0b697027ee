package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeTellsTheTruth: each weir.yaml of the README and the pages of deploy/docs is accepted, and
// each test that they name exists. TestReference has the reference of the configuration.
func TestReadmeTellsTheTruth(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "deploy", "docs", "*.md"))
	if err != nil || len(pages) < 3 {
		t.Fatalf("pages: %v, %v", pages, err)
	}
	docs := readText(t, filepath.Join(root, "README.md"))
	for _, page := range pages {
		docs += readText(t, page)
	}
	tests := testNames(t)
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(docs, -1)
	if len(named) < 20 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, m := range named {
		if !tests[m[1]] {
			t.Errorf("%s does not exist", m[1])
		}
	}
	for i, block := range regexp.MustCompile("(?s)```yaml\n(# weir.yaml\n.*?)```").FindAllStringSubmatch(docs, -1) {
		file := filepath.Join(t.TempDir(), "weir.yaml")
		if err := os.WriteFile(file, []byte(block[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs strings.Builder
		if code := run(t.Context(), []string{"validate", "--syntax-only", "-c", file}, &out, &errs); code != 0 {
			t.Errorf("config %d of the README and the pages is refused: %s", i+1, errs.String())
		}
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
