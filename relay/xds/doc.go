// Package xds has what is the same wherever xDS is spoken, in three layers.
//
// Names and types: names of resources and their canonical form, globs, the types with the services
// that carry them, the digests that versions are, of resources and of sets (digest.go, tree.go),
// and the walker over encoded messages, which is the only one in weir (FuzzFields). What encoded
// messages and JSON cost to decode is bounded before they are decoded (Meter, JSONBound; FuzzJSON).
//
// What an origin says: ParseResponse reads a response of either dialect without building messages.
// Accept checks it as RELAY-30 says, and makes an [Update] of it: resources, removals and errors
// ([NameError]), each under its canonical name and its constraints ([Identity]). What was refused
// is in a [RejectError], and leaves the rest usable.
//
// What is sent: a [Variant] is one body of a resource, encoded once in the forms of both dialects
// (TestVariantBytes). With a TTL, with constraints, as a heartbeat or for a snapshot it has a head
// of its own before the same bytes (heads.go). Its [Provenance] says which
// response it came in. What it is apart from that is stored once in the process, however many
// groups of however many origins are sent it (content.go, TestEqualBodiesAreOne).
//
// The little that is ever read of payloads is read here: a name, and which endpoints a cluster
// needs.
//
// All of it is pure, but for that store: no table, no lock, no clock, no goroutine. Two replicas,
// of whatever builds, give the same names and digests for the same content, as clients move between
// them (TestGoldenVersions, TestGoldenSets). Bytes and names of a peer never panic here
// (FuzzCanonicalName; package relay: FuzzResponse).
//
// What depends on configuration, or on what is held, is not here: which collections an origin can
// be asked for, and whether an absence deletes, are package relay's.
//
// # Who imports it
//
// Packages relay, upstream, downstream and cmd/weir, and packages below them: every package that
// speaks of resources.
//
// # What to read next
//
// name.go and types.go, then response.go, accept.go and variant.go.
package xds
