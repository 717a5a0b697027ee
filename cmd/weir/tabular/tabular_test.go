package tabular

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// write returns what rows look like.
func write(t *testing.T, style Style, rows func(*Writer)) string {
	t.Helper()
	var out strings.Builder
	w := New(&out, style)
	rows(w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func people(w *Writer) {
	w.Row("NAME", "STATE", "LAST ERROR")
	w.Row("mesh", Cell{"disconnected", Red}, strings.Repeat("long ", 20)+"end")
	w.Row("a-rather-long-name-of-an-origin", Cell{"connected", Green}, "")
}

// TestNothingIsCut: without a width all is there, and no colour.
func TestNothingIsCut(t *testing.T) {
	want := "NAME                             STATE         LAST ERROR\n" +
		"mesh                             disconnected  " + strings.Repeat("long ", 20) + "end\n" +
		"a-rather-long-name-of-an-origin  connected     -\n"
	if got := write(t, Style{}, people); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// TestCutToWidth: no line is wider than the terminal, headings stay, and the columns line up.
func TestCutToWidth(t *testing.T) {
	for width := 42; width < 160; width++ {
		got := write(t, Style{Width: width}, people)
		at := strings.Index(got, "STATE")
		if !strings.Contains(got, "disconnected ") {
			t.Errorf("at %d columns a state is cut:\n%s", width, got)
		}
		for i, line := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("a line has %d columns of %d: %q", n, width, line)
			}
			if state := []string{"STATE", "dis", "con"}[i]; !strings.HasPrefix(string([]rune(line)[at:]), state) {
				t.Errorf("at %d columns %q is not at %d of %q", width, state, at, line)
			}
		}
		if !strings.Contains(got, "NAME") || !strings.Contains(got, "LAST ERROR") || strings.Contains(got, "…") == (width > 149) {
			t.Errorf("at %d columns:\n%s", width, got)
		}
	}
}

// TestSentencesAreNotCut: they continue below where they began.
func TestSentencesAreNotCut(t *testing.T) {
	got := write(t, Style{Width: 40}, func(w *Writer) {
		w.Prose("state", "full: the limit of names is reached, and new ones are refused")
		w.Prose("config", "ok")
	})
	want := "state   full: the limit of names is\n        reached, and new ones are\n        refused\nconfig  ok\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestColors: they do not count as columns, and no cell has any of its own.
func TestColors(t *testing.T) {
	plain := write(t, Style{}, people)
	got := write(t, Style{Color: true}, people)
	if !strings.Contains(got, "\x1b[31mdisconnected\x1b[0m  long") || !strings.Contains(got, "\x1b[32mconnected\x1b[0m     -") {
		t.Errorf("no colours in %q", got)
	}
	for _, code := range []string{"\x1b[31m", "\x1b[32m", "\x1b[0m"} {
		got = strings.ReplaceAll(got, code, "")
	}
	if got != plain {
		t.Errorf("with colours it is laid out as\n%s, and not as\n%s", got, plain)
	}
	hostile := write(t, Style{Color: true}, func(w *Writer) { w.Row("a\tb\nc", Cell{"\x1b[2J", Red}) })
	if want := `a\tb\nc  ` + "\x1b[31m" + `\u001b[2J` + "\x1b[0m\n"; hostile != want {
		t.Errorf("%q, want %q", hostile, want)
	}
}

// TestBlocks: a line of one cell, or a blank one, ends a table.
func TestBlocks(t *testing.T) {
	got := write(t, Style{}, func(w *Writer) {
		w.Row("A", "B")
		w.Row("first", "x")
		w.Row("and 3 more")
		w.Blank()
		w.Row("C", "D")
		w.Row("1", 2)
	})
	if want := "A      B\nfirst  x\nand 3 more\n\nC  D\n1  2\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestFirstErrorIsReturned(t *testing.T) {
	w := New(broken{}, Style{})
	w.Row("a")
	w.Row("b", "c")
	if err := w.Flush(); err == nil || err.Error() != "broken" {
		t.Errorf("error %v", err)
	}
}
