// Command bench compares weir with what people use today, and with the limit of grpc-go, in one run
// on one machine.
//
// # Subjects
//
// weir in front of go-control-plane; go-control-plane's snapshot cache and its linear cache by
// themselves (caches.go); and the bare server (bare.go), the yardstick: what grpc-go costs when
// every client is sent the same bytes and the server knows nothing of xDS. Each is a process,
// `bench snapshot|linear|bare` (plane.go), with the same resources and the same control endpoint
// (cmd/weirload/world). Clients are those of cmd/weirload, in a process of their own. All servers
// count requests in their codecs (codec.go). Other xDS servers are not among them: they could not
// be made dependencies of this module with reasonable effort.
//
// # Use
//
//	go run . compare      the table of scenarios (scenario.go), plain and with TLS, as Markdown; twelve minutes
//	go run . compare -h   fewer scenarios, subjects, rounds; JSON; profiles
//	go run . scale        weir alone along each axis (point.go), and the model (model.go) behind
//	                      deploy/docs/scale.md; thirteen minutes
//	go run . growth       weir alone on a grid (growth.go), formulas fitted to it (formulas.go), and
//	                      what fleets need by them (readoff.go); five minutes
//	go run . equal        weir alone with 10,000 groups of one client each, all answered the same,
//	                      beside one group of all the clients (equal.go); ten minutes
//	go run . farm         tiers of weirs in virtual time (package farm); with --real a small farm of
//	                      processes beside its simulation (farmreal.go)
//
// # What the figures are
//
// CPU is that of the server's process, user and system, as the kernel counts it. Server and clients
// share the machine, so ratios of one run count, and figures of two runs do not compare.
//
// Reading memory takes garbage collections. They are in a pause at the end of a run (memory.go),
// never while CPU is measured (TestMemoryIsReadInThePause).
package main
