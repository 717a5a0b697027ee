package metrics

import "time"

// WaitReason is why a client, a type of it or one of its names waits. The list is closed: whatever
// waits somewhere in weir has one of these, which cmd/weir's TestWaitsAreLabelled sees to.
type WaitReason uint8

// The reasons, from the client inwards to the origin. waitReasons has their names and meanings.
const (
	unlabelled WaitReason = iota
	// NoWait labels a deadline that nothing waits for, such as the end of a stream that is too old.
	NoWait

	// The client, and its connection and stream.
	WaitAck
	WaitNack
	WaitStalled
	WaitWriter
	WaitCalmed
	WaitArrival
	WaitPace
	WaitNewNames
	WaitIntake
	WaitFirstRequest
	WaitRESTWait
	WaitRESTHold

	// Between the types of a stream.
	WaitOrder
	WaitClusters
	WaitEndpoints
	WaitEarlierSet
	WaitRemoval
	WaitEndpointRequest
	WaitCoalesce

	// What the client may have.
	WaitPermission
	WaitLimit

	// What is known of what was asked for.
	WaitLongList
	WaitConfirm
	WaitNames
	WaitError
	WaitBadPart
	WaitSettle
	WaitGather
	WaitGuard
	WaitFreeze
	WaitHold
	WaitHost
	WaitColdWait
	WaitOrigin

	// The way to the origin.
	WaitQuarantine
	WaitAsk
	WaitBatch
	WaitQueue
	WaitConnect
	WaitBackoff
	WaitPoll

	waitReasonsEnd
)

// WaitReasons are all that a client may wait for.
func WaitReasons() (all []WaitReason) {
	for r := NoWait + 1; r < waitReasonsEnd; r++ {
		all = append(all, r)
	}
	return all
}

// String is the reason's name, as labels and JSON have it.
func (r WaitReason) String() string { return r.known().name }

// Meaning says in a line what it waits for.
func (r WaitReason) Meaning() string { return r.known().meaning }

// Labelled reports whether it is a reason, or NoWait.
func (r WaitReason) Labelled() bool { return r > unlabelled && r < waitReasonsEnd }

func (r WaitReason) known() waitReason {
	if int(r) < len(waitReasons) && waitReasons[r].name != "" {
		return waitReasons[r]
	}
	return waitReason{name: other}
}

// Wait is something that is waited for.
type Wait struct {
	Reason WaitReason
	Since  time.Time // zero: not known
	// Until is when the wait ends at the latest, or when what is waited for is looked at again.
	// Zero: it has no such time.
	Until time.Time
	Text  string // what it waits for in particular; "": Reason says all
}
