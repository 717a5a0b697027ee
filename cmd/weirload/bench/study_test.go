package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// smallStudy has a pause that is long enough for little garbage.
func smallStudy(t *testing.T) study {
	return study{dir: t.TempDir(), log: &bytes.Buffer{}, pause: 2 * time.Second}
}

// note is what a study under test finds.
type note struct{ Text string }

func (n *note) markdown(out io.Writer) error {
	_, err := io.WriteString(out, "found: "+n.Text)
	return err
}

// TestStudy: what was found is written even if some of it could not be measured, and can be read
// again; if nothing was found nothing is.
func TestStudy(t *testing.T) {
	broken := errors.New("some of it failed")
	readNotes := func(files []string) (findings, error) {
		all := &note{}
		err := readJSON(files, func(one *note) { all.Text += one.Text })
		return all, err
	}
	file := filepath.Join(t.TempDir(), "notes.json")
	var out strings.Builder
	s := &study{json: file, log: &bytes.Buffer{}, programs: programs{weir: "w", weirload: "l"}}
	err := s.run(t.Context(), &out, readNotes, func(context.Context) (findings, error) {
		if _, err := os.Stat(s.dir); err != nil {
			t.Error(err)
		}
		return &note{"a"}, broken
	})
	if !errors.Is(err, broken) || out.String() != "found: a" {
		t.Errorf("%q is told, with %v", out.String(), err)
	}
	if _, err := os.Stat(s.dir); err == nil {
		t.Error("its directory is left behind")
	}
	if said := s.log.(*bytes.Buffer).String(); !strings.HasPrefix(said, "all of it took ") {
		t.Errorf("it said %q", said)
	}

	out.Reset()
	again := &study{from: []string{file, file}}
	if err := again.run(t.Context(), &out, readNotes, nil); err != nil || out.String() != "found: aa" {
		t.Errorf("%q was read, %v", out.String(), err)
	}

	out.Reset()
	s.json = filepath.Join(t.TempDir(), "none.json")
	err = s.run(t.Context(), &out, readNotes, func(context.Context) (findings, error) { return nil, broken })
	if _, none := os.Stat(s.json); !errors.Is(err, broken) || out.Len() > 0 || none == nil {
		t.Errorf("of nothing %q was told, with %v", out.String(), err)
	}
}
