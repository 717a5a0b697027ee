package visible

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Hidden reports whether a character cannot be seen, or changes how others are: control characters,
// those that change the direction of writing, spaces other than the common one, ends of lines and
// paragraphs, what has no width, and what is no character.
func Hidden(r rune) bool {
	return r != ' ' && (r < ' ' || r > '~') && (!strconv.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector))
}

// Text returns a text with what is hidden shown, ends of lines and tabs included.
func Text(s string) string { return show(s, "", false) }

// Lines is Text for several lines: their ends stay, and tabs.
func Lines(s string) string { return show(s, "\n\t", false) }

// JSON shows what is hidden in the texts of valid JSON. It is still valid, and means the same.
func JSON(text []byte) []byte { return show(text, "\n\t\r", false) }

// YAML shows what is hidden in YAML that has it in texts in double quotes alone.
func YAML(text []byte) []byte { return show(text, "\n", true) }

// Any reports whether something is hidden in a text.
func Any(s string) bool { return plain(s, "") < len(s) }

// plain returns how many bytes there are before something hidden.
func plain[T string | []byte](s T, keep string) int {
	for i := 0; i < len(s); {
		if c := s[i]; c >= ' ' && c <= '~' {
			i++
			continue
		}
		r, n := decode(s[i:])
		if r == utf8.RuneError && n == 1 || Hidden(r) && !strings.ContainsRune(keep, r) {
			return i
		}
		i += n
	}
	return len(s)
}

func decode[T string | []byte](s T) (rune, int) {
	return utf8.DecodeRuneInString(string(s[:min(len(s), utf8.UTFMax)]))
}

// show returns s if nothing in it is hidden. wide: a character beyond 16 bits is one escape, as in
// YAML, and not two, as in JSON.
func show[T string | []byte](s T, keep string, wide bool) T {
	at := plain(s, keep)
	if at == len(s) {
		return s
	}
	out := make([]byte, 0, len(s)+64)
	for len(s) > 0 {
		out, s = append(out, s[:at]...), s[at:]
		if len(s) > 0 {
			r, n := decode(s)
			out, s = appendEscape(out, r, s[0], n, wide), s[n:]
		}
		at = plain(s, keep)
	}
	return T(out)
}

func appendEscape(out []byte, r rune, first byte, n int, wide bool) []byte {
	high, low := utf16.EncodeRune(r)
	switch {
	case r == utf8.RuneError && n == 1:
		return fmt.Appendf(out, `\x%02x`, first)
	case r == '\n':
		return append(out, `\n`...)
	case r == '\t':
		return append(out, `\t`...)
	case r == '\r':
		return append(out, `\r`...)
	case r <= 0xffff:
		return fmt.Appendf(out, `\u%04x`, r)
	case wide:
		return fmt.Appendf(out, `\U%08x`, r)
	}
	return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
}

// Writer passes on what is written, with what is hidden shown, but for ends of lines and tabs.
type Writer struct {
	to io.Writer

	mu   sync.Mutex // guards part and writing
	part []byte     // the beginning of a character of which the rest was not written yet
}

// NewWriter makes a Writer. It is for concurrent use.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Write implements io.Writer.
func (w *Writer) Write(b []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	whole := b
	if len(w.part) > 0 {
		whole = append(w.part, b...)
	}
	end := len(whole) - unfinished(whole)
	if _, err := w.to.Write(show(whole[:end], "\n\t", false)); err != nil {
		return 0, err
	}
	w.part = append([]byte(nil), whole[end:]...)
	return len(b), nil
}

// unfinished returns how many bytes at the end are the beginning of a character.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Unwrap returns what is written to, for those who have to know what it is, or write what is not
// text.
func (w *Writer) Unwrap() io.Writer { return w.to }
