// Package fleet is many clients of an xDS server that count rather than decode, so that they cost
// as little as they can beside the server that is measured.
//
// # What it is
//
// A [Fleet] is one run (fleet.go): the storm, in which all clients come; a pause, after which
// memory is looked at; changes (measure.go); and a rest, after which it is looked at once more. A
// client (client.go) subscribes, reads, and acknowledges at once. What it reads is walked, not
// decoded (walk.go, cursor.go): of a message only its own fields are looked at, and of a resource
// only the stamp of package world, which tells when the change began. What they find they note on a
// board (board.go), from which a [Report] is made.
//
// # Goroutines and locks
//
// One for each client, waited for by Run; the grpc library has its own for each connection. The
// board's lock and the fleet's are never held at the same time, and for map work only.
//
// # Known limits
//
//   - What a client had is not presented when it comes back after its stream ended: it is sent
//     everything again.
//   - A change that reaches a client with the first state, or while its stream is away, is no
//     delivery. The closed loop counts it as lost.
//   - In state of the world a server may send again what did not change, so there only what is
//     newer than anything before counts. Where responses are lists of single names, and one of a
//     transaction's resources comes in a later one than another, it is not counted.
//   - The CPU time of a process is counted by the system in ticks of 10 ms: a run should take
//     seconds.
//   - No TLS.
package fleet
