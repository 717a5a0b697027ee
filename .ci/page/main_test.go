package page

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

const root = "../.."

// patience is how long a condition may take to come true. It is far beyond what anything here
// takes, and no figure.
const patience = 30 * time.Second

// allowance is how many times as much as promised a figure may be: the machine may be shared.
const allowance = 5

func TestMain(m *testing.M) { os.Exit(weirtest.Plain(m, root)) }

// chromium is the browser's path. Without one the test is skipped.
func chromium(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium here: apt-get install chromium, or CHROMIUM=path")
	return ""
}

// artefact is the path of a file that is kept for people.
func artefact(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(root, "bin", "page")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// within asserts a promise in seconds at five times as much, and logs the true value.
func within(t *testing.T, promise time.Duration, sentence string, condition func() bool) {
	t.Helper()
	begin := time.Now()
	if !weirtest.Until(patience, condition) {
		t.Fatalf("%s: not after %v", sentence, patience)
	}
	took := time.Since(begin)
	t.Logf("%s: %v; promised are %v", sentence, took.Round(time.Millisecond), promise)
	if took > allowance*promise {
		t.Errorf("%s: it took %v", sentence, took)
	}
}
