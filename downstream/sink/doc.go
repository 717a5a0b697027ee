// Package sink writes what a client would be sent to files that Envoy reads with
// path_config_source: "sinks" in the config file.
//
// # What it is
//
// A [Sink] is a client of the table without a wire. It joins the group of its node, subscribes to
// `*` of clusters, listeners and scoped routes, and names the endpoints and route configurations
// that those refer to. What it takes becomes files, which stay when weir ends. Every file is an
// encoded DiscoveryResponse, so no type needs a descriptor, and a file origin can read it.
//
//	cds.pb, lds.pb, srds.pb                all resources of the type
//	eds.NAME.pb, rds.NAME.pb, sds.NAME.pb  one resource: Envoy refuses several for a subscription
//
// In NAME a slash, a percent sign, a space and what is not printable ASCII are written %XX. A name
// that is too long for a file is cut, and ends with ~ and 16 digits of its SHA-256 (TestFileNames).
//
// # When a file is written
//
// Each file is written beside its place, synced and renamed. So Envoy's watches see it, and nobody
// reads half of it. A file whose content stays the same is not written, also after a restart.
//
// The order is (TestOrder): Files of endpoints and secrets are first, because Envoy refuses a
// cluster whose file is missing. Clusters follow; removed ones stay in cds.pb. After
// Config.OrderHold come the routes and listeners that refer to the new clusters. A hold after
// those, removed clusters leave cds.pb, and files that nothing refers to are removed a hold later.
// Nobody acknowledges a file, so time replaces the ACKs. Removed clusters stay, and routes wait,
// for four holds at most.
//
// Only what is complete is written (TestUnsettled): a list when its set has settled and all that it
// refers to was answered. A name about which the connected origin is silent for Config.ColdWait,
// and one that it states not to exist, gets an empty file if it has none, since Envoy would wait
// for the file otherwise. A list about which the origin is silent for as long has no file, and
// nothing waits for it. While the origin is frozen nothing is written (TestFrozen), and unconfirmed
// restored content not over files of an earlier run, since they may be newer (TestRestoredWaits).
//
// # What can go wrong
//
// A directory that cannot be written to is counted (weir_sink_writes_total), logged once a minute,
// and retried after one second, then two, up to thirty (TestFailure). Nothing waits for a sink. It
// pauses for 100 ms between two rounds of writing. Run's goroutine is the only one.
//
// # Known limits
//
// The directory is the sink's only: two processes that write to it undo each other's work. Files
// that others change or remove are not written again until their content changes. xdstp names are
// asked of the sink's origin, whatever their authority. Left out are resources without a name, and
// virtual hosts and LbEndpoints, which Envoy reads from streams only. No resource is changed: a
// cluster reads its endpoints from the sink only if its eds_config has the path of the file.
//
// # Who imports it
//
// Package cmd/weir.
//
// # What to read next
//
// sink.go, write.go, feed.go, then dir.go.
package sink
