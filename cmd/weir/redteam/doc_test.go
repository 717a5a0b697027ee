// Package redteam plays hostile clients against the real weir, beside a hundred good ones.
//
// # What it is
//
// A bed (bed_test.go) is an origin that changes a cluster twenty times a second, the real weir with
// limits as an operator would set them, and a hundred clients of both dialects (client_test.go)
// that note when each change arrived. An attacker (attacker_test.go) is a process of its own, this
// test binary under another name, that comes from an address of its own and does one thing as fast
// as weir lets it for a while (attacks_test.go): on a raw HTTP/2 connection (raw_test.go), as a
// gRPC client, over HTTP/1.1, on a listener of polls, or on the admin address (admin_test.go).
//
// Each attack is judged alike (redteam_test.go):
//
//   - no stream of a good client ends, and in the end each holds what the origin states;
//   - every change reaches them in time;
//   - weir's memory stays below the limit that it was given;
//   - the origin sees no more new streams than limits.new_groups_per_second lets through;
//   - a new client is served once the attacker is gone, from his own address too;
//   - `/readyz` stays 200.
//
// The line of each attack has what was measured: how long the good clients' changes took, 99 of
// 100, in the seconds before (calm), while the same attacker attacked a sink (floor), and while he
// attacked weir (attack); how many processors weir used meanwhile; and how long the new client
// waited. Nothing is asserted of these figures but what is above.
//
// A sink (sink_test.go) is a process that does with the attacker's bytes the least that anybody
// could: it reads and forgets them, or is grpc-go or net/http alone. The attacker shares the
// processors with weir and the good clients here, at the lowest priority, so the floor is what the
// machine costs, and attack by floor what weir costs. It is below 1 where weir slows an attacker
// down that a sink does not.
//
// # How to run it
//
// `make redteam` runs it. WEIR_REDTEAM_FOR=3s is how long each attack takes. A plain `go test` runs
// some for a quarter of a second each. WEIR_REDTEAM_ONLY is a part of the names of those to play.
package redteam
