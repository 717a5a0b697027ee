package authz

import (
	"slices"
	"strings"
)

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
