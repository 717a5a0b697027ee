// Package seed gives a replica that starts with nothing what its siblings hold (cache.seed).
//
// # What it is
//
// A [Server] answers siblings over HTTP/1.1, on a port of its own. GET /seed/head is a small
// [Head]: who this is, and what it holds of each origin. GET /seed/state is all of it, the file
// that a snapshot would have (package snapshot), in chunks, with the SHA-256 of the whole in its
// trailer. GET /seed/standing is a [Standing], which the admin page of a sibling shows.
//
// A [Search] asks all siblings for their heads ([Search.Heads]), and then yields what can be
// restored, the best first ([Search.Sources]): states of siblings, then a file. The caller restores
// it, by the code for snapshots. Nothing here puts anything into a table.
//
// # Which sibling
//
// The one whose origins vouched last for what it holds. What is less than a minute apart counts as
// equally new; of such siblings the one with more resources is taken. If it fails, the next one
// follows (TestNextBest). Each sibling serves clients of its own, so what the others have beyond
// that is added, as far as a third of the time allows (TestFilledUp).
//
// # What is believed
//
// A sibling is known by its certificate, on both sides; that is the caller's to see to
// (Config.Dial). Beyond that a state is as untrusted as a file. It is refused if it is of another
// deployment or another version of the format, if its checksum differs, if any record in it is
// damaged, if it is larger than allowed, or if it says that something happened later than in a
// minute from now (TestLies). A head says most of that before any byte is moved. It has 8 MiB at
// most (FuzzHead).
//
// # How long it takes
//
// No longer than the context that the caller gives, and no time where it is clear that nobody has
// anything (TestNobody). Once a sibling has answered that has something, the others have a second
// (TestStuckSibling). A sibling that is sending has to send a MiB in a quarter of the time, or the
// next one is asked; the last may be slow. A file is awaited to the end, as a sidecar may get it.
//
// # Goroutines, and what a sibling costs
//
// At most two states are sent at once; others are told to ask elsewhere. The stream is written
// without any lock, at 64 MiB a second at most, each chunk within five seconds (TestStuckJoiner).
// The goroutines are those of net/http on the side that answers, and one for each sibling that is
// asked for its head; these end with the context of Heads.
//
// # Who imports it
//
// Package cmd/weir.
package seed
