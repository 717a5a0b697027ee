package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// TestReloadAtTheStart: what changed while weir started is not missed.
func TestReloadAtTheStart(t *testing.T) {
	near, east := newFiles(t), newFiles(t)
	r := &reloading{file: filepath.Join(t.TempDir(), "weir.yaml"), hangup: make(chan os.Signal, 1)}
	r.put(t, twoOrigins(near, east, "", ""))
	cfg, err := config.Load(r.file)
	if err != nil {
		t.Fatal(err)
	}
	r.put(t, twoOrigins(near, east, "", "limits: { groups: 7 }\n"))
	core, logs := observer.New(zapcore.InfoLevel)
	r.running = runWeir(t, cfg, zap.New(core), logs, func(p *process) { p.path = r.file })
	await(t, "it is in force", func() bool { return r.config().Limits.Groups == 7 })
}

// TestReloadSymlinks: a mounted ConfigMap is links, of which one is turned. So is a file that is
// renamed or written in place.
func TestReloadSymlinks(t *testing.T) {
	near, east, dir := newFiles(t), newFiles(t), t.TempDir()
	version := func(name string, groups int) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		text := twoOrigins(near, east, "", fmt.Sprintf("limits: { groups: %d }\n", groups))
		if err := os.WriteFile(filepath.Join(dir, name, "weir.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(name, filepath.Join(dir, "..next")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", 1)
	r := &reloading{file: filepath.Join(dir, "weir.yaml"), hangup: make(chan os.Signal, 1)}
	if err := os.Symlink("..data/weir.yaml", r.file); err != nil {
		t.Fatal(err)
	}
	r.begin(t)
	for i := 2; i < 5; i++ {
		version(fmt.Sprint("..", i), i)
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprint("..", i-1))); err != nil {
			t.Fatal(err)
		}
		await(t, "the link was turned", func() bool { return r.config().Limits.Groups == i })
	}
	if n := r.reloads("error"); n != 0 {
		t.Errorf("%v refusals while links were turned", n)
	}
	r.put(t, twoOrigins(near, east, "", "limits: { groups: 100 }\n"))
	await(t, "a file was put in its place", func() bool { return r.config().Limits.Groups == 100 })
	if err := os.WriteFile(r.file, []byte(twoOrigins(near, east, "", "limits: { groups: 101 }\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "it was written in place", func() bool { return r.config().Limits.Groups == 101 })
}

// TestReloadOfAHostileFile: a file whose aliases stand for a billion values costs a running weir
// nothing, and what was in force stays.
func TestReloadOfAHostileFile(t *testing.T) {
	near, east := newFiles(t), newFiles(t)
	w := startReloading(t, twoOrigins(near, east, "", "limits: { groups: 7 }\n"))
	bomb := "x0: &x0 [a, a, a, a, a, a, a, a, a, a]\n"
	for i := 1; i < 9; i++ {
		bomb += fmt.Sprintf("x%d: &x%d [%s*x%d]\n", i, i, strings.Repeat(fmt.Sprintf("*x%d, ", i-1), 9), i-1)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := w.again(bomb + "sinks: *x8\n" + twoOrigins(near, east, "", "limits: { groups: 8 }\n"))
	runtime.ReadMemStats(&after)
	if len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "weir.yaml:6:20: with its aliases written out the file has more than 500000 values up to here; use fewer aliases") {
		t.Errorf("it is %q", s.Problems)
	}
	if groups := w.config().Limits.Groups; groups != 7 {
		t.Errorf("limits.groups is %d", groups)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("%d MiB were allocated", took>>20)
	}
}
