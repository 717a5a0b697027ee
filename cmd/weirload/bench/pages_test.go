package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestComparisonsOfThePages: comparisons that the pages show take the options that they have there.
func TestComparisonsOfThePages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "..", "deploy", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown, found := regexp.MustCompile(`make compare ARGS="(--[^"]*)"`), 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range shown.FindAllStringSubmatch(string(text), -1) {
			found++
			cmd := newCompareCommand()
			err := cmd.ParseFlags(strings.Fields(m[1]))
			if err == nil {
				c := &comparison{subjects: subjects, rounds: 1}
				c.scenarios, _ = cmd.Flags().GetStringSlice("scenarios")
				_, err = c.choose()
			}
			if err != nil {
				t.Errorf("%s: compare %s: %v", page, m[1], err)
			}
		}
	}
	if found == 0 {
		t.Error("none is found: is the pattern right?")
	}
}
