// Package tracing makes a span of OpenTelemetry for each update that is drawn: from its receipt to
// the last acknowledgement of a client. It is off unless the configuration has an endpoint.
//
// # How it is known
//
// Package relay draws updates as they are applied, before any client can take them (relay.Traces).
// While one is open, package downstream tells of each answer that is sent, acknowledged or refused,
// and of streams that end ([Tracing.Note]). An answer has an update if its revisions enclose that
// of the update, and it is of the same type and group. For clients of `*` that is exact. A client
// of names that lags may be counted for a change of others' names. So may a client whose names
// belong to several origins.
//
// An update has ended once nobody has still to be sent it, and everybody who was sent it has
// answered or gone. Who was not sent it yet is looked for ten times a second, while there are
// updates to follow ([Config.Unsent]).
//
// # Bounds
//
// At most [MostOpen] updates are open at a time; others are not drawn then. Each ends after
// [Tracing.Longest], with the attribute weir.unfinished. Each costs a few words for each client
// that it waits for. Spans wait in the library's queue of 2,048 for the collector, and are dropped
// beyond that. A collector that does not answer costs that, a line of log in a while, and a second
// at the end of the process (TestTracingDeadCollector in cmd/weir).
//
// # Goroutines
//
// [Tracing.Run] is one, and the library has a few of its own. Note and TraceID are called on those
// of streams. The lock of the Tracing is taken with that of a session held; under it only the
// library's are.
//
// # Who imports it
//
// Only cmd/weir.
package tracing
