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
// # Pods
//
// Other attacks are on a pod (pod_test.go): the real weir with ten good clients in a control group
// of memory of 1 GiB, with GOMEMLIMIT at four fifths of it, as the chart makes it. Where no such
// group can be made, weir's resident memory is watched, and weir is killed beyond 1 GiB as the
// kernel would; each line says which. Several attacks of a kind follow one another on one weir,
// which drains in the end (siege_test.go has the kinds). They are
//
//   - requests that are small on the wire and large once they are decoded (bombs_test.go), in
//     unusual encodings (encodings_test.go), drawn (drawn_test.go), and as polls (polls_test.go);
//   - responses of an origin with deep bodies (nested_test.go), too many elements
//     (origins_test.go), or either of them outside the bodies (odd_test.go), over gRPC and polled;
//   - pages of somebody else, idle connections, operators whose token was replaced, and weir's own
//     file (operators_test.go);
//   - two of these at once (mixed_test.go).
//
// Each is judged alike, too: weir is not killed and does not end, and its resident memory stays
// below 1 GiB; the good clients' streams go on, every change reaches them in time, and in the end
// they hold what the origin states; a new client is served once the attack is over, and so is a
// poll; `/readyz` stays 200; SIGTERM ends weir within timing.drain, also in the middle of an attack.
// An attack may assert more. After one that failed the next begins with a new weir. The peak of an
// attack includes garbage of the attacks before it on the same weir.
//
// # How to run it
//
// `make redteam` runs it. WEIR_REDTEAM_FOR=2s is how long each attack takes, and those on pods half
// a second, or until weir has answered. A plain `go test` runs some for a quarter of a second each.
// WEIR_REDTEAM_ONLY is a part of the names of those to play. WEIR_SEED repeats what was drawn, and
// `go test -v` says what that was.
package redteam
