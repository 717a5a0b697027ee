// Package redteam plays hostile clients against the real weir, beside a hundred good ones.
//
// # What it is
//
// A bed (bed_test.go) is an origin that changes a cluster twenty times a second, the real weir with
// limits as an operator would set them, and a hundred clients of both dialects (client_test.go)
// that note when each change arrived. An attacker (attacker_test.go) is a process of its own, this
// test binary under another name, that comes from an address of its own and does one thing as fast
// as weir lets it for a while (attacks_test.go): on a raw HTTP/2 connection (raw_test.go), as a gRPC
// client, or on the admin address (admin_test.go).
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
// The line of each attack has what was measured: how much longer the good clients' changes took, 99
// of 100, than in the seconds before, and how long the new client waited. The attacker shares the
// processors with weir here, at the lowest priority; how much of the difference is his work and how
// much is weir's cannot be told apart.
//
// # How to run it
//
// `make redteam` runs it. WEIR_REDTEAM_FOR=3s is how long each attack takes. A plain `go test` runs
// some for a quarter of a second each. WEIR_REDTEAM_ONLY is a part of the names of those to play.
package redteam
