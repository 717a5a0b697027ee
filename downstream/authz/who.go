package authz

import (
	"fmt"
	"slices"
	"strings"
)

// Who is a pattern of identities by itself, as those in Rule.Who are. Its parts bind nothing; the
// same part in two places wants the same text there.
type Who struct{ pattern who }

// ParseWho reads a pattern of identities. The error goes on where the pattern, quoted, left off.
func ParseWho(text string) (Who, error) {
	w, err := parseWho(text)
	return Who{w}, err
}

// Matches reports whether an identity is as the pattern says.
func (w Who) Matches(identity string) bool {
	_, ok := w.pattern.match(subjectOf(identity), nil)
	return ok
}

// Possible reports whether there are identities like this.
func (w Who) Possible() bool { return w.pattern.possible() }

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
