package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestStudiesOfThePages: the studies that the pages run are there, with flags that they take.
func TestStudiesOfThePages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "..", "deploy", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	study, found := regexp.MustCompile(`go run \. ([a-z]+[^#\n`+"`]*)"), 0
	for _, page := range append(pages, filepath.Join("..", "..", "..", "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range study.FindAllStringSubmatch(string(text), -1) {
			found++
			args := strings.Fields(m[1])
			cmd, rest, err := newCommand().Find(args)
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: go run . %s: %v", page, m[1], err)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d are found: is the pattern right?", found)
	}
}
