// Package csds is the client status discovery service (CSDS): which clients are connected and what
// they were sent, and what weir has of its origins, in the form that xDS tools read (protocol.md,
// section 19).
//
// One answer has two views. The server view has a ClientConfig for each connected node: its items
// have a config_status, and weir's version of the resource. The client view has one for each lane
// to an origin, with client_scope origin/<name>/<group>/<lane>: its items have a client_status, and
// the origin's version. So both versions of a resource are in the answer (CSDS-8).
//
// [Server] has three entry points with the same answer (CSDS-1): two gRPC methods and a POST of
// JSON. The cost of a request is proportional to the length of its answer, which is bounded
// (MaxAnswer), also as JSON (server.go). Bodies are shared with the table, and no lock is held
// while they are encoded. Answers are made one at a time; a request waits for its turn for turnWait
// at most (TestTurnEnds). The admin port has the next one wait until an answer was read.
//
// Matchers (CSDS-5) work as Envoy documents them: matcher.go matches the node, its strings and its
// metadata.
//
// It never changes anything in the table.
//
// # Known limits
//
// A resource that has changed, and whose change the client has not been sent, is STALE without a
// version: for members of sets the previous version is not kept. Of a node of more than 4 KiB only
// the fields of its group key and the short ones are shown.
//
// # Who imports it
//
// Packages cmd/weir and cmd/weir/admin.
package csds
