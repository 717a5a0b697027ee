// Package admin is the port for operators: a page for people, JSON for programs, probes for
// kubelet, metrics for Prometheus.
//
// # What it is
//
// [New] makes two HTTP handlers of one [Config]: [Admin.Handler] with everything, and
// [Admin.Probes] with /healthz, /readyz and /metrics only. What they show is computed for each
// request, but for the last overview, which all pages share, and the last hours' samples
// ([Admin.Run]).
//
// The files in ui are the page: index.html, style sheets, and ES modules by Preact, without a build
// step. It reads JSON, and [Overview] as server-sent events (events.go). [Headline] is its first
// sentence. The libraries in ui/vendor are unmodified (TestVendored).
//
// # What is never shown
//
// Secrets. Of SDS the table gives only names, not bodies, versions, lengths or digests. In other
// bodies, fields that Envoy's API marks as sensitive are blanked at any depth
// (TestSensitiveFieldsAreBlanked). The configuration is masked. A body of an unknown type is shown
// as it is, and only on request.
//
// # Who owns which goroutine, lock order
//
// None is started, and none of the table's locks is held while an answer is written. Requests run
// on net/http's goroutines, and each message that a gRPC stream waits for has one, which ends with
// the stream. Answers that go on end with Run (TestEventsEnd). The lock of the board is held while
// an overview is computed, which takes the table's locks; that of the series is a leaf.
//
// # What a slow or hostile caller can do to us
//
// Read the table once per request, which locks one type at a time. An overview is made once for all
// pages, at most each second, and so rarely that it takes a hundredth of a processor (events.go).
// At most 64 streams of events are open, and a slow reader's is ended (TestSlowReaderOfEvents).
// Lists end at limit=, 1000 by default (TestLimit), and at the ceiling of an answer (ceiling.go).
// Answers that cost are made one by one, and few are held while they are read (costly.go,
// TestOneCostlyAnswerAtATime). An answer or a gRPC call that goes on ends with what admitted its
// caller, and after ten minutes (lease.go, calls.go, TestLongAnswersEndWithTrust,
// TestCallsEndWithTrust). Pages of other web sites can make a browser neither act nor ask nor read
// answers (access.go, TestDrain, TestForeignPages, TestHosts). Guesses of the token are limited
// (token.go). Rejected resources are looked up in each group: 50 for the page, limit= for
// /nacks/book. /history has 10,000 changes at most. Comparisons are bounded (diff.go).
//
// # Who imports it
//
// Package cmd/weir.
//
// # What to read next
//
// admin.go, params.go, access.go, token.go, lease.go, ceiling.go, costly.go, state.go, overview.go,
// headline.go, events.go, series.go, ui.go, clients.go, nackbook.go, resources.go, explain.go,
// explainwalk.go, history.go, then diff.go.
package admin
