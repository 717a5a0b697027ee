// Package admin is the port for operators: a page for people, JSON for
// programs, probes for kubelet, metrics for Prometheus.
//
// # What it is
//
// [New] makes two HTTP handlers of one [Config]: [Admin.Handler] with all of
// it, [Admin.Probes] with /healthz, /readyz and /metrics only. What they show
// is asked for at each request, from functions the process gives; nothing is
// kept here.
//
// # What is never shown
//
// Secrets: of SDS the table hands out names alone, neither bodies nor versions,
// lengths or digests; fields that Envoy's API
// marks as sensitive are blanked at any depth of other bodies
// (TestSensitiveFieldsAreBlanked), and the configuration comes masked. A body
// of a type that is not linked in cannot be looked into; it is shown as it is,
// and only on request.
//
// # Who owns which goroutine, lock order
//
// None is started and no lock is held; requests run on net/http's.
//
// # What a slow or hostile caller can do to us
//
// Take one picture of the table per request, which locks one type at a time.
// Lists end at limit=, 1000 unless told (TestLimit). Pages of other web sites
// can make a browser neither act (TestDrain, TestForeignPages) nor read answers,
// also if they have their name turned to this address (TestHosts). Who guesses
// the token is told to come again, and nothing waits for it (TestTries).
//
// # Known limits
//
// channelz is not served. Health cannot be watched, only asked.
//
// # What to read next
//
// admin.go, access.go, session.go, state.go, then resources.go.
package admin
