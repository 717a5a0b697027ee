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
func (g glob) matches(text string) bool {
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

// afterStar is matches for a glob that begins with a star.
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
		return ok && g[1:].matches(after)
	}
	at := strings.Index(segment, word)
	return at >= 0 && g[1:].matches(text[at+len(word):])
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
		b.WriteString(p.String())
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

// names are the globs of a permit, found by how they begin: a client may ask for a million names,
// and rules may have hundreds of patterns.
type names struct {
	all []glob
	// The same, but for a few, which are tried one after the other.
	plain map[string]bool   // those without stars
	open  map[string][]glob // those with one, by the text before it
	sizes []int             // of these texts, ascending
}

const fewNames = 8

func namesOf(globs []glob) *names {
	n := &names{all: globs}
	if len(globs) <= fewNames {
		return n
	}
	n.plain, n.open = map[string]bool{}, make(map[string][]glob, len(globs))
	for _, g := range globs {
		begin, rest := "", g
		if len(g) > 0 && g[0].kind == literal {
			begin, rest = g[0].text, g[1:]
		}
		if len(rest) == 0 {
			n.plain[begin] = true
			continue
		}
		n.open[begin] = append(n.open[begin], rest)
		if at, known := slices.BinarySearch(n.sizes, len(begin)); !known {
			n.sizes = slices.Insert(n.sizes, at, len(begin))
		}
	}
	return n
}

// list is nil for nil.
func (n *names) list() []glob {
	if n == nil {
		return nil
	}
	return n.all
}

func (n *names) match(name string) bool {
	if n == nil {
		return false
	}
	if len(n.all) <= fewNames {
		return slices.ContainsFunc(n.all, func(g glob) bool { return g.matches(name) })
	}
	if n.plain[name] {
		return true
	}
	for _, size := range n.sizes {
		if size > len(name) {
			return false
		}
		for _, rest := range n.open[name[:size]] {
			if rest.matches(name[size:]) {
				return true
			}
		}
	}
	return false
}

// meets reports whether the glob may match a text that begins and ends like this (Permit.Some).
func (g glob) meets(begin, end string, deep bool) bool {
	segments := g.segments()
	for begin != "" {
		var segment string
		segment, begin, _ = strings.Cut(begin, "/")
		switch {
		case len(segments) == 0 || !segments[0].matches(segment):
			return false
		case segments[0].open():
			return true
		}
		segments = segments[1:]
	}
	switch {
	case len(segments) == 0:
		return false
	case deep || segments[0].open():
		return true
	case len(segments) > 1 && !strings.Contains(end, "/"):
		return false
	}
	end, _, _ = strings.Cut(end, "/")
	last := segments[0]
	if n := len(last); n > 0 && last[n-1].kind == literal {
		text := last[n-1].text
		return strings.HasSuffix(text, end) && (n > 1 || text != end) || n > 1 && strings.HasSuffix(end, text)
	}
	return len(last) > 0
}

// segments divides a glob at its slashes. Only the last of them may be open.
func (g glob) segments() []glob {
	all := []glob{nil}
	for _, p := range g {
		last := &all[len(all)-1]
		if p.kind != literal {
			*last = append(*last, p)
			continue
		}
		for i, text := range strings.Split(p.text, "/") {
			if i > 0 {
				all = append(all, nil)
				last = &all[len(all)-1]
			}
			if text != "" {
				*last = append(*last, piece{text: text})
			}
		}
	}
	return all
}

// open reports whether more segments may follow.
func (g glob) open() bool { return len(g) > 0 && g[len(g)-1].kind == rest }
