package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

const (
	root     = "../.."
	chart    = root + "/deploy/helm/weir"
	examples = root + "/deploy/helm/examples"
)

// patience is how long a condition may take to come true. It is far beyond what anything here
// takes, and no figure.
const patience = 90 * time.Second

// cluster is that of all tests; nil if this machine cannot run one, and then unable says why.
var (
	cluster *standin
	unable  error
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(interrupted, 2*time.Minute)
	defer cancel()
	begin := time.Now()
	images, err := images()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c, err := startStandin(ctx, standinConfig{programs: program("KUBE", "bin/kube"), images: images})
	switch {
	case errors.Is(err, errUnable):
		unable = err
		return m.Run()
	case err != nil:
		fmt.Fprintln(os.Stderr, "the cluster does not start:", err)
		return 1
	}
	fmt.Printf("the cluster was ready after %v\n", time.Since(begin).Round(time.Millisecond))
	cluster = c
	defer c.close()
	done := make(chan int, 1)
	go func() { done <- m.Run() }()
	select {
	case code := <-done:
		return code
	case <-interrupted.Done(): // nothing is left behind
		return 1
	}
}

// images are weir's, and an Envoy's with the libraries that it is linked to.
func images() (map[string]image, error) {
	envoy, err := envoyProgram()
	if err != nil {
		return nil, err
	}
	files, err := linked(envoy)
	if err != nil {
		return nil, err
	}
	files["/envoy"] = envoy
	return map[string]image{
		"weir": {
			files:      map[string]string{"/weir": program("WEIR", "bin/linux-"+runtime.GOARCH+"/weir")},
			entrypoint: "/weir", args: []string{"run", "--config", "/etc/weir/weir.yaml"}, user: 65532,
		},
		"envoy": {files: files, entrypoint: "/envoy"},
	}, nil
}

// program is a path that a variable names, or one below the root.
func program(variable, otherwise string) string {
	path := os.Getenv(variable)
	if path == "" {
		path = filepath.Join(root, otherwise)
	}
	if path, err := filepath.Abs(path); err == nil {
		return path
	}
	return path
}

// need skips a test where no cluster can run.
func need(t *testing.T) {
	t.Helper()
	if cluster == nil {
		t.Skip(unable)
	}
}

// await waits until a condition has no error.
func await(t *testing.T, sentence string, condition func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		err := condition()
		if err == nil {
			return time.Since(begin)
		}
		if time.Since(begin) > patience {
			t.Fatalf("%s: %v", sentence, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// within asserts a promise in seconds at five times as much, and logs the true value.
func within(t *testing.T, promise time.Duration, sentence string, condition func() error) {
	t.Helper()
	took := await(t, sentence, condition)
	t.Logf("%s: %v; promised are %v", sentence, took.Round(time.Millisecond), promise)
	if took > 5*promise {
		t.Errorf("%s: it took %v", sentence, took)
	}
}
