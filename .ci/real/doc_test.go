// Package real proves weir with programs that nobody here wrote, with traffic: real clients, such
// as Envoy, behind the real weir, before real control planes. It has tests only, in a module of its
// own, since it needs more than Go: make real fetches the programs (script install, versions in the
// file versions) and runs it.
//
// # What runs
//
// A bed (bed_test.go) is a control plane, weir before it, a client program before that, and
// requests through the client all the time, each of them counted (tally_test.go). The client
// reaches weir through a front, an address that stays while weirs come and go behind it. A scenario
// (scenarios_test.go) changes what the control plane has, or ends and starts processes, and waits
// until the requests show it. No request may fail, and at the end the client holds exactly what the
// same program holds straight at the same control plane. Requests, contents and counters are
// asserted, never a time.
//
// TestScenarios runs every scenario for every row of rows_test.go: a client program in one way of
// using it, with the control plane it is before. What has a test of its own beside it: Envoy's
// further types (features_test.go), Envoy by files (files_test.go), gRPC servers (server_test.go),
// the ratelimit service (ratelimit_test.go), the files of README and deploy (readme_test.go), the
// start of an Envoy with 2,000 clusters (cold_test.go: WEIR_REAL_ROUNDS=9 for figures), a weir that
// has its origin behind 10 Mbit/s (thinlink_test.go), the canary gate before Envoys whose counters a
// real Prometheus scrapes, with the query of the page (canary_test.go, prometheus_test.go), the
// README's commands in a terminal (newcomer_test.go), and sovereign, a REST control plane of
// templates (sovereign_test.go). Envoy Gateway (gateway_test.go,
// make gateway), istio's discovery server (istio_test.go, make istio) and Consul with a mesh of
// sidecars (consul_test.go, make consul) are stages of their own, each with a build tag, since their
// builds take minutes. The table of what was tried is deploy/docs/compatibility.md.
//
// # Another program
//
// A client is a program (program_test.go), which is started with the address of its control plane
// and tells each call it makes; see envoy_test.go for one that carries requests of others, and
// grpc_test.go for those that make calls: any program that takes a gRPC bootstrap and prints a line
// for each call is a value there. Those of other languages than Go are in languages_test.go, their
// programs in clients. A control plane is an origin (plane_test.go); one that is a program of its
// own is in javaplane_test.go, and its program in origins; sovereign's templates are there too.
//
// # Reading a failure
//
// The failed requests come first, then weir's log, the client's log and its last counters.
// WEIR_REAL_CACHE names the folder of the programs, WEIR_BINARY a weir built elsewhere.
package real
