package gate

import "time"

// GuardConfig says when an origin is not believed at once that resources are gone (RELAY-97): an
// origin that restarts empty, or with half of what it had, states that as it states anything else.
type GuardConfig struct {
	// Share and Min: what is held back is more than that share of a set, and at least so many. Min
	// below 1 counts as 1.
	Share float64
	Min   int
	// Hold is for how long. 0: nothing is held back.
	Hold time.Duration
}

// Off reports whether nothing is ever held back.
func (c GuardConfig) Off() bool { return c.Hold <= 0 }

// mass reports whether so many removals are more than is believed of a set of that size.
func (c GuardConfig) mass(gone, size int) bool {
	return gone >= c.least() && float64(gone) > c.Share*float64(size)
}

// least is how many removals may be a mass removal.
func (c GuardConfig) least() int { return max(c.Min, 1) }

// confirmAfter is how much later a list must come that lacks the same again, to be believed
// (RELAY-97).
const confirmAfter = 5 * time.Second

// Guard holds back what goes in a mass removal after a (re)connect. What is held stays what it was
// to every client, old and new. Upstream it is not presented as held, so that an origin that has it
// again says so: silence about a version presented would mean that it is there, silence about one
// that is not presented lets the removal stand.
//
// Removals count from the first answer on a stream until none came for the long pause of RELAY-6,
// as a set that comes in pieces does: a delta origin states a mass removal in as many responses as
// it likes. As soon as there are Min, what is taken away besides waits for the end of that pause,
// when it is known whether it was more than Share.
type Guard struct {
	GuardConfig
	// Quiet is the long pause, and Most how long it is waited for at most.
	Quiet, Most time.Duration
}

// Count is what the guard knows of one set, or of what is had by name of one type. The zero value
// has heard no stream. How many are held back is for the caller to know.
type Count struct {
	stream uint32 // whose removals are counted; 0: none
	// first and last are when the stream first answered, and when it last took something away.
	// Invariant: both are zero if size is, and then nothing counts.
	first, last time.Time
	// size is how many members there were before the stream, and gone how many of these it has
	// taken away, those among them that were held back when it began.
	size, gone int

	mass   bool      // what is held is more than the share; else it is held until that is known
	stated time.Time // when the stream said so, or began
	until  time.Time // when what is held goes. Meaningless while nothing is held
}

// Until is when what is held back goes, if a stream that was answered stands by it then.
func (c Count) Until() time.Time { return c.until }

// Size is how many members there were when the present stream began.
func (c Count) Size() int { return c.size }

// Heard reports whether it is the removals of this stream that are counted.
func (c Count) Heard(stream uint32) bool { return c.stream == stream }

// Begin counts anew: a stream gives its first answer. size is how many members there are to be
// lost: none if nothing of the set is the origin's. held is how many are held back from an earlier
// stream; these have the whole time anew, and are counted as gone until they are there again.
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

// Counts reports whether what is taken away now still counts as that of a reconnect.
func (g Guard) Counts(c Count, now time.Time) bool { return now.Before(g.end(c)) }

// end is when removals count no more, if nothing comes until then.
func (g Guard) end(c Count) time.Time {
	quiet, most := c.last.Add(g.Quiet), c.first.Add(g.Most)
	if quiet.Before(most) {
		return quiet
	}
	return most
}

// Extend gives what is held back the whole time anew.
func (g Guard) Extend(c Count, now time.Time) Count {
	c.until = now.Add(g.Hold)
	return c
}

// Cleared is the count when nothing is held back any more: it went, or is there again.
func (c Count) Cleared() Count {
	c.mass = false
	return c
}

// Removal is one resource that a response or a sweep takes away.
type Removal struct {
	Held    bool // it is held back already
	StandIn bool // it is of the last resort: the origin never said that it was there
	Seen    bool // the same stream has brought it: it is a running origin that takes it away
}

// Fate is what becomes of a removal.
type Fate uint8

const (
	// Passes: it is applied at once.
	Passes Fate = iota
	// Stays: it is held back as before.
	Stays
	// New: it is counted, and waits for the [Ruling].
	New
)

// Fate is what becomes of it, if the guard is on.
func (r Removal) Fate() Fate {
	switch {
	case r.Held:
		return Stays
	case r.StandIn, r.Seen:
		return Passes
	}
	return New
}

// Statement is what one response or sweep takes away, by the fates of its removals.
type Statement struct {
	New    int
	Stays  bool // something that is held back is taken away again
	Counts bool // what Counts said when the stream was heard
	Whole  bool // it says all there is to say, as a list and a sweep do
}

// Ruling is what is done about a statement.
type Ruling struct {
	Hold    bool // what is New is held back. Else it is applied at once
	Alarm   bool // people are told: by this, what is held back has become a mass removal
	Release bool // what was held back before goes: it has been confirmed
}

// Judge counts a statement and rules on it. What is new has to be stated once more before it is
// confirmed, and what was held before goes with it.
func (g Guard) Judge(c Count, s Statement, now time.Time) (Count, Ruling) {
	release := s.Whole && s.Stays && now.Sub(c.stated) >= confirmAfter
	if s.New == 0 || !s.Counts {
		return c, Ruling{Release: release}
	}
	c.gone, c.last = c.gone+s.New, now
	mass := g.mass(c.gone, c.size)
	switch {
	case mass:
		r := Ruling{Hold: true, Alarm: !c.mass}
		c.mass, c.stated = true, now
		return g.Extend(c, now), r
	case s.Whole || c.gone < g.least():
		return c, Ruling{Release: release}
	}
	c.until = g.end(c)
	return c, Ruling{Hold: true}
}

// Stream is how the upstream stream stands that what is held back was stated on.
type Stream struct {
	Live     bool // it is open
	Answered bool // an answer came on it
}

// Step is what is done with what is held back when a timer says that its time may be over.
type Step uint8

const (
	// Rest: nothing is done, and no timer is needed. There is no stream, and asking anew begins the
	// time anew.
	Rest Step = iota
	// Later: it is looked at again at Until.
	Later
	// Longer: it has the whole time anew.
	Longer
	// Release: it goes.
	Release
)

// Due is the step at a time. It takes a stream that was answered to let something go: what an
// earlier one stated counts for as long as the origin is there to say otherwise. While there is
// none it stays, and so it does while the origin is frozen.
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
