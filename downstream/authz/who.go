package authz

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
