package real

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// patience is how long a condition may take to come true. It is far beyond what anything here
// takes, and no figure.
const patience = 60 * time.Second

// clients is the folder of the client programs that TestMain builds.
var clients string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-real-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	clients = dir
	if out, err := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./clients/...").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the client programs do not build: %v\n%s", err, out)
		return 1
	}
	return weirtest.Main(m, "../..")
}

// pinned is a version from the file versions.
func pinned(name string) string {
	f, err := os.Open("versions")
	if err != nil {
		panic(err)
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if version, ok := strings.CutPrefix(lines.Text(), name+"="); ok {
			return version
		}
	}
	panic("the file versions does not pin " + name)
}

// installed is the path of a program that the script install fetched; without it the test fails.
func installed(tb testing.TB, name string) string {
	tb.Helper()
	cache := os.Getenv("WEIR_REAL_CACHE")
	if cache == "" {
		cache = filepath.Join("..", "..", "bin", "real")
	}
	path, err := filepath.Abs(filepath.Join(cache, name))
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("%v: run .ci/real/install", err)
	}
	return path
}
