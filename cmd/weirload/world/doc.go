// Package world is what all measured control planes share, so that they differ in nothing else: the
// resources, with the stamp of the last change of each (world.go), the control endpoint by which
// changes are requested from outside, with its client, and the ports (control.go).
//
// # Use
//
// A plane is a program that takes the flags of [Options], has the resources of [New], implements
// [Plane], and calls [Serve]. The load tool does the rest.
//
// # Known limits
//
// Latencies are differences of one machine's wall clock: a stamp means nothing on another. Changes
// are one at a time, from the first resource to the last and again. No resource is ever added or
// removed.
//
// # Who imports it
//
// Packages cmd/weirload, cmd/weirload/origin, cmd/weirload/fleet and cmd/weirload/bed, and the
// comparison in cmd/weirload/bench.
package world
