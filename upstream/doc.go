// Package upstream speaks xDS to one origin over gRPC, in either dialect, on ADS or in a service
// for each type, on behalf of the table (package relay).
//
// # What it is
//
// An [Origin] takes lanes from relay.Origin. It keeps each lane's stream open, and reopens it when
// it ends, for as long as the table has subscriptions on the lane. The questions to the origin come
// from relay.Lane.Take, and its responses go into relay.Lane.Apply. This package remembers no
// resource, name or version, except what the wire needs: in SotW, for each type, the list of names,
// the last nonce and the last accepted version. A payload is never decoded.
//
// With PerType each type that has a service of its own gets a main and a side lane of its own
// (RELAY-20). The other types share the group's lanes on ADS. Nothing orders types then. All lanes
// share the connections. With Tiers the lanes are those of groups that ask another group of this
// process and not the origin (relay: tier.go; cmd/weir: canary.go, TestTiersAreFed).
//
// A delta origin is asked for a long list of names by 2,000 at a time, so that what it answers is
// used before it has answered all (TestManyNamesGoInShares; relay: TestLongListsAreAskedInTurns).
// Names that are held are asked at once, because their versions are presented. Only TP2 origins are
// asked by locators (request.go, TestLocatorsAreAsked, TestNoLocatorsElsewhere). What clients
// reject is told to the origin if that is configured (RELAY-35).
//
// # Servers
//
// The servers of an origin are in order of preference (FED-6). One is lost if it cannot be
// connected to, or ends a stream without a response while it answers nobody, until it responds. A
// group that wants what no server has answered yet moves to the next one at once, others after
// cold_wait, since the next one may be stale (server.go, TestColdFallsBackAtOnce,
// TestFullWaitsBeforeItFallsBack). Meanwhile one lane at a time probes a better server, and the
// others follow when it answers (failback.go, TestTakeover, TestManyLanesMoveTogether). The lanes
// of a group stay together: one of which the better server has nothing follows after 15 s, and a
// group that it does not answer at all stays where it is (TestGroupFailsBackTogether). A server
// that keeps getting lost is probed ever more rarely, every five minutes in the end
// (TestFlappingServer). A name with several IPs is one server, also for versions (FED-7).
//
// # Opening streams
//
// Lanes without a stream wait in one queue for each origin (queue.go). limits.new_groups_per_second
// of them may open one per second: first groups that the origin has answered before, then those
// with most clients (RELAY-98, TestOrderOfStreams). A fifth of these may be unanswered at a time,
// so a slow server is asked no faster than it answers. To wait for one's turn is no outage, and
// clients are not sent away for it (TestTurnIsNoOutage; downstream: TestColdWait).
//
// While a server answers nobody, the backoff is the server's (ERR-2): one stream is tried after at
// most 5 s, and when it is answered, or was open for a second, the others follow
// (TestFleetBackAfterALongOutage). A server that refuses every stream is tried by up to 20 groups
// at a time (TestOneGroupIsServed). While a server answers, a lane that fails has a backoff of its
// own (TestOneGroupIsRefused), and those that keep ending come last (TestCrashingOriginServesAll).
//
// # Audits and probes
//
// A name that a SotW origin leaves unanswered may be why it is silent about the rest of the type.
// Such names are asked on a separate stream, first all of them, then one by one, until the answer
// comes (RELAY-99; probe.go, relay: aside.go).
//
// With Config.Audit what the table holds is compared, type by type, with what the origin sends on a
// separate stream, of at most 250,000 resources, without secrets and dedicated groups (audit.go).
// What still differs after the long pause and 5 s (TestAuditWaitsForWhatIsUnderWay) is counted and
// logged. Then the lane is reopened without versions, and what does not come again is swept
// (TestAuditFindsDrift). If an origin is down or slow the audit is postponed.
//
// # Goroutines and locks
//
// [Origin.Run] is the supervisor. There are none per resource, type or update. A lane has one,
// which also writes its open stream, and one that reads the stream. While it is not at the first
// server one more looks for a better one, and ends with the stream. A SotW lane with names that
// stay unanswered has two, which ask for these. The origin has one until it has answered somebody
// (origin.go), and with audits two. Aggregates of load reports have theirs (aggregate.go). The
// reader never waits for the writer: its verdict on a response is state in typeState and a one-slot
// signal. Run returns when all of them have ended (TestStopEndsEverything). The lanes are left to
// the next Origin of the same part of the table (TestSucceed).
//
// lane.mu, pool.mu and the small locks of Lanes, Health and rateLimitedLog are leaves: while one is
// held, no other and none of the table's is taken, and nothing is sent, dialled, closed or logged.
// There is one exception: the lock of aggregates is held while that of an aggregate is taken. Who
// locks: see package relay.
//
// # What a slow or broken origin can do to us
//
//   - Be down: there is one attempt for all lanes, after a backoff of at most 5 s, and a log line a
//     minute (TestDeadOriginIsQuietAndCheap). Nothing is withdrawn (TestOutageAndReturn).
//   - Vanish: HTTP/2 keepalive detects it within a minute, and TCP keepalive where a connection has
//     no stream (TestBlackHoleIsNoticed, TestTCPKeepalive).
//   - Close connections at an age: their streams are reopened elsewhere (TestAgeingConnections).
//     Close streams: there is a short pause after a response, or else the backoff grows (lane.go).
//   - End each stream on which one type is asked for: that type is put in quarantine, and asked
//     ever more rarely until it is answered; the others go on (lane.go, TestTypeThatEndsStreams). A
//     restart does not look like that (TestRestartingOriginQuarantinesNothing).
//   - Send what is no message, or one longer than max_message: that stream ends and the backoff
//     grows; other lanes go on (TestGarbageEndsTheStreamOnly).
//   - Send bad resources: each is rejected, ever more slowly (TestRefusalsSlowDown).
//   - Come back without most of what it had: the removal is held back (relay: testdata/guard*.txt).
//   - Be a relay that our stream has come through already: the log says so, and the clients that
//     brought the path lose their streams (TestLoopIsNoQuarantine).
//   - Be declared TP2 and not know locators: it sends everything without constraints. That is used
//     for all parameters, counted and logged (TestOriginThatIgnoresLocators; relay:
//     variantfaults.go), as are overlaps and an "or" of nothing.
//   - Not read: its stream ends at a bound of verdicts (TestOriginThatDoesNotReadIsCutOff).
//   - Be slow: no set is complete while bytes are arriving (TestBytesThatArriveAreNoPause).
//   - Not answer: the log says so once, with the node that was sent (TestSilenceIsLoggedOnce), but
//     not of names only if the group was answered before (TestSilenceAboutANameThatIsGone).
//   - Close the connection over TLS: log and status name the config key to check (failure.go).
//   - Show a certificate that is not trusted any more: the connection is closed, and the lanes
//     connect again (connection.go, TestServersAreJudgedAgain).
//   - Refuse our keepalive: the interval doubles, to 5 min at least (TestTooManyPings).
//
// # Known limits
//
//   - A server that allows fewer than 100 streams on a connection makes grpc wait. The attempt
//     fails after 20 s, and the log says why, but there is no second connection before 100.
//   - A SotW request cannot be split. If its names exceed the origin's receive limit, 4 MiB by
//     default, the origin refuses it, and the log says so. VirtualHost and LbEndpoint have no SotW
//     form, and are not asked.
//   - A group stays at a server that ends its streams and answers others. Lanes stay at a server
//     that accepts streams and was never lost, but answers nothing. If lanes moved to a delta
//     server that answers nothing for a name, the name stays: silence states nothing, in an audit
//     neither. Where streams differ, as of replicas at one address, each audit finds drift.
//   - An origin that ignores locators may send everything in pieces, those that were asked for
//     first. It is found out with the first piece that has something else; what came before stays.
//     Where `*` or a collection was asked by locator it cannot be found out at all.
//   - An origin that ends the stream for a type after 5 s goes on ending it for all (RELAY-92).
//
// # Departures from protocol.md
//
//   - ERR-4: a delta stream on which every version was presented may rightly stay without a
//     response (DELTA-11). After the longest backoff its end is no connectivity error.
//   - ERR-2: after a message that we cannot read the backoff grows, even if there were responses.
//   - RELAY-14: an unwrapped resource of a type that is neither known nor configured is named by
//     field 1, if that reads like a name: so new types work (relay: TestBareNames).
//   - RELAY-24: after a SotW request of more than 100 names the next one with these names waits for
//     5 us for each, 10 ms at least and two seconds at most (relay: TestLongListsAreListedRarely).
//   - RELAY-32: in SotW a held rejection goes out early with a change of names (write.go).
//   - RELAY-46: a resource counts as come back unchanged at the very version that was presented:
//     equal content under another one means that the origin restarted its counters. Nor does it
//     count if what refers to it came on the stream, if it is the only one, or if it comes more
//     than a second after the first response (TestSentAgainOnPurpose).
//   - RELAY-92: a stream that we end over a message that cannot be read counts as ended by the
//     origin. So does one that it ends because a request is too long, which is RESOURCE_EXHAUSTED
//     but no rate limit. While an origin that has answered nothing refuses types one after the
//     other, their clients count as cut off (RELAY-8), and the counts outlive the groups (relay:
//     cold.go; TestRefusedTypeInAColdGroup, TestTypeThatHidesAll). Where no other type is answered,
//     a stream that stays open without the suspects is proof enough. A suspect whose own stream
//     stays open unanswered for 16 s goes back to the others. In a group with sixteen types in
//     quarantine, a type that was never answered begins apart: clients can make such types up. The
//     first such end puts a type with a service of its own in quarantine, since nothing else could
//     be the reason (relay: TestQuarantineOnItsOwnService).
//   - RELAY-96: a restored resource is asked of a SotW origin when a client subscribes to it, as
//     RELAY-99 wants, and not at once.
//   - RELAY-99: a name that a SotW origin leaves out of an answer stays in the request. The answer
//     shows that such names harm nobody, and an origin that answers only if all it has is asked
//     needs it there once it exists. Only names without any answer are asked apart. The last names
//     of a type stay while they linger, since an empty list is a wildcard to many servers.
//
// # Who imports it
//
// Package upstream/rest, for Backoff and Status, and cmd/weir.
//
// # What to read next
//
// stream.go, its halves write.go and read.go, and asked.go for one type on it; lane.go for one
// stream after another and what ends it; then queue.go, pool.go, server.go, failback.go, probe.go,
// audit.go, and loads.go and aggregate.go for load reports.
package upstream
