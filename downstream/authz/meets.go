package authz

import "strings"

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
