package main

import (
	"os"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream/file"
)

// wantDemo fails unless the output tells a demonstration with a change.
func wantDemo(t *testing.T, out string) {
	t.Helper()
	for _, part := range []string{
		"admin page http://127.0.0.1:",
		"delta cds     new: cluster web, connect timeout 1s",
		"sotw lds+rds  new: listener ingress on port 10000",
		"sotw lds+rds  new: routes main to api (/api), web (/)",
		"delta eds     new: endpoints of web: 10.0.0.1:8080",
		"files         the endpoints of web move to 10.0.0.2",
		"delta eds     changed: endpoints of web: 10.0.0.2:8080",
		"demo          1 changes were made; the clients received ",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
}

// wantNoDirectory fails if the sample is left behind.
func wantNoDirectory(t *testing.T, out string) {
	t.Helper()
	_, rest, _ := strings.Cut(out, "The files in ")
	dir, _, ok := strings.Cut(rest, " ")
	if !ok {
		t.Fatalf("the directory is not named in\n%s", out)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left behind: %v", dir, err)
	}
}

func TestDemo(t *testing.T) {
	code, stdout, stderr := weir(t, "demo", "--for", "3s")
	if code != exitOK || stderr != "" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	wantDemo(t, stdout)
	wantNoDirectory(t, stdout)
}

func TestDemoInterrupted(t *testing.T) {
	d := spawn(t, os.Args[0], "demo")
	await(t, "a change is told", func() bool { return strings.Contains(d.out.String(), "changed:") })
	d.signal(os.Interrupt)
	if code := d.waitEnd(); code != exitOK || d.errs.String() != "" {
		t.Errorf("exit code %d, stderr %q", code, d.errs.String())
	}
	wantDemo(t, d.out.String())
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
		if len(st.Files) != 4 {
			t.Errorf("step %d: %d files, want 4", i, len(st.Files))
		}
		for _, f := range st.Files {
			wantBroken := s.broken && strings.HasSuffix(f.Path, "clusters.yaml")
			if (f.Error != "") != wantBroken {
				t.Errorf("step %d: %s: error %q, want one: %v", i, f.Path, f.Error, wantBroken)
			}
		}
		if _, err := s.step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}
