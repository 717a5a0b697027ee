package conformance

import (
	"os/exec"
	"strings"
	"testing"
)

// virtual runs a test of another package by its name, which may be that of a subtest: for rules
// that only virtual time or the inside of a package can show. It fails if that test fails, or if
// there is none of that name.
func virtual(t *testing.T, pkg, name string) {
	t.Helper()
	if !strings.Contains(t.Name(), "/virtual:_") {
		// or it would be run for each row of weirs
		t.Error("no weir is run here, so the case's name must begin with virtual:")
	}
	pattern := "^" + strings.ReplaceAll(name, "/", "$/^") + "$"
	out, err := exec.Command("go", "test", "-count=1", "-v", "-run", pattern, pkg).CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%s of %s: %v\n%s", name, pkg, err, out)
	case !strings.Contains(string(out), "--- PASS: "+name+" "):
		t.Errorf("%s has no test %s that passes:\n%s", pkg, name, out)
	}
}
