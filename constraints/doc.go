// Package constraints decides which variant of a resource a client gets.
//
// # What it is
//
// A client subscribes with dynamic parameters ([Params], a map of strings). An origin sends
// variants with dynamic parameter constraints ([Set], a boolean expression over such maps). A
// variant is for a subscription if its constraints match the parameters (DYN-3, DYN-8). Both have a
// canonical text, the Key, because the table is keyed by them: DYN-2 for parameters, DYN-5 and
// DYN-6 for constraints.
//
// The canonical form of constraints does what DYN-6 lists and no more. It is not a normal form of
// boolean logic: or(unset, x) always matches, and yet its key differs from that of unset, since it
// names a parameter (DYN-9 counts those). At worst that costs one more variant (TestSpellings).
//
// Keys are ASCII, and the same in every process and every release of Go: all replicas break ties by
// them (DYN-9), and they are fit for logs and admin pages. The wire has the origin's bytes (DYN-7).
//
// [Overlap] looks for parameters that match two sets, and [SameKeys] tells whether two sets mention
// the same keys. Variants should avoid the first and ensure the second.
//
// # Who owns which goroutine, lock order
//
// No goroutines, no locks. Params and Sets are immutable and may be shared.
//
// # What a broken peer can do to us
//
// [Compile] reads what an origin sent. Malformed constraints are an error, for a NACK (RELAY-30).
// Depth and size are bounded by [MaxDepth] and [MaxNodes], so compiling and matching take a bounded
// time (TestCompileLimits). No bytes make it panic (FuzzCompile). [Overlap] gives up after
// [MaxOverlapWork] and says so (TestOverlap, "more than may be tried"). [NewParams] takes what a
// client sent, of any size: its caller limits the request.
//
// # Known limits
//
// An `or` of nothing is valid here and matches nothing, as the truth table has it. The Key shows
// it. A kind of constraint that this build does not know reads as unset, hence matches.
//
// # Who imports it
//
// Packages relay, relay/xds, relay/node, relay/inspect, upstream/file, downstream, cmd/weir,
// cmd/weir/admin and cmd/weir/snapshot. It imports nothing of weir.
//
// # What to read next
//
// constraints.go, then protocol rules DYN-1 to DYN-20.
package constraints
