package downstream

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxCandidates is how many words of a NACK are tried as names of resources.
const maxCandidates = 64

// candidates are the words of a client's message that may be names of resources.
func candidates(message string) (words []string) {
	fields := strings.FieldsFunc(message, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("'\"`,", r) })
	for _, word := range fields {
		for _, w := range []string{word, strings.Trim(word, ":;.()[]{}<>")} {
			if len(words) == maxCandidates {
				return words
			}
			if w != "" && (len(words) == 0 || words[len(words)-1] != w) {
				words = append(words, w)
			}
		}
	}
	return words
}

var privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)

// keyless is a client's message without private keys that it quotes.
func keyless(message string) string {
	if !strings.Contains(message, "PRIVATE KEY-----") {
		return message
	}
	return privateKey.ReplaceAllString(message, "[blanked]")
}

// maxPattern bounds the words of a rejection in the book.
const maxPattern = 512

// pattern is a client's message without what differs from client to client and from time to time:
// names of resources, the node's id, numbers, addresses and hashes.
func pattern(message string, names []string, node string) string {
	message = replaceWord(message, node, "{node}")
	longest := slices.SortedFunc(slices.Values(names), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, name := range longest { // one may be a part of another
		message = replaceWord(message, name, "{name}")
	}
	var b strings.Builder
	for i, word := range strings.Fields(message) {
		if i > 0 {
			b.WriteByte(' ')
		}
		for word != "" {
			n := strings.IndexFunc(word, func(r rune) bool { return !alphanumeric(r) })
			switch {
			case n < 0:
				n = len(word)
			case n == 0:
				_, n = utf8.DecodeRuneInString(word)
			}
			b.WriteString(withoutNumbers(word[:n]))
			word = word[n:]
		}
		if b.Len() > maxPattern {
			break
		}
	}
	return clip(b.String(), maxPattern)
}

func alphanumeric(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// replaceWord replaces a text wherever it stands for itself.
func replaceWord(message, text, stand string) string {
	if text == "" || !strings.Contains(message, text) {
		return message
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(message, text)
		last, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(after)
		b.WriteString(before)
		switch {
		case !found:
			return b.String()
		case before != "" && alphanumeric(last), after != "" && alphanumeric(next):
			b.WriteString(text)
		default:
			b.WriteString(stand)
		}
		message = after
	}
}

// withoutNumbers replaces a run of letters and digits if it is a number, or is made of at least
// four hexadecimal digits, with one of 0 to 9 among them. In others, such as v3, digits stay if
// they are few.
func withoutNumbers(run string) string {
	digits, hex := 0, 0
	for i := range len(run) {
		switch c := run[i]; {
		case c >= '0' && c <= '9':
			digits++
			hex++
		case c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
			hex++
		}
	}
	switch {
	case digits == 0:
		return run
	case digits == len(run), hex == len(run) && hex >= 4, digits > 2:
		return "#"
	}
	return run
}
