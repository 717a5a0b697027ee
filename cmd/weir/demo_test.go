package main

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream/file"
)

// demoFirst is what the clients are told before anything changes.
var demoFirst = []string{
	"delta cds     new: cluster web, connect timeout 1s",
	"sotw lds+rds  new: listener ingress on port 10000",
	"sotw lds+rds  new: routes main to api (/api), web (/)",
	"delta eds     new: endpoints of web: 10.0.0.1:8080",
	"env=prod      new: endpoints of prices: 10.1.0.1:8080",
	"env=staging   new: endpoints of prices: 10.2.0.1:8080",
}

var demoCount = regexp.MustCompile(`demo          (\d+) changes were made; the clients received `)

// wantDemo fails unless the output introduces a demonstration and counts at least so many changes.
func wantDemo(t *testing.T, out string, changes int) {
	t.Helper()
	if !strings.Contains(out, "admin page http://127.0.0.1:") {
		t.Errorf("no introduction in\n%s", out)
	}
	counted := demoCount.FindStringSubmatch(out)
	if counted == nil {
		t.Fatalf("no count in\n%s", out)
	}
	if n, err := strconv.Atoi(counted[1]); err != nil || n < changes {
		t.Errorf("%v changes, want %d at least:\n%s", counted[1], changes, out)
	}
}

// controlled is a demonstration whose clients have all they asked for, and whose files change when
// the test sends a tick.
func controlled(t *testing.T) (out *output, ticks chan<- time.Time, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	tick := make(chan time.Time)
	out = &output{}
	d := newDemo(out, zap.NewNop())
	d.tick = tick
	done := make(chan error, 1)
	go func() { done <- d.run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	for _, part := range demoFirst {
		await(t, part, func() bool { return strings.Contains(out.String(), part) })
	}
	return out, tick, end
}

// wantNoDirectory fails if the sample is left behind.
func wantNoDirectory(t *testing.T, out string) {
	t.Helper()
	_, rest, _ := strings.Cut(out, "the files in ")
	dir, _, ok := strings.Cut(rest, " ")
	if !ok {
		t.Fatalf("the directory is not named in\n%s", out)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left behind: %v", dir, err)
	}
}

// It ends by itself when told how long; how far it gets is the machine's affair.
func TestDemo(t *testing.T) {
	code, stdout, stderr := weir(t, "demo", "--for", "5s")
	if code != exitOK || stderr != "" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	wantDemo(t, stdout, 0)
	wantNoDirectory(t, stdout)
}

// A change is told, reaches who asked for it, and is counted.
func TestDemoStory(t *testing.T) {
	out, ticks, end := controlled(t)
	ticks <- time.Time{}
	await(t, "the endpoints of web change", func() bool {
		return strings.Contains(out.String(), "delta eds     changed: endpoints of web: 10.0.0.2:8080")
	})
	end()
	if told := "files         the endpoints of web move to 10.0.0.2"; !strings.Contains(out.String(), told) {
		t.Errorf("no %q in\n%s", told, out)
	}
	if counted := demoCount.FindStringSubmatch(out.String()); counted == nil || counted[1] != "1" {
		t.Errorf("counted %v, want 1 change:\n%s", counted, out)
	}
	wantNoDirectory(t, out.String())
}

// Of the two variants one changes, and reaches its client alone.
func TestDemoVariants(t *testing.T) {
	out, ticks, end := controlled(t)
	next := time.Now()
	await(t, "production's variant changes, and something after it", func() bool {
		if !time.Now().Before(next) {
			ticks <- time.Time{}
			// the files have to rest for a moment before they are read
			next = time.Now().Add(500 * time.Millisecond)
		}
		return strings.Contains(out.String(), "env=prod      changed: endpoints of prices: 10.1.0.2:8080") &&
			strings.Contains(out.String(), "new: cluster search")
	})
	end()
	if n := strings.Count(out.String(), "  env=staging "); n != 1 {
		t.Errorf("staging was told %d times, want once:\n%s", n, out)
	}
}

func TestDemoInterrupted(t *testing.T) {
	d := spawn(t, os.Args[0], "demo")
	await(t, "a change is told", func() bool { return strings.Contains(d.out.String(), "changed:") })
	d.signal(os.Interrupt)
	if code := d.waitEnd(); code != exitOK || d.errs.String() != "" {
		t.Errorf("exit code %d, stderr %q", code, d.errs.String())
	}
	wantDemo(t, d.out.String(), 1)
	wantNoDirectory(t, d.out.String())
}

func TestDemoUsage(t *testing.T) {
	for _, args := range [][]string{{"demo", "x"}, {"demo", "--for", "x"}, {"demo", "--for", "-1s"}} {
		if code, stdout, stderr := weir(t, args...); code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: got %d, %q, %q, want 2 and one line", args, code, stdout, stderr)
		}
	}
}

// Step by step, the files are in order where the story says so.
func TestSampleFiles(t *testing.T) {
	s := newSample(t.TempDir())
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "disk"}}})
		if err != nil {
			t.Fatal(err)
		}
		o, err := file.New(file.Config{Name: "disk", Path: s.dir}, table.Origin("disk"))
		if err != nil {
			t.Fatal(err)
		}
		st := o.Status()
		if len(st.Files) != 5 {
			t.Errorf("step %d: %d files, want 5", i, len(st.Files))
		}
		for _, f := range st.Files {
			wantBroken := s.Broken && strings.HasSuffix(f.Path, "clusters.yaml")
			if (f.Error != "") != wantBroken {
				t.Errorf("step %d: %s: error %q, want one: %v", i, f.Path, f.Error, wantBroken)
			}
		}
		if _, err := s.step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}
