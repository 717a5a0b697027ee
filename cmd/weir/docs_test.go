package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-xds/weir/metrics"
)

const pagesDir = root + "/deploy/docs"

// docPages are the README and the pages of deploy/docs, by file.
func docPages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob(pagesDir + "/*.md")
	if err != nil || len(names) < 10 {
		t.Fatalf("pages: %v, %v", names, err)
	}
	pages := map[string]string{}
	for _, name := range append(names, root+"/README.md") {
		pages[filepath.Clean(name)] = readText(t, name)
	}
	return pages
}

// TestReadmeIsShort: the README can be read in ten minutes. The rest has pages of its own.
func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(readText(t, root+"/README.md"), "\n"); n > 250 {
		t.Errorf("README.md has %d lines, and may have 250: move what is not for newcomers to deploy/docs", n)
	}
}

// TestPackagesAreShort: what the new core stands on can be read as a whole.
func TestPackagesAreShort(t *testing.T) {
	for dir, most := range map[string]int{"relay/state": 1490, "relay/plan": 880, "relay/cursor": 3360} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", dir, files, err)
		}
		lines := 0
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				lines += strings.Count(readText(t, file), "\n")
			}
		}
		if lines > most {
			t.Errorf("%s has %d lines, and may have %d", dir, lines, most)
		}
	}
}

var (
	codeBlock  = regexp.MustCompile("(?ms)^```.*?^```$")
	codeIndent = regexp.MustCompile(`(?m)(\A|^\n)(^    [^\n]*\n)+`)
	codeSpan   = regexp.MustCompile("`[^`\n]*`")
	mdLink     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdHeading  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

// TestLinks: each link of a page leads to a file that exists, and to a heading in it. Each page can be reached from the
// README.
func TestLinks(t *testing.T) {
	pages := docPages(t)
	linked := map[string]bool{}
	for page, text := range pages {
		text = codeBlock.ReplaceAllString(text, "")
		text = codeSpan.ReplaceAllString(codeIndent.ReplaceAllString(text, "\n"), "")
		for _, m := range mdLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if page == filepath.Clean(root+"/README.md") {
				linked[target] = true
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", page, m[1], err)
			} else if anchor != "" && !anchors(readText(t, target))[anchor] {
				t.Errorf("%s: the link %s: %s has no such heading", page, m[1], target)
			}
		}
	}
	if len(linked) < 10 {
		t.Errorf("only %d links are found in the README: is the pattern right?", len(linked))
	}
	for page := range pages {
		if page != filepath.Clean(root+"/README.md") && !linked[page] {
			t.Errorf("the README has no link to %s", page)
		}
	}
}

// anchors are the names that the headings of a page have in links.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range mdHeading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		found[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return found
}

func TestAnchors(t *testing.T) {
	got := anchors("# One\n\n## Two, and `three`?\n\n```yaml\n# none\n```\n### four_five-six\n")
	for _, want := range []string{"one", "two-and-three", "four_five-six"} {
		if !got[want] {
			t.Errorf("no %q in %v", want, got)
		}
	}
	if len(got) != 3 {
		t.Errorf("%v", got)
	}
}

// TestSourcesNamePages: a source file that sends its reader to a page names one that exists.
func TestSourcesNamePages(t *testing.T) {
	page := regexp.MustCompile(`deploy/docs/([\w-]+\.md)`)
	found := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "bin" || d.Name() == ".git" || d.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		switch filepath.Ext(name) {
		case ".go", ".yaml", ".tpl", ".txt", ".service", "":
		default:
			return nil
		}
		for _, m := range page.FindAllStringSubmatch(readText(t, name), -1) {
			found++
			if _, err := os.Stat(filepath.Join(pagesDir, m[1])); err != nil {
				t.Errorf("%s names a page that does not exist: %s", name, m[1])
			}
		}
		return nil
	})
	if err != nil || found < 5 {
		t.Errorf("%d references, %v", found, err)
	}
}

// TestMetricsAreDocumented: metrics.md has a row for each metric with its labels, and for nothing else. No page names a
// metric that does not exist.
func TestMetricsAreDocumented(t *testing.T) {
	rows := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(weir_\\w+)` \\|([^|]*)\\| [^|]{10,} \\|$")
	for _, m := range row.FindAllStringSubmatch(readText(t, pagesDir+"/metrics.md"), -1) {
		rows[m[1]] = m[2]
	}
	registry := prometheus.NewRegistry()
	metrics.New(registry).Gauges(func() metrics.Picture { return metrics.Picture{} })
	described := make(chan *prometheus.Desc, 1000)
	registry.Describe(described)
	close(described)
	known := map[string]bool{}
	desc := regexp.MustCompile(`^Desc\{fqName: "(\w+)".*, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	for d := range described {
		m := desc.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("the library describes metrics in another way: %s", d)
		}
		known[m[1]] = true
		var labels []string
		for label := range strings.SplitSeq(m[2]+m[3], ",") {
			if label, _, _ = strings.Cut(label, "="); label != "" {
				labels = append(labels, "`"+label+"`")
			}
		}
		if got, ok := rows[m[1]]; !ok || strings.TrimSpace(got) != strings.Join(labels, ", ") {
			t.Errorf("%s has the labels %v, and in metrics.md: %q", m[1], labels, got)
		}
	}
	if len(known) < 50 {
		t.Errorf("only %d metrics are found", len(known))
	}
	for name := range rows {
		if !known[name] {
			t.Errorf("metrics.md has a row for %s, which does not exist", name)
		}
	}
	for page, text := range docPages(t) {
		for _, name := range regexp.MustCompile(`\bweir_[a-z_]+[a-z]`).FindAllString(text, -1) {
			if !known[name] {
				t.Errorf("%s names %s, which is no metric", page, name)
			}
		}
	}
}

// TestPromisesAreHeld: each row of promises.md names what holds it, and that exists.
func TestPromisesAreHeld(t *testing.T) {
	text := readText(t, pagesDir+"/promises.md")
	tests := testNames(t)
	rows := 0
	for row := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), " | ")
		if !strings.HasPrefix(row, "| ") || len(cells) != 2 || strings.HasPrefix(row, "| ---") || strings.Contains(row, "Shown by") {
			continue
		}
		rows++
		if !regexp.MustCompile("`(Test|Fuzz|make )|testdata/").MatchString(cells[1]) {
			t.Errorf("no test shows: %s", row)
		}
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(cells[1], -1) {
			if !tests[m[1]] {
				t.Errorf("there is no %s", m[1])
			}
		}
		for _, pattern := range regexp.MustCompile(`[\w*/-]+\.txt`).FindAllString(cells[1], -1) {
			files, err := filepath.Glob(filepath.Join(root, "*", "testdata", filepath.Base(pattern)))
			if err != nil || len(files) == 0 {
				t.Errorf("no package has a testdata/%s", filepath.Base(pattern))
			}
		}
	}
	if rows < 40 {
		t.Errorf("only %d promises", rows)
	}
}

// TestCommandsAreThere: the subcommands that the README lists exist, each with flags that it takes;
// so do the targets of make that any page names.
func TestCommandsAreThere(t *testing.T) {
	readme := readText(t, root+"/README.md")
	_, section, ok := strings.Cut(readme, "\n## Command line\n")
	section, _, end := strings.Cut(section, "\n## ")
	if !ok || !end {
		t.Fatal("the README has no section Command line")
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^    weir ([a-z]+(?: [a-z]+)*)(.*)$`).FindAllStringSubmatch(section, -1) {
		words := strings.Fields(m[1])
		code, help, stderr := weir(t, append(words, "--help")...)
		if code != exitOK || !strings.Contains(help, "weir "+m[1]) {
			t.Errorf("weir %s: %d, %s", m[1], code, stderr)
		}
		listed[m[1]], listed[words[0]] = true, true
		for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(m[2], -1) {
			if !strings.Contains(help, flag) {
				t.Errorf("weir %s has no %s", m[1], flag)
			}
		}
	}
	_, help, _ := weir(t, "--help")
	for _, m := range regexp.MustCompile(`(?m)^  (\w+) +[A-Z]`).FindAllStringSubmatch(help, -1) {
		if m[1] != "help" && !listed[m[1]] {
			t.Errorf("the README does not list weir %s", m[1])
		}
	}
	makefile := readText(t, root+"/Makefile")
	for page, text := range docPages(t) {
		for _, m := range regexp.MustCompile("(?m)(?:`|^    )make ([a-z]+)").FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: there is no make %s", page, m[1])
			}
		}
	}
}
