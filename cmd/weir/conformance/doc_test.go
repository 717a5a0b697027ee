// Package conformance shows weir's behaviour rule by rule, from outside: a scripted origin, raw
// clients of either dialect, and the real binary between them, over loopback. Every case cites the
// rules of protocol.md that it shows; testdata/rules.txt lists those in scope. WEIR_HOPS=2 puts two
// weirs in a row; testdata/hops.txt has what cannot pass through them.
package conformance
