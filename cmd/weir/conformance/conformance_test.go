package conformance

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// testCase is one observable check. rules are the ids it shows, separated by blanks.
type testCase struct {
	rules string
	name  string
	run   func(t *testing.T)
}

// suite is every case, by section of protocol.md.
var suite = [][]testCase{streamsCases, deltaCases, absenceCases, orderCases, lanesCases, defectCases}

// TestConformance treats the real binary as a black box, over loopback, and prints rule, case and result.
func TestConformance(t *testing.T) {
	var mu sync.Mutex
	var results []string
	for _, c := range slices.Concat(suite...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				result := "passed"
				if t.Failed() {
					result = "FAILED"
				} else if t.Skipped() {
					result = "skipped"
				}
				mu.Lock()
				defer mu.Unlock()
				for _, rule := range strings.Fields(c.rules) {
					results = append(results, fmt.Sprintf("%-10s %-90s %s", rule, c.name, result))
				}
			})
			c.run(t)
		})
	}
	t.Cleanup(func() {
		slices.Sort(results)
		fmt.Printf("%s\n%d rules shown\n", strings.Join(results, "\n"), len(cited()))
	})
}

func cited() map[string]bool {
	all := map[string]bool{}
	for _, c := range slices.Concat(suite...) {
		for _, rule := range strings.Fields(c.rules) {
			all[rule] = true
		}
	}
	return all
}

func list(t *testing.T, file string) (ids []string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if line, _, _ := strings.Cut(s.Text(), "#"); strings.TrimSpace(line) != "" {
			ids = append(ids, strings.TrimSpace(line))
		}
	}
	return ids
}

// TestEveryRuleIsCited: each MUST rule in scope is cited by a case, or stands in the list of those that are not covered yet, which
// may only shrink.
func TestEveryRuleIsCited(t *testing.T) {
	shown, rules, pending := cited(), list(t, "testdata/rules.txt"), []string(nil)
	files, err := filepath.Glob("testdata/pending/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		pending = append(pending, list(t, file)...)
	}
	for _, rule := range rules {
		switch waits := slices.Contains(pending, rule); {
		case shown[rule] && waits:
			t.Errorf("%s is shown; take it out of testdata/pending", rule)
		case !shown[rule] && !waits:
			t.Errorf("%s is shown by no case", rule)
		}
	}
	for rule := range shown {
		if !slices.Contains(rules, rule) {
			t.Errorf("%s is cited, and is no rule in scope", rule)
		}
	}
	for _, rule := range pending {
		if !slices.Contains(rules, rule) {
			t.Errorf("%s is pending, and is no rule in scope", rule)
		}
	}
	t.Logf("%d of %d rules are not covered yet", len(pending), len(rules))
}
