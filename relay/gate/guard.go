package gate

import "time"

// GuardConfig says when removals are not believed at once (RELAY-97): an origin that restarts
// empty, or with half of its resources, states that like anything else.
type GuardConfig struct {
	// A mass removal is more than the share Share of a set, and at least Min resources. Min below 1
	// counts as 1.
	Share float64
	Min   int
	// Hold is how long a mass removal is held back. 0: the guard is off.
	Hold time.Duration
	// Few: fewer removals are held back, too, for a short time.
	Few bool
}

// fewPauses is for how many long pauses of RELAY-6 few removals are held back, from the first
// answer on. A control plane that restarts may answer before it knows everything: for 5 s was seen.
const fewPauses = 3

// Off reports whether nothing is ever held back.
func (c GuardConfig) Off() bool { return c.Hold <= 0 }

// mass reports whether gone removals from a set of that size are a mass removal.
func (c GuardConfig) mass(gone, size int) bool {
	return gone >= max(c.Min, 1) && float64(gone) > c.Share*float64(size)
}

// confirmAfter is how much later a list must lack the same resources again to confirm the removal
// (RELAY-97).
const confirmAfter = 5 * time.Second

// Guard holds back mass removals after a (re)connect. Clients, old and new, keep what is held back.
// Upstream it is not presented as held. So an origin that has it again sends it: if it were
// presented, silence would mean that it exists.
//
// Removals count from the first answer on a stream until there was none for the long pause of
// RELAY-6: a delta origin may state a mass removal in any number of responses. What goes before
// they are more than Share is not held back as a mass removal.
type Guard struct {
	GuardConfig
	// Quiet is the long pause, and Most bounds the wait for it.
	Quiet, Most time.Duration
}

// Count is the guard's state of one set, or of the names of one type. The zero value has seen no
// stream. The caller knows how many resources are held back.
type Count struct {
	stream uint32 // whose removals are counted; 0: none
	// first is when the stream first answered, and last when it last removed something. Invariant:
	// both are zero if size is, and then nothing counts.
	first, last time.Time
	// size is how many members there were before the stream, and gone how many of them it has
	// removed, including those that were held back when it began.
	size, gone int

	mass   bool      // what is held back is more than the share; false: few removals are
	stated time.Time // when the stream stated the removal, or began
	until  time.Time // when what is held back goes; unused while nothing is held back
}

// Until returns when what is held back goes, if a stream that was answered stands by it then.
func (c Count) Until() time.Time { return c.until }

// Size returns how many members there were when the current stream began.
func (c Count) Size() int { return c.size }

// Heard reports whether the removals of this stream are counted.
func (c Count) Heard(stream uint32) bool { return c.stream == stream }

// Begin starts the count for a stream with its first answer. size is the number of members that can
// be lost: 0 if nothing of the set is the origin's. held is how many are held back since an earlier
// stream: their time starts again, and they count as gone until they come back.
func (g Guard) Begin(c Count, stream uint32, now time.Time, size, held int) Count {
	c.stream, c.size, c.gone, c.stated = stream, size, held, now
	c.first, c.last = now, now
	if size == 0 { // whatever goes on this stream has come on it
		c.first, c.last = time.Time{}, time.Time{}
	}
	if held > 0 {
		c = g.Extend(c, now)
	}
	return c
}

// Counts reports whether a removal at this time still counts as one of a reconnect.
func (g Guard) Counts(c Count, now time.Time) bool {
	return now.Before(c.last.Add(g.Quiet)) && now.Before(c.first.Add(g.Most))
}

// Extend starts the time of what is held back again.
func (g Guard) Extend(c Count, now time.Time) Count {
	if !c.mass {
		return g.holdFew(c, now)
	}
	c.until = now.Add(g.Hold)
	return c
}

// holdFew holds few removals back. What is stated late still waits for a pause.
func (g Guard) holdFew(c Count, now time.Time) Count {
	if c.until = c.first.Add(fewPauses * g.Quiet); c.until.Before(now.Add(g.Quiet)) {
		c.until = now.Add(g.Quiet)
	}
	return c
}

// Mass reports whether what is held back is a mass removal.
func (c Count) Mass() bool { return c.mass }

// Since returns since when, about, what is held back is.
func (g Guard) Since(c Count) time.Time {
	if !c.mass {
		return c.first
	}
	return c.until.Add(-g.Hold)
}

// Cleared returns the count when nothing is held back any more: it went, or came back.
func (c Count) Cleared() Count {
	c.mass = false
	return c
}

// Removal is one resource that a response or a sweep removes.
type Removal struct {
	Held    bool // it is held back already
	StandIn bool // it is the fallback's: the origin never had it
	Seen    bool // it came on the same stream: a running origin removes it
}

// Fate says what happens to a removal.
type Fate uint8

const (
	// Passes: it is applied at once.
	Passes Fate = iota
	// Stays: it is held back as before.
	Stays
	// New: it is counted, and waits for the [Ruling].
	New
)

// Fate returns what happens to the removal, if the guard is on.
func (r Removal) Fate() Fate {
	switch {
	case r.Held:
		return Stays
	case r.StandIn, r.Seen:
		return Passes
	}
	return New
}

// Statement is what one response or sweep removes, by the fates of its removals.
type Statement struct {
	New   int
	Stays bool // something that is held back is removed again
	// Restored: a snapshot has it, and no stream has confirmed it since. Then few removals are not
	// held back: clients that come back would wait for them (RELAY-96).
	Restored bool
	Counts   bool // what Counts returned for the stream
	Whole    bool // it lists everything, as a SotW list and a sweep do
}

// Ruling says what to do about a statement.
type Ruling struct {
	Hold    bool // New removals are held back; false: applied
	Alarm   bool // operators are alerted: what is held back has become a mass removal
	Release bool // what was held back before goes: it is confirmed
}

// Judge counts a statement and rules on it. New removals have to be stated once more to be
// confirmed, and what was held back before goes with them.
func (g Guard) Judge(c Count, s Statement, now time.Time) (Count, Ruling) {
	release := s.Whole && s.Stays && now.Sub(c.stated) >= confirmAfter
	if s.New == 0 || !s.Counts {
		return c, Ruling{Release: release}
	}
	c.gone, c.last = c.gone+s.New, now
	switch {
	case g.mass(c.gone, c.size):
		r := Ruling{Hold: true, Alarm: !c.mass}
		c.mass, c.stated = true, now
		return g.Extend(c, now), r
	case g.Few && !s.Restored && !release:
		return g.holdFew(c, now), Ruling{Hold: true}
	}
	return c, Ruling{Release: release}
}

// Stream is the state of the upstream stream that stated what is held back.
type Stream struct {
	Live     bool // open
	Answered bool // it had an answer
}

// Step says what to do with what is held back when its time may be over.
type Step uint8

const (
	// Rest: nothing, and no timer is needed. There is no stream, and the next one starts the time
	// again.
	Rest Step = iota
	// Later: check again at Until.
	Later
	// Longer: its time starts again.
	Longer
	// Release: it goes.
	Release
)

// Due returns the step at a time. Only a stream that was answered lets something go: the statement
// of an earlier stream counts as long as the origin is there to correct it. What is held back stays
// while there is no such stream, and while the origin is frozen.
func (c Count) Due(now time.Time, s Stream, w Waits) Step {
	switch {
	case c.until.After(now):
		return Later
	case !s.Live:
		return Rest
	case !s.Answered, w.Removals():
		return Longer
	}
	return Release
}
