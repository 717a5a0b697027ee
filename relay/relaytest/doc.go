// Package relaytest holds the two peers that the tests of every package talk to: one scripted
// origin and one recording client. Both are real gRPC programs: what they meet is on the wire.
//
// # What is here
//
//   - [Net] is a place to listen and to dial, closed and reopened at will: [TCP] and [Unix] for
//     sockets, [Memory] inside a testing/synctest bubble, where all time is virtual.
//   - [Origin] is a control plane. Every stream and request is recorded; the test answers by hand
//     ([Stream.Send], [Stream.Respond], [Stream.SendRaw]) or lets the origin serve a state
//     ([Origin.Set], [Origin.Remove]).
//   - [Client] speaks either dialect, keeps what a correct client would hold, and judges every
//     response against the rules that hold for any server ([Client.Violations]).
//   - [Cluster], [Endpoints], [Opaque] and their neighbours build resources.
//
// A test reads as a conversation: the last argument of an expectation says what should happen; when
// it does not, the test fails with that sentence and what was seen instead. WantIdle fails on any
// traffic that no expectation has taken yet.
//
// # Goroutines and locks
//
// An Origin has one goroutine that accepts, and two per stream: the gRPC handler, which writes, and
// a reader. A Client has one reader per open stream, none if it never reads. Close waits for all of
// them and is registered with tb.Cleanup; inside a synctest bubble cleanups run inside the bubble.
// Expectations must be called on the test's own goroutine, since they may end the test.
//
// An Origin has one mutex over everything. A Client has two: sending, then state. Neither is held
// while waiting for an expectation; conditions given to Await run under the state's mutex and must
// not call the Client or Origin.
//
// # Known limits
//
// The serving origin knows no resource errors, and without TP2 no aliases: script those. With TP2
// it has variants, reads locators alone, and resends on every subscribe. Without TP2 it is an old
// server, to which locators do not exist. It compares a stream with the state name by name on every
// change, so large sets are put in place with Replace or Batch. The Client identifies a variant by
// its name and constraints, and holds what came by resource_name apart from what came by name.
// Where several delta responses of a type are unanswered, NACK undoes only the newest. A raw
// request (Client.SendRaw) is no subscription: what it brings counts as unrequested.
//
// # What to read next
//
// both_test.go shows each dialect over both kinds of Net; then origin.go and client.go.
package relaytest
