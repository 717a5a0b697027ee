// Package farm simulates tiers of weirs in virtual time.
//
// # What is real
//
// Each weir of the farm is a relay.Table, with a relay.Lane to the tier above and a relay.Sub for
// each of its clients, down to the last one. What a tier sends is encoded by Answer.Pieces, and the
// tier below reads these bytes as package upstream does. Clients decode them, too: what each client
// holds is known at any time. So what merges with what, what is sent again after a loss, and who is
// told what is decided by the code of the core, with the time of the simulation as its argument.
//
// # What is modelled
//
//   - A link has a latency, and sends one message after the other at its bandwidth (link.go).
//   - A weir has cores, which do one job after the other at a cost that was measured (cpu.go, Costs).
//   - Of packages upstream and downstream: one response of a stream at a time until its ACK, the
//     pause and the backoff before a stream is opened again, limits.new_streams_per_second.
//   - A client that loses its stream waits as Envoy does, at random up to a bound that doubles, and
//     then takes one of the weirs that are left.
//   - HTTP/2 and gRPC frames are counted in bytes; TLS, TCP and IP are not.
//
// All clients subscribe to `*` of clusters, in delta, and are one group.
//
// # Reading it
//
// sim.go runs the scenario, events.go has the clock. weir.go and lane.go are a weir, client.go and
// state.go a client, origin.go the control plane; report.go is what is told.
//
// # Who imports it
//
// Package main of cmd/weirload/bench.
package farm
