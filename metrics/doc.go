// Package metrics is the catalogue of weir's metrics: every name, help text and label of `/metrics`
// is defined here.
//
// # What it is
//
// [New] registers everything. Events are methods, one each: [Metrics.LimitRejection],
// [DownstreamType.Response] and so on. State (streams, subscriptions, entries, staleness) is not
// counted up and down, which would drift from the truth. It is computed at each scrape, from one
// [Picture] that the process supplies with [Metrics.Gauges]. The histograms of delays have series
// by origin and type once somebody asks for the type: an origin would cost 600 otherwise
// (TestDelaysAreShownOnceTheyMayBe). Every method may be called on nil: a nil *Metrics counts
// nothing, and returns nil children (TestNilIsANoOp). [Metrics.Totals] adds up a few.
//
// A label value is an origin's configured name or one of a list in labels.go. Any other value
// becomes "other" (TestLabelsAreClosed). So no name, node id or type URL of a peer makes a series.
//
// # Who owns which goroutine, lock order
//
// No goroutines. Counting is atomic and takes no lock: the children of a stream or a lane are
// looked up when it is made ([Metrics.Downstream], [Metrics.Origin]). [Metrics.Origin] takes a lock
// of the Prometheus library, so it must not be called under one of ours. Nothing else looks up
// labels. A Picture is made on the goroutine of a scrape; several scrapes may run at the same time.
//
// # What a slow or broken peer can do to us
//
// Nothing: neither the number of series nor the time to count depends on one. A scrape costs a
// Picture.
//
// # Known limits
//
// Series of an origin that a reload removed stay, unchanged, until the process ends. v2 and v3
// spellings of a type are counted under one short name, although the table keeps them apart (V2-4).
//
// # Who imports it
//
// Packages relay, relay/inspect, upstream, upstream/file, upstream/rest, downstream,
// downstream/sink, cmd/weir, cmd/weir/admin, cmd/weir/seed and cmd/weir/snapshot. It imports
// nothing of weir.
//
// # What to read next
//
// metrics.go, then picture.go.
package metrics
