// Package relay is the table in the middle of weir: which resources exist, which clients want them,
// and what each client has still to be sent.
//
// # What it is
//
// Both edges pull from it. Package upstream owns a [Lane]: it opens the lane's streams, takes what
// is to be asked, and applies each response. Package downstream owns a [Sub]: it states what a
// client subscribes to and takes what the client has not been sent. There are no queues. What is
// still to be sent is state, and a wake-up of one slot says that there is some.
//
//	origin bytes -> xds.Accept -> Lane.Apply -> (state, wake) -> Sub.Take -> client
//	client wants -> Sub.Update            -> (state, wake) -> Lane.Take -> origin
//
// A store holds one resource type of one group, and a shard is its table for one parameter map;
// nearly always there is only the empty map. A shard keeps two kinds of entries apart: members of
// the set that the origin chose for `*`, and entries that were asked for by name (RELAY-20,
// RELAY-25). A view is what all clients of one wildcard share: such a client costs a position in
// it, not a copy. A client that names resources costs one record for each name. A client whose
// names belong to several origins, or that names parameters, has several Subs, and a [Union] over
// them.
//
// TestConvergence drives it by random steps, and downstream's TestWorld drives all features at
// once. TestProgress changes everything all the time, and checks that no client starves.
//
// # What to read first
//
// About 3,300 lines, in this order, show where each thing is done:
//
//   - store.go, shard.go: what one type of one group is
//   - state.go, transitions.go, named.go, notify.go: what the origin said of names
//   - set.go, pause.go: what it sent for `*` and collections, and when that is complete
//   - lane.go, apply.go: the way in, from a response to the entries that it changes
//   - sub.go, settle.go, take.go: the way out, from an entry to the answer that a client is sent
//
// Package xds comes before them. After them come view.go for what the clients of one set share,
// ask.go for the questions to the origin, takechanges.go and whole.go for the two forms of an
// answer, errors.go and nameerrors.go for what is said instead of resources, image.go, restore.go
// and confirm.go for restarts, gather.go for the order of a moment's changes (ORD-9), alias.go and
// aliasholdings.go for names that stand for others, hosts.go for virtual hosts on demand,
// located.go for locators, permit.go for what a client may have, retired.go and lapse.go for what
// nobody wants, expiry.go and settle.go for TTLs, guard.go, freeze.go and hold.go for what is not
// applied at once, tier.go for canaries, quarantine.go for types that end streams, and
// reconfigure.go for another configuration. Each begins with what it is about.
//
// testdata/*.txt reads as conversations. testdata/files.list has all files, each above what it
// refers to. TestFilesReferDownwards holds that order: a new file has its place there, and no new
// reference goes upwards.
//
// # States
//
// A group is also a [state.Timeline]: whatever changes in its tables under a lock is published as
// one state (publish.go), and [Table.Check] compares the newest with the tables (checkstate.go). A
// [Wants] asks upstream for a client, who is served from states (wants.go). The way out above, by
// Sub, is for tests alone, and to go.
//
// # Groups
//
// A group is the clients whose nodes are alike in the fields that the origin goes by (package
// node). Its lanes present the fields of its key, and nothing else of any member. Key and node are
// the same in every replica and build (node: TestGroupKeysAreGolden). A client stream may have a
// group of its own, with its whole node (TestDedicated). With canaries the clients of one key are
// two groups, held from the start, and a third, which has no clients, asks the origin for both
// (TestTiers). All types of a group share its lanes, unless the origin has a service for each type.
//
// # Goroutines and time
//
// This package starts no goroutine, reads no clock and calls nothing back: time is an argument. One
// goroutine of the process calls [Table.Advance] at the time it returned last, and whenever
// [Table.Deadlines] is signalled.
//
// # Lock order
//
// A group's queue (gather.go), a store's mutex, which its shards share, then one of the leaves: the
// heap of deadlines, the origin's list of lanes, the updates that are traced (traced.go), a group's
// map of shards (which is never held while a shard is locked by the same goroutine the other way
// round). Never two stores. A caller may hold a lock of its own while it calls a Sub. Wake-ups are
// sent after the store is unlocked.
//
// # Who locks
//
// Exported functions and methods lock what they need. Unexported ones leave that to their caller:
// those that touch what a lock guards run with it held. An unexported one that locks by itself says
// so in its doc comment ("It locks the shard.").
//
// # What a slow or broken peer can do
//
// A client that names a million resources has them taken in by shares of 500, and what the origin
// states of many names likewise, so others get the lock in between (longlist.go). A client that
// does not take costs its position and one record for each of its names. The tombstones that are
// kept for it are bounded: the slowest position is removed, and its stream has to end
// (TestTombstonesEnd). Maps of parameters are bounded for each group (TestParameterSets).
//
// An origin's response is checked (RELAY-30) before it touches anything, and a bad resource keeps
// its previous content (TestAccept, TestUndecodableIsRefused). If the first answer of a set had a
// bad part, a client that holds something waits for a minute at most (rejections.go). While an
// origin is away nothing changes, and no client that asks now is told of an absence (RELAY-2,
// RELAY-38). A type that makes the origin end the stream is asked on lanes of its own until it is
// answered (RELAY-92). What clients reject is counted for the origin, if that is to be told
// (RELAY-35).
//
// # Memory
//
// What a client is subscribed to is never evicted (RELAY-79). Above the process's limit retired
// resources are dropped first, then new names and sets are denied, then new streams (budget.go,
// TestMemory). An origin has a limit, too, which leaves the others what is reserved for them
// (admit.go, TestOriginsHaveReserves). A set that is sent whole is held twice: as bodies,
// and encoded in segments of about 64 KiB, of which a change costs one (TestOneSegmentIsRebuilt).
// Groups that are sent the same hold its bodies and segments once (TestEqualGroupsShareBytes).
//
// # Ordering
//
// Responses of one lane are applied in order, each under one lock, with one revision. Revisions of
// all types, groups and origins compare. An [Answer] has the oldest and the newest revision in it,
// so that package downstream can keep ORD-1.
//
// # Names and versions
//
// Every name in the table is canonical (package xds). What leaves the table has a spelling of a
// peer: bodies and initial versions the origin's, requests upstream that of the client who asked
// first, absences and errors that of the client to whom they are sent. Whether content changed is
// decided by its Digest alone, which is also the version, unless clients are sent the origin's own.
//
// # Who imports it
//
// Packages upstream, downstream and cmd/weir, packages below them, and relay/inspect.
//
// # Known limits
//
//   - A list that is sent whole does not carry the error of a resource that it lists (ABS-9,
//     ABS-11), nor NOT_FOUND of a member that was removed without an error (ABS-10).
//   - A SotW client that comes back with `*` waits for what is in a transient error and not held
//     here. After 15 s it is sent a list without it (testdata/faults_return.txt).
//   - A delta client may be sent the removal of a resource of which it holds an older form, when an
//     alias that waits for its answer has it.
//   - What a transient error keeps in a restored set is sent to a client that comes back, though
//     the client may hold something newer.
//   - What had retired is not kept in a snapshot unless somebody asked for it again.
//   - Each type that makes the origin end streams costs its group one of them, up to sixteen. An
//     operator lets a type out of quarantine by a restart alone.
//   - If a delta origin removes resources in small pieces, up to guard.share of a set goes before
//     it is known to be a mass removal, unless few removals are held back, too.
//   - An alias that resolves no more is not held back by the guard. A lane that we open again
//     ourselves counts as a reconnect.
//   - At a frozen origin, what was renewed with another content only expires with its TTL. A set or
//     a name that nobody had is answered with the present content, whatever else of the group is
//     kept at.
package relay
