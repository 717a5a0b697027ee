package cursor

import (
	"flag"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest/mutants"
)

var mutant = flag.String("mutants", "2", "how many lines TestMutants makes wrong; all: every one, and a part of what it prints: those")

// TestMutants: each line that is made wrong is found by the rows, or by the model within 3000
// plays, but those in testdata/mutants.txt.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds this package for each")
	}
	files := []string{"cursor.go", "asks.go", "request.go", "want.go", "take.go", "settle.go", "tell.go", "answer.go", "share.go", "interest.go", "located.go", "origins.go"}
	mutants.Play(t, *mutant, "testdata/mutants.txt", files, []string{"TestRows|TestInterest|TestPieces|TestAsk|TestUnconfirmed|TestUntil|TestWaitsOfWhoComesBack|TestWhatItKnows|TestAgain|TestClaimOfTwoOrigins|TestWaitsOfAList|TestLocated|TestReadsLater|TestUnion|TestCameBack", "TestModel"}, "-seeds=3000")
}
