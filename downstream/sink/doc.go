// Package sink writes what a client would be sent to files that Envoy reads with
// path_config_source: "sinks" in the config file.
//
// # What it is
//
// A [Sink] is a client of the table without a wire. It joins the group of its node, subscribes to
// `*` of clusters, listeners and scoped routes, and names the endpoints and route configurations
// that those refer to, as a client does. What it is told becomes files, and the files stay when
// weir ends. Every file is an encoded DiscoveryResponse (.pb), so that any type is written as it
// came: no descriptor is needed. An origin of files reads them back.
//
//	cds.pb, lds.pb, srds.pb                all resources of the type
//	eds.NAME.pb, rds.NAME.pb, sds.NAME.pb  one resource: Envoy refuses several for a subscription
//
// In NAME a slash, a percent sign, a space and what is not printable ASCII are written %XX; a name
// too long for a file is cut and ends with ~ and 16 digits of its SHA-256 (TestFileNames).
//
// # When a file is written
//
// Each is written beside its place, synced and renamed. So both Envoy's watch of a path and its
// watched_directory see it, and nobody reads half of it. A file whose content stays the same is
// left alone, over a restart, too (TestRestart).
//
// Order (TestOrder): files of endpoints and secrets are first, because Envoy refuses a cluster
// whose file is missing. Clusters follow: those that went stay in cds.pb. After Config.OrderHold
// come the routes and listeners that refer to the new ones. A hold after those, the clusters that
// went are left out, and files that nothing refers to go a hold later. Nobody acknowledges a file,
// so time takes the place of the answers. A cluster that went stays four holds at most, and routes
// wait as long.
//
// Only what is complete is written (TestUnsettled): a list when its set has settled and all that it
// refers to was answered. A name that the connected origin is silent about for Config.ColdWait, and
// one that it says there is not, have an empty file if they have none: Envoy then does not wait for
// it. A list that the origin is silent about for as long has no file, and nothing waits for it.
// While the origin is frozen nothing is written (TestFrozen). Over files of an earlier run nothing
// is written that was restored and the origin has not confirmed: the files may be newer
// (TestRestoredWaits).
//
// # What can go wrong
//
// A directory that cannot be written to is counted (weir_sink_writes_total), logged once a minute,
// and tried again after one second, then two, up to thirty (TestFailure). Nobody waits for a sink.
// Between two rounds of writing it rests for 100 ms.
//
// # Goroutines
//
// One, that of Run. It owns all there is.
//
// # Known limits
//
// The directory is the sink's alone: two processes that write to it undo each other's work. Files
// that others change or remove while weir runs are not written again until they change. xdstp names
// are asked of the sink's origin, whatever their authority. Resources without a name are left out,
// and so are virtual hosts and LbEndpoints, which Envoy has over streams only. Nothing here changes
// a resource: a cluster has its endpoints from the sink if its own eds_config is the path of the
// file.
//
// # What to read next
//
// sink.go, write.go, feed.go, then dir.go and names.go.
package sink
