// Package upstream speaks xDS to one origin over gRPC, in either dialect, on ADS or in a service
// for each type, on behalf of the table (package relay).
//
// # What it is
//
// An [Origin] takes lanes from relay.Origin and keeps each open, one stream after the other, for as
// long as the table wants anything on it. What to ask comes from relay.Lane.Take, what was answered
// goes into relay.Lane.Apply; no resource, name or version is remembered here but what the wire
// needs: in SotW the list of names, the last nonce and the last accepted version of each type.
// Responses are read as raw bytes (codec.go), so a payload is never decoded.
//
// With PerType each type that has a service of its own gets a main and a side lane of its own
// (RELAY-20); the rest shares the group's lanes, which are ADS. Nothing orders types then. All
// lanes share the connections.
//
// lane.go judges how a stream ended, queue.go decides when the next is opened, stream.go and its
// two halves read.go and write.go are one stream, asked.go is one type on it, quarantine.go is for
// types the origin ends streams for, pool.go is the connections, server.go which of an origin's
// servers a lane goes to, failback.go how it comes back to a better one.
//
// A long list of names goes to a delta origin by 2,000 at a time, so that what it states does not
// wait behind the answer to all (TestManyNamesGoInShares; relay: TestLongListsAreAskedInTurns).
// What is held is asked at once, for the sake of its versions.
//
// To origins that are declared TP2 every name goes as a locator, so that its constraints come back,
// and to others none does (list.go, TestLocatorsAreAsked). Should the table ever ask another origin
// by locator, the name is left out, and a request of which nothing is left is not sent, as an empty
// one would be a wildcard (TestNoLocatorsElsewhere).
//
// # Servers
//
// The servers of an origin are in order of preference (FED-6). One that cannot be connected to, or
// ends a stream without a response while it answers nobody, is lost until it responds. A group that
// wants what no server has answered yet goes to the next at once (TestColdFallsBackAtOnce); one
// that misses nothing gives the lost server cold_wait, since the next may be stale
// (TestFullWaitsBeforeItFallsBack). A lane that is not at the first server seeks a better one: one
// lane at a time asks a lost server the same as its own stream has asked (failback.go), and when
// that is answered the others follow (TestManyLanesMoveTogether, TestSilentServerNeverTakesOver).
// The old stream is in use until the new one has its first response, which is the first that the
// table gets of it (TestTakeover); what it has not spoken of stays, and goes with the sweep after
// the long pause if it never does. Lanes of one group stay together: what the better server has
// nothing of follows the rest after 15 s, and a group it does not answer at all stays
// (TestGroupMovesWhole). A server that is lost again soon after it took over is sought ever more
// rarely, up to five minutes (TestFlappingServer).
//
// An address that is a name with several IPs is one server: what one of them gave is presented to
// the others (FED-7).
//
// # Opening streams
//
// Lanes that have no stream wait in one queue for each origin (queue.go). Leave is given to
// limits.new_groups_per_second of them in a second at most: to groups that the origin has answered
// before first, then to those with most clients (RELAY-98, TestOrderOfStreams). Of the streams of
// one second no more than a fifth may be unanswered at a time, so that a server that is slow, or
// limits requests itself, is asked no faster than it answers (TestStartingServerWithARateLimit).
//
// Backoff belongs to the server as long as it answers nobody (ERR-2): one stream is tried, after a
// backoff of at most 5 s, and when it is answered, or has been open for a second, the others follow
// (TestFleetBackAfterALongOutage, TestRefusedStreamsAreOneBackoff). Whoever was refused gives way,
// as it may be that group alone; a server that refuses every stream, but takes connections, is
// tried by up to 20 groups at a time (TestOneGroupIsServed). A group whose streams are answered and
// end soon after, again and again, gives way too: an origin that crashes may never come to the
// others else (TestCrashingOriginServesAll). A lane whose stream fails while others are answered
// has a backoff of its own, and the log does not call that an outage (TestOneGroupIsRefused).
//
// # Audits
//
// What a SotW origin leaves unanswered may be why it is silent about the rest of the type. It is
// asked on a stream apart, first with everything, then name by name, until it comes (RELAY-99;
// probe.go, relay: aside.go).
//
// With Config.Audit what the table holds is compared, type by type, with what the origin says on a
// stream apart (audit.go, relay: audit.go). Nothing of that stream is applied and no body of it is
// kept, only names and digests, of at most 250,000 resources. What differs after the long pause and
// still does 5 s later, unchanged on both sides (TestAuditWaitsForWhatIsUnderWay), is counted and
// named, and the lane is opened anew without versions, so that it is told again or swept
// (TestAuditFindsDrift). An origin that is down or slow is not taken to hold nothing
// (TestAuditIsPostponed); secrets and dedicated groups are left out (TestSecretsAreNotAudited).
//
// # Goroutines and who owns what
//
// [Origin.Run] is the supervisor. Each lane has one goroutine, which also writes its open stream,
// and a second one that reads it; while the stream is not to the first server, a third seeks a
// better one, and ends with the stream. With audits there is one more, and one that reads its
// stream, and one until the origin has answered somebody (reach.go). A lane of SotW has one that waits for names that stay unanswered, and one that reads the
// stream on which these are asked. There are none per resource, type or update. The reader never
// waits for the writer: its verdict on a response is state in typeState and a one-slot signal. Run
// returns when all of them have ended (TestStopEndsEverything). Its lanes are left to the Origin
// that is run next for the same part of the table, under another configuration (TestSucceed).
//
// # Lock order
//
// lane.mu, pool.mu, Origin.mu and the two small locks of health and rateLimitedLog are leaves: none
// is held while another, or one of the table's, is taken, and nothing is sent, dialled, closed or
// logged under them.
//
// # Who locks
//
// As in package relay: an unexported function or method that touches what a lock guards runs with
// it held by its caller, and one that locks by itself says so in its doc comment. Exported ones
// lock what they need.
//
// # What a slow or broken origin can do to us
//
//   - Be down: one attempt for all lanes, after a backoff of at most 5 s, and a log line a minute
//     (TestDeadOriginIsQuietAndCheap). Nothing is withdrawn (TestOutageAndReturn).
//   - Be dead without a word: noticed by keepalive within a minute (TestBlackHoleIsNoticed), and by
//     TCP, which is all there is on a connection without a stream (TestTCPKeepalive).
//   - Close connections at an age: streams move to another, and that is no failure
//     (TestAgeingConnections).
//   - Close streams: after a response that is no error, and there is a short pause
//     (TestOriginThatClosesEveryStream); without one the backoff grows, whether or not the
//     connection works (TestBackoffGrowsUntilAnswered).
//   - End each stream on which it is asked for one type: that type is tried apart from the others
//     and put in quarantine, and they go on (TestTypeThatEndsStreams); it is asked ever more rarely
//     until it is answered (TestQuarantineBackoff). Restarts do not look like that
//     (TestRestartingOriginQuarantinesNothing).
//   - Send what is no message, or one longer than max_message, compressed or not: that stream ends,
//     the backoff grows, other lanes go on (TestGarbageEndsTheStreamOnly, TestMessageOverTheLimit).
//     Half of max_message is warned of (TestLongResponsesAreToldOfBefore).
//   - Send bad resources for ever: each is refused, ever more slowly (TestRefusalsSlowDown).
//   - Come back without most of what it had: that is held back, and logged once (relay:
//     testdata/guard*.txt; cmd/weir: TestGuardIsShown).
//   - Be a relay that our stream has come through before: the log says so, and who brought the way
//     is sent away (TestLoopIsNoQuarantine, TestRefusedWayIsTriedAgain).
//   - Be declared TP2 and not know locators: it takes a request for a wildcard and sends what was
//     never asked. Nothing of that is used for clients with parameters; it is counted and said
//     (TestOriginThatIgnoresLocators; relay: understood.go).
//   - Leave out the constraints, let variants overlap, or write an or of nothing: used as it is,
//     counted and said (TestOriginThatOmitsConstraints, TestOriginWithOverlaps).
//   - Not read: verdicts queue up to a bound, then the stream ends
//     (TestOriginThatDoesNotReadIsCutOff).
//   - Be slow: no set counts as complete while bytes of a message are arriving
//     (TestBytesThatArriveAreNoPause).
//   - Not answer: the log says so once, with the node that was sent (TestSilenceIsLoggedOnce).
//     Silence about names alone says nothing where the group was answered before
//     (TestSilenceAboutANameThatIsGone).
//   - Cut the connection over TLS: the log and the status name the key to look at (TestHints).
//   - Dislike our keepalive: the interval doubles until it is left alone (TestTooManyPings).
//
// # Known limits
//
// A server that allows fewer than 100 streams on a connection makes the grpc library wait; the
// attempt is given up after 20 s and named, but there is no second connection before 100. A SotW
// request cannot be cut: names of more than the origin's receive limit, 4 MiB by default, are
// refused by it, and the log says so (TestRequestTheOriginDoesNotTake). VirtualHost and LbEndpoint
// have no SotW form, so an origin that speaks SotW is not asked for them. A server that ends the
// streams of one group and answers others is not left by that group, nor is one that accepts
// streams and was never lost, but answers nothing. A name that a delta server answers nothing for,
// after a switch from one that had it, stays: silence is no statement, and no audit finds it. An
// origin whose streams do not all say the same, as replicas behind one address may, drifts at each
// audit. An origin that ignores locators and sends its everything in pieces, those asked for first,
// is found out only with the first piece that has something else; what came before stays. Where `*`
// or a collection was asked by locator, it cannot be told at all. An origin that takes longer than
// 5 s to end the stream for a type goes on ending it for all (RELAY-92).
//
// # Departures from protocol.md
//
// ERR-4: a delta stream on which every version was presented may rightly stay without a response
// (DELTA-11). If it lasted longer than the longest backoff, its end is no connectivity error
// (TestQuietStreamsAreNoFailure). ERR-2: a stream that sent a message we cannot read is followed by
// a growing backoff even if it had responses. RELAY-24: after a SotW request of more than 2,000
// names the next that lists them waits for 5 us for each, two seconds at most (relay:
// TestLongListsAreListedRarely). RELAY-99: a name that a SotW origin leaves out of an answer stays
// in the request: the answer shows that such names harm nobody, and an origin that answers only if
// all it has is asked needs it there once it exists. What goes aside is what stays without any
// answer. The last names of a type stay in the request while they linger, since an empty list is a
// wildcard to many servers. RELAY-96: what was restored is asked of a SotW origin when a client
// comes for it, as RELAY-99 wants, and not at once. RELAY-92: a stream that we end over a message
// that cannot be read counts as ended by the origin, and so does one that it ends because a request
// is longer than it takes, which is RESOURCE_EXHAUSTED but no limit of a rate. An origin that has
// refused every stream for two minutes, and answered none, may do so because of one type: then one
// group accuses types all the same, for all (TestTypeThatHidesAll). What is in quarantine there is
// retried after the longest backoff, and its clients count as cut off (RELAY-8). Where no other
// type is answered, a stream that stays open without the suspects is proof enough, and a suspect
// whose own stream stays open unanswered for 16 s goes back among the others. In a group with
// sixteen types apart one that was never answered begins apart, without having ended a stream:
// clients can make such types up. A type that is asked in a service of its own needs no trial:
// there is nothing else on the stream that the origin could have ended it for, so the first such
// end puts it in quarantine (relay: TestQuarantineOnItsOwnService). RELAY-14: a bare resource of a
// type that is neither known nor configured is not nameless but named by field 1 if that reads like
// a name, so that new types work without configuration (relay: TestBareNames). RELAY-32: in SotW a
// refusal that is being held goes out early with a change of names: the same message without its
// error would accept what was refused (TestHeldRefusalGoesWithNewNames). RELAY-46: what counts as
// come back unchanged is a resource at the very version presented. Equal content under another
// version is an origin that restarted its counters.
//
// # What to read next
//
// stream.go, then write.go and read.go.
package upstream
