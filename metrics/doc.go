// Package metrics is the catalogue of what weir counts: every name, help text and label of
// `/metrics` stands here, and nothing of ours is imported.
//
// # What it is
//
// [New] registers everything. Events are methods, one each: [Metrics.LimitRejection],
// [DownstreamType.Response] and so on. What is a picture of a state (streams, subscriptions,
// entries, staleness) is not kept up by hand, where it would drift from the truth; it is computed
// when somebody scrapes, from one [Picture] that the process gives with [Metrics.Gauges].
//
// All of it may be called on nil: a nil *Metrics counts nothing and hands out nil children that
// count nothing (TestNilIsANoOp).
//
// # Labels are closed sets
//
// A label value is an origin's configured name or one of a list in labels.go; whatever else a
// caller passes becomes "other" (TestLabelsAreClosed). No resource name, node id or peer-chosen
// type URL can make a time series.
//
// # Who owns which goroutine, lock order
//
// No goroutines. Counting is atomic and takes no lock: children with labels are resolved when a
// stream or a lane is set up ([Metrics.Downstream], [Metrics.Origin]) and then held.
// [Metrics.Origin] does take a lock of the Prometheus library and is not for use under one of ours;
// nothing else looks labels up. A Picture is taken by a scrape, on its goroutine; two scrapes may
// ask at once.
//
// # What a slow or broken peer can do to us
//
// Nothing: neither the number of series nor the time to count depends on a peer. A scrape costs one
// Picture.
//
// # Known limits
//
// Series of an origin that a reload removed stay, unmoving, until the process ends. v2 and v3
// spellings of a type are counted under one short name, although the cache keeps them apart (V2-4).
//
// # What to read next
//
// metrics.go, then picture.go.
package metrics
