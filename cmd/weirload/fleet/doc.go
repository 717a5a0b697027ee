// Package fleet is many clients of an xDS server. They count instead of decoding, so that they cost
// as little as possible beside the measured server.
//
// # What it is
//
// A [Fleet] is one run (fleet.go): the storm, in which all clients connect; a pause, after which
// memory is read; changes (measure.go); and a rest, after which memory is read once more
// (machine.go). A client (client.go) subscribes, reads, and acknowledges at once. It walks over
// what it reads instead of decoding it (walk.go): it reads a message's own fields, and of a
// resource only the stamp of package world, which tells when the change began. Clients record what
// they find on a board (board.go), from which a [Report] is made.
//
// # Goroutines and locks
//
// One for each client, which Run waits for. The grpc library has its own for each connection. The
// locks of the board and the fleet are never held at the same time, and only for map work.
//
// # Known limits
//
//   - A client whose stream was reopened presents no versions: it is sent everything again.
//   - A change that reaches a client with the first state, or while its stream is closed, is no
//     delivery. The closed loop counts it as lost.
//   - A SotW server may send unchanged resources again, so only what is newer than everything
//     before counts. If responses are lists of single names, and a resource of a transaction comes
//     in a later one than another, it is not counted.
//   - The system counts the CPU time of a process in ticks of 10 ms: a run should take seconds.
//
// # Who imports it
//
// Package cmd/weirload, and the comparison in cmd/weirload/bench.
package fleet
