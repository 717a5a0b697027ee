// Package identity says who a client is, by its connection alone: never by its node, which is what
// the client claims of itself.
//
// # What an identity is
//
// A text whose beginning says where it comes from. Of a certificate that was verified: its SPIFFE
// ID (`spiffe://...`), else its first other URI (`uri:...`), else its first DNS name (`dns:...`),
// else its subject (`subject:...`). Of the other end of a Unix socket: its user (`uid:...`). Else
// [Anonymous]. Equal workloads have equal identities, in each of their certificates.
//
// # What a hostile client can do
//
// Nothing of an identity is the client's own word: an authority has signed the certificate, and the
// system knows the user. But an authority may sign texts of any kind, so an identity may have any
// characters (TestOf): what is made of it has to bear that. A URI that only begins like a SPIFFE
// ID is none, so a pattern of segments never sees one that is empty, or "..", or has a slash in
// disguise.
//
// # Who imports it
//
// Package downstream, and packages below it. Package cmd/weir compares the other side of a TLS
// connection with who it has to be.
package identity
