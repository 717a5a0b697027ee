package conformance

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// hops is how many weirs stand in a row: every case must pass through two and three as well
// (RELAY-86).
func hops(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("WEIR_HOPS"))
	switch {
	case os.Getenv("WEIR_HOPS") == "":
		return 1
	case err != nil || n < 1 || n > 4:
		t.Fatalf("WEIR_HOPS=%s is not a number from 1 to 4", os.Getenv("WEIR_HOPS"))
	}
	return n
}

// exception is a case that cannot pass through a row of weirs, and the rule that makes it so.
type exception struct{ rule, name, reason string }

func exceptions(t *testing.T) (all []exception) {
	for _, line := range list(t, "testdata/hops.txt") {
		part := strings.SplitN(line, "|", 3)
		if len(part) != 3 {
			t.Fatalf("testdata/hops.txt: %q is not RULE | CASE | REASON", line)
		}
		all = append(all, exception{strings.TrimSpace(part[0]), strings.TrimSpace(part[1]), strings.TrimSpace(part[2])})
	}
	return all
}

// inRow are the cases to run, and for those that are left out in a row of weirs the reason.
func inRow(t *testing.T) (run []testCase, except map[string]string) {
	except = map[string]string{}
	for _, c := range slices.Concat(suite...) {
		if hops(t) == 1 || !c.virtual() {
			run = append(run, c)
		}
	}
	if hops(t) > 1 {
		for _, e := range exceptions(t) {
			except[e.name] = e.rule + ": " + e.reason
		}
	}
	return run, except
}

// TestExceptionsOfTheRow: each exception is one of a case, by a rule which that case shows, and
// says why.
func TestExceptionsOfTheRow(t *testing.T) {
	for _, e := range exceptions(t) {
		i := slices.IndexFunc(slices.Concat(suite...), func(c testCase) bool { return c.name == e.name })
		switch {
		case i < 0:
			t.Errorf("testdata/hops.txt: no case is called %q", e.name)
		case !slices.Contains(strings.Fields(slices.Concat(suite...)[i].rules), e.rule):
			t.Errorf("testdata/hops.txt: %q does not show %s", e.name, e.rule)
		case e.reason == "":
			t.Errorf("testdata/hops.txt: %q is without a reason", e.name)
		}
	}
}
