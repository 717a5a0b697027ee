package plan

import (
	"flag"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest/mutants"
)

var mutant = flag.String("mutants", "2", "how many lines of the plan TestMutants makes wrong; all: every one, and a part of what it prints: those")

// TestMutants: each line of the plan that is made wrong is found by the model within 100 plays, or
// by the rows and the tests beside them.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds this package for each")
	}
	mutants.Play(t, *mutant, "testdata/equivalent.txt", []string{"plan.go", "next.go", "holds.go"},
		[]string{"TestModel", "TestRows|TestComplete|TestHas|TestHasUnknown|TestJoin|TestDue|TestListOfSeveral|TestNewest|TestNeverAnswered|TestForget|TestRemovalBesides.*|TestReadLate"}, "-seeds=100")
}
