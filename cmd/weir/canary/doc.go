// Package canary runs the canary gates of all origins: it looks at each group that has canaries,
// and does what the policy of package gate says.
//
// # How it is done
//
// [Gates.Run] looks at all groups once a second, when the policy wants to look again, and when a
// canary rejects something. While no origin has canaries it waits for [Gates.Wake], and does
// nothing. What it holds clients at is kept by the table (relay.Origin.Hold), not here: after a
// failure it goes by what it finds there.
//
// A canary counts as having acknowledged a candidate once a stream of it has accepted everything
// since the candidate began. A stream that was opened later has to do so itself: a client that
// crashes does not count for what it said before. A rejection counts from then on, whatever becomes
// of the client, unless it names only resources that the rest have alike: a client that
// rejects what the rest have as well says nothing of the candidate.
//
// # The check
//
// A check ([Check]) is asked once for all groups of an origin in which a candidate settles or
// bakes: when a change is seen, when a candidate begins, at each interval, and when one has baked.
// An answer counts for the candidates that began before it was asked for. What it said before tells
// whether an objection may be of the time before the candidate.
//
// # Goroutines
//
// Run is one, and owns all state; others hand it what they want, and read what it has published
// ([Gates.Look]). While a candidate bakes, each origin with a check has at most one more for the
// time that the answer takes; Run waits for them when it ends.
//
// # Who imports it
//
// Packages cmd/weir and cmd/weir/admin; the latter for [Status].
package canary
