// Package state holds what the clients of a group may be sent, as values that never change.
//
// It is the first part of a core made of states: what the origin says makes the next value, and
// freeze, canary gate, rollback and history become pointers to values. Nothing uses it yet.
//
// # What it is
//
//	names ──► Entry: one body; or variants, absences, an alias, an error
//	            │  With(edits)
//	            ▼
//	           Set: a tree by the hash of the name ──► Sum (VER-4), Diff, Pieces
//	            │
//	            ▼
//	         shares: equal subtrees are one, in all groups of the process
//
// An [Entry] is what is known of one name (entry.go). Unknown, which is the zero Entry, is not
// the same as absent. A [Set] has entries by name (set.go, node.go). Content alone decides its
// shape: a subtree is a leaf if it has at most 64 entries and 64 KiB, or one entry, and no other
// subtree is one. So equal sets are the same nodes (TestEqualSetsAreOne), [Diff] skips what two
// sets share, and a copy of a set for another moment costs the path to what changed. Leaves keep
// their bodies encoded, so a list of the whole set is made of what was made before (TestPieces).
//
// # What it never does
//
// It knows nothing of origins, streams, clients and time, starts no goroutine, and changes nothing
// that it has given out. Names and bodies come from peers, so the tree goes by SHA-256: nobody can
// choose names that make it deep (TestMerelyDeep), or content with the sum of other content.
//
// # Locks
//
// Sets are read without one. Making a node locks one of 64 parts of the table in which equal nodes
// are found (share.go). That holds nothing alive (TestSetsThatGoLeaveNothing).
//
// # Who imports it
//
// Nobody yet.
//
// # What to read next
//
// entry.go, set.go, node.go, share.go.
package state
