// Package loads adds up the load reports of many clients, so that an origin gets one report for all
// of them (LRS-6).
//
// # What is added
//
// A report is a list by cluster, below it by locality and priority, and below that by endpoint and
// by named metric. Most numbers are counters: what happened since the client's last report.
// Counters add up over clients and over time. Three numbers are gauges: requests in progress, of
// localities and of endpoints, and open connections. Of a gauge each client's last value counts,
// until the client states another one or leaves.
//
// Unknown fields, as of a later version of the protocol, cannot be added. They are left out.
//
// # How it is read
//
// Reports are added from their wire format. Read refuses what the protobuf library would refuse,
// before anything is added, and Add reads what the library would read (FuzzReport). Adding a report
// whose clusters are known allocates nothing (TestAddAllocatesNothing). Take makes messages, once
// in an interval.
//
// # What it is not
//
// It has no streams, goroutines or clock: package upstream has the streams. A Sums is not safe for
// concurrent use.
//
// # Who imports it
//
// Package upstream.
package loads
