// Package state holds what the clients of a group may be sent, as values that never change.
//
// A freeze, a canary gate, a rollback and the history are pointers to states.
//
//	edits ──► Publish ──► the newest State ──► Target of each tier ──► clients, without a lock
//	                        │ one before is kept      ▲
//	                        ▼                         │ Hold
//	                      Kept, thinned by age ───────┘
//
//	State ──► Selected: one for each type and selector, with its Phase and Age
//	            ──► Set: a tree by the hash of the name ──► Sum (VER-4), Diff, Pieces
//	                  ──► Entry: a body; or variants, absences, an alias, an error
//
// # The words
//
// An [Entry] is what is known of one name (entry.go). Unknown, the zero Entry, is not absent. A
// [Set] has entries by name (set.go, node.go). Content alone decides its shape: a subtree is a leaf
// if it has at most 64 entries and 64 KiB, or one entry. So equal sets are the same nodes, in all
// groups of the process (share.go, TestEqualSetsAreOne), [Diff] skips what two sets share, and
// another moment costs the path to what changed. Leaves that are asked for twice keep their bodies
// encoded (TestPieces).
//
// A [State] has the sets of each type, and of each parameter map that they were asked with. It is
// partial, as weir knows what somebody asked (state.go). A [Change] makes the next one (change.go).
// What was unknown is learned, by every state in which it was unknown: so a tier that is held has
// an answer for a name that nobody had asked for then, and it is the first that was known. A set
// that is settled knows of each name.
//
// A [Timeline] is the states of one group (timeline.go). A tier is held at one, or follows the
// newest. Secrets and urgent types pass a hold. Of earlier states it keeps what fits into some
// bytes, the nearer the denser, without secrets and what must not be cached (RELAY-9).
//
// A [Filter] derives from a set what clients of one permit and parameter map have (filter.go), by
// differences. [Set.Alone] is what a state, or a client that is behind, keeps alive.
//
// It knows no origin, stream or client, and changes nothing that it has given out. Names and bodies
// come from peers, so trees go by SHA-256: nobody can choose names that make one deep
// (TestMerelyDeep), or content with the sum of other content.
//
// # Locks
//
// A Timeline has one, for its writers; a Filter has one. Making a node locks one of 64 parts of the
// table of nodes, and holds nothing alive (TestSetsThatGoLeaveNothing).
//
// # Who imports it
//
// Packages relay, relay/cursor, relay/plan and downstream. Read entry.go, set.go, state.go,
// change.go and timeline.go in this order.
package state
