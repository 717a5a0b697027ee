package authz

import (
	"fmt"
	"slices"
	"strings"
)

// ambiguous warns of a pattern of names, claims or set that one text fits for different values of
// its parts. "{ns}-{sa}" is "prod-db-admin" of the namespace "prod" and of "prod-db": each gets
// what is the other's (TestAmbiguousPatterns).
func (c *compiler) ambiguous(path, text string, pieces []piece) {
	for i := range c.whos {
		r := readingOf(&c.whos[i], pieces)
		if at := r.ambiguous(); at > 0 {
			c.addf(path, true, "%q is ambiguous: %s", text, r.meeting(at))
			return // the others say the same
		}
	}
}

// reading is what a text says of the parts of a pattern, for identities of one pattern of who. The
// open pieces are its parts and stars. Between each and the next there is a border, with a text
// that may be empty.
type reading struct {
	who     *who
	open    []piece
	borders []string // before each open piece, and after the last
	known   []bool   // whether there is one place where a border can be
}

func readingOf(w *who, pieces []piece) (r reading) {
	r.who = w
	border := ""
	for _, p := range pieces {
		if p.kind == literal {
			border += p.text
			continue
		}
		r.open, r.borders, border = append(r.open, p), append(r.borders, border), ""
	}
	r.borders = append(r.borders, border)
	r.known = make([]bool, len(r.borders))
	return r
}

// ambiguous returns the first border that can be in several places of a text, so that a part beside
// it has several values; 0: there is none. A pattern with a part that the identities do not have
// never matches.
func (r *reading) ambiguous() int {
	names := map[string]bool{}
	bound := r.who.parts()
	for _, p := range r.open {
		if p.kind == named && !slices.Contains(bound, p.text) {
			return 0
		}
		names[p.text] = true // "": a star
	}
	if len(names) < 2 {
		return 0 // one part, how often ever: its length is that of the text
	}
	read := r.read()
	unread := func(p piece) bool { return p.kind == named && !read[p.text] }
	for at := 1; at < len(r.open); at++ {
		if !r.known[at] && (unread(r.open[at-1]) || unread(r.open[at])) {
			return at
		}
	}
	return 0
}

// read finds the borders that have one place, and returns the parts that have one value. The first
// border is at the beginning of the text, and the last at its end. From there it goes on, as far as
// a border has a character that the piece before or after it has not: that piece ends there. A part
// that is known at one place has the same length at another.
func (r *reading) read() map[string]bool {
	last := len(r.open)
	r.known[0], r.known[last] = true, true
	parts := map[string]bool{}
	for changed := true; changed; {
		changed = false
		for i, p := range r.open {
			begin, end := r.known[i], r.known[i+1]
			same := p.kind == named && parts[p.text]
			r.known[i+1] = end || begin && (same || r.ends(p, r.borders[i+1]))
			r.known[i] = begin || end && (same || r.ends(p, r.borders[i]))
			changed = changed || begin != r.known[i] || end != r.known[i+1]
			if p.kind == named && !parts[p.text] && r.known[i] && r.known[i+1] {
				parts[p.text], changed = true, true
			}
		}
	}
	return parts
}

// ends reports whether a border has a character that a piece has not.
func (r *reading) ends(p piece, border string) bool {
	for i := range len(border) {
		switch c := border[i]; {
		case p.kind == star && c == '/', p.kind == named && !r.who.mayHave(c):
			return true
		}
	}
	return false
}

// mayHave reports whether the value of a part of this pattern may have a character: what parts may
// have, without what divides the segments of the identity. The IDs of users are numbers, and SPIFFE
// IDs have few characters (package identity).
func (w *who) mayHave(c byte) bool {
	switch {
	case w.spiffe() && notSPIFFE(rune(c)), w.separator == c, !plain(string([]byte{'x', c})):
		return false
	}
	return w.separator != 0 || '0' <= c && c <= '9'
}

// meeting says what is wrong at a border, with an example if it is no matter of other borders, and
// what to write instead.
func (r *reading) meeting(at int) string {
	before, border, after := r.open[at-1], r.borders[at], r.open[at]
	text := fmt.Sprintf("%s and %s meet at %q, but a value may contain it", before, after, border)
	if border == "" {
		text = fmt.Sprintf("%s and %s meet with nothing between them", before, after)
	}
	if !r.ends(before, border) && !r.ends(after, border) {
		text += ", so " + r.example(before, border, after)
	} else {
		text += ", so one name may be that of several identities"
	}
	separator := "/"
	if r.who.separator == '.' {
		separator = "."
	}
	return fmt.Sprintf("%s; write %q there: no value contains it", text, separator)
}

// example has two sets of values that make one text.
func (r *reading) example(before piece, border string, after piece) string {
	x, y, z := "x", "y", "z"
	if !r.who.mayHave('x') {
		x, y, z = "1", "2", "3"
	}
	both := x + border + y + border + z
	switch {
	case after.kind != named:
		return fmt.Sprintf("%s %q and %s %q both have %q", before.text, x, before.text, x+border+y, both)
	case before.kind != named:
		return fmt.Sprintf("%s %q and %s %q both have %q", after.text, z, after.text, y+border+z, both)
	}
	return fmt.Sprintf("%s %q, %s %q and %s %q, %s %q both have %q",
		before.text, x, after.text, y+border+z, before.text, x+border+y, after.text, z, both)
}

// String returns a piece as it is written.
func (p piece) String() string {
	return [...]string{literal: p.text, star: "*", named: "{" + p.text + "}", rest: "**"}[p.kind]
}

// possible reports whether there are identities like this: the ID of a user is a number, and a
// SPIFFE ID has no empty segment, none of dots alone and few characters.
func (w *who) possible() bool {
	for i, pieces := range w.segments {
		text, open := "", false
		for _, p := range pieces {
			if open = open || p.kind != literal; p.kind == literal {
				text += p.text
			}
		}
		switch {
		case w.spiffe() && i == 0, w.spiffe() && i == 1: // of spiffe://
		case w.spiffe() && (strings.ContainsFunc(text, notSPIFFE) || !open && (text == "" || text == "." || text == "..")):
			return false
		case w.separator == 0 && strings.HasPrefix(text, "uid:"):
			if strings.Trim(text[len("uid:"):], "0123456789") != "" || !open && text == "uid:" {
				return false
			}
		}
	}
	return true
}

func (w *who) spiffe() bool {
	return len(w.segments) > 0 && len(w.segments[0]) == 1 && w.segments[0][0].text == "spiffe:"
}

func notSPIFFE(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
}

// contradictions warns of the last rule if it never holds since what sets a field, itself or a rule
// before it, sets another value than it wants. Only values without parts are judged, and only the
// first rule that names the field: its value is what every client of the last rule gets, if it is
// for all of these.
func (c *compiler) contradictions(rules []Rule, list []rule) {
	last := len(rules) - 1
	for _, s := range list[last].sets {
		if i, value, ok := c.settled(rules, list, s.field); ok && i < last && len(s.value) == 1 && s.value[0].kind == literal && s.value[0].text != value {
			c.addf("set."+s.field, true, "authorization[%d] sets it to %q before, for the same clients, so this rule never matches", i, value)
		}
	}
	for _, x := range list[last].claims {
		i, value, ok := c.settled(rules, list, x.field)
		if ok && !slices.ContainsFunc(x.values, func(pieces []piece) bool { return mayMatch(pieces, value) }) {
			c.addf("claims."+x.field, true, "authorization[%d] sets it to %q, for the same clients, so this rule never matches", i, value)
		}
	}
}

// settled returns the value without parts that the field has for all clients of the last rule, and
// the rule that sets it.
func (c *compiler) settled(rules []Rule, list []rule, field string) (index int, value string, ok bool) {
	i, ok := c.first[field]
	if !ok {
		return 0, "", false
	}
	r, last := &rules[i], &rules[len(rules)-1]
	j := slices.IndexFunc(list[i].sets, func(s set) bool { return s.field == field })
	pieces := list[i].sets[j].value
	same := covers(r.Listeners, last.Listeners) && within(last.Who, r.Who)
	if !ofNode(field) {
		same = same && covers(r.Origins, last.Origins) && covers(r.Types, last.Types)
	}
	if !same || len(pieces) != 1 || pieces[0].kind != literal {
		return 0, "", false
	}
	return i, pieces[0].text, true
}

// covers reports whether a list admits all that another does.
func covers(list, other []string) bool {
	return len(list) == 0 || len(other) > 0 && within(other, list)
}

func within(part, whole []string) bool {
	return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(whole, s) })
}

// mayMatch reports whether a pattern may match a text, whatever its parts are.
func mayMatch(pieces []piece, text string) bool {
	open := make([]piece, len(pieces))
	for i, p := range pieces {
		if open[i] = p; p.kind == named {
			open[i] = piece{kind: star} // wider than a part
		}
	}
	g, _ := bind(open, nil)
	return g.matches(text)
}
