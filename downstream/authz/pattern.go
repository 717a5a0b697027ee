package authz

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// piece is a part of a pattern: a literal text, a star, or a named part of the identity.
type piece struct {
	text string // literal, or the part's name
	kind kind
}

type kind uint8

const (
	literal kind = iota
	star         // any characters but the separator, also none
	named        // what an identity has in the place of the part's name
	rest         // any characters; the last piece
)

var partName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// parsePattern reads a pattern. `{x}` is a named part, `*` is any characters but the separator, and
// `**` at the end is any.
func parsePattern(text string) (pieces []piece, err error) {
	if text == "" {
		return nil, fmt.Errorf("is empty")
	}
	for text != "" {
		switch at := strings.IndexAny(text, "*{}"); {
		case at < 0:
			return append(pieces, piece{text: text}), nil
		case at > 0:
			pieces, text = append(pieces, piece{text: text[:at]}), text[at:]
		case text == "**":
			return append(pieces, piece{kind: rest}), nil
		case strings.HasPrefix(text, "**"):
			return nil, fmt.Errorf("has ** before its end")
		case text[0] == '*':
			pieces, text = append(pieces, piece{kind: star}), text[1:]
		default:
			name, after, closed := strings.Cut(text[1:], "}")
			if text[0] == '}' || !closed || !partName.MatchString(name) {
				return nil, fmt.Errorf("has a brace that begins no part: write {name}, in small letters")
			}
			pieces, text = append(pieces, piece{name, named}), after
		}
	}
	return pieces, nil
}

func (p piece) isPart() bool { return p.kind == named }

// parts are the values of an identity's named parts.
type parts []part

type part struct{ name, value string }

func (p parts) of(name string) (value string, ok bool) {
	for i := range p {
		if p[i].name == name {
			return p[i].value, true
		}
	}
	return "", false
}

// glob is a pattern with the parts put in. It has neither parts nor two literals in a row.
type glob []piece

// bind puts the parts in, as literals: a value is never read as a pattern. It returns false if a
// part has no value.
func bind(pieces []piece, values parts) (g glob, ok bool) {
	g = make(glob, 0, len(pieces))
	for _, p := range pieces {
		if p.kind == named {
			value, is := values.of(p.text)
			if !is {
				return nil, false
			}
			p = piece{text: value}
		}
		if n := len(g); n > 0 && p.kind == literal && g[n-1].kind == literal {
			g[n-1].text += p.text
		} else {
			g = append(g, p)
		}
	}
	return g, true
}

func bindAll(patterns [][]piece, values parts) (globs []glob) {
	globs = make([]glob, 0, len(patterns))
	for _, pieces := range patterns {
		if g, ok := bind(pieces, values); ok {
			globs = append(globs, g)
		}
	}
	return globs
}

// fits is bind and matches in one. It makes no glob where there is no need.
func fits(pieces []piece, values parts, text string) bool {
	for i, p := range pieces {
		switch p.kind {
		case rest:
			return true
		case star:
			if !slices.ContainsFunc(pieces[i:], func(p piece) bool { return p.kind == named }) {
				return glob(pieces[i:]).matches(text)
			}
			g, ok := bind(pieces[i:], values)
			return ok && g.matches(text)
		}
		word, ok := p.text, true
		if p.kind == named {
			word, ok = values.of(p.text)
		}
		if !ok || !strings.HasPrefix(text, word) {
			return false
		}
		text = text[len(word):]
	}
	return text == ""
}

// matches reports whether a text is as the glob says. The time is that of a few passes over the
// text: a star takes as little as it can, which is enough, since only a last `**` crosses a slash.
func (g glob) matches(text string) bool { return g.from(text) }

func (g glob) from(text string) bool {
	for i, p := range g {
		switch p.kind {
		case rest:
			return true
		case literal:
			after, ok := strings.CutPrefix(text, p.text)
			if !ok {
				return false
			}
			text = after
		default:
			return g[i:].afterStar(text)
		}
	}
	return text == ""
}

// afterStar is from for a glob that begins with a star.
func (g glob) afterStar(text string) bool {
	for len(g) > 0 && g[0].kind == star {
		g = g[1:]
	}
	segment, _, _ := strings.Cut(text, "/")
	switch {
	case len(g) == 0:
		return len(segment) == len(text)
	case g[0].kind == rest:
		return true
	case len(g) == 1: // the end of the text, and no earlier place
		return strings.HasSuffix(text, g[0].text) && len(text)-len(g[0].text) <= len(segment)
	}
	word := g[0].text
	if head, _, slash := strings.Cut(word, "/"); slash {
		// The star reaches to where the segment's end has to be.
		if !strings.HasSuffix(segment, head) {
			return false
		}
		after, ok := strings.CutPrefix(text[len(segment)-len(head):], word)
		return ok && g[1:].from(after)
	}
	at := strings.Index(segment, word)
	return at >= 0 && g[1:].from(text[at+len(word):])
}

// text returns what a glob without stars matches.
func (g glob) text() string {
	if len(g) == 0 {
		return ""
	}
	return g[0].text
}

// String returns a glob as a pattern is written. A star of a value looks like one of the pattern.
func (g glob) String() string {
	var b strings.Builder
	for _, p := range g {
		b.WriteString([]string{literal: p.text, star: "*", rest: "**"}[p.kind])
	}
	return b.String()
}

// appendKey adds what is equal for equal globs alone.
func (g glob) appendKey(key []byte) []byte {
	for _, p := range g {
		switch p.kind {
		case literal:
			key = strconv.AppendQuote(key, p.text)
		case star:
			key = append(key, '*')
		default:
			key = append(key, "**"...)
		}
	}
	return key
}

// who is a pattern of identities: segments, each with at most one part or star.
type who struct {
	text      string // as it is written
	segments  [][]piece
	separator byte // 0: there is one segment
	rest      bool // any segments may follow, one at least
}

var schemes = []struct {
	begin     string
	separator byte
}{{"spiffe://", '/'}, {"uri:", '/'}, {"dns:", '.'}, {"subject:", ','}, {"uid:", 0}, {"anonymous", 0}}

func separatorOf(identity string) (separator byte, ok bool) {
	for _, s := range schemes {
		if strings.HasPrefix(identity, s.begin) && (s.begin != "anonymous" || identity == s.begin) {
			return s.separator, true
		}
	}
	return 0, false
}

func parseWho(text string) (w who, err error) {
	w.text = text
	var ok bool
	if w.separator, ok = separatorOf(text); !ok {
		return w, fmt.Errorf("begins with none of spiffe://, uri:, dns:, subject:, uid:, and is not anonymous")
	}
	// DNS names and trust domains are identities in small letters.
	if domain, path, _ := strings.Cut(strings.TrimPrefix(text, "spiffe://"), "/"); w.separator == '.' {
		text = strings.ToLower(text)
	} else if strings.HasPrefix(text, "spiffe://") && path != "" {
		text = "spiffe://" + strings.ToLower(domain) + "/" + path
	}
	segments := split(text, w.separator)
	if last := len(segments) - 1; w.separator != 0 && segments[last] == "**" {
		w.rest, segments = true, segments[:last]
	}
	for _, s := range segments {
		if s == "" {
			w.segments = append(w.segments, nil)
			continue
		}
		pieces, err := parsePattern(s)
		if err != nil {
			return w, err
		}
		open := 0
		for _, p := range pieces {
			if p.kind == rest {
				return w, fmt.Errorf("has ** where it is not a segment of its own, the last")
			}
			if p.kind != literal {
				open++
			}
		}
		if open > 1 {
			return w, fmt.Errorf("has a segment with more than one part or star")
		}
		w.segments = append(w.segments, pieces)
	}
	return w, nil
}

// parts are the names of its parts, each once.
func (w *who) parts() (names []string) {
	for _, pieces := range w.segments {
		for _, p := range pieces {
			if p.kind == named && !slices.Contains(names, p.text) {
				names = append(names, p.text)
			}
		}
	}
	return names
}

// exact reports whether the pattern is one identity, which a client shows. Strangers share one that
// they do not.
func (w *who) exact() bool {
	return !w.rest && !w.anonymous() && !slices.ContainsFunc(w.segments, func(pieces []piece) bool {
		return slices.ContainsFunc(pieces, func(p piece) bool { return p.kind != literal })
	})
}

func (w *who) anonymous() bool {
	return len(w.segments) == 1 && len(w.segments[0]) == 1 && w.segments[0][0].text == "anonymous"
}

// split divides an identity into segments. In a subject a comma after a backslash is a character of
// a name.
func split(text string, separator byte) (segments []string) {
	if separator == 0 {
		return []string{text}
	}
	segments = make([]string, 0, strings.Count(text, string(rune(separator)))+1)
	begin := 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && separator == ',':
			i++
		case text[i] == separator:
			segments = append(segments, text[begin:i])
			begin = i + 1
		}
	}
	return append(segments, text[begin:])
}

// subject is an identity, divided once for all patterns.
type subject struct {
	segments  []string // none: it is no identity
	separator byte
}

func subjectOf(identity string) (s subject) {
	if separator, ok := separatorOf(identity); ok {
		s = subject{split(identity, separator), separator}
	}
	return s
}

// match binds the parts to what an identity has in their places. It adds them to an empty list,
// which may have room.
func (w *who) match(s subject, room parts) (values parts, ok bool) {
	n := len(w.segments)
	if s.separator != w.separator || len(s.segments) < n || (len(s.segments) > n) != w.rest {
		return nil, false
	}
	// Most identities differ from most patterns in a word, mostly a late one, so these are compared
	// first.
	for i, pieces := range slices.Backward(w.segments) {
		if len(pieces) == 1 && pieces[0].kind == literal && pieces[0].text != s.segments[i] {
			return nil, false
		}
	}
	values, bound := w.leading(s, room)
	return values, bound == n
}

// leading binds the parts of the first segments that fit, and counts these.
func (w *who) leading(s subject, room parts) (values parts, n int) {
	values = room
	if s.separator != w.separator {
		return nil, 0
	}
	for n < min(len(w.segments), len(s.segments)) {
		var ok bool
		if values, ok = bindSegment(w.segments[n], s.segments[n], values); !ok {
			break
		}
		n++
	}
	return values, n
}

// bindSegment adds the value of the segment's part, if it has one, to the values.
func bindSegment(pieces []piece, text string, values parts) (_ parts, ok bool) {
	open := slices.IndexFunc(pieces, func(p piece) bool { return p.kind != literal })
	if open < 0 {
		return values, len(pieces) == 0 && text == "" || len(pieces) > 0 && text == pieces[0].text
	}
	if open > 0 {
		if text, ok = strings.CutPrefix(text, pieces[0].text); !ok {
			return values, false
		}
	}
	if open < len(pieces)-1 {
		if text, ok = strings.CutSuffix(text, pieces[open+1].text); !ok {
			return values, false
		}
	}
	p := pieces[open]
	if text == "" || p.kind == star {
		return values, text != ""
	}
	if !plain(text) {
		return values, false
	}
	if old, bound := values.of(p.text); bound {
		return values, old == text
	}
	return append(values, part{p.text, text}), true
}

// plain reports whether a text may be the value of a part: one segment of a name, with nothing in
// it that a pattern, a path or a URI reads as anything else.
func plain(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("-_.~:@=+", c) >= 0:
		default:
			return false
		}
	}
	return text != "" && text != "." && text != ".."
}
