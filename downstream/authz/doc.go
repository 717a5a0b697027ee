// Package authz decides who may ask what: by the identity of a client's connection, and by what the
// client claims in its node and its parameters.
//
// # What it is
//
// [Compile] reads rules, each of which allows something. [Rules.For] finds those that an identity
// fits, and binds its parts, once for a connection. [Allowances.Fit] drops those whose claims the
// node does not meet, once for a stream. [Allowances.Holding] is which of them hold for one type.
// It is cheap, since it puts no part into a pattern of names. [Held.Permit] does, and is dear: it
// is for all who have the same key. Permit.Allows answers for a name. As soon as there is one rule,
// what none allows is denied (TestDecisions).
//
// # What rules set
//
// [Allowances.SetNode] and [Allowances.SetParameters] return the values that fields get, whatever
// the client said. The caller puts them there first, and asks Fit and Holding with the result. Who
// the client is, and the type and origin it asks, choose what is set; what it claims does not. The
// first rule that names a field sets it, and a rule that sets it otherwise does not hold. A caller
// that puts nothing there allows less, not more (TestSets, TestSetsOfNobodyAllowLess).
//
// # What is allowed in particular
//
// [Allowances.Owning] returns what is allowed of what a shared cache must not hand to whoever
// names it. A rule for many identities counts there only by those patterns of its names that have a
// part of the identity (TestOwnPermits).
//
// It is pure: no lock, no clock, no I/O, and nothing changes once it is made.
//
// [Rules.Explain] answers a question as these do, with the rule that decides. A [Who] is a pattern
// of identities without a rule (TestWho).
//
// # What a hostile client can do
//
// A part's value is never read as a pattern. It is one plain segment, without slashes, stars,
// braces, percent signs and dots alone. An identity that has anything else in the place of a part
// fits no rule (TestPartsDoNotWiden, FuzzPartsDoNotWiden). The time to match a name is that of a
// few passes over it (TestLongNames).
//
// # Known limits
//
// A name with a star or a brace in it can be allowed by a star alone.
//
// # Who imports it
//
// Package cmd/weir/config compiles the key authorization, and cmd/weir answers questions about it,
// and compares the other side of a TLS connection with patterns.
// Package downstream asks for the rights of a stream.
package authz
