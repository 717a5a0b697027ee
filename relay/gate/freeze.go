package gate

import "time"

// While an origin is frozen clients stay at what is held of it. The origin goes on being asked and
// its responses are accepted, but what they change or remove of what is held is not taken: it waits
// at the origin. What passes:
//
//   - The content of endpoints and secrets, without which a frozen proxy would send requests to
//     where nobody is, and present what has run out; but not their removal, which comes with that
//     of the cluster that needs them.
//   - Members of endpoint collections, also their removal: that is how an endpoint leaves.
//   - What nobody holds yet: the first answer to a name, and a set until it is complete, or new
//     proxies could not start.

// Class is how a freeze looks at a resource type.
type Class uint8

const (
	// Settings are all types but those below.
	Settings Class = iota
	// Moving are endpoints and secrets, whose content follows what is there.
	Moving
	// CollectionMembers are the members of endpoint collections (LbEndpoint).
	CollectionMembers
)

// Subject is what is spoken of at a frozen origin: a set, or what is had by name of one type.
type Subject struct {
	Class Class
	Set   bool // else what is had by name, and the rest means nothing

	Complete bool // the origin has said all of it
	Restored bool // it is of a snapshot, so clients had it before the restart
	Revived  bool // it had retired, or is of the last resort: no client is kept at it
}

// first reports whether it is being answered for the first time.
func (s Subject) first() bool { return s.Set && !s.Complete && (!s.Restored || s.Revived) }

// Waits is what of a response has to wait. The zero value is that of an origin that is not frozen.
type Waits uint8

const (
	nothing Waits = iota
	removals
	changes // and removals
)

// Waits is what has to wait, given that the origin is frozen.
func (s Subject) Waits() Waits {
	switch {
	case s.Class == CollectionMembers, s.first():
		return nothing
	case s.Class == Moving:
		return removals
	}
	return changes
}

// Removals reports whether what is taken away waits.
func (w Waits) Removals() bool { return w >= removals }

// Changes reports whether other content than what is held waits.
func (w Waits) Changes() bool { return w >= changes }

// Body reports whether a body that comes has to wait. held: something is held of its name, or it
// joins a set; nobody has the first body of a name. same: what is held has the same content.
func (w Waits) Body(held, same bool) bool { return w.Changes() && held && !same }

// Linger is when to look again at what nobody wants, which ends at a time; zero: it ends now. What
// is held does not end while the origin is frozen: who comes then gets what the others had. It is
// looked at again after linger, a second at least.
func Linger(at, now time.Time, linger time.Duration, held, frozen bool) (again time.Time) {
	switch {
	case at.After(now):
		return at
	case held && frozen:
		return now.Add(max(linger, time.Second))
	}
	return time.Time{}
}
