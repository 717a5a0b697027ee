// Package downstream speaks xDS to clients, state of the world and delta: ADS for any type URL, and
// a service for each type that has its own, answered from the table of package relay.
//
// # What it is
//
// A [Server] has one grpc.Server for each listener, with health and reflection beside discovery
// (services.go). A stream (stream.go) is a reader around a session (session.go). The session is the
// state machine of one client stream. It does no I/O and reads no clock. The reader passes requests
// to it (session_sotw.go, session_delta.go). Writers (writerpool.go) take from it what to write, in
// order (order.go, release.go). A session has one streamType for each type that the client asked
// for (streamtype.go). A streamType has one relay.Union, which has a relay.Sub for each origin that
// its names belong to. route.go divides names by origin. Names that no origin is ever asked for are
// refused (refuse.go). A response is a small head of its own and bytes that all clients share
// (response.go, codec.go). Long compressed messages are inflated one at a time, peer by peer
// (inflate.go).
//
// # Another configuration
//
// [Server.Reconfigure] gives other settings to listeners and to the streams that are open. A stream
// is affected if what served it is no longer configured, or if it was refused what is configured by
// now. It ends with UNAVAILABLE, and its client resumes by version. All other streams go on
// (TestWhoIsConcerned, TestReconfigure), also beyond a limit that was lowered
// (TestLowerLimitEndsNobody). A stream ends, too, if it begins to ask for something that needs more
// of its node than was remembered (TestNodeThatIsMissing).
//
// # Dedicated types and secrets
//
// Types that a listener makes dedicated, and secrets of origins that have them enabled, are asked
// in a group that only the one stream uses (TestDedicatedType). Secrets are for clients on the same
// host, judged by the connection and not by the listener's address, and for clients with a verified
// certificate (caller.go, TestWhoGetsSecrets). The text of a client's NACK of a secret is not kept,
// since it may quote the secret (TestSecrets). The node is the client's own claim. An origin that
// trusts it gives a client with a certificate the secrets of any node that the client claims to be.
//
// Secrets by identity are shared in the groups of all other types (RELAY-74). They are for clients
// with an identity, and by the rules. Where a group may have several identities, a rule has to name
// the client's: by a part of it in the pattern of names that allows the name, or by being for that
// identity alone (rights.go, testdata/secrets_identity.txt). In groups by identity any rule does,
// and each identity has its own secret of one name (TestEachIdentityHasItsOwnSecret).
//
// # Rules
//
// A server may have rules of who may ask what (package authz). What a client may have is found when
// its node is known, and before its stream joins a group (rights.go). A client that no rule fits is
// ended with PERMISSION_DENIED. A name that none allows is refused, and stated absent as well. Of
// `*`, globs and namespaces a client is sent its part (TestNobodyGetsWhatIsDenied,
// testdata/rules*.txt). A client that may have something else by other rules has its stream ended
// at once (testdata/rules_reload.txt, TestRulesOfALiveServer). What the rules set is put into the
// node before its group is found, and over the parameters of plain names (testdata/rules_set.txt).
// A client that no rule fits reports no load. Clients that may have the same have one permit
// (permits.go).
//
// What the rules decide is added up in the session, and counted, booked and logged once for each
// request after it is unlocked (decisions.go, TestDecisionsOnRequests, TestAudit). What was denied
// is kept in bounded room (denials.go, TestDenialsAreBounded).
//
// # Dynamic parameters
//
// A locator is a subscription of its own for each map of parameters (locate.go), and is answered in
// located form: with the constraints of the variant. In delta these answers are messages of their
// own. In SotW they are wrapped, in one list with the plain form. So a client that asks for one
// resource without constraints in both forms is sent both (testdata/located*.txt). Plain names have
// the parameters that the origin's configuration takes from the node, and those that the node
// states for the type (TestDefaultParameters). At an origin that does not understand parameters,
// locators with parameters are refused one by one, or served without them if that is configured
// (testdata/located_without.txt). Refusals, errors and absences have constraints that say for which
// parameters they are: "equals" for each parameter of the locator, and, except in refusals, "not
// exists" for keys that only other locators of the stream-type have. The protocol has no better
// place for that, and a bare name would concern variants that the client has.
// initial_resource_versions cannot distinguish variants (DYN-20), so what they state of a name that
// comes with a locator is ignored.
//
// # Tiers
//
// With Config.Tiers the clients are groups of this process, whose own clients were judged and
// admitted where they came in (tiers.go). No limit, rule or rate applies to their streams, and no
// stream ends because the origin is out of reach (cmd/weir: TestTiersAreFed,
// TestTiersWaitAsOthers).
//
// # Polls
//
// A listener with REST has an http.Server instead (rest.go). Its connections are accepted and
// watched like those of grpc (restconn.go). All other listeners have the unary Fetch methods
// (fetch.go). A poll is a SotW session that ends with its first answer. The answer waits until
// everything is known that was asked for (poll.go, TestPoll, TestPollOfTheUnknown), or until
// something changes (TestPollHold). A poll counts as a stream. What it asked for lingers as if it
// had been acknowledged (TestPollLingers), so a client that makes up nodes is bounded by
// groups_per_peer alone. JSON is made once for all clients that are sent the same (restjson.go,
// TestManyPollers). A resource without a descriptor has no JSON, and neither has one that would
// cost far more than its size (TestRenderBombs). It is left out where that deletes nothing, and the
// poll fails if the client may hold it (restleft.go, TestPollWithoutDescriptor). Before a request
// is decoded its text is bounded (restbound.go, TestPollBombs), and what does not depend on it is
// judged (TestPollIsRefusedUnparsed).
//
// # Goroutines and who owns them
//
// Each stream has one goroutine, that of its handler, which reads (TestIdleBytes). The streams that
// have something to write share as many writers as there are processors. Writers exist only while a
// stream has something to write. Each serves one stream at a time, and is replaced when it may have
// to wait (writerpool.go). The handler waits for the writer that serves its stream. One watchdog
// serves all streams, from the first Serve until Stop. A drain has one goroutine for each listener,
// which ends with Stop. Stop returns when all of them have ended (TestMain looks for leaks).
// Nothing else runs here: the table is driven by its owner.
//
// # Lock order
//
// Session, then shard. The locks of the writer pool, of arrivals and of a connection's churn are
// leaves. A session's lock is never held during a send, and nothing is logged under it. The
// server's lock is taken while no other is held, and no other is taken under it. A connection's
// frames have a lock that is held during a write, by the goroutine that writes.
//
// # Who locks
//
// As in package relay: an unexported function or method that touches what a lock guards runs with
// it held by its caller, and one that locks by itself says so in its doc comment. Exported ones
// lock what they need.
//
// # What a slow, broken or hostile client can do
//
//   - Not read: at most one response for each type waits, then changes merge in the table
//     (TestSlowClientDelaysNobody). No stream waits for the writer that waits for this client
//     (TestStuckClientsHoldNoPlaces), nor for one whose stream is busy
//     (TestBusyReadersHoldNoPlaces). A write that is blocked for send_stall ends the stream
//     (TestEndsBlockedStream). So does lagging behind more removals than are kept (TestLagging).
//   - Be slow when many are sent what is long, of more than one message: a few streams at a time
//     are, so that the first clients are whole early. One that does not read keeps its turn for a
//     quarter of a second, and none waits for a turn for more than a second (longsend.go,
//     TestLongSendsTakeTurns, TestStuckClientsHoldNoTurns).
//   - Not acknowledge: the next response is sent after order_hold, and at most 16 unacknowledged
//     ones are remembered (TestUnansweredAreBounded).
//   - Vanish: keepalive detects it within a minute, whatever is being written to the client
//     (TestSilentPeerIsFound; cmd/weir: TestBlackHoledPeers, TestTCPKeepalive). The client's own
//     pings are not counted against it (TestClientsMayPing, TestPingsArriveEarly).
//   - Open streams with long headers: they are refused beyond 16 KiB (TestLongHeaders) and not kept
//     (TestHeadersAreNotKept), and the peer's connections are read at a limited rate
//     (TestHeadersArePaced).
//   - Open many streams, or send frames that carry nothing, on however many connections: the
//     connections of the peer are read at the pace at which streams are admitted
//     (TestStreamsArePaced, TestChatterIsPaced).
//   - Connect and never speak HTTP/2: the connection is closed after 10 s (TestSilentConnections).
//   - Stay connected for long: with max_stream_age the connection is sent GOAWAY, and then its
//     streams end (TestMaxStreamAge, TestLateStreamsGoWithTheirConnection), so that clients spread
//     over replicas (TestBalance).
//   - Ask for nothing: the stream ends at first_request (TestFirstRequest).
//   - Ask for too much: limits end the stream, or refuse the name, and the status names the limit
//     (TestStreamLimit, TestIdentities, TestRequestLimit, TestRequestErrors, TestRefusedNames,
//     TestManyTypes, TestDenied). One line for each limit and minute is logged.
//   - Make up parameters: the names with them are refused (TestParameterSets,
//     TestParameterSetsOfGroup, TestTooManyParameters).
//   - Ask in long requests, many at a time: where memory is limited, only as many are decoded and
//     applied at a time as a sixteenth of it holds, peer by peer, by what they need once decoded
//     (TestIntake, TestIntakeGoesRoundByPeer, TestLongRequestsAreTakenIn, the schedules "memory
//     capped" of cmd/weir/chaos). What has arrived and waits, complete or not, takes an eighth of
//     it. Beyond that only one connection with a long request is read at a time, and those that do
//     not complete theirs are closed (receiving.go, TestReceivingIsBounded, TestReceivingGoesOn).
//   - Send what is small on the wire and large once decoded: a request is measured before it is
//     decoded, may need four times request_bytes, and its node 2 MiB (request.go, TestBombs,
//     xds.Meter). The same applies to load reports (TestLoadBombs).
//   - Come without a rule that names it: nothing that it sends is read
//     (TestNothingIsReadOfTheDenied).
//   - Be refused: a connection that has only refused streams is closed after a second. So a client
//     that a load balancer sent to a full replica is balanced again (TestRefusedClientsAreLetGo,
//     TestStreamLimitServesWholeClients). A stream on which names were refused for lack of memory
//     ends after five minutes, since the client would not ask for them again.
//   - Come all at once: streams wait up to two seconds for their turn, and are refused beyond that
//     (TestArrivals, TestArrivalsEnd). Turns rotate among peers, and among the connections of a
//     peer (TestTurns).
//   - Open and reset streams without end: this takes no turns from others
//     (TestResetStreamsStarveNobody). The connection is sent GOAWAY with ENHANCE_YOUR_CALM and
//     closed (churn.go, TestEnhanceYourCalm, TestCalmClientsAreLeftAlone). So is a connection with
//     invalid calls, with streams beyond streams_per_connection, or with frames
//     that carry nothing (TestFaultsAreCalmed, TestRefusedStreamsAreCounted, TestChatterIsCalmed).
//     For a while, new connections from its address are accepted only after a second
//     (TestCalmedPeersAreGreetedLater). All this applies to the connections of polls, too. With
//     HTTP/1.1 their requests are counted one by one (restconn.go, TestRESTFaultsAreCalmed,
//     TestRESTChatterIsCalmed, TestRESTOneByOneIsCalmed, TestRESTHeadersArePaced).
//   - Make up nodes: the table limits them by groups_per_peer, and drops the groups of the others
//     once their streams have gone, if nothing was acknowledged in them (relay: TestGroupsPerPeer,
//     TestMadeUpGroupsEnd; caller.go decides which clients are one peer).
//   - Make names up: the peer's next request with names waits until the rate limit allows the names
//     that no client had asked for before (TestNewNamesArePaced). The peer's long lists are applied
//     one at a time (TestNewNamesTakeTurns).
//   - Send too fast: the stream is read more slowly, and no other is (TestFastClientIsReadSlowly).
//   - Claim to have come through relays that are refused upstream: its stream ends, and the lane of
//     the other clients is opened again at once (relay: TestRefusedWay).
//   - Send garbage: INVALID_ARGUMENT (TestEndCarriesStatus); nothing panics (FuzzRequest). Ends of
//     streams are counted by reason, and one of each kind is logged in ten seconds (ended.go,
//     TestEndsAreCounted).
//   - Show a certificate that is revoked later, or whose authority is trusted no more: its streams
//     end, and its connection (trust.go, TestStreamsEndWithTrust, TestHandshakeBesideRecheck).
//     Connections are judged with no lock held.
//   - Fail at TLS: failures are counted by reason, and one of each kind is logged in a minute
//     (handshake.go, TestHandshakeFailures).
//   - NACK everything: one line for each type and second is logged (TestNackLog). NACKs are counted
//     and shown, and have no effect on other clients. What is said ever anew has few entries in the
//     book of rejections (nackbook.go, TestHostileClientsDoNotFillTheBook).
//
// # Order
//
// Types are taken in the reverse of the ORD-1 order, and written in its order. What is newer than a
// waiting change of an earlier type is held back (TestOrderExhaustively, TestForwardWalkOvertakes).
// These are the waits, and their ends:
//
//   - A type waits for the ACK or NACK of its last response, at most order_hold (NONCE-10,
//     TestOneInFlight). Clusters do not wait if endpoints that a written Cluster needs came after
//     them, since Envoy withholds its ACK until it has those (testdata/ads_warming_unanswered.txt;
//     conformance: clustersWarm).
//   - Any type waits for a change of an earlier type that came before it, for as long as that
//     change waits.
//   - A listener or a route waits for the ACK or NACK of the Cluster responses that were written
//     before it, and for the endpoints of their new clusters (TestLateTypesWaitForClusters,
//     TestRoutesWaitForEndpoints). It does not wait for any that are written later. The wait ends
//     order_hold after the update came. Then every earlier type with a change as old is written
//     with it, in one batch and in order, also a type whose last response is unacknowledged (ORD-5,
//     TestRoutesWaitUntaken). So no client starves while something changes all the time
//     (TestProgress).
//   - One wait is longer, at most twice order_hold: that for endpoints which the client asks for by
//     name, of Clusters that were sent meanwhile although those before them were unacknowledged.
//     Envoy withholds its ACK while the endpoints of any cluster never come. It has only just got
//     the new cluster when order_hold of the route to it ends
//     (testdata/ads_clusters_unanswered.txt; .ci/real: hollow).
//   - A listener or a route waits for the first set of an earlier type to settle
//     (TestSettlingHoldsLateTypes), and is then sent in its present form
//     (TestWaitingRoutesAreCurrent). The wait ends when the origin has been silent about the set
//     for cold_wait. The table knows that time, so for a client that comes later it has ended
//     already (ORD-8, TestSilentSetHoldsNothing). The time of ORD-5 begins after this wait.
//   - Removals come last (removals.go). To a delta client that comes back and holds clusters they
//     are not sent at once (TestRemovalsWaitForWhoComesBack).
//
// A Cluster or ClusterLoadAssignment that the client has by name is not removed at once (ORD-10,
// swap.go, testdata/ads_swap*.txt; cmd/weir/e2e: TestClusterSwap). The hold begins with the
// removal, even if no Listener or route is pending, since the route of the same change may come
// after it. It ends when the client drops the name. Otherwise it ends order_hold after the removal
// came or the last Listener or route was written, whichever is later, and in any case 4 times
// order_hold after the removal. In delta the removal waits. In SotW the list of Clusters keeps the
// last body, and the error of endpoints waits. Endpoints that an origin sends empty because their
// Cluster goes are held back in both dialects (relay/emptied.go, testdata/ads_swap_emptied.txt).
// Empty endpoints of a Cluster that stays are not. A stream that asks for no Listeners and routes
// holds nothing back.
//
// While a restored Listener or route is not confirmed, clients that hold it are sent no removal of
// Clusters or endpoints, and no emptied endpoints, for cold_wait at most. No route waits for such a
// Listener (ORD-11, testdata/ads_restarted*.txt). A SotW client that comes back after that, or to a
// restored weir, keeps removed Clusters as well, if its version shows that it holds them
// (relay/comeback.go, testdata/ads_restarted_sotw.txt).
//
// The refusal of a name is sent with the next response of its type. If a list is sent whole, that
// is the whole list, at once, since an error alone would delete the rest (TestRefusalIsToldAtOnce,
// testdata/origins_refused.txt). An empty list is sent for a refusal only to a client that holds
// nothing (TestRefusedNames, testdata/sotw_refused.txt). The refusal of a name that the client
// unsubscribes meanwhile is not sent (TestRefusalsOfNamesThatLeft). A virtual host that is refused
// is also sent as one that does not resolve: Envoy reads no errors, and lets the request wait
// (ALIAS-7, TestHostsOfASotWOrigin).
//
// # Many small changes
//
// With coalesce, changes that follow one another reach a client together: the first at once, the
// others once in each window (coalesce.go, TestCoalesce, testdata/coalesce_*.txt). Each stream has
// a window of its own. Streams that were sent the same change have their windows at the same time,
// since without coalesce they would be written to at the same time, too. Requests, first answers,
// owed names and what is held back for order do not wait (TestCoalesceNoAnswer, TestCoalesceTypes).
// Nor does anything that would end the stream, or expire at the client, if it waited
// (TestCoalesceTombstones, TestCoalesceTTL). Without coalesce, too, a stream is woken once for each
// response of an origin (relay: TestOneWake). What comes while it is being written to, or while its
// client has yet to acknowledge, is sent in one response (TestBusyWriterMerges).
//
// # Known limits
//
//   - Nothing is ordered between streams, so clients that need types in order use ADS (EC-1).
//   - Resources of v2 types (Config: V2) are written in order like those of v3, and no more: the
//     endpoints of a v2 cluster are not sent again when it changes (WARM-1), and removals of v2
//     clusters do not wait for v2 routes.
//   - Compressed messages are compressed for each stream separately, by the library; compress.go
//     says what that costs.
//   - The answer to an xdstp name of an authority that no origin answers for is a resource error
//     (TestRefusedNames). `*` cannot carry an error (ABS-12). If it is asked by a locator with
//     parameters at an origin that does not understand them, or beyond parameter_sets_per_stream,
//     it is counted, and nothing is sent.
//   - In SotW a grouped type has no removals. A client of locators keeps a variant beside those
//     that replaced it, which match the same parameters, until it drops the name.
//   - What is sent of one located name is one message, however long (DYN-11).
//   - A response with resources of several origins has the identifier of the listener's own origin,
//     and so have refusals (STREAM-10). With version_mode origin it has the version of the newest
//     response that had a part in it (VER-5), if all of its origins are so configured, and
//     otherwise that of its content. In SotW such a response has no heartbeats: a new TTL is sent
//     with the resource.
//   - A stream that ends while its client does not read keeps its last messages in the transport
//     until the connection ends.
//   - On a connection that was sent GOAWAY for its age the library sends no pings. A peer that dies
//     between then and the end of its streams, 0.28 of the age at most, is detected by TCP alone.
//   - Where the system has TCP_USER_TIMEOUT, grpc sets it to keepalive.timeout. If a client takes
//     nothing from its socket for that long while data is waiting for it, the system ends the
//     connection before keepalive would find the client dead.
//   - In delta, a client counts as in sync when it accepted its last responses, although it refused
//     one before.
//   - Until the refusal of a name is sent, the client's text of the name is kept. A client that
//     does not read its refusals costs that much, up to limits.names_per_stream. Where memory is
//     limited, all clients together may cost an eighth of it (TestUntoldRefusals).
//   - A request is received whole before our code sees it. What is on its way is bounded by
//     limits.request_bytes for each stream, and not by limits.memory. Where memory is small and
//     clients are not trusted, limits.request_bytes should be low.
//   - A name at another origin whose way was refused (RELAY-87) stays refused for the life of the
//     stream.
//   - A stream beyond limits.streams_per_connection waits in the client, or is reset by the grpc
//     library. No metric counts either.
//   - Clients behind one address, without certificates, share the pace of new streams. Beyond a
//     burst of 256 streams a connection that opens one is read later, with all that is on it, up to
//     2 s.
//   - Clients behind one address, without certificates, share what limits.new_names_per_second
//     allows them. A stream whose first request waits for it beyond first_request ends.
//   - If some streams of a connection are served and others refused, the connection stays, even if
//     more are refused than the eighth that is left for them.
//
// # Departures from the rules
//
//   - REST-6: for types that are not sent whole, the answer at rest_wait has what is known by then.
//     A missing name states nothing of that name, and one that the origin is silent about would
//     keep all others from the client for ever.
//   - REST-9: a resource that has no JSON is left out of a poll's answer where that deletes nothing
//     at the client, with a header, a log line and a count, so that the others of its type are
//     sent. A client that may hold it is answered 500 (restleft.go).
//   - RELAY-97: what an origin lacks in its first answers after a reconnect stays for 3 times
//     firm_settle, however few resources those are. A control plane that comes back half-ready
//     would take the one cluster of a sidecar away (relay/testdata/guard_few.txt).
//   - RELAY-4: a name that lingered at a SotW origin, and of which the open stream says nothing for
//     15 s, is served with what lingers, if the type is not sent whole: an origin that has sent
//     this content on the stream may stay silent, and has no word for what is gone (relay,
//     lapse.go).
//   - REST-2 applies to Fetch as well, and not TRANS-4, which is about streams.
//   - EC-2: with coalesce a client may be behind by that much more than a second, at each hop that
//     has it.
//   - ERR-7: limits apply to the process, not to each listener, since what they protect is the
//     process.
//   - RELAY-39 wants no linger for a name known absent. Package relay lets the absence of a name
//     that had existed linger. Otherwise a client that was away when its name was removed would
//     never be sent that on return (relay/testdata/absence_away.txt). Guessed names, which are the
//     rule's reason, do not linger. One that is polled does if only a SotW origin's silence says
//     that there is none: each poll would wait for that anew (relay/testdata/polls_absent.txt).
//   - RELAY-8: a whole SotW list states no error for the names that wait, since it would state that
//     everything else is gone.
//   - ABS-9: for the same reason a whole list does not have the error of a name that it lists
//     (ABS-11).
//   - RELAY-74: a SotW client that may not have secrets is sent nothing, since a response would
//     state that there are none (SOTW-9). The origin sees the client's node, and in it the client's
//     identity where relay.OriginConfig.IdentityTo says so. By identity, a group key that does not
//     contain the identity will do where a rule names it: the rule says who shares the secret.
//   - RELAY-75: with cache.snapshot.key_file secrets by identity are written to disk, encrypted,
//     and restored: without them an Envoy that starts during an outage has no certificate. What was
//     restored stays without clients until the origin has confirmed it (relay, restore.go).
//   - RELAY-20, ALIAS-6: where `*` of virtual hosts is wanted beside a namespace, both are asked on
//     the main lane, and a host that comes for one counts for both. A virtual host whose name is
//     the namespace itself, without a slash, belongs to it.
//   - RELAY-62: a dedicated stream presents the client's own id and cluster even where the origin's
//     are fixed, which is the purpose of such a stream.
//   - NONCE-12: an empty nonce with equal names, too, begins the type again, if the client has
//     repeated a nonce of the stream before. tonic-xds sends nothing when its last name goes: a
//     channel that is closed and opened again asks for the same names. A client that never repeated
//     a nonce may only have asked twice, or may never send one, and answering each of its requests
//     would have no end.
//   - ORD-2: Runtime and unknown types, which refer to nothing and to which nothing refers, neither
//     wait nor are waited for.
//   - ORD-3: a kept cluster also stays while what was pending waits for the ACK or NACK of an
//     earlier response, at most order_hold.
//   - STREAM-4: a later node without dynamic parameters removes none if it has no user agent name
//     either. It is a thinner node (RELAY-94), and ending the stream for it would be repeated again
//     and again.
//   - DELTA-11, RELAY-43: a client that comes back with the current version of a resource with a
//     TTL is sent the remaining TTL, in delta as a heartbeat, in SotW with the list. It may have
//     missed a heartbeat, and would drop a resource that is still valid
//     (relay/testdata/ttl_resume.txt).
//   - RELAY-48: a heartbeat whose expiry is less than 10 ms from the known one is not passed on. In
//     SotW a heartbeat of one listener repeats those of all, and each would be one more at the next
//     hop.
//   - DYN-9: at a SotW origin the variant that came last wins over those that its response does not
//     list. A removal cannot be stated in any other way, and a replica that connected later would
//     know the new variant alone (relay/store_test.go, TestStoreSplit).
//   - DYN-13: if a variant is not confirmed on a new stream, a removal of the plain name counts as
//     that of the variant if nothing else comes for firm_settle: no one could name it by
//     constraints any more (relay/stale.go).
//   - DYN-1, WILD-2: at an origin with locators the empty map is sent as a locator, too, and so is
//     `*`. A plain name would be answered without the constraints of the variant, and be taken for
//     a variant that every map matches (DYN-16, DYN-12).
//   - RELAY-69: at a SotW origin nothing is shared of grouped types, since such an origin never
//     states that a variant is gone.
//   - RELAY-70: the cold_wait of a map that shared a subscription counts from the question for the
//     map, on a stream that stays open. Counted from the removal it would pass in an outage, and
//     the map would lose what the origin had no chance to speak of (RELAY-2, RELAY-8).
//   - RELAY-96: a wildcard client with initial versions is sent nothing of a restored set until
//     that is confirmed, not even names that it lacks: they may have been deleted before it came
//     back. Silence for firm_settle confirms only what was presented to the origin. For anything
//     else it means nothing, so a set then takes the longest pause of RELAY-6, and a name is held
//     back until the origin speaks of it, or for 15 s where a list waits for it. An answer confirms
//     a set once the pause of RELAY-6 after it has passed, and a name that it speaks of at once. A
//     name that a SotW client adds to its first list is served, since the client did not hold it.
//     See relay/testdata/restored*.txt, and TestConvergence in relay, which found rollbacks with
//     the rule as it is worded.
//   - ALIAS-5: the statement that an alias does not resolve has a version, a new one each time it
//     is sent. Envoy 1.37 takes the same version for a heartbeat, and the next request for the host
//     waits for ever.
//   - ALIAS-5: a virtual host without payload and aliases is sent as any absence is, since Envoy
//     refuses a response with it. Envoy asks again, and is answered in the form of ALIAS-10.
//   - RELAY-25: if a body that came by an alias after the set's is removed, the set's body does not
//     replace it as long as it lists the alias, since the set is behind
//     (relay/testdata/hosts_older.txt).
//   - STREAM-8: a client's half-close ends the stream, since the client cannot acknowledge any
//     more.
//   - A request more than twice as long as limits.request_bytes is refused with grpc's message,
//     which does not name the key.
//
// # Who imports it
//
// Packages cmd/weir, cmd/weir/admin and cmd/weir/csds.
//
// # What to read next
//
// stream.go, writerpool.go, longsend.go, session.go, node.go, order.go, release.go, removals.go,
// and waits.go for why a stream waits: each deadline and each hold has a reason. testdata/*.txt
// reads as conversations. The tests order_test.go and model_test.go play streams at random and
// judge every response.
package downstream
