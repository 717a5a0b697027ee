// Package loads adds up the load reports of many clients, so that an origin is told once what all
// of them have to say (LRS-6).
//
// # What is added
//
// A report is a list by cluster, in it by locality and priority, in that by endpoint and by named
// metric, and each is a number of what happened since the client's last report. Such counters add
// up over clients and over time. Three numbers tell how things stand instead: requests in progress,
// at localities and endpoints, and open connections. Of these each client's last word counts, until
// it says otherwise or leaves.
//
// What nobody here knows, a field of a later version for one, cannot be added and is left out.
//
// # How it is read
//
// A report is added from the bytes that it came in. Read refuses what the protobuf library would
// refuse, before anything is added, and Add takes what the library would find (FuzzReport). Nothing
// is made of a report whose clusters are known (TestAddAllocatesNothing). Messages are made by
// Take, once in an interval.
//
// # What it is not
//
// It knows no stream, no goroutine and no clock: package upstream has the streams. A Sums is not
// safe for concurrent use.
package loads
