package gate

import "time"

// While an origin is frozen, clients stay at what the table holds of it. The origin is asked as
// usual and its responses are accepted, but changes and removals of what is held are not applied.
// What passes:
//
//   - Changed content of endpoints and secrets: otherwise a frozen proxy would send requests to
//     endpoints that are gone, and present expired certificates. Their removals do not pass; they
//     come with that of the cluster that needs them.
//   - Members of endpoint collections, removals included: that is how an endpoint leaves.
//   - First answers to names, and sets that are not complete yet: otherwise new proxies could not
//     start.

// Class is how a freeze treats a resource type.
type Class uint8

const (
	// Settings are all types other than those below.
	Settings Class = iota
	// Moving are endpoints and secrets, whose content follows the running system.
	Moving
	// CollectionMembers are the members of endpoint collections (LbEndpoint).
	CollectionMembers
)

// Subject describes what a response is about: a set, or the names of one type.
type Subject struct {
	Class Class
	Set   bool // false: names, and the other fields are not used

	Complete bool // the origin has sent all of it
	Restored bool // from a snapshot: clients had it before the restart
	Revived  bool // it was retired, or is the fallback's: no client needs to be kept at it
}

// first reports whether this is the set's first answer.
func (s Subject) first() bool { return s.Set && !s.Complete && (!s.Restored || s.Revived) }

// Waits says what of a response has to wait. The zero value is that of an origin that is not
// frozen.
type Waits uint8

const (
	nothing Waits = iota
	removals
	changes // and removals
)

// Waits returns what has to wait while the origin is frozen.
func (s Subject) Waits() Waits {
	switch {
	case s.Class == CollectionMembers, s.first():
		return nothing
	case s.Class == Moving:
		return removals
	}
	return changes
}

// Removals reports whether removals wait.
func (w Waits) Removals() bool { return w >= removals }

// Changes reports whether changed content waits.
func (w Waits) Changes() bool { return w >= changes }

// Body reports whether a body has to wait. held: the name has a body, or the body joins a set; the
// first body of a name passes. same: its content is the same.
func (w Waits) Body(held, same bool) bool { return w.Changes() && held && !same }

// Linger returns when to check an entry without clients again; zero: it ends now. at is the end of
// its linger. What is held does not end while the origin is frozen, so that new clients get the
// same as the others. It is checked again after linger, a second at least.
func Linger(at, now time.Time, linger time.Duration, held, frozen bool) (again time.Time) {
	switch {
	case at.After(now):
		return at
	case held && frozen:
		return now.Add(max(linger, time.Second))
	}
	return time.Time{}
}
