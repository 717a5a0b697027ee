// Package csds is the client status discovery service (CSDS): who is connected and what they were
// sent, and what weir itself has of its origins, in the form that xDS tools read (protocol.md,
// section 19).
//
// There are two views in one answer. In the server view there is a ClientConfig for each connected
// node: its items have a config_status, and weir's version of the resource. In the client view
// there is one for each lane to an origin, with client_scope origin/<name>/<group>/<lane>: its
// items have a client_status, and the origin's version. So both versions of a resource are in the
// answer (CSDS-8).
//
// [Server] has three ways in, and one answer for all (CSDS-1): two gRPC methods and a POST of JSON.
// A request costs weir about what its answer is long, which is bounded (MaxAnswer): bodies are
// shared with the table, and nothing is locked while they are encoded. Answers are made one at a
// time.
//
// Matchers (CSDS-5) are as Envoy documents them: matcher.go has the node, and value.go what strings
// and metadata are compared with.
//
// # Known limits
//
// A resource that changed, and of which the client has not been sent the change yet, is STALE
// without a version: what it was before is not kept for members of sets. Of a node that is longer
// than 4 KiB only what its group goes by and what is short is remembered.
package csds
