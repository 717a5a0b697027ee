// Command bench compares weir with what people use today, and with the limit of grpc-go, in one run
// on one machine.
//
// # Subjects
//
// weir in front of go-control-plane; go-control-plane's snapshot cache and its linear cache by
// themselves, each a process of this program, `bench snapshot|linear` (plane.go); and the origin of
// the load tool (cmd/weirload/origin), the yardstick "bare": about what grpc-go costs when every
// client is sent the same bytes. All have the same resources and the same control endpoint
// (cmd/weirload/world). Clients are those of cmd/weirload/fleet, in this process. Other xDS servers
// are not among them: they could not be made dependencies of this module with reasonable effort.
//
// # Use
//
//	go run . compare      the table of scenarios (scenario.go), plain and with TLS, as Markdown; twelve minutes
//	go run . compare -h   fewer scenarios, subjects, rounds; JSON
//
// # What the figures are
//
// CPU is that of the server's process, user and system, as the kernel counts it. Server and clients
// share the machine, so ratios of one run count, and figures of two runs do not compare.
//
// Reading memory takes garbage collections. They are in a pause at the end of a run, never while
// CPU is measured.
package main
