// Package upstream speaks xDS to one origin over gRPC, in either dialect, on ADS or in a service
// for each type, on behalf of the table (package relay).
//
// # What it is
//
// An [Origin] takes lanes from relay.Origin. It keeps each lane's stream open, and reopens it when
// it ends, for as long as the table has subscriptions on the lane. The questions to the origin come
// from relay.Lane.Take, and its responses go into relay.Lane.Apply. This package remembers no
// resource, name or version, except what the wire needs: in SotW, for each type, the list of names,
// the last nonce and the last accepted version. Responses are read as raw bytes (codec.go), so a
// payload is never decoded.
//
// With PerType each type that has a service of its own gets a main and a side lane of its own
// (RELAY-20). The other types share the group's lanes on ADS. Nothing orders types then. All lanes
// share the connections.
//
// With Tiers the lanes are those of groups that ask another group of this process and not the
// origin (relay: tier.go; cmd/weir: feed.go, TestTiersAreFed).
//
// Where things are:
//
//   - stream.go with its halves read.go and write.go: one stream; asked.go: one type on it
//   - lane.go: one stream after another, and what the end of a stream means
//   - queue.go: when the next stream is opened
//   - pool.go: the connections; server.go: which server of the origin a lane uses; failback.go: how
//     it returns to a better one
//   - quarantine.go: types that make the origin end streams; probe.go: names that it does not
//     answer
//   - loads.go, aggregate.go: load reports
//
// A delta origin is asked for a long list of names by 2,000 at a time, so that what it answers is
// used before it has answered all (TestManyNamesGoInShares; relay: TestLongListsAreAskedInTurns).
// Names that are held are asked at once, because their versions are presented.
//
// Origins that are declared TP2 are asked for every name by a locator, so that the answers have
// constraints. Others never are (list.go, TestLocatorsAreAsked). Should the table ask another
// origin by locator, the name is left out. A request that becomes empty is not sent, since it would
// be a wildcard (TestNoLocatorsElsewhere).
//
// # Servers
//
// The servers of an origin are in order of preference (FED-6). A server is lost if it cannot be
// connected to, or ends a stream without a response while it answers nobody. It stays lost until it
// responds.
//
// A group that wants what no server has answered yet moves to the next server at once
// (TestColdFallsBackAtOnce). A group that has everything gives the lost server cold_wait, since the
// next one may be stale (TestFullWaitsBeforeItFallsBack).
//
// While lanes are not at the first server, one of them at a time probes a better one: it asks that
// server the same as its own stream has asked (failback.go). When that is answered, the other lanes
// follow (TestManyLanesMoveTogether, TestSilentServerNeverTakesOver). The old stream stays in use
// until the new one has its first response, which is the first that the table gets from it
// (TestTakeover). What the new server has not answered keeps its content, and is swept after the
// long pause if it never does.
//
// The lanes of a group stay together. A lane of which the better server has nothing follows the
// others after 15 s, and a group that the better server does not answer at all stays where it is
// (TestGroupFailsBackTogether). A server that is lost again soon after lanes moved to it is probed
// ever more rarely, every five minutes in the end (TestFlappingServer).
//
// An address that is a name with several IPs is one server: versions from one IP are presented to
// the others (FED-7).
//
// # Reports
//
// What clients reject is told to the origin, if that is configured (RELAY-35): one more request for
// each version, with the nonce of the response (report.go, TestReportsOfRejections). The table says
// when. Only this package has the nonces, so it drops a report on what this stream did not bring.
//
// # Opening streams
//
// Lanes without a stream wait in one queue for each origin (queue.go). limits.new_groups_per_second
// of them may open one per second: first groups that the origin has answered before, then those
// with most clients (RELAY-98, TestOrderOfStreams). Of the streams of one second at most a fifth
// may be unanswered at a time. So a server that is slow, or limits requests itself, is asked no
// faster than it answers (TestStartingServerWithARateLimit). A wait for one's turn is no outage:
// it is shown as such, and clients are not sent away for it (TestTurnIsNoOutage,
// TestOutageIsNoTurn; downstream: TestColdWait).
//
// While a server answers nobody, the backoff is the server's (ERR-2). One stream is tried after a
// backoff of at most 5 s. When it is answered, or was open for a second, the others follow
// (TestFleetBackAfterALongOutage, TestRefusedStreamsAreOneBackoff). A lane that was refused comes
// last, since the server may refuse its group only. A server that accepts connections and refuses
// every stream is tried by up to 20 groups at a time (TestOneGroupIsServed).
//
// A group whose streams are answered and end soon after, again and again, comes last, too.
// Otherwise an origin that crashes over it might never answer the others
// (TestCrashingOriginServesAll). A lane whose stream fails while others are answered has a backoff
// of its own, and the log does not call that an outage (TestOneGroupIsRefused).
//
// # Audits and probes
//
// A name that a SotW origin leaves unanswered may be why it is silent about the rest of the type.
// Such names are asked on a separate stream, first all of them, then one by one, until the answer
// comes (RELAY-99; probe.go, relay: aside.go).
//
// With Config.Audit what the table holds is compared, type by type, with what the origin sends on a
// separate stream (audit.go, relay: audit.go). Nothing of that stream is applied. Only names and
// digests are kept, of at most 250,000 resources. What differs after the long pause, and still does
// 5 s later without a change on either side (TestAuditWaitsForWhatIsUnderWay), is counted and
// logged. Then the lane is reopened without versions, so that the origin sends everything again,
// and the rest is swept (TestAuditFindsDrift). If an origin is down or slow the audit is postponed
// (TestAuditIsPostponed). Secrets and dedicated groups are left out (TestSecretsAreNotAudited).
//
// # Goroutines and who owns what
//
// [Origin.Run] is the supervisor. There are none per resource, type or update. There are:
//
//   - one for each lane, which also writes its open stream, and one that reads the stream
//   - one for each lane that is not at the first server: it looks for a better one, and ends with
//     the stream
//   - with audits one more for the origin, and one that reads its stream
//   - one until the origin has answered somebody (reach.go)
//   - one for each SotW lane that waits for names which stay unanswered, and one that reads the
//     stream on which these are asked
//
// The reader never waits for the writer: its verdict on a response is state in typeState and a
// one-slot signal. Run returns when all of them have ended (TestStopEndsEverything). The lanes are
// left to the next Origin that is run for the same part of the table, under another configuration
// (TestSucceed).
//
// # Lock order
//
// lane.mu, pool.mu, Origin.mu and the two small locks of health and rateLimitedLog are leaves:
// while one is held, no other and none of the table's is taken, and nothing is sent, dialled,
// closed or logged. There is one exception: the lock of aggregates is held while that of an
// aggregate is taken.
//
// # Who locks
//
// As in package relay: an unexported function or method that touches what a lock guards runs with
// it held by its caller, and one that locks by itself says so in its doc comment. Exported ones
// lock what they need.
//
// # What a slow or broken origin can do to us
//
//   - Be down: there is one attempt for all lanes, after a backoff of at most 5 s, and a log line a
//     minute (TestDeadOriginIsQuietAndCheap). Nothing is withdrawn (TestOutageAndReturn).
//   - Vanish without closing connections: HTTP/2 keepalive detects it within a minute
//     (TestBlackHoleIsNoticed), and TCP keepalive where a connection has no stream
//     (TestTCPKeepalive).
//   - Close connections at an age: their streams are reopened elsewhere, and that is no failure
//     (TestAgeingConnections).
//   - Close streams: after a response that is no error, and there is a short pause
//     (TestOriginThatClosesEveryStream). Without a response the backoff grows, whether or not the
//     connection works (TestBackoffGrowsUntilAnswered).
//   - End each stream on which one type is asked for: that type is tried apart from the others and
//     put in quarantine, and the others go on (TestTypeThatEndsStreams). It is asked ever more
//     rarely until it is answered (TestQuarantineBackoff). A restart does not look like that
//     (TestRestartingOriginQuarantinesNothing, TestStartingOriginQuarantinesNothing).
//   - Send what is no message, or one longer than max_message, compressed or not: that stream ends
//     and the backoff grows; other lanes go on (TestGarbageEndsTheStreamOnly,
//     TestMessageOverTheLimit). From half of max_message on there is a warning
//     (TestLongResponsesAreToldOfBefore).
//   - Send bad resources: each is rejected, ever more slowly (TestRefusalsSlowDown).
//   - Come back without most of what it had: the removal is held back, and logged once (relay:
//     testdata/guard*.txt; cmd/weir: TestGuardIsShown).
//   - Be a relay that our stream has come through already: the log says so, and the clients that
//     brought the path lose their streams (TestLoopIsNoQuarantine, TestRefusedWayIsTriedAgain).
//   - Be declared TP2 and not know locators: it takes a request for a wildcard, and sends what was
//     never asked for. None of it is used for clients with parameters; it is counted and logged
//     (TestOriginThatIgnoresLocators; relay: understood.go).
//   - Leave out constraints, let variants overlap, or write an "or" of nothing: it is used as it
//     is, counted and logged (TestOriginThatOmitsConstraints, TestOriginWithOverlaps).
//   - Not read: verdicts queue up to a bound, then the stream ends
//     (TestOriginThatDoesNotReadIsCutOff).
//   - Be slow: no set counts as complete while bytes of a message are arriving
//     (TestBytesThatArriveAreNoPause).
//   - Not answer: the log says so once, with the node that was sent (TestSilenceIsLoggedOnce).
//     Silence about names only is not logged if the group was answered before
//     (TestSilenceAboutANameThatIsGone).
//   - Close the connection over TLS: the log and the status name the config key to check
//     (TestHints).
//   - Show a certificate that is not trusted any more: the connection is closed, and the lanes
//     connect again by what is trusted now; what is held stays (trust.go,
//     TestServersAreJudgedAgain).
//   - Refuse our keepalive: the interval doubles, to 5 min at least, until it does not
//     (TestTooManyPings).
//
// # Known limits
//
// Connections: a server that allows fewer than 100 streams on a connection makes grpc wait. The
// attempt fails after 20 s, and the log says why, but there is no second connection before 100.
//
// SotW: a request cannot be split. If its names exceed the origin's receive limit, 4 MiB by
// default, the origin refuses it, and the log says so (TestRequestTheOriginDoesNotTake).
// VirtualHost and LbEndpoint have no SotW form, so a SotW origin is not asked for them.
//
// Servers: a group stays at a server that ends its streams and answers others. Lanes stay at a
// server that accepts streams and was never lost, but answers nothing. If lanes moved from a server
// that has a name to a delta server that answers nothing for it, the name stays: silence states
// nothing, and no audit finds it. An origin whose streams differ, as replicas behind one address
// may, drifts at each audit.
//
// Locators: an origin that ignores them may send everything in pieces, those that were asked for
// first. It is found out with the first piece that has something else; what came before stays.
// Where `*` or a collection was asked by locator it cannot be found out at all.
//
// Quarantine: an origin that takes longer than 5 s to end the stream for a type goes on ending it
// for all (RELAY-92).
//
// # Departures from protocol.md
//
// ERR-4: a delta stream on which every version was presented may rightly stay without a response
// (DELTA-11). If it lasted longer than the longest backoff, its end is no connectivity error
// (TestQuietStreamsAreNoFailure).
//
// ERR-2: after a stream with a message that we cannot read the backoff grows, even if there were
// responses.
//
// RELAY-14: an unwrapped resource of a type that is neither known nor configured is named by field
// 1, if that reads like a name. So new types work without configuration (relay: TestBareNames).
//
// RELAY-24: after a SotW request of more than 100 names the next one with these names waits for 5
// us for each, 10 ms at least and two seconds at most (relay: TestLongListsAreListedRarely).
//
// RELAY-32: in SotW a rejection that is held back goes out early with a change of names: the same
// message without its error would accept what was rejected (TestHeldRefusalGoesWithNewNames).
//
// RELAY-46: a resource counts as come back unchanged at the very version that was presented. Equal
// content under another version means that the origin restarted its counters. Nor does it count if
// what refers to it came on the stream, if it is the only one, or if it comes more than a second
// after the first response (TestSentAgainOnPurpose).
//
// RELAY-92: a stream that we end over a message that cannot be read counts as ended by the origin.
// So does one that the origin ends because a request is too long, which is RESOURCE_EXHAUSTED but
// no rate limit. While an origin that has answered nothing refuses types one after the other, their
// clients count as cut off (RELAY-8), and the counts outlive the groups, which end with their
// clients (relay: cold.go; TestRefusedTypeInAColdGroup, TestRefusedTypeOfClientsThatComeBack,
// TestTypeThatHidesAll). Where no other type is answered, a stream that stays open without the
// suspects is proof enough. A suspect whose own stream stays open unanswered for 16 s goes back to
// the others. In a group with sixteen types in quarantine, a type that was never answered begins
// apart, without having ended a stream: clients can make such types up. A type with a service of
// its own needs no trial, since nothing else on the stream could be the reason: the first such end
// puts it in quarantine (relay: TestQuarantineOnItsOwnService).
//
// RELAY-96: a restored resource is asked of a SotW origin when a client subscribes to it, as
// RELAY-99 wants, and not at once.
//
// RELAY-99: a name that a SotW origin leaves out of an answer stays in the request. The answer
// shows that such names harm nobody, and an origin that answers only if all it has is asked needs
// it there once it exists. Only names that stay without any answer are asked apart. The last names
// of a type stay in the request while they linger, since an empty list is a wildcard to many
// servers.
//
// # Who imports it
//
// Package upstream/rest, for Backoff and Status, and cmd/weir.
//
// # What to read next
//
// stream.go, then write.go and read.go.
package upstream
