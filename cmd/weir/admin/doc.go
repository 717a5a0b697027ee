// Package admin is the port for operators: a page for people, JSON for programs, probes for
// kubelet, metrics for Prometheus.
//
// # What it is
//
// [New] makes two HTTP handlers of one [Config]: [Admin.Handler] with everything, and
// [Admin.Probes] with /healthz, /readyz and /metrics only. What they show is computed for each
// request, by functions of the process. Nothing is kept here.
//
// # What is never shown
//
// Secrets. Of SDS the table gives only names, not bodies, versions, lengths or digests. In other
// bodies, fields that Envoy's API marks as sensitive are blanked at any depth
// (TestSensitiveFieldsAreBlanked). The configuration is masked. A body of an unknown type cannot be
// inspected; it is shown as it is, and only on request.
//
// # Who owns which goroutine, lock order
//
// None is started, and none of the table's locks is held while an answer is written. Requests run
// on net/http's goroutines.
//
// # What a slow or hostile caller can do to us
//
// Read the table once per request, which locks one type at a time. Lists end at limit=, 1000 by
// default (TestLimit). Pages of other web sites can make a browser neither act (TestDrain,
// TestForeignPages) nor read answers, even if they have their own name resolve to this address
// (TestHosts). Guesses of the token are limited, and nothing waits for it (TestTries).
// What clients reject is shown with the number of clients that have it. Each rejected resource is
// looked up in each group for that: 50 resources for the page, limit= for /nacks/book.
//
// # Known limits
//
// channelz is not served. gRPC health can be checked, but not watched.
//
// # Who imports it
//
// Package cmd/weir.
//
// # What to read next
//
// admin.go, access.go, session.go, state.go, clients.go, explain.go, nackbook.go, denials.go, then
// resources.go.
package admin
