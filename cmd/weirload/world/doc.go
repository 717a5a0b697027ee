// Package world is what every measured control plane has in common, so that what is compared
// differs in nothing else: the resources (world.go), the stamp that tells when one of them changed
// (stamp.go), and the control endpoint by which changes are asked for from outside (control.go),
// with its client (client.go).
//
// # Use
//
// A plane is a program that takes the flags of [Options], holds the resources of [New], implements
// [Plane], serves [Control] beside its xDS port, and prints [Ready] as one line of JSON once it
// serves both. The load tool does the rest.
//
// # Known limits
//
// Latencies are differences of the wall clock of one machine: a stamp says nothing on another.
// Changes are one at a time, in turn from the first resource to the last, and no resource is ever
// added or removed.
package world
