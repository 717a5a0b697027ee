// Package downstream speaks xDS to clients, state of the world and delta: ADS for any type URL, and
// a service for each type that has its own, answered from the table of package relay.
//
// # What it is
//
// A [Server] has one grpc.Server for each listener, with health and reflection beside discovery
// (services.go), or with REST an http.Server (rest.go, restconn.go). A stream (stream.go) is a
// reader around a session (session.go), the state machine of one client stream, which does no I/O
// and reads no clock. The reader passes requests to it (session_sotw.go, session_delta.go). Writers
// (writerpool.go) take from it what to write, in order (take.go, write.go).
//
// A session has one streamType for each type that the client asked for (streamtype.go), with one
// cursor over the states of the groups of each origin that its names belong to (route.go), and one
// plan, which says what may be written now (subscription.go, relay/plan). Names that no origin is
// ever asked for are refused (refuse.go). A response is a small head of its own and bytes that all
// clients share (response.go, codec.go).
//
//   - Another configuration: [Server.Reconfigure] ends each stream that it takes something from, or
//     that was refused what is configured now, with UNAVAILABLE: its client resumes by version. All
//     others go on, also beyond a lowered limit (reconfigure.go, TestWhoIsConcerned,
//     TestLowerLimitEndsNobody), until they need more of their node than was kept.
//   - Dedicated types, and secrets of origins that have them enabled, are asked in a group that
//     only the one stream uses (TestDedicatedType). Secrets are for clients on the same host or
//     with a verified certificate (caller.go, TestWhoGetsSecrets). Secrets by identity are for
//     clients to whom a rule allows them, and are shared in the groups of all other types
//     (RELAY-74; rights.go, TestEachIdentityHasItsOwnSecret, testdata/secrets_identity.txt).
//   - Rules (package authz) say who may ask what, from before a stream joins a group (rights.go). A
//     client that no rule fits is ended with PERMISSION_DENIED, and reports no load. A name that
//     none allows is refused, and stated absent as well. Of `*`, globs and namespaces a client is
//     sent its part (TestNobodyGetsWhatIsDenied, testdata/rules*.txt). Decisions are counted,
//     booked and logged (decisions.go, denials.go, TestAudit).
//   - A locator is a subscription of its own for each map of parameters (locate.go). Its answers
//     are messages of their own in delta, and in SotW wrapped, in one list with the plain form: a
//     client may be sent both (testdata/located*.txt). Initial versions say nothing of one
//     (DYN-20).
//   - With Config.Tiers the clients are groups of this process (node.go). No limit, rule or rate
//     applies to their streams (cmd/weir: TestTiersAreFed, TestTiersWaitAsOthers).
//   - A poll, by REST or Fetch, is a SotW session that ends with its first answer (poll.go).
//
// # Goroutines and locks
//
// Each stream has one goroutine, that of its handler, which reads (TestIdleBytes). The streams that
// have something to write share as many writers as there are processors (writerpool.go); the
// handler waits for the writer that serves its stream. One watchdog serves all streams, from the
// first Serve until Stop. A drain has one goroutine for each listener, which ends with Stop. Stop
// returns when all of them have ended (TestMain looks for leaks). The table is driven by its owner.
//
// Lock order: session, then shard. The locks of the writer pool, of arrivals and of a connection's
// churn are leaves. A session's lock is never held during a send, and nothing is logged under it.
// The server's lock is taken while no other is held, and no other is taken under it. The goroutine
// that writes to a connection holds the lock of its frames. Who locks: see package relay.
//
// # What a slow, broken or hostile client can do
//
//   - Not read: at most one response for each type waits, then changes merge
//     (TestSlowClientDelaysNobody). No stream waits for its writer (writerpool.go), or over a
//     second for a turn to be sent what is long (longsend.go). A write that is blocked for
//     send_stall ends the stream. Until then it costs what it was sent last, which may be of a
//     state that nobody else has any more (TestBadClientsHoldNothing).
//   - Not acknowledge: the next response is sent after order_hold; at most 16 are remembered.
//   - Vanish: keepalive detects it within a minute, whatever is being written, and the client's own
//     pings are not held against it (TestSilentPeerIsFound, TestClientsMayPing).
//   - Open streams with long headers: they are refused beyond 16 KiB and not kept. The peer's
//     connections are read at a limited rate then, and also if it opens many streams or sends
//     frames that carry nothing (headers.go, TestHeadersArePaced).
//   - Never speak HTTP/2: the connection is closed after 10 s (TestSilentConnections). Ask for
//     nothing: the stream ends at first_request (TestFirstRequest).
//   - Ask for too much, or with made-up parameters: limits end the stream or refuse the name, and
//     the status and a log line a minute name the limit (limit.go, TestRequestErrors).
//   - Ask in long requests: where memory is limited, a sixteenth of it is for those that are
//     decoded and applied, peer by peer (intake.go, TestLongRequestsAreTakenIn), and an eighth for
//     what has arrived and waits, complete or not (receiving.go).
//   - Send what is small on the wire and large once decoded: a request is measured before, may need
//     four times request_bytes, and its node 2 MiB (request.go, TestBombs). Load reports and polls
//     are bounded alike (TestLoadBombs; restbound.go), and so is what JSON costs (TestRenderBombs).
//   - Come without a rule: nothing that it sends is read (TestNothingIsReadOfTheDenied).
//   - Be refused: a connection with refused streams alone is closed after a second (connection.go).
//     Names refused for lack of memory end a stream after five minutes (refuse.go).
//   - Come all at once: streams wait up to two seconds for their turn, and are refused beyond that.
//     Turns rotate among peers, and among the connections of a peer (arrivals.go, TestArrivals).
//   - Open and reset streams without end, make invalid calls, go beyond streams_per_connection, or
//     send frames that carry nothing: its connection is sent GOAWAY with ENHANCE_YOUR_CALM and
//     closed, also if it is for polls, and the next ones from its address wait a second (churn.go).
//   - Make up nodes: the table limits them by groups_per_peer (caller.go), and drops the groups of
//     those that are gone and never acknowledged (relay: TestMadeUpGroupsEnd).
//   - Make names up: the peer's next request with names waits until the rate limit allows the new
//     ones, and its long lists are applied one at a time (newnames.go, TestNewNamesTakeTurns).
//   - Send too fast: the stream is read more slowly, and no other is (TestFastClientIsReadSlowly).
//   - Claim to have come through relays that are refused upstream: its stream ends, and the lane of
//     the others is opened again at once (relay: TestRefusedWay).
//   - Send garbage: INVALID_ARGUMENT (TestEndCarriesStatus); nothing panics (FuzzRequest). Ends of
//     streams are counted by reason, with a log line for each in ten seconds (ended.go), and
//     failures at TLS with one in a minute (connection.go, TestHandshakeFailures).
//   - Stay beyond max_stream_age, or show a certificate that is revoked later, or whose authority
//     is trusted no more: its streams end, and its connection (life.go, TestStreamsEndWithTrust).
//   - NACK everything: one line for each type and second is logged (TestNackLog). NACKs are shown,
//     without the text of those of secrets (TestSecrets), and have no effect on other clients. What
//     is said ever anew has few entries in the book (nackbook.go).
//
// # Order
//
// Package relay/plan decides it. A client is brought from one state of each group to another:
// clusters, endpoints and secrets first, with nothing taken away that listeners and routes may use;
// then listeners and routes, once the clusters are acknowledged and their endpoints are there; then
// what goes (ORD-1 to 3, TestRemovalsComeLast, TestLateTypesWaitForClusters). Of the states that
// came meanwhile the newest is sent (TestNewestIsWritten). What the session adds:
//
//   - What clusters and routes that were sent need of endpoints and virtual hosts is owed, also if
//     the client asks for it later (warm.go, WARM-1 to 6, TestWarmEarly).
//   - With coalesce, changes that follow one another are sent once in each window (take.go,
//     testdata/coalesce_*.txt). Without it, too, a stream is woken once for each response of an
//     origin (relay: TestOneWake), and what comes while it is written to, or has yet to
//     acknowledge, is sent in one response (TestBusyWriterMerges).
//   - What the client lacks, since when, and what holds that back, is for people (lacks.go,
//     waits.go, TestWaits) and for the canary gate (members.go).
//
// The refusal of a name is sent with the next response of its type, or with the whole list at once
// (TestRefusalIsToldAtOnce), and that of a virtual host also as one that does not resolve
// (ALIAS-7). An empty list is sent for it only to a client that holds nothing (take.go).
//
// # Known limits
//
//   - Nothing is ordered between streams, so clients that need types in order use ADS (EC-1).
//   - Resources of v2 types are only written in order: endpoints of a v2 cluster are not sent again
//     when it changes (WARM-1), and removals of v2 clusters do not wait for v2 routes.
//   - Messages are compressed for each stream separately, by the library (codec.go).
//   - `*` cannot carry an error (ABS-12): asked by a locator with parameters at an origin that does
//     not understand them, or beyond parameter_sets_per_stream, it is counted, and nothing is sent.
//   - In SotW a grouped type has no removals. A client of locators keeps a variant beside those
//     that replaced it, which match the same parameters, until it drops the name.
//   - What is sent of one located name is one message, however long (DYN-11).
//   - A response of several origins has the identifier of the listener's own, as have refusals
//     (STREAM-10), and with version_mode origin at all of them the version of the newest response
//     in it (VER-5), otherwise that of its content. In SotW it has no heartbeats: a new TTL comes
//     with its resource.
//   - A stream that ends unread keeps its last messages in the transport until its connection ends.
//   - On a connection that was sent GOAWAY for its age the library sends no pings. A peer that dies
//     between then and the end of its streams, 0.28 of the age at most, is detected by TCP alone.
//   - Where the system has TCP_USER_TIMEOUT, grpc sets it to keepalive.timeout. If a client takes
//     nothing from its socket for so long, the connection ends before keepalive finds it dead.
//   - In delta, a client that accepted its last responses is in sync, though it refused one before.
//   - A client that does not read its refusals costs their names, up to limits.names_per_stream,
//     and all together an eighth of memory where that is limited (TestUntoldRefusals).
//   - A request is received whole before our code sees it. What is on its way is bounded by
//     limits.request_bytes for each stream, not by limits.memory: set it low where memory is.
//   - A name at another origin whose way was refused (RELAY-87) stays so as long as the stream.
//   - A stream beyond limits.streams_per_connection waits in the client or is reset, in no metric.
//   - Clients behind one address, without certificates, share the pace of new streams: beyond a
//     burst of 256, a connection that opens one is read up to 2 s later, with all that is on it.
//     They share limits.new_names_per_second: one that waits for it beyond first_request ends.
//   - A connection of which some streams are served stays, however many others are refused.
//   - A client's node is its own claim. An origin that trusts it gives a client with a certificate
//     the secrets of any node that it claims to be.
//
// # Departures from the rules
//
//   - REST-6: for types that are not sent whole, the answer at rest_wait has what is known by then.
//     A name that the origin is silent about would keep back all others.
//   - REST-9: a resource that has no JSON is left out of a poll's answer where that deletes nothing
//     at the client, with a header, log line and count. A client that may hold it is answered 500.
//   - RELAY-97: what an origin lacks in its first answers after a reconnect stays for 3 times
//     firm_settle, however few resources those are. A control plane that comes back half-ready
//     would take the one cluster of a sidecar away (relay/testdata/guard_few.txt).
//   - RELAY-4: a name that lingered at a SotW origin, and of which the open stream says nothing for
//     15 s, is served with what lingers, if the type is not sent whole: an origin that sent it on
//     the stream may stay silent, and has no word for what is gone (relay/lapse.go).
//   - REST-2 applies to Fetch as well, and not TRANS-4, which is about streams.
//   - EC-2: with coalesce a client may be behind by that much more than a second, at each such hop.
//   - ERR-7: limits apply to the process, not to each listener, since they protect the process.
//   - RELAY-39 wants no linger for a name known absent. The absence of a name that had existed
//     lingers, or a client that was away meanwhile would never be sent it
//     (relay/testdata/absence_away.txt). Guessed names, which are the rule's reason, do not linger.
//     One that is polled does if only a SotW origin's silence says that there is none, or each poll
//     would wait for that anew (relay/testdata/polls_absent.txt).
//   - RELAY-8: a whole SotW list states no error for the names that wait, since it would state that
//     everything else is gone. ABS-9: nor has it the error of a name that it lists (ABS-11).
//   - RELAY-74: a SotW client that may not have secrets is sent nothing, since a response would
//     state that there are none (SOTW-9). The origin sees the client's node, and in it the identity
//     where relay.OriginConfig.IdentityTo says so. By identity, a group key that does not contain
//     the identity will do where a rule names it: the rule says who shares the secret.
//   - RELAY-75: with cache.snapshot.key_file secrets by identity are written to disk, encrypted,
//     and restored: without them an Envoy that starts during an outage has no certificate. What was
//     restored stays without clients until the origin has confirmed it (relay/restore.go).
//   - RELAY-20, ALIAS-6: where `*` of virtual hosts is wanted beside a namespace, both are asked on
//     the main lane, and a host that comes for one counts for both. A virtual host whose name is
//     the namespace itself, without a slash, belongs to it.
//   - RELAY-62: a dedicated stream presents the client's own id and cluster even where the origin's
//     are fixed, which is the purpose of such a stream.
//   - NONCE-12: an empty nonce with equal names, too, begins the type again, if the client has
//     repeated a nonce of the stream before. tonic-xds sends nothing when its last name goes: a
//     channel that is closed and opened again asks for the same names. One that never repeated a
//     nonce may only have asked twice, or never send one: answering each would have no end.
//   - ORD-2: Runtime and unknown types, without references, neither wait nor are waited for. On a
//     stream without listeners and routes clusters come and go in one response, as nothing on it
//     refers to them. If routes are written without the ACK of clusters, endpoints that they do not
//     use any more may go before their cluster, which goes after that ACK.
//   - ORD-3: a kept cluster also stays, for order_hold, while what was pending waits for a verdict.
//   - STREAM-4: a later node without dynamic parameters removes none if it has no user agent name
//     either. It is a thinner node (RELAY-94), and the stream would end for it again and again.
//   - DELTA-11, RELAY-43: a client that comes back with the current version of a resource with a
//     TTL is sent the remaining TTL, in delta as a heartbeat, in SotW with the list. It may have
//     missed one, and would drop a resource that is still valid (relay/testdata/ttl_resume.txt).
//   - RELAY-48: a heartbeat whose expiry is less than 10 ms from the known one is not passed on. In
//     SotW a heartbeat of one listener repeats those of all, each one more at the next hop.
//   - DYN-9: at a SotW origin the variant that came last wins over those that its response does not
//     list. A removal cannot be stated in any other way, and a replica that connected later would
//     know no other (relay: TestStoreSplit).
//   - DYN-13: if a variant is not confirmed on a new stream, a removal of the plain name counts as
//     its own if nothing else comes for 15 s: no one could name it any more (relay/silence.go).
//   - DYN-1, WILD-2: at an origin with locators the empty map is sent as a locator, too, and so is
//     `*`. A plain name would be answered without the constraints of the variant, and be taken for
//     a variant that every map matches (DYN-16, DYN-12).
//   - RELAY-69, RELAY-71: parameter maps do not share upstream subscriptions, and there is no
//     setting for it. Each map is asked for itself (RELAY-68), so RELAY-70 applies without share.
//   - RELAY-96: a wildcard client with initial versions is sent nothing of a restored set until
//     that is confirmed, not even names that it lacks: they may have been deleted before it came
//     back. Silence for firm_settle confirms only what was presented to the origin. Otherwise a set
//     takes the longest pause of RELAY-6, and a name is held back until the origin speaks of it, or
//     for 15 s where a list waits for it. An answer confirms a set once the pause of RELAY-6 after
//     it has passed, and a name that it speaks of at once. A name that a SotW client adds to its
//     first list is served, since the client did not hold it (relay/testdata/restored*.txt,
//     TestWorld). Random plays found rollbacks with the rule as it is worded.
//   - ALIAS-5: the statement that an alias does not resolve has a version, a new one each time.
//     Envoy 1.37 takes the same one for a heartbeat, and the next request for the host waits for
//     ever. A virtual host without payload and aliases is sent as any absence is, since Envoy
//     refuses a response with it. Envoy asks again, and is answered in the form of ALIAS-10.
//   - RELAY-25: if a body that came by an alias after the set's is removed, the set's body does not
//     replace it while it lists the alias, since the set is behind
//     (relay/testdata/hosts_older.txt).
//   - STREAM-8: a client's half-close ends the stream, since it cannot acknowledge any more.
//   - A request of over twice limits.request_bytes is refused with grpc's message, without the key.
//
// # Who imports it
//
// Packages cmd/weir, cmd/weir/admin and cmd/weir/csds.
//
// # What to read next
//
// stream.go, writerpool.go, longsend.go, session.go, node.go, subscription.go, take.go, write.go,
// and waits.go for why a stream waits. testdata/*.txt reads as conversations. world_test.go plays
// streams at random and judges every response.
package downstream
