// Package history keeps what the table held before: for each resource a few earlier versions, when
// each was replaced, and where it came from. It is for people, and for going back to an earlier
// state of a whole group.
//
// # What is a version
//
// A change is noted at the moment in which clients may be sent it, with the revision of that
// moment. What the guard or a freeze holds back is no version until it passes, and what waits to be
// gathered (ORD-9) is none until it is applied. The same content again is none either: a heartbeat,
// another TTL, another origin's version, or what a stream confirms of a snapshot. Nor is the first
// content of a set, or of a name that was just asked: nobody was sent anything else. So a start
// notes nothing, and a resource that never changes costs nothing here.
//
// A resource whose subscription ends and is made again has changed only if its content has.
//
// # What is kept
//
// [Log] holds the bodies that are no longer live, and knows of the live one no more than its
// version. Bodies of secrets (RELAY-75) and of what must not be cached (RELAY-9) are not kept.
// Three bounds hold (cache.history): so many changes of one resource, so long, and so many bytes
// for all together, with what the records themselves cost. Beyond the bytes, the type of a group
// that has most loses its oldest change, so a type that churns costs the others nothing. Nothing
// is allocated for a client.
//
// A snapshot keeps it, too ([Log.Noted]), and it is put back at the start ([Track.Restore]). What
// changed while nobody ran is lost, and said to be.
//
// [Log.Before] tells how a type of a group differed at a revision from what it is now. It says of
// what that is not known any more: it was lost. What nobody had asked for then is known as it came
// first. [Log.Back] has the changes themselves, to go back over them one by one.
//
// A [Mark] says that the state of a group was seen good. There are 100 of a group at most, of what
// the log still knows.
//
// # Locks and time
//
// The log has one mutex. It is a leaf: it is taken under a store's lock, and held for map work
// only. Time is an argument.
//
// # Who imports it
//
// Packages relay, cmd/weir, cmd/weir/admin and cmd/weir/snapshot.
package history
