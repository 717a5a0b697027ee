package main

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// wordSigns are signs of a sentence to rewrite. Headings and questions may begin with "What".
var wordSigns = map[string]*regexp.Regexp{
	"nobody":              regexp.MustCompile(`(?i)\bnobody\b`),
	"whoever":             regexp.MustCompile(`(?i)\bwhoever\b`),
	"what is left":        regexp.MustCompile(`(?i)\bwhat is left\b`),
	"told, tells, tell":   regexp.MustCompile(`(?i)\b(told|tells|tell)\b`),
	"let go":              regexp.MustCompile(`(?i)\blet go\b`),
	"go by":               regexp.MustCompile(`(?i)\bgo(es)? by\b`),
	"stands in":           regexp.MustCompile(`(?i)\bstands in\b`),
	"has something of":    regexp.MustCompile(`(?i)\bhas something of\b`),
	"of its own, twice":   regexp.MustCompile(`(?i)\bof its own\b[^.]*\bof its own\b`),
	"no more, at the end": regexp.MustCompile(`(?i)\bno more(\.|$)`),
	"but for":             regexp.MustCompile(`(?i)\bbut for\b`),
	"as well as it":       regexp.MustCompile(`(?i)\bas well as it\b`),
	"what is held":        regexp.MustCompile(`(?i)\bwhat is held\b`),
	", which":             regexp.MustCompile(`(?i), which\b`),
	"What, at the begin":  regexp.MustCompile(`(?:^|[.!?:] )What\b[^?]*?(?:[.!]|$)`),
}

// sentence is a text for users, and where it is.
type sentence struct {
	file string
	line int
	text string
}

// TestUserWords: texts for users have none of the signs of words that had to be read twice.
func TestUserWords(t *testing.T) {
	sources := map[string]func(*testing.T) []sentence{
		"docs": docWords, "help": helpWords, "messages": messageWords, "metrics": metricWords, "schema": schemaWords, "comments": commentWords,
		"command line and admin port": literalWords, "page": pageWords,
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			said := source(t)
			if len(said) < 50 {
				t.Errorf("only %d texts are found", len(said))
			}
			for _, s := range said {
				for sign, pattern := range wordSigns {
					if at := pattern.FindStringIndex(s.text); at != nil {
						t.Errorf("%s:%d: %s: %s", s.file, s.line+strings.Count(s.text[:at[0]], "\n"), sign, around(s.text, at[0]))
					}
				}
			}
		})
	}
}

// TestWordSigns: each sign is found, and good sentences have none.
func TestWordSigns(t *testing.T) {
	for sign, text := range map[string]string{
		"nobody": "Nobody rejects it.", "whoever": "For whoever writes.", "what is left": "weir keeps what is left.", "told, tells, tell": "The origin is told it.",
		"let go": "Removals were let go.", "go by": "Names go by authority.", "stands in": "It stands in for it.", "has something of": "It has something of both.",
		"of its own, twice": "a stream of its own has a node of its own", "no more, at the end": "It is frozen no more.", "but for": "all but for one",
		"as well as it": "as well as it can", "what is held": "What is held stays.", ", which": "a page, which is short", "What, at the begin": "It ends. What it has stays.",
	} {
		if !wordSigns[sign].MatchString(text) {
			t.Errorf("%s is not found in %q", sign, text)
		}
	}
	for _, text := range []string{"See what a group has.", "What is a group?", "no more than 5", "the rule which matches", "a node of its own", "It asks: What now?"} {
		for sign, pattern := range wordSigns {
			if pattern.MatchString(text) {
				t.Errorf("%s is found in %q", sign, text)
			}
		}
	}
}

// around returns the words near an index.
func around(text string, at int) string {
	from, to := max(0, at-40), min(len(text), at+60)
	return strings.ToValidUTF8(strings.Join(strings.Fields(text[from:to]), " "), "")
}

// docWords are the prose of the pages for users, without code.
func docWords(t *testing.T) (out []sentence) {
	t.Helper()
	names := []string{root + "/README.md", root + "/deploy/helm/weir/README.md"}
	for _, dir := range []string{root + "/deploy/docs", root + "/.github"} {
		err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if filepath.Ext(name) == ".md" {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		out = append(out, proseOf(filepath.Clean(name), readText(t, name))...)
	}
	return out
}

var (
	linkTarget = regexp.MustCompile(`\]\([^)\n]*\)`)
	itemStart  = regexp.MustCompile(`^\s*(?:[-*]|\d+\.)\s+`)
	emphasis   = strings.NewReplacer("**", "", "*", "", "_", "")
)

// proseOf returns the paragraphs, list items and cells of a page. Headings and heads of tables are
// titles, and left out.
func proseOf(name, text string) (out []sentence) {
	blank := func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) }
	text = codeBlock.ReplaceAllStringFunc(text, blank)
	text = codeIndent.ReplaceAllStringFunc(text, blank)
	text = linkTarget.ReplaceAllString(codeSpan.ReplaceAllString(text, "x"), "]")
	lines := strings.Split(text, "\n")
	open := false // the last text goes on
	for i, line := range lines {
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			open = false
		case strings.HasPrefix(line, "|"):
			open = false
			if i+1 < len(lines) && strings.HasPrefix(strings.ReplaceAll(lines[i+1], " ", ""), "|-") {
				continue
			}
			for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
				out = append(out, sentence{name, i + 1, emphasis.Replace(strings.TrimSpace(cell))})
			}
		case !open || itemStart.MatchString(line):
			out = append(out, sentence{name, i + 1, emphasis.Replace(itemStart.ReplaceAllString(line, ""))})
			open = true
		default:
			last := &out[len(out)-1]
			last.text += "\n" + emphasis.Replace(strings.TrimSpace(line))
		}
	}
	return out
}
