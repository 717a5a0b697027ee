package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// programs are the tests of other packages, by the package's folder. Each is linked once: that
// costs more than nearly all of the cases that are run with it.
var programs = struct {
	dir string // where they are; set by TestMain

	mu     sync.Mutex // guards the rest, and is held while one is built
	byPath map[string]program
}{byPath: map[string]program{}}

// program is the tests of a package, or why there are none.
type program struct {
	path string
	err  error
}

// testsOf are the tests of the package in a folder.
func testsOf(folder string) (path string, err error) {
	programs.mu.Lock()
	defer programs.mu.Unlock()
	p, ok := programs.byPath[folder]
	if !ok {
		p.path = filepath.Join(programs.dir, fmt.Sprint(len(programs.byPath), ".test"))
		cmd := exec.Command("go", "test", "-c", "-o", p.path, ".")
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			p.err = fmt.Errorf("go test -c: %w\n%s", err, out)
		} else if _, err := os.Stat(p.path); err != nil {
			p.err = fmt.Errorf("there are no tests: %w", err)
		}
		programs.byPath[folder] = p
	}
	return p.path, p.err
}

// virtual runs a test of another package by its name, which may be that of a subtest: for rules
// that only virtual time or the inside of a package can show. It fails if that test fails, or if
// there is none of that name. Where .ci/test runs that test anyway, with the race detector, it is
// looked for and not run a second time.
func virtual(t *testing.T, pkg, name string) {
	t.Helper()
	if !strings.Contains(t.Name(), "/virtual:_") {
		// or it would be run for each row of weirs
		t.Error("no weir is run here, so the case's name must begin with virtual:")
	}
	folder := filepath.Clean(strings.Replace(pkg, "github.com/weir-xds/weir", "../../..", 1))
	if elsewhere() {
		if err := exists(folder, name); err != nil {
			t.Errorf("%s of %s: %v", name, pkg, err)
		}
		return
	}
	path, err := testsOf(folder)
	if err != nil {
		t.Errorf("the tests of %s: %v", pkg, err)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	pattern := "^" + strings.ReplaceAll(name, "/", "$/^") + "$"
	cmd := exec.CommandContext(ctx, path, "-test.paniconexit0", "-test.v", "-test.run", pattern)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%s of %s: %v\n%s", name, pkg, err, out)
	case !strings.Contains(string(out), "--- PASS: "+name+" "):
		t.Errorf("%s has no test %s that passes:\n%s", pkg, name, out)
	}
}

// elsewhere reports whether the tests of virtual cases are run beside this suite, in their packages.
func elsewhere() bool { return os.Getenv("WEIR_VIRTUAL") == "elsewhere" }

// exists looks for a test in the files of a folder. A subtest is a file of testdata, or its name
// stands in the tests.
func exists(folder, name string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return err
	}
	var all []byte
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all = append(all, text...)
	}
	name, sub, _ := strings.Cut(name, "/")
	if !regexp.MustCompile(`(?m)^func ` + name + `\(\w+ \*testing\.[TF]\) \{`).Match(all) {
		return errors.New("there is no such test")
	}
	if sub == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(folder, "testdata", sub+".txt")); err == nil {
		return nil
	}
	if !bytes.Contains(all, []byte(strconv.Quote(strings.ReplaceAll(sub, "_", " ")))) {
		return fmt.Errorf("there is no case %s of it", sub)
	}
	return nil
}
