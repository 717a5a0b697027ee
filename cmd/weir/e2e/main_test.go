package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// binary is the program under test, built by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds, tests, cleans up and looks for leaked goroutines.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = os.Getenv("WEIR_BINARY")
	if binary == "" {
		binary = filepath.Join(dir, "weir")
		if err := build(binary); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintf(os.Stderr, "goroutines left behind by the tests: %v\n", err)
		return 1
	}
	return code
}

// build compiles cmd/weir of the main module to path.
func build(path string) error {
	args := []string{"build", "-o", path}
	if canRace() {
		args = append(args, "-race")
	} else {
		fmt.Println("NOTE: no C compiler for cgo here, so weir is built WITHOUT the race detector")
	}
	cmd := exec.Command("go", append(args, "./cmd/weir")...)
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/weir: %w\n%s", err, out)
	}
	return nil
}

// canRace says whether go build -race can work: it needs cgo and a C compiler.
func canRace() bool {
	out, err := exec.Command("go", "env", "CGO_ENABLED", "CC").Output()
	if err != nil {
		return false
	}
	lines := strings.Split(string(out), "\n")
	if len(lines) < 2 || lines[0] != "1" {
		return false
	}
	cc := strings.Fields(lines[1])
	if len(cc) == 0 {
		return false
	}
	_, err = exec.LookPath(cc[0])
	return err == nil
}
