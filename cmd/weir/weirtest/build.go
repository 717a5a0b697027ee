package weirtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// Binary is the path of the program under test, set by Main.
var Binary string

// Main builds weir, with the race detector where that works, runs the tests, and checks for leaked
// goroutines. root is the main module's directory, relative to the test. WEIR_BINARY names a binary
// to test instead.
func Main(m *testing.M, root string) int { return run(m, root, Build) }

// Plain is Main without the race detector, for tests that measure times and memory, and for those
// that run with it elsewhere.
func Plain(m *testing.M, root string) int { return run(m, root, BuildPlain) }

func run(m *testing.M, root string, build func(dir, root string) (string, error)) int {
	dir, err := os.MkdirTemp("", "weir-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if Binary = os.Getenv("WEIR_BINARY"); Binary == "" {
		if Binary, err = build(dir, root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if code := m.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintf(os.Stderr, "goroutines left behind by the tests: %v\n", err)
		return 1
	}
	return 0
}

// Build is the path of weir with the race detector, where that can run. It is built in dir, unless
// WEIR_RACE names what .ci/test has built once for all packages.
func Build(dir, root string) (string, error) {
	if built := os.Getenv("WEIR_RACE"); built != "" {
		return built, nil
	}
	if !canRace() {
		fmt.Println("NOTE: no C compiler for cgo here, so weir is built WITHOUT the race detector")
		return BuildPlain(dir, root)
	}
	return build(filepath.Join(dir, "race"), root, "-race")
}

// BuildPlain is Build without the race detector; WEIR_PLAIN is what .ci/test has built.
func BuildPlain(dir, root string) (string, error) {
	if built := os.Getenv("WEIR_PLAIN"); built != "" {
		return built, nil
	}
	return build(filepath.Join(dir, "plain"), root)
}

// build makes the folder, too. The program is called weir, as a test may know it by its name.
func build(folder, root string, flags ...string) (string, error) {
	args := append([]string{"build", "-o", folder + string(filepath.Separator)}, flags...)
	cmd := exec.Command("go", append(args, "./cmd/weir")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/weir: %w\n%s", err, out)
	}
	return filepath.Join(folder, "weir"), nil
}

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
