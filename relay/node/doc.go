// Package node reads what clients say of themselves: the key of the group they belong to, the node
// that weir presents upstream for the group, the dynamic parameters that fields of the metadata
// stand for, whether the client is a canary, and the relays that a stream has come through
// (weir-via).
//
// All of it is pure: no table, no lock, no clock. Two replicas, of whatever builds, give the same
// answers for the same node, as replicas are replaced one by one (TestGroupKeysAreGolden).
//
// # Who imports it
//
// Packages relay, upstream and downstream, and packages below them, and cmd/weir.
package node
