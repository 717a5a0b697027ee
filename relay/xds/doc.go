// Package xds has what is the same wherever xDS is spoken: names of resources and their canonical
// form, globs, the types with the services that carry them, the digests that versions are, and the
// walker over encoded messages, which is the only one in weir (FuzzFields). The little that is ever
// read of payloads is read here: a name, and which endpoints a cluster needs. What is said of a
// name instead of a resource is a NameError.
//
// All of it is pure: no table, no lock, no clock, no goroutine. Two replicas, of whatever builds,
// give the same names and digests for the same content, as clients move between them (TestSums;
// package relay: TestGoldenVersions). Bytes and names of a peer never panic here
// (FuzzCanonicalName).
//
// What depends on configuration, or on what is held, is not here: which collections an origin can
// be asked for, and whether an absence deletes, are package relay's.
//
// Of weir it imports constraints alone. Every package that speaks of resources may import it. Read
// name.go, then types.go.
package xds
