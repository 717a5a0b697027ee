package relaytest

import "testing"

// KnownFault is a test of a fault that is not mended yet, and why not. fault plays it and returns
// what is wrong; "" if nothing is. Then the test fails: it is to be made one that holds the mend.
func KnownFault(tb testing.TB, why string, fault func() string) {
	tb.Helper()
	switch wrong := fault(); wrong {
	case "":
		tb.Errorf("the fault is gone (%s): make this a test of the mend", why)
	default:
		tb.Logf("known fault, %s: %s", why, wrong)
	}
}
