// Package sensitive knows what Envoy's API marks as sensitive in a resource: private keys,
// passwords and the like, at any depth, also inside listeners and clusters. [Blank] removes it from
// what is shown. [Holds] tells whether there is any, for what is written to disk.
//
// # What it cannot know
//
// A message of an unknown type inside a google.protobuf.Any is opaque. Blank leaves it as it is.
// Holds finds a private key in PEM form in it, also in base64, and nothing else. Contrib extensions
// of Envoy are such types; the list of known ones is upstream/descriptors/messages.go.
//
// # Cost
//
// Holds reads the encoded message in place and builds none. What can lead to nothing sensitive is
// skipped (BenchmarkHolds). What it knows of message types is made with their first resource and
// kept for the life of the process.
//
// # Who imports it
//
// Packages cmd/weir, cmd/weir/admin and cmd/weir/snapshot.
package sensitive
