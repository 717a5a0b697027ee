package gate

import "time"

// The canary gate. What an origin says reaches some clients first, the canaries, and the rest only
// when it is good: acknowledged by enough canaries, rejected by none, and in use for a while. Both
// are held at a state of the origin, over all types. What is tried on the canaries is the
// candidate, and what the rest have is the stable state.
//
// The caller looks at a group from time to time, gives what it [Seen] to [Trial.Look], keeps the
// Trial that is returned, and does what is asked for ([Do]). Whatever it fails to do is asked for
// again: Look goes by what is held, and not by what was asked for before.

const (
	// CanarySettle is how long the newest state has to be unchanged to become a candidate, and
	// CanarySettleMost how long a candidate waits for that.
	CanarySettle     = 2500 * time.Millisecond
	CanarySettleMost = 10 * time.Second
	// mostStopped is how many stopped candidates of a group are remembered.
	mostStopped = 16
)

// Canary says when a candidate is good.
type Canary struct {
	Bake time.Duration // how long the canaries have to use it
	// Acks is how many canaries have to have acknowledged it, and AckShare which share of them.
	// Both have to be reached.
	Acks     int
	AckShare float64
	Stay     bool // canaries stay at a candidate that was stopped; false: they return
	// MaxHold is how long the rest wait for a candidate that is neither good nor bad; then they are
	// given it. 0: until an operator decides.
	MaxHold time.Duration
	// PassUnknown: a hook that does not answer does not object. False: the candidate waits for one.
	PassUnknown bool
	// GoneShare is the share of the canaries that were given a candidate that may be gone. If more
	// are, for longer than GoneGrace, that is an objection: what is accepted, and then kills, is
	// never rejected. Of one canary alone it is none, since it may have ended for any reason.
	GoneShare float64
	GoneGrace time.Duration
}

// Phase is how far the gate of a group is.
type Phase uint8

// The phases. PhaseNames has their names.
const (
	Starting Phase = iota // nothing is held yet
	Idle                  // the rest have what the origin says
	Settling              // the origin says something else, and may not be done
	Baking                // a candidate is tried on the canaries
	Stopped               // the newest state was stopped, or none has begun since
	Paused                // rolled back or frozen by an operator
)

// PhaseNames are the names of the phases, in their order.
var PhaseNames = []string{"starting", "idle", "settling", "baking", "stopped", "paused"}

func (p Phase) String() string { return PhaseNames[p] }

// Verdict is what the hook says, while a candidate bakes since that began. It may look at the last
// minutes, so an objection may be of the time before: it counts if the hook was fine just before
// the candidate began or since then, or was asked after the bake.
type Verdict uint8

// The verdicts. If there is no hook it is Fine.
const (
	Unknown Verdict = iota // it does not answer, or has not been asked
	Fine
	Objects
)

func (v Verdict) String() string { return [...]string{"unknown", "fine", "objects"}[v] }

// Seen is what a caller sees of a group at one time.
type Seen struct {
	Known  bool // the origin has answered the group
	Stable bool // the rest are held at a state
	Paused bool
	// Differs: the origin says something else than the rest have, or may.
	Differs bool
	Apart   bool // the canaries are held at another state than the rest
	// Changed is when the origin last changed what it says; zero: it did not since the start.
	Changed time.Time

	// Of the candidate. Rejected: by any client since it began, also by one that has left.
	Clients, Acked int
	Rejected       bool
	// Given is how many canaries were given it. Of those Gone are away, or came back and went
	// again, and Lost have been away for longer than the grace.
	Given, Gone, Lost int
	Hook              Verdict // also before a candidate begins
	// HookLast: the hook was asked after the bake, or there is none.
	HookLast bool
}

// Trial is what the gate remembers of a group. The zero value knows nothing of it.
type Trial struct {
	Phase Phase
	Since time.Time // when the phase began
	// Candidate is the state that is tried, or that was stopped; "": none.
	Candidate string
	// Captured: the newest state was captured, and the origin has not changed it since if
	// Seen.Changed is Tried.
	Captured bool
	Tried    time.Time
	// Resumed is when an operator last let clients go on; zero: none did since the start.
	Resumed time.Time
	Stops   []string // candidates that were stopped, the last one last
	Because Because  // why the last candidate ended
	Alarmed bool     // of the candidate
	WasFine bool     // the hook, when the candidate began or since then
}

// Do is what the caller has to do.
type Do uint8

// What there is to do.
const (
	Nothing Do = iota
	// First: hold both at the newest state. It is not tried: there is nothing to go back to.
	First
	// Capture the newest state, and pass its ID to Trial.Captured.
	Capture
	// Begin: hold the canaries at what was captured.
	Begin
	// Pass: hold both at what was captured. Nothing that is tried differs from the stable state.
	Pass
	// Promote: hold the rest at what the canaries have.
	Promote
	// Stop: tell the origin, and people. If Return is set hold the canaries at what the rest have.
	Stop
	// Return: hold the canaries at what the rest have.
	Return
	// Alarm: tell people that the candidate is neither good nor bad.
	Alarm
)

// Because is why a candidate ended.
type Because uint8

// The reasons.
const (
	NoReason     Because = iota
	Good                 // promoted
	TimedOut             // promoted, since it was neither good nor bad for as long as that may be
	ByOperator           // promoted or stopped
	WasRejected          // stopped
	HookObjected         // stopped
	CanariesGone         // stopped
	OriginWent           // the origin went back to the stable state
)

// Decision is what to do now.
type Decision struct {
	Do      Do
	Return  bool // of Stop
	Because Because
	// Again is when to look again, if nothing happens before; zero: when something happens.
	Again time.Time
}
