package conformance

import (
	"bufio"
	"fmt"
	"maps"
	"os"
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
var suite = [][]testCase{
	streamsCases, deltaCases, absenceCases, orderCases, lanesCases, defectCases,
	groupsCases, wireCases, sizeCases, aliasCases, ttlCases, fedCases, collCases,
	retiredCases, restartCases, chainCases, vhdsCases, connCases, limitCases, fallbackCases, guardCases,
	reloadCases, dynCases, strictCases, loadCases, restCases, restOriginCases, v2Cases, fileCases, lastResortCases, csdsCases,
}

// virtual cases run a test of another package, in which no weir is run.
func (c testCase) virtual() bool { return strings.HasPrefix(c.name, "virtual: ") }

// TestConformance treats the real binary as a black box, over loopback, and prints rule, case and
// result, and what they come to.
func TestConformance(t *testing.T) {
	var mu sync.Mutex
	var results []string
	total, shown := map[string]int{}, map[string]bool{}
	cases, except := inRow(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				result := "passed"
				if t.Failed() {
					result = "FAILED"
				} else if t.Skipped() {
					result = "skipped"
				} else if c.virtual() && elsewhere() {
					result = "elsewhere"
				}
				mu.Lock()
				defer mu.Unlock()
				total[result]++
				for _, rule := range strings.Fields(c.rules) {
					shown[rule] = shown[rule] || result == "passed" || result == "elsewhere"
					results = append(results, fmt.Sprintf("%-10s %-90s %s", rule, c.name, result))
				}
			})
			if why := except[c.name]; why != "" {
				t.Skip(why)
			}
			c.run(t)
		})
	}
	t.Cleanup(func() {
		slices.Sort(results)
		fmt.Println(strings.Join(results, "\n"))
		for name, why := range except {
			fmt.Printf("skipped: %s (%s)\n", name, why)
		}
		maps.DeleteFunc(shown, func(_ string, passed bool) bool { return !passed })
		if n := total["elsewhere"]; n > 0 {
			fmt.Printf("%d virtual cases are tests that .ci/test runs in their own packages\n", n)
		}
		fmt.Printf("through %d weir(s) in a row %d rules are shown; cases: %d passed, %d failed, %d skipped\n",
			hops(t), len(shown), total["passed"], total["FAILED"], total["skipped"])
	})
}

// rulesOf are the rules that cases show.
func rulesOf(cases []testCase) map[string]bool {
	all := map[string]bool{}
	for _, c := range cases {
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

// TestEveryRuleIsCited: each rule in scope is cited by a case, and no other.
func TestEveryRuleIsCited(t *testing.T) {
	shown, rules := rulesOf(slices.Concat(suite...)), list(t, "testdata/rules.txt")
	for _, rule := range rules {
		if !shown[rule] {
			t.Errorf("%s is shown by no case", rule)
		}
	}
	for rule := range shown {
		if !slices.Contains(rules, rule) {
			t.Errorf("%s is cited, and is no rule in scope", rule)
		}
	}
}
