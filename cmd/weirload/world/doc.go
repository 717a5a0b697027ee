// Package world is what all measured control planes share, so that they differ in nothing else: the
// resources (world.go), the stamp that tells when one of them changed (stamp.go), and the control
// endpoint by which changes are requested from outside (control.go), with its client (client.go).
//
// # Use
//
// A plane is a program that takes the flags of [Options], has the resources of [New], implements
// [Plane], serves [Control] beside its xDS port, and prints [Ready] as one line of JSON once it
// serves both. The load tool does the rest.
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
