// Package gate decides what of an origin's word is passed on to clients at once. There are two
// gates: the guard, which holds back mass removals after a reconnect (RELAY-97, [Guard]), and the
// freeze, by which an operator keeps clients at what they have ([Subject], [Waits]).
//
// It is policy and nothing else: values, and functions from values to values. It keeps no table of
// what is held back, takes no lock, reads no clock and sends nothing: time is an argument, and who
// asks does what was decided. A caller keeps one [Count] for each set, under its own lock.
//
// The freeze comes first: while an origin is frozen the guard neither counts nor releases anything.
//
// It imports nothing of weir, and never relay (cmd/weir: TestShape). Package relay imports it, and
// who writes an origin's configuration, for [GuardConfig].
package gate
