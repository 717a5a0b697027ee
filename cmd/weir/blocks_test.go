package main

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// block is code in a page. Its first line is without a comment that is set off.
type block struct {
	page, first, text string
	fence             bool
}

// shownBy are the tests of the block; "": nothing is said of it.
func (b block) shownBy() string {
	if b.fence {
		return blocksShownBy[b.first]
	}
	return commandsShownBy[b.first]
}

// blocksOf are the fenced blocks of all pages, and the indented ones.
func blocksOf(t *testing.T) (fenced, indented []block) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, "deploy", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	chart, err := filepath.Glob(filepath.Join(root, "deploy", "helm", "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	fence := regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$")
	indent := regexp.MustCompile(`(?m)(^    [^\n]*\n)+`)
	for _, page := range slices.Concat(pages, chart, []string{filepath.Join(root, "README.md")}) {
		text := readText(t, page)
		for _, m := range fence.FindAllStringSubmatch(text, -1) {
			first, _, _ := strings.Cut(m[1], "\n")
			fenced = append(fenced, block{page, first, m[1], true})
		}
		for _, m := range indent.FindAllString(fence.ReplaceAllString(text, ""), -1) {
			margin := len(m) - len(strings.TrimLeft(m, " ")) // of a block in a list, too
			m = strings.ReplaceAll("\n"+m, "\n"+m[:margin], "\n")[1:]
			first, _, _ := strings.Cut(m, "\n")
			first, _, _ = strings.Cut(first, "  #")
			indented = append(indented, block{page, strings.TrimRight(first, " "), m, false})
		}
	}
	return fenced, indented
}

// isConfiguration reports whether an indented block is a part of a weir.yaml.
func isConfiguration(b block) bool {
	tree := dataOf(b)
	return !b.fence && (tree["origins"] != nil || tree["listeners"] != nil || tree["static_resources"] != nil)
}

// dataOf is the YAML that a block is; nil: it is none.
func dataOf(b block) (tree map[string]any) {
	if yaml.Load([]byte(b.text), &tree) != nil {
		return nil
	}
	return tree
}

// TestPagesHaveOnlyWhatIsStarted: each block is of a kind that a test starts, and a line of
// configuration among the commands is one that weir takes. Nothing else is listed.
func TestPagesHaveOnlyWhatIsStarted(t *testing.T) {
	fenced, indented := blocksOf(t)
	tests, left := testNames(t), maps.Clone(blocksShownBy)
	maps.Copy(left, commandsShownBy)
	if len(fenced) < 6 || len(indented) < 6 {
		t.Fatalf("%d fenced blocks and %d indented ones are found", len(fenced), len(indented))
	}
	found := 0
	for _, b := range append(fenced, indented...) {
		if isConfiguration(b) {
			found++
			if code, _, stderr := weir(t, "validate", write(t, b.text)); code != exitOK {
				t.Errorf("%s: refused: %s\n%s", b.page, stderr, b.text)
			}
			continue
		}
		delete(left, b.first)
		names := b.shownBy()
		if names == "" {
			t.Errorf("%s: which test starts the block that begins with %q? Say so in blocksShownBy, or in commandsShownBy if it is indented", b.page, b.first)
		}
		if names == picture && !b.fence {
			continue
		}
		for name := range strings.FieldsSeq(names) {
			if !tests[name] {
				t.Errorf("%s: the block that begins with %q: there is no %s", b.page, b.first, name)
			}
		}
	}
	if found == 0 {
		t.Error("no configuration is found among the commands: is the pattern right?")
	}
	for first := range left {
		t.Errorf("no page has a block that begins with %q", first)
	}
}
