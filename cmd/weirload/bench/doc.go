// Command bench measures weir beside what people use today, and beside the limit of grpc-go, in one
// run on one machine.
//
// # Subjects
//
// weir in front of go-control-plane; go-control-plane's snapshot cache and its linear cache by
// themselves (caches.go); and the bare server (bare.go), the yardstick: what grpc-go costs when
// every client is sent the same bytes and nothing is known of xDS. Each is a process, `bench
// snapshot|linear|bare` (plane.go), with the same resources and the same control endpoint
// (cmd/weirload/world). Clients are those of cmd/weirload, in a process of their own. All servers
// count what they are asked in their codecs (codec.go). Other xDS servers are not among them: they
// could not be made dependencies of this module with reasonable effort.
//
// # Use
//
//	go run . compare            the table of all scenarios (scenario.go), as Markdown; about twelve minutes
//	go run . compare -h         fewer scenarios, subjects, rounds; JSON; profiles of weir and the yardstick
//	go run . scale              weir alone along each axis (point.go), and the model (model.go) that deploy/docs/scale.md goes by;
//	                            about thirteen minutes
//
// # What is and is not told
//
// CPU is that of the server's process, user and system, as the kernel counts it. The machine is
// shared by server and clients, hence ratios of one run count, and figures of two runs do not
// compare.
//
// To read memory takes collections. They are in a pause at the end of a run (memory.go), never
// while CPU is measured (TestMemoryIsReadInThePause).
package main
