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
// names belong to several origins has a Sub in a group of each, and a [Union] over them. So has a
// client that names dynamic parameters: one Sub for each map.
//
// TestConvergence drives all of it by random steps and compares every client with the origin.
// TestProgress changes everything all the time, and checks that no client starves.
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
// Package xds comes before them: names, types, responses that were checked, and bodies. After them
// come view.go for what the clients of one set share, ask.go for the questions to the origin,
// takechanges.go and whole.go for the two forms of an answer, errors.go and nameerrors.go for what
// is said instead of resources, image.go, restore.go and confirm.go for restarts, and union.go for
// several origins.
// testdata/*.txt reads as conversations. testdata/files.list has all files, each above what it
// refers to. TestFilesReferDownwards holds that order: a new file has its place there, and no new
// reference goes upwards.
//
// # Groups
//
// A group is the clients whose nodes are alike in the fields that the origin goes by (package
// node). Its lanes present the fields of its key, and nothing else of any member. Key and node are
// the same in every replica and build (node: TestGroupKeysAreGolden). A client stream may have a
// group of its own, with its whole node (TestDedicated). What such a group holds, and secrets in
// any group, are dropped with their last client: they neither linger nor retire, and queries show
// secrets by name alone (TestSecretsDoNotLinger; inspect: TestSecretsAreNamesAlone).
//
// Members may differ in what the key leaves out, and are given one answer all the same. So a group
// notes whether they do in the fields by which control planes are known to tailor (watched.go): two
// values of each, when a client comes, and without a lock (TestDiffering, TestDifferingIsBounded).
//
// Where an origin understands parameters, fields of the node's metadata may be mapped to them
// (node/params.go). The map of a client's plain names consists of these and of the parameters that
// its node states itself (TestParams, TestMappedScalars). Mapped fields are in neither key nor
// node, so a fleet whose members differ in them alone is one group (TestMappedFieldsLeaveTheGroup).
// No other origin is sent any map (TestParams).
//
// With canaries (OriginConfig.Canary) the clients of one key are two groups, and a third, which has
// no clients, asks the origin for both (tier.go; TestTiers, TestTiersEnd). Those two are held from
// the start (hold.go): what the origin changes reaches them when somebody says so.
//
// All types of a group share its lanes, unless the origin is spoken to in a service for each type
// (xds/service.go): then each type has two of its own from the start.
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
// A client that names a million resources has them taken in by shares of 500. Others get the lock
// of the type between two shares (longlist.go, TestLongListsTakeTurns). What the origin states of
// names that do not exist is taken in likewise (absences.go, TestAbsencesAreTakenInTurns).
//
// A client that does not take costs its position and one record for each of its names; nobody waits
// for it. The tombstones that are kept for it are bounded: beyond the number of live entries and
// 1,000 more the slowest position is removed, and its stream has to end (TestTombstonesEnd).
//
// An origin's response is checked structurally (RELAY-30) before it touches anything. A bad
// resource keeps its previous content (TestAccept). So does one that clients' libraries cannot
// decode, since it would end their streams (TestUndecodableIsRefused). If the first answer of a
// set had a bad part, a client that holds something waits until that was stated again, a minute at
// most, before it is sent the set (badparts.go, testdata/case_bad*.txt). One that holds nothing is
// sent what is good at once (TestBadFirstAnswer). While an origin is away
// nothing changes: what it answered stays servable, and no client that asks now is told of an
// absence (RELAY-2, RELAY-38; testdata/resume.txt). What clients reject is the business of each of
// them alone; the lane counts them for the origin, if that is to be told (reports.go, RELAY-35), at
// most 100 responses at a time. Of errors of members the newest are kept, one
// for each member and 1,000 more (TestFaultsAreBounded); a client of `*` costs its place in their
// order.
//
// A type that makes the origin end the stream is put in quarantine (RELAY-92; quarantine.go,
// testdata/quarantine.txt): the group's next stream leaves it out, it is asked on lanes of its own,
// and it stays there until it is answered. So the other types go on. A client that says it came
// through relays which the origin refuses has to leave, and the others' lane is opened again at
// once (via.go, TestRefusedWay).
//
// An origin that is declared to read locators and does not is found out by its answers: it sends
// what was never asked for, without constraints, on a stream that asked for names alone. Nothing
// more of that stream is used for a parameter map until constraints come (understood.go,
// TestOriginThatIgnoresLocators; what looks like it and is not: TestOriginThatMayReadLocators). Of
// variants of a name that overlap DYN-9 chooses one. Each response with such variants is counted,
// and each name is logged once, 1,000 of a type (TestOverlapsAreSaidOnce, TestReadingIsBounded).
//
// Clients make parameter maps up, and each map is a subscription of its own upstream. So the maps
// of a group that are in use are bounded: a client that asks with one more is refused, and costs
// nobody else theirs (paramsets.go, TestParameterSets). While as many as the bound are held, no map
// lingers: maps that are used one after the other would pile up (TestMadeUpMapsDoNotPileUp).
//
// A stream to an origin that understands parameters begins as if nothing were held. What was held
// before is replaced by the first variant of the name that comes; if the origin says that there is
// none, it is removed a pause later (stale.go, TestStaleVariant, TestStaleVariantIsGone).
// TestConvergence plays variants that are split, merged and mistaken, too. The cost of a response
// depends on what it concerns, not on the number of variants, and little on the number of maps
// (BenchmarkVariants). Where an origin never states removals nothing is shared (TestShareEnds).
//
// # Memory
//
// What a client is subscribed to is never evicted (RELAY-79). The process tells the table how much
// memory is used and what the limit is. Above the limit retired resources are dropped first. Then
// names and sets that nobody has asked for yet are denied. Further above, the table says that new
// streams should be turned away (budget.go, TestMemory, TestViews). Between two measurements the
// cost of new names is estimated, as a request may bring a million of them; the cost of their
// bodies is not, since these come when they come.
//
// An origin has a limit, too, which leaves the others what is reserved for them (fill.go). What a
// response brings beyond it is refused, and asked for again when there is room (admit.go,
// TestOriginsHaveReserves, TestRestoredCounts; upstream: TestOriginBeyondItsLimit). Resources are
// only counted where responses have brought so much that the limit may be reached
// (TestLimitIsCheckedRarely).
//
// A set that is sent whole is held twice: as bodies, and encoded in segments of about 64 KiB, of
// which a change costs one (TestOneSegmentIsRebuilt, BenchmarkWhole). For state of the world the
// segments last as long as there is a client of it, for delta until the content has changed twice
// without a new client (TestEncodedFormIsReleased). For few delta clients nothing is encoded that
// outlasts its response (TestNothingOfAnAnswerIsKept, TestManyClientsShareOneCopy).
//
// Groups that are sent the same hold its bodies once (package xds), and the segments of a set and
// what is encoded of it or of a long change once (segment.go, joined.go,
// TestEqualGroupsShareBytes). A member is each group's own: 100 bytes with its place in the table
// of the set (members.go). Only one that has changed since the set was first sent has an item in a
// view besides (unchanged.go, BenchmarkEqualGroups).
//
// # Ordering
//
// Responses of one lane are applied in order, each under one lock, with one revision. Revisions of
// all types, groups and origins compare. An [Answer] has the oldest and the newest revision in it,
// so that package downstream can keep ORD-1. A client that named resources is sent what a response
// changed in the order of the response (TestSentInResponseOrder).
//
// A change of listeners or routes is applied Config.Gather after it came. By then the clusters of
// the same moment are there, whatever order the origin writes in (ORD-9; gather.go,
// testdata/gather*.txt). A removal of clusters or endpoints waits as long, and then for the changes
// of routes that came meanwhile: at most twice Gather. The origin gets its ACK at once. All that
// waits in a group is one queue in the order of arrival. Each response has a deadline of its own,
// so later ones prolong nothing. It gets its revision when it is applied, so it is newer than the
// clusters that overtook it.
//
// First answers do not wait, since no client was sent anything that they change: those of a set
// that has not settled, and of names of which nothing is held. Heartbeats do not wait either, nor
// do answers to virtual hosts asked by name (ALIAS-8); they go after what waits of their type. When
// a stream ends, what came on it is applied first: it counts, and the next stream presents it. Then
// the rest of the group's queue is applied, too.
//
// # Names and versions
//
// Every name in the table is canonical (package xds, testdata/names.txt). It becomes so in Accept
// and in Sub. What leaves the table has a spelling of a peer. Bodies and initial versions have the
// origin's, requests upstream that of the client who asked first, absences and errors that of the
// client to whom they are sent. Whether content changed is decided by its Digest alone. The Digest
// is also the version, unless clients are sent the origin's own versions (testdata/versions.txt).
//
// # Aliases
//
// A resource may go by more names than its own (ALIAS-1). Each name that a client subscribes to is
// an entry and an upstream subscription of its own, and all entries of one resource hold the same
// body (alias.go). A client is sent the resource under its own name, once, whichever and however
// many of its names it subscribed (aliasholdings.go, testdata/aliases.txt). When an update drops an
// alias, the alias is asked for again, and a client keeps what the alias stood for until the answer
// (testdata/aliases_dropped.txt). An alias that does not resolve is an absence in a form of its own
// (testdata/aliases_unresolved.txt). A client of state of the world that names an alias gets the
// resource under its own name, which is all that its protocol has (ALIAS-9,
// testdata/aliases_sotw.txt).
//
// What an alias no longer stands for is removed at once, although a set may have it that was not
// sent yet: an origin that knows hosts by name alone never answers for their namespace
// (testdata/hosts_unanswered.txt). A client does not go back to the older body of a set that still
// lists the alias (testdata/hosts_older.txt, hosts_overlap.txt).
//
// # Virtual hosts on demand
//
// An HTTP request waits in Envoy for the answer, without a timer. Envoy takes two answers: a
// resource that has the name or lists it as an alias, with a payload or, if there is no such host,
// without one. So there is an answer also for a host that is known absent, or about which a
// connected origin has been silent for on_demand_wait: a payload-less resource of a name that no
// host has, and the removal of the name (ALIAS-10; hosts.go, testdata/hosts_silent.txt). That
// silence is forgotten with the upstream stream, and removes nothing that the client holds.
//
// # Beside the lane's stream
//
// A lane may have another stream that the table does not know: to a better server of the origin,
// which becomes the lane's with its first response (preview.go; FED-8), or to compare what is held
// with what the origin sends (audit.go). The status of a group has digests of what it holds of each
// type, to be compared among replicas (upstream: TestDigestsCompare). While bytes of a message
// arrive no set settles (pause.go).
//
// # Earlier versions
//
// Package history keeps what clients had of a resource before, and when it changed, for people and
// for going back to an earlier state. It is told by noteChange at the revision of a change: of a
// member in offerTouched or beside a call of set.offer, of a name in namedTable.offer, where
// variants that are held back have not come to yet (TestWhatIsAVersion). [Origin.At] undoes what it
// knows: TestConvergence compares that with what the table held then. Off, it costs a load of a
// flag (BenchmarkHistory, TestHistoryIsBounded).
//
// A state is what a group held at a revision, of all types but urgent ones. [Origin.States] lists
// them, with an ID that is a sum over what is held: each earlier one costs what has changed
// (TestStates, BenchmarkStates). [Origin.Resolve] finds the one that people mean, and [Origin.Good]
// notes that one was good.
//
// # What nobody wants
//
// An entry without clients lingers, and then retires: its bodies leave the shard for an LRU of the
// whole table, and are served again only while no stream can be opened (retired.go, revive.go;
// testdata/retired*.txt). What must not be cached is dropped with its last client
// (testdata/uncached*.txt); a set with such a member is treated so as a whole.
//
// Towards a SotW origin a name that lingers keeps its entry and leaves the request (lapse.go;
// testdata/lapse_sotw.txt), unless clients poll it or no other name of the type is left. A client
// that comes within linger waits for the answer, since no stream has reported changes of what
// lingers (testdata/lapse_sotw_route.txt), and a list that leaves the name out may be older than
// the question (testdata/lapse_sotw_under_way.txt). Names for
// which the origin answers nothing at all are asked apart (aside.go, TestAside): a name that one
// client asks too many must cost the others nothing (RELAY-99).
//
// # After a restart
//
// Images gives what a snapshot keeps of every type that has changed; it takes pointers under the
// lock (image.go, BenchmarkImages). Restore puts it back before any client is served, and checks
// bodies again as if the origin sent them (restore.go, TestBodyImage, TestRestoreRefuses,
// FuzzRestoreBody). What was restored is stale, lingers and is asked for at once
// (testdata/restored*.txt). A client that says it holds something is sent no restored form of it
// until the origin has confirmed that (confirm.go, testdata/restored_names.txt,
// restored_sotw.txt); a client of a set waits as for a set that is not firm. Secrets by identity
// have images of their own (SecretImages), since they may only be written in encrypted form
// (testdata/restored_secrets.txt). If a SotW origin
// answers, a restored name without clients is sent to nobody before it was asked. A restored
// Cluster that is gone stays in the first list of a client whose version shows that it holds it,
// until the client's routes are written (comeback.go, downstream/testdata/ads_restarted_sotw.txt).
// TestConvergence ends the process at random and begins it with a snapshot of some time before. It
// fails if a client that holds something is sent what the origin had only before that.
//
// # TTLs
//
// A body carries the moment it expires, in a hundred years at most (TestLongTTL). A heartbeat, or
// the same body again, makes a copy that shares its bytes and has another moment; that is no change
// of content. Clients that are sent TTLs have views of their own, where a new TTL is an event, and
// the TTL that is sent is computed when the answer is written (ttl.go, testdata/ttl*.txt). It wakes
// no other client. What has expired is removed as if the origin had removed it, whether the origin
// is there or away (expiry.go). So is what a client has by a set that it leaves, and keeps by name
// (testdata/ttl_left.txt). verdicts.go knows which answers a client accepted, and so may be sent
// heartbeats for.
//
// # Collections
//
// `*`, xdstp globs and the namespaces of virtual hosts are sets (set.go). selector.go finds those a
// name belongs to, collection.go applies what a response says of them, and takesets.go sends a
// client of several sets each resource once (testdata/globs*.txt, namespaces*.txt). Where `*` of
// virtual hosts is wanted beside a namespace both are asked on one stream, and a host that comes
// for one may be of either.
//
// A delta client that says it holds nothing is sent the members of its one set as they come
// (RELAY-7): nothing can be deleted by it, and waiting costs a cold Envoy a pause for each type,
// one after the other. A removal waits until the set has settled, with what comes after it. So does
// the statement that the set is empty (position.go, testdata/early.txt). What came on a stream that
// ended before the set had settled is sent in the same way while no stream can be opened, also from
// a snapshot (testdata/early_away.txt): it may well be the whole set. Meanwhile an ACK does not
// hold the stream-type back (Standing.Arriving). Clients with several sets, with names besides, of
// several origins or with locators wait as all others do.
//
// # Permits
//
// A Sub may have a permit: the names of its type that its client may have (permit.go). Clients with
// equal permits share a view of a set, which has the members that they may have
// (TestRolesShareViews). A resource that a client may not have is to it as one that does not exist:
// also under an alias, and if the client says that it holds it (testdata/permits*.txt).
// A set of which a client may have nothing is empty for it at once, and is not asked upstream for
// its sake (testdata/permits_nothing.txt). TestConvergence plays clients with permits.
//
// # What is not believed, or not applied, at once
//
// Package gate decides what the guard holds back and what a freeze lets pass. The tables of what is
// held back, and the timers, are here.
//
// The guard is for removals that an origin makes when it is heard again after a (re)connect. If
// they are most of a set they are held back. They take effect after a time, by an operator, or when
// a later list of state of the world lacks the resources again (guard.go, RELAY-97;
// testdata/guard*.txt). Meanwhile clients see no difference; the resources count as stale and are
// not presented upstream. Only the present stream counts: a new one begins the time again, and
// without one nothing is removed. [Origin.TakeAlarms] has the alarms for people. The names of a
// type are a set in this, too.
//
// While an operator keeps an origin frozen, nothing that is held is changed or removed by what it
// sends, but for the content of endpoints and secrets (freeze.go; testdata/freeze*.txt).
// TestConvergence drives both, and checks that a frozen origin's responses change nothing that
// clients have.
//
// # Another configuration
//
// [Table.Prepare] checks one, and Commit activates it while everything goes on. An origin keeps its
// part of the table if all that changes is read only when something comes: addresses, dialect and
// authorities among it. Otherwise it gets an empty part, and the old one ends: no lane of it is run
// any more, and what it holds goes with its last client (reconfigure.go, TestReconfigureOrigins,
// TestEndedOriginKeepsNothing, testdata/reconfigure.txt). Package downstream ends its clients'
// streams.
//
// # Locators
//
// A client that names parameters has a located Sub for each map, and is sent variants with their
// constraints, as the origin wrote them (located.go, TestLocatedForms). All its maps of one type of
// one group are taken from at one instant (unionlocated.go), so it never sees half of what
// replaces a variant (DYN-10). A variant that two maps have in common is sent once. For each map
// the constraints that a name was sent with are remembered: the removal has them, and is sent once
// none of the client's maps has the variant (DYN-14). If there is no variant for a map, the error
// or absence has constraints that match that map and none of the client's others (TestExact): a
// bare name would be about all of them (DYN-13), and a relay behind this one would take it so.
// TestLocatedAtRandom in downstream plays such a client.
//
// # For people and metrics
//
// Package inspect makes what they see, from what [Origin.Groups] shows it: rows that are copied
// while one type of one group is locked (rows.go, asked.go), and counts (look.go). These, and what
// a snapshot keeps, come from one walk over sets and names (walk.go).
//
// A Sub says what it waits for (waits.go), and what it knows of one name (why.go). Both read what
// the waits themselves go by, and change nothing (downstream: TestWaits, TestExplainNames).
//
// # Who imports it
//
// Packages upstream, downstream and cmd/weir, packages below them, and relay/inspect.
//
// # Known limits
//
//   - Whether variants for other maps exist of a name that was not found is known from what is held
//     by name and of `*`, not from globs.
//   - A name whose variants overlapped, were mended and overlap again is counted, and not logged a
//     second time.
//   - Where equal content may be other bytes (VER-6), a listener without a name still counts as
//     received.
//   - A bare resource of a SotW answer does not say do_not_cache: a relay behind this one that
//     speaks SotW to it keeps the body as any other.
//   - A list that is sent whole does not carry the error of a resource that it lists, since it
//     would have to leave the resource out (ABS-9, ABS-11). Nor does it carry NOT_FOUND of a member
//     that was removed without an error (ABS-10), or of what has expired.
//   - A SotW client that comes back with `*` waits for what is in a transient error and not held
//     here. After 15 s it is sent a list without it (testdata/faults_return.txt).
//   - One wildcard costs two views if some of its clients are sent TTLs and others are not.
//   - An alias that only a member of `*` lists is still asked by name: a client that names one gets
//     what the origin answers.
//   - A delta client that gives up a resource of which it was sent another form than the present
//     one may be sent its removal when an alias that waits for its answer has it: the client may
//     have kept it by that alias.
//   - A resource that was refused from a delta origin, and that the origin does not send again
//     for a minute while it sends others, is missing from a set that was not complete before: a
//     client that holds it loses it.
//   - What a transient error keeps in a restored set is sent to a client that comes back, though
//     the client may hold something newer. A name in such an error is held back for as long as the
//     error lasts, but for lists that are sent whole, which wait 15 s.
//   - What had retired is not kept in a snapshot unless somebody asked for it again.
//   - A type asked in vain stays a shard for as long as the stream it was asked on. More than 256
//     of them reopen that stream.
//   - Each type that makes the origin end streams costs its group one of them, up to sixteen. From
//     then on a type that was never answered is asked apart first. An operator lets a type out of
//     quarantine by a restart alone.
//   - If a delta origin removes resources in small pieces, up to guard.min of them go before it is
//     known to be a mass removal. Of what is more than that but not a mass removal, the rest waits
//     2.5 s, at most a minute.
//   - An alias that resolves no more is not held back by the guard. A lane that we open again
//     ourselves counts as a reconnect.
//   - At a frozen origin, what was renewed with another content only expires with its TTL. A set or
//     a name that nobody had is answered with the present content, whatever else of the group is
//     kept at. An alias that the new content of a resource lists waits like that content.
package relay
