// Package relay is the table in the middle of weir: what resources exist, who wants them, who must
// be told.
//
// # What it is
//
// Both edges pull from it. Package upstream owns a [Lane]: it opens it, takes what has to be asked,
// and applies what comes. Package downstream owns a [Sub]: it says what a client wants and takes
// what the client has not been sent. There are no queues: what must be told is state, and a wake-up
// of one slot says that there is some.
//
//	origin bytes -> ParseResponse, Accept -> Lane.Apply -> (state, wake) -> Sub.Take -> client
//	client wants -> Sub.Update            -> (state, wake) -> Lane.Take -> origin
//
// A shard is one type of one group. It keeps two kinds of entries apart: members of the set the
// origin chose for `*`, and entries asked by name (RELAY-20, RELAY-25). A view is what all clients
// of one wildcard share; such a client costs a position in it, not a copy. A client that names
// resources costs one record for each name. TestConvergence drives all of it by random steps and
// compares every client with the origin; TestProgress has everything change all the time, and asks
// that nobody waits for an end of it. A client whose names belong to several origins has a Sub in a
// group of each, and a [Union] over them; so has one that names dynamic parameters, for each map of
// them (see there).
//
// # Groups
//
// A group is the clients whose nodes are alike in what the origin goes by (package node); its lanes
// present the fields of its key and nothing else of any member. Key and node are those of every
// replica and build (node: TestGroupKeysAreGolden). A client stream may have a group of its own,
// with its whole node (TestDedicated); what is private to it, and secrets wherever they are, goes
// with the last that wants it, neither lingers nor retires, and pictures have secrets by name alone
// (TestSecretsDoNotLinger; inspect: TestSecretsAreNamesAlone).
//
// Where an origin understands parameters, fields of the metadata may be mapped to them
// (node/params.go): they make the map that a client's plain names have, with what its node says of
// parameters itself (TestParams, TestMappedScalars), and are in neither key nor node, so that a
// fleet whose members differ in them alone is one group (TestMappedFieldsLeaveTheGroup). No other
// origin is told of any map (TestParams).
//
// Lanes are shared by the types of a group, unless the origin is spoken to in a service for each
// type (xds/service.go): then each type has its own two, from the start.
//
// # Goroutines and time
//
// None is started here, no clock is read and nothing is called back: time is an argument. One
// goroutine of the process calls [Table.Advance] at the time it returned last, and whenever
// [Table.Deadlines] is signalled.
//
// # Lock order
//
// A group's queue (gather.go), a store's mutex, which its shards share, then one of the leaves: the
// heap of deadlines, the origin's list of lanes, a group's map of shards (which is never held while
// a shard is locked by the same goroutine the other way round). Never two stores. A caller may hold
// a lock of its own while it calls a Sub. Wake-ups are sent after the store is unlocked.
//
// # Who locks
//
// Exported functions and methods lock what they need. Unexported ones leave that to their caller:
// those that touch what a lock guards run with it held. An unexported one that locks by itself says
// so in its doc comment ("It locks the shard.").
//
// # What a slow or broken peer can do
//
// A client that names a million resources has them taken in by shares of 500, and others have the
// lock of the type in between (longlist.go, TestLongListsTakeTurns). What the origin says of names
// that do not exist is taken up likewise (absences.go, TestAbsencesAreTakenInTurns).
//
// A client that does not take costs its position and one record for each of its names; nobody waits
// for it. The tombstones that are kept for it are bounded: beyond the number of live entries and
// 1,000 more the slowest position is taken out and its stream has to end (TestTombstonesEnd). An
// origin's response is checked structurally (RELAY-30) before it touches anything; what is bad
// keeps its previous content (TestAccept), and so does what clients' libraries would not decode,
// whose streams it would end (TestUndecodableIsRefused); and a set whose first answer had it is not
// complete for who holds something before it was said again, or for a minute (refused.go,
// testdata/case_bad*.txt). An origin that is away changes nothing: what was answered stays
// servable, and absence is told to nobody who asks now (RELAY-2, RELAY-38; testdata/resume.txt).
// Errors of members are kept one for each member and 1,000 more, the newest (TestFaultsAreBounded);
// a client of `*` costs its place in their order. A type that makes the origin end the stream is
// left out of the next, tried on lanes of its own, and kept there until it is answered, so that the
// others go on (RELAY-92; trial.go, testdata/quarantine.txt). A client that says it came through
// relays which the origin refuses leaves, and the others' lane is opened again at once (via.go,
// TestRefusedWay).
//
// An origin that says it reads locators and does not is found out by its answers: what was never
// asked for, without constraints, on a stream that asked for names alone. Nothing more of that
// stream is taken for a parameter map until constraints come (understood.go,
// TestOriginThatIgnoresLocators; what looks like it and is not: TestOriginThatMayReadLocators). Of
// variants of a name that overlap DYN-9 chooses; each response that has it choose is counted, and a
// name is said once, 1,000 of a type (TestOverlapsAreSaidOnce, TestReadingIsBounded).
//
// Clients make parameter maps up, and each is a subscription of its own upstream: a group has so
// many that are in use and no more, and who asks with another is refused, so that it costs nobody
// else theirs (paramsets.go, TestParameterSets). Where as many are held, none lingers: one after
// the other they would pile up (TestMadeUpMapsDoNotPileUp).
//
// A stream to an origin that understands parameters begins as if nothing were held, so what was
// held before is replaced by the first variant that comes of the name, and goes a pause after the
// origin has said that there is none (stale.go, TestStaleVariant, TestStaleVariantIsGone).
// TestConvergence plays variants that are split, merged and mistaken, too. A response costs what it
// concerns, whatever the number of variants, and little for each map (BenchmarkVariants). Where
// removals are never told nothing is shared (TestShareEnds).
//
// # Room
//
// What is wanted never goes (RELAY-79). The process tells the table what it holds and may hold;
// above that what retired is given up, then names and sets that nobody has asked for yet are
// denied, and further above the table says that streams should be turned away (budget.go,
// TestMemory, TestViews). Between two measurements what is taken on is estimated: a request may
// bring a million names. Bodies are not: those of names that are taken on come when they come.
//
// A set that is sent whole is held twice: as bodies, and encoded in segments of about 64 KiB, of
// which a change costs one (TestOneSegmentIsRebuilt, BenchmarkWhole). For state of the world that
// lasts as long as there is a client of it, for delta until the content has changed twice without
// anybody new (TestEncodedIsLetGoOf).
//
// # Ordering
//
// Responses of one lane are applied in order, each under one lock, with one revision; revisions of
// all types, groups and origins compare. An [Answer] tells the oldest and newest revision in it, so
// that package downstream can keep ORD-1. Who named resources is told what a response changed in
// its order (TestToldInOrder).
//
// A change of listeners or routes is taken up Config.Gather after it came, so that clusters of the
// same moment are there before it, whatever order the origin writes in (ORD-9; gather.go,
// testdata/gather*.txt). What a response takes away of clusters and endpoints waits as long, and
// then for the changes of routes that came meanwhile: at most twice Gather. The origin has its ACK
// at once. All that waits of a group is one queue in the order of arrival, each response with a
// deadline of its own, so that later ones prolong nothing. It gets its revision when it is taken
// up, so it is newer than the clusters that overtook it. First answers go at once, as nobody was
// told anything that they change: of a set that has not settled, and of names that nothing is held
// of. So do heartbeats, and answers to virtual hosts asked by name (ALIAS-8), after what waits of
// their type. When a stream ends, what was said on it is taken up first: it counts, and the next
// stream presents it. Then the rest of the group's queue goes, too.
//
// # Names and versions
//
// Every name in the table is canonical (package xds, testdata/names.txt): it becomes so in Accept
// and in Sub, and what leaves has a spelling of a peer: bodies and initial versions the origin's,
// requests upstream that of the client who asked first, absences and errors that of the client they
// are told. Whether content changed is decided by its Digest alone, which is also the version,
// unless the origin's own are to be told (testdata/versions.txt).
//
// # Aliases
//
// A resource may go by more names than its own (ALIAS-1). Each name that somebody subscribes is an
// entry and an upstream subscription of its own, and all entries of one resource hold the same body
// (alias.go). A client is told of a resource by the resource's own name, once, whichever and
// however many of its names it subscribed (aliased.go, testdata/aliases.txt). An alias that an
// update drops is asked anew, and who holds what it stood for keeps that until the answer
// (testdata/aliases_dropped.txt); one that did not resolve is an absence with words of its own
// (testdata/aliases_unresolved.txt). A client of state of the world that names an alias gets the
// resource under its own name, which is all that its protocol has (ALIAS-9,
// testdata/aliases_sotw.txt).
//
// What an alias stands for no more goes at once, although a set may have it that is not told yet:
// an origin that knows hosts by name alone never answers for their namespace
// (testdata/hosts_unanswered.txt). A client does not go back to the older body of a set that still
// lists the alias (testdata/hosts_older.txt, hosts_overlap.txt).
//
// # Virtual hosts on demand
//
// An HTTP request waits in Envoy for the answer, without a timer. Envoy takes two answers: a
// resource that has the name or lists it as an alias, with a payload or, if there is no such host,
// without one. So a host that is known absent, or that a connected origin has been silent about for
// on_demand_wait, is answered by a payload-less resource of a name that no host has, and the
// removal of the name (ALIAS-10; hosts.go, testdata/hosts_silent.txt). Silence is forgotten with
// the upstream stream, and takes nothing away that the client holds.
//
// # Beside the lane's stream
//
// A lane may have another stream that the table is not told of: to a better server of the origin,
// which becomes the lane's with its first response (preview.go; FED-8), or to compare what is held
// with what the origin says (audit.go). Digests of what a group holds of a type are in its status,
// to be compared among replicas (upstream: TestDigestsCompare). While bytes of a message arrive no
// set settles (arrivals.go).
//
// # What nobody wants
//
// It lingers, and then retires: its bodies leave the shard for an LRU of the whole table, and
// answer again only while no stream can be opened (retired.go, revive.go; testdata/retired*.txt).
// What must not be cached goes with its last client (testdata/uncached*.txt); a set with such a
// member is treated so as a whole.
//
// Towards a SotW origin linger keeps the entry and not the name in the request (lapse.go;
// testdata/lapse_sotw.txt), unless clients poll it or no other name of the type is left; and names
// that make it silent are asked apart (aside.go, TestAside): what one client asks too many must
// cost the others nothing (RELAY-99).
//
// # After a restart
//
// Images gives what a snapshot keeps of every type that has changed, pointers taken under the lock
// (image.go, BenchmarkImages); Restore puts it back before anybody is served, bodies judged anew as
// if the origin sent them (restore.go, TestBodyImage, TestRestoreRefuses, FuzzRestoreBody). What
// was restored is stale, lingers and is asked for at once (testdata/restored*.txt). Who says that
// it holds something is told nothing of it until the origin has confirmed it (confirm.go,
// testdata/restored_names.txt, restored_sotw.txt); a client of a set waits for it as for one that
// is not firm. Of a SotW origin that answers, a name that nobody wanted is told to nobody before it
// was asked. What was restored and is gone stays in the first list of Clusters of a client whose
// version shows that it holds it, until its routes are written (comeback.go,
// downstream/testdata/ads_restarted_sotw.txt). TestConvergence ends the process at random, begins
// it with a snapshot of some time before, and fails if a client is told what the origin had only
// before what it holds.
//
// # TTLs
//
// A body carries the moment it expires, in a hundred years at most (TestLongTTL); a heartbeat, or
// the same body again, makes a copy that shares its bytes with another moment. That is no change of
// content. Clients who are told TTLs have views of their own, where it is an event, and what is
// told is worked out when the answer is written (ttl.go, testdata/ttl*.txt); nobody else is woken.
// What has expired is removed as if the origin had removed it, with the origin there or away
// (expiry.go); so is what a client has by a set that it leaves, and keeps by name
// (testdata/ttl_left.txt). Which answers a client accepted, and so may be sent heartbeats for,
// verdicts.go knows.
//
// # Collections
//
// `*`, xdstp globs and the namespaces of virtual hosts are sets (set.go): selector.go finds those a
// name belongs to, collection.go takes up what a response says of them, overlap.go tells a client
// of several each resource once (testdata/globs*.txt, namespaces*.txt). Where `*` of virtual hosts
// is wanted beside a namespace both are asked on one stream, and a host that comes for one may be
// of either.
//
// A client that speaks delta and says that it holds nothing is told the members of its one set as
// they come (RELAY-7): nothing can be deleted by it, and waiting costs a cold Envoy a pause for
// each type, one after the other. A removal waits until the set has settled, with what comes after
// it, and so does the word that the set is empty (position.go, testdata/early.txt). What came on a
// stream that ended before the set had settled is told in the same way while no stream can be
// opened, also from a snapshot (testdata/early_away.txt): it may well be the whole set. Meanwhile
// the stream-type is not held back by an ACK (Standing.Arriving). Clients with several sets, with
// names besides, of several origins or with locators wait as all others do.
//
// # What is not believed, or not taken, at once
//
// Package gate decides what the guard holds back and what a freeze lets pass. The tables of what is
// held back, and the timers, are here.
//
// What an origin takes away when it is heard again after a (re)connect is held back if it is most
// of a set, and goes after a time, by an operator, or when a later list of state of the world lacks
// it again (guard.go, RELAY-97; testdata/guard*.txt). Meanwhile it is what it was to all clients,
// counts as stale, and is not presented upstream. It is the present stream's word that counts: a
// new one begins the time anew, and without one nothing goes. People are told by
// [Origin.TakeAlarms]. Names of a type are a set in this, too.
//
// While an operator keeps an origin frozen, nothing that is held is changed or removed by what it
// says, but for the content of endpoints and secrets (freeze.go; testdata/freeze*.txt).
// TestConvergence drives both, and checks that a frozen origin's responses change nothing that
// clients have.
//
// # Another configuration
//
// [Table.Prepare] checks one, and Commit puts it into force while everything goes on. An origin
// keeps its part of the table if what changes is looked at only when something comes: addresses,
// dialect and authorities among it. Otherwise it gets an empty one, and the part before ends: it is
// run no more, and what it holds goes with its last client (reconfigure.go, TestReconfigureOrigins,
// TestEndedOriginKeepsNothing, testdata/reconfigure.txt). Telling its clients is package
// downstream's.
//
// # Locators
//
// A client that names parameters has a located Sub for each map, and is told variants with their
// constraints, as the origin wrote them (located.go, TestLocatedForms). All its maps of one type of
// one group are taken from at one instant (unitedlocated.go), so it never sees half of what
// replaces a variant (DYN-10). What two maps have in common is told once; and for each map it is
// remembered by what constraints a name was told, so that the removal has those, once none of the
// client's maps has the variant (DYN-14). What is said of a map for which there is no variant, an
// error or an absence, has constraints that match that map and none of the client's others
// (TestExact): a bare name would be about all of them (DYN-13), and a relay behind this one takes
// it so. TestLocatedAtRandom in downstream plays such a client.
//
// # For people and metrics
//
// Package inspect makes what they see, of what [Origin.Groups] shows it: rows that are copied while
// one type of one group is locked (rows.go, asked.go), and counts (look.go). All of them, and what
// a snapshot keeps, come of one walk over sets and names (walk.go).
//
// # Known limits
//
// Whether variants for other maps are held of a name that was looked up in vain is told by what is
// held by name and of `*`, not by globs. A name whose variants overlapped, were mended and overlap
// anew is counted, and not said a second time. Where equal content may be other
// bytes (VER-6), a listener without a name still counts as received. A bare resource of a SotW
// answer does not say do_not_cache: a relay behind this one that speaks SotW to it keeps the body
// as any other. A list that is sent whole does not tell the error of what it lists, since it would
// have to leave that out (ABS-9, ABS-11), nor NOT_FOUND of a member that was removed without a word
// (ABS-10). A SotW client that comes back with `*` waits for what is in error for the moment and
// not held here, and after 15 s is sent a list without it (testdata/faults_return.txt). Nor does it
// say NOT_FOUND of what has expired. Both kinds of clients, those who are told TTLs and others, on
// one wildcard cost two views of it. An alias that only a member of `*` lists is still asked by
// name: who names one gets what the origin answers. A delta client that gives up a resource of
// which it was sent another form than the present one may be told that it is gone when an alias
// that waits for its answer has it: it may have kept it by that. What a delta origin had refused,
// and does not say again for a minute while it says other things, is missing from a set that was
// not complete before: who holds it loses it. What a transient error keeps in a set that was
// restored is told to who comes back, though it may hold something newer; a name in such an error
// is held back for as long as it lasts, but for lists that are sent whole, which wait 15 s. What
// had retired is not kept in a snapshot unless somebody asked for it again. A type asked in vain
// stays a shard for as long as the stream it was asked on; more than 256 of them reopen that
// stream. Each type that makes the origin end streams costs its group one of them, up to sixteen;
// from then on what was never answered is asked apart first. An operator lets a type out of
// quarantine by a restart alone. Of what a delta origin takes away in small pieces up to guard.min
// goes before it is known to be a mass removal; of what is more than that but not a mass removal,
// the rest waits 2.5 s, at most a minute. An alias that resolves no more is not held back. A lane
// that we open anew ourselves counts as a reconnect. What a frozen origin has renewed in another
// content only runs out with its TTL; a set or a name that nobody had is answered with the present
// content, whatever else of the group is kept at; and an alias that the new content of a resource
// lists waits like that content.
//
// # What to read next
//
// Package xds first, for names and types. Then come shard.go, set.go, then view.go and named.go,
// then take.go, settle.go and takedelta.go for the way out and lane.go, ask.go and apply.go for the
// way in; errors.go and faults.go for what is said instead of resources; image.go, restore.go and
// confirm.go for restarts; union.go for several origins; testdata/*.txt reads as conversations.
// testdata/files.list has all files in the order of what refers to what, which
// TestFilesReferDownwards holds: a new file has its place there, and no new reference goes upwards.
package relay
