// Package gate decides which of an origin's statements reach clients at once. It has three gates:
// the guard, which holds back mass removals after a reconnect (RELAY-97, [Guard]), the freeze, by
// which an operator keeps clients at their present configuration ([Subject], [Waits]), and the
// canary gate, which tries changes on some clients first ([Canary], [Trial]).
//
// It is pure policy: values, and functions from values to values. It does not store what is held
// back, takes no lock, reads no clock and sends nothing. Time is an argument, and the caller does
// what was decided. A caller keeps one [Count] for each set, under its own lock.
//
// The freeze comes first: while an origin is frozen the guard neither counts nor releases anything.
//
// # Who imports it
//
// Packages relay and cmd/weir; the latter for [GuardConfig], and for the canary gate. It imports
// nothing of weir (cmd/weir: TestShape).
package gate
