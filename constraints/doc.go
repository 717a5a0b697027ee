// Package constraints decides which variant of a resource a client gets.
//
// # What it is
//
// A client subscribes with dynamic parameters ([Params], a map of strings), an origin sends
// variants with dynamic parameter constraints ([Set], a boolean expression over such maps). A
// variant serves a subscription if its constraints match the parameters (DYN-3, DYN-8). Both have a
// canonical text, their Key, because the table is keyed by them: DYN-2 for parameters, DYN-5 and
// DYN-6 for constraints.
//
// The canonical form of constraints does what DYN-6 lists and no more: nested and/or of one kind
// are flattened, lists are sorted and freed of duplicates, lists of one are unwrapped, double
// negation goes. It is not a normal form of boolean logic: or(unset, x) always matches and yet is
// not the same key as unset, since it names a parameter (DYN-9 counts those). That costs at worst
// one more variant of a name (TestSpellings).
//
// Keys are ASCII and are the same in every process and every release of Go: DYN-9 breaks ties by
// them on all replicas, and they are fit for logs and admin pages. They are not for the wire; there
// the origin's bytes are repeated (DYN-7).
//
// [Overlap] finds parameters that two sets both match, and [SameKeys] whether they mention the
// same: what the author of variants has to keep apart, and alike (TestOverlap, TestSameKeys).
//
// # Who owns which goroutine, lock order
//
// No goroutines, no locks. Params and Set never change once made and may be shared freely.
//
// # What a broken peer can do to us
//
// [Compile] takes what an origin sent. Malformed constraints are an error, for a NACK (RELAY-30;
// TestCompileErrors); deep nesting and size are bounded by [MaxDepth] and [MaxNodes], so that
// compiling and matching cost a bounded time (TestCompileLimits), and [Set.Match] never allocates
// (TestMatchDoesNotAllocate). No bytes make it panic (FuzzCompile). [Overlap] gives up after
// [MaxOverlapWork] and says so, since some sets would keep it busy for ever (TestOverlap, "more
// than may be tried"). [NewParams] takes what a client sent, of any size: the limit on a request is
// the reader's business.
//
// # Known limits
//
// An `or` of nothing is well formed here and matches nothing, as the truth table has it; it
// compiles without an error, and whoever wants to log it as malformed can see it in the Key. A kind
// of constraint that this build does not know reads as unset, hence matches.
//
// # What to read next
//
// params.go, constraints.go, then protocol rules DYN-1 to DYN-20.
package constraints
