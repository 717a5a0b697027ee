// Package seed says what random tests draw from. It imports nothing of weir, so that each package's
// own tests may use it.
package seed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// variable gives all random tests of a run one seed. .ci/run draws it, unless it is given, and says
// it, so that a run can be repeated.
const variable = "WEIR_SEED"

// Of is the seed of a test: fixed if that is not 0, else WEIR_SEED, else a new one. It is logged.
func Of(t testing.TB, fixed uint64) uint64 {
	t.Helper()
	s := fixed
	if text := os.Getenv(variable); s == 0 && text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
	}
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with %s=%d", variable, s)
	return s
}

// Rand draws from the seed of a test.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	s := Of(t, 0)
	return rand.New(rand.NewPCG(s, s))
}
