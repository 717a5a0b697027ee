// Package downstream speaks xDS to clients, state of the world and delta: ADS for any type URL, and
// a service for each type that has its own, answered from the table of package relay.
//
// # What it is
//
// A [Server] has one grpc.Server for each listener, with health and reflection beside discovery
// (services.go). A stream (stream.go) is a reader around a session (session.go): the state machine
// of one client stream, which does no I/O and reads no clock. The reader gives it requests
// (session_sotw.go, session_delta.go); writers (writerpool.go) take from it what to write, in order
// (order.go). A session holds one streamType for each type asked for (streamtype.go), and that one
// relay.Union: a relay.Sub for each origin its names belong to. route.go divides names by origin;
// those that are never asked of any are refused (refuse.go). Responses are a small head of their
// own and bytes that all clients share (response.go, codec.go). Long compressed messages are
// inflated one at a time, peer by peer (inflate.go).
//
// # Another configuration
//
// [Server.Reconfigure] gives listeners, and the streams that are open, other settings. A stream
// that was served from what is no longer in force, or was refused what somebody answers for by now,
// is concerned: it ends with UNAVAILABLE, and its client resumes by version. All others go on
// (TestWhoIsConcerned, TestReconfigure), also beyond a limit that was lowered
// (TestLowerLimitEndsNobody). A stream that begins to ask for what needs more of its node than was
// remembered ends, too (TestNodeThatIsMissing).
//
// # Dedicated types and secrets
//
// Types that a listener makes dedicated, and secrets of origins that have them enabled, are asked
// in a group that is the stream's alone (TestDedicatedType). Secrets are for clients on this host,
// by the connection and not by the listener's address, and for those with a verified certificate
// (caller.go, TestWhoGetsSecrets). What a client says of a secret it refuses is not kept, since it
// may quote it (TestSecrets). The node is the client's own word: an origin that goes by it gives a
// client with a certificate the secrets of any node that the client says to be.
//
// # Dynamic parameters
//
// A locator is a subscription of its own for each map of parameters (locate.go), and is told in
// located form: with the constraints of the variant, in delta in a message apart from what is told
// in plain form, and in SotW wrapped, in one list with it, so that who asks for one resource
// without constraints in both forms is sent both (testdata/located*.txt). Plain names have the
// parameters that the origin's configuration takes from the node, and that the node states of the
// type (TestDefaultParameters). At an origin that understands none, locators with parameters are
// refused one by one, or served without them if it is so configured (testdata/located_without.txt).
// A refusal, an error and an absence tell by constraints for which parameters it is: those of the
// locator, as "equals" of each, and "not exists" of keys that only other locators of the
// stream-type have (a refusal: the former alone). The protocol has no better place for it, and a
// bare name would say it of variants that the client has. initial_resource_versions cannot tell
// variants (DYN-20): what they say of a name that comes with a locator is not believed.
//
// # Polls
//
// A listener with REST has an http.Server instead (rest.go), whose connections are greeted and
// followed as those of grpc are (restconn.go); all others have the unary Fetch
// methods (fetch.go). A poll is a session in state of the world that ends with its first answer,
// which waits until all is known that was asked for (poll.go, TestPoll, TestPollOfTheUnknown), or
// until something changes (TestPollHold). It counts as a stream. What it asked for lingers, as if
// it had been acknowledged (TestPollLingers): whoever makes up nodes is bounded by groups_per_peer
// alone. JSON is made once for all who are sent the same (restjson.go, TestManyPollers), and what
// has no descriptor has none (TestPollWithoutDescriptor).
//
// # Goroutines and who owns them
//
// One for each stream: the handler's, which reads (TestIdleBytes). The streams that have something
// to write share as many writers as there are processors, which are there while any has, look after
// one stream at a time, and are replaced when they may have to wait (writerpool.go); the handler
// waits for the one that looks after its stream. One watchdog for all streams, from the first
// Serve until Stop. In a drain one for each listener, which ends with Stop. Stop returns when all
// of them have ended (TestMain looks for leaks). Nothing else runs here: the table is driven by
// its owner.
//
// # Lock order
//
// Session, then shard; those of the writer pool, of arrivals and of a connection's churn are
// leaves. A session's lock is never held during a send, and nothing is logged under it. The
// server's lock is taken with no other held, and none is taken under it. A connection's frames
// have a lock that is held during a write, by whoever writes anyway.
//
// # Who locks
//
// As in package relay: an unexported function or method that touches what a lock guards runs with
// it held by its caller, and one that locks by itself says so in its doc comment. Exported ones
// lock what they need.
//
// # What a slow, broken or hostile client can do
//
//   - Not read: at most one response per type waits, then changes merge in the table
//     (TestSlowClientDelaysNobody); nobody waits for the writer that waits for it
//     (TestStuckClientsHoldNoPlaces), nor for one whose stream is busy
//     (TestBusyReadersHoldNoPlaces). A write blocked for send_stall ends the stream
//     (TestEndsBlockedStream); so does lagging behind more removals than are kept (TestLagging).
//   - Not answer: the next response goes after order_hold, and 16 unanswered ones are remembered
//     (TestUnansweredAreBounded).
//   - Vanish: keepalive finds it within a minute, whatever is being written to it
//     (TestSilentPeerIsFound; cmd/weir: TestBlackHoledPeers, TestTCPKeepalive). Its own pings are
//     not held against it (TestClientsMayPing, TestPingsArriveEarly).
//   - Open streams with long headers: they are refused beyond 16 KiB (TestLongHeaders), are not
//     kept (TestHeadersAreNotKept), and have the peer's connections read at a pace
//     (TestHeadersArePaced).
//   - Connect and not get as far as HTTP/2: the connection is closed after 10 s
//     (TestSilentConnections).
//   - Grow old: with max_stream_age its connection is sent GOAWAY, and then its streams end
//     (TestMaxStreamAge, TestLateStreamsGoWithTheirConnection).
//   - Ask for nothing: the stream ends at first_request (TestFirstRequest). Ask for too much:
//     limits end the stream, or refuse the name, and are named in the status (TestStreamLimit,
//     TestIdentities, TestRequestLimit, TestRequestErrors, TestRefusedNames, TestManyTypes,
//     TestDenied); one line of log for each limit and minute. Make up parameters: the names with
//     them are refused (TestParameterSets, TestParameterSetsOfGroup, TestTooManyParameters).
//   - Ask in long requests, all at once: where memory is limited, as many are decoded and taken in
//     at a time as a sixteenth of it holds, peer by peer (TestIntake, TestIntakeGoesRoundByPeer,
//     TestLongRequestsAreTakenIn, the schedules "memory capped" of cmd/weir/chaos).
//   - Be refused: a connection that has only refused streams is closed after a second, so that a
//     load balancer behind which the client found a full replica chooses anew
//     (TestRefusedClientsAreLetGo, TestHalfAClient). A stream on which names were refused for want
//     of room ends after five minutes, since the client would not ask for them again.
//   - Come all at once: streams wait up to two seconds for their turn, and are refused beyond that
//     (TestArrivals, TestArrivalsEnd). Turns go round by peer, and of a peer by connection
//     (TestTurns).
//   - Open and reset streams without end: it takes no turns from others
//     (TestResetStreamsStarveNobody), and its connection is sent GOAWAY with ENHANCE_YOUR_CALM and
//     closed (churn.go, TestEnhanceYourCalm, TestCalmClientsAreLeftAlone). So is one with calls
//     that are none, with streams beyond streams_per_connection, and with frames that carry nothing
//     (TestFaultsAreCalmed, TestRefusedStreamsAreCounted, TestChatterIsCalmed). New connections of
//     its address wait for a second before they are greeted, for a while
//     (TestCalmedPeersAreGreetedLater). All that holds for connections of polls as well, whose
//     requests are counted one by one with HTTP/1.1 (restconn.go, TestRESTFaultsAreCalmed,
//     TestRESTChatterIsCalmed, TestRESTOneByOneIsCalmed, TestRESTHeadersArePaced).
//   - Make up nodes: what groups_per_peer refuses of them, and that no group is left of the rest
//     when nothing was acknowledged in it, is the table's (relay: TestGroupsPerPeer,
//     TestMadeUpGroupsEnd; caller.go says who is a peer).
//   - Make names up: the peer's next request with names waits until those are paid for that nobody
//     asked for before (TestNewNamesArePaced), and its long lists are taken in one at a time
//     (TestNewNamesTakeTurns).
//   - Send too fast: the stream is read more slowly, and no other (TestFastClientIsReadSlowly).
//   - Claim to have come through relays that are refused upstream: its stream ends, and the others'
//     lane comes back at once (relay: TestRefusedWay).
//   - Send garbage: INVALID_ARGUMENT (TestEndCarriesStatus); nothing panics (FuzzRequest). Ends of
//     streams are counted by why, and one of a kind is logged in ten seconds (ended.go,
//     TestEndsAreCounted).
//   - Fail at TLS: counted by why, and one of a kind is logged in a minute (handshake.go,
//     TestHandshakeFailures).
//   - Refuse everything: one line of log for each type and second (TestNackLog), counted and shown;
//     nobody else is told.
//
// # Order
//
// Types are taken in the reverse of ORD-1 and written in its order; what is newer than a waiting
// change of an earlier type is held back (TestOrderExhaustively, TestForwardWalkOvertakes). Who
// waits for whom, and until when:
//
//   - A type waits for the answer to its last response, order_hold at most (NONCE-10,
//     TestOneInFlight). Clusters do not, if endpoints that a written Cluster needs came after them:
//     Envoy withholds the answer until it has those (testdata/ads_warming_unanswered.txt;
//     conformance: clustersWarm).
//   - Any type waits for a change of an earlier type that came before it, for as long as that
//     waits.
//   - A listener or a route waits for the verdict on the Cluster responses that were written before
//     it, and for the endpoints of their new clusters (TestLateTypesWaitForClusters,
//     TestRoutesWaitForEndpoints), and for none that is written later. The wait ends order_hold
//     after the update came. Then every earlier type with a change as old goes with it, in one
//     batch and in order, also one whose last response is unanswered (ORD-5,
//     TestRoutesWaitUntaken). So no client starves while something changes all the time
//     (TestProgress).
//   - One wait is longer, twice order_hold at most: for endpoints that the client asks for by name,
//     of Clusters that went meanwhile though those before them were unanswered. Envoy withholds its
//     answer while the endpoints of any cluster never come, and has just got the new cluster when
//     order_hold of the route to it ends (testdata/ads_clusters_unanswered.txt; .ci/real: hollow).
//   - A listener or a route waits for the first set of an earlier type to settle
//     (TestSettlingHoldsLateTypes), and leaves as it is by then (TestWaitingRoutesAreCurrent). The
//     wait ends when the origin has been silent about the set for cold_wait, which the table knows:
//     for whoever comes later it has ended already (ORD-8, TestSilentSetHoldsNothing). The time of
//     ORD-5 begins after it.
//   - Removals come last (removals.go), and not at once to a delta client that comes back and holds
//     clusters (TestRemovalsWaitForWhoComesBack).
//
// A Cluster or ClusterLoadAssignment that the client has by name is not taken from it at once
// (ORD-10, swap.go, testdata/ads_swap*.txt; cmd/weir/e2e: TestClusterSwap). The hold begins with
// the removal even if no Listener or route is pending: the route of the same change may come after
// it. It ends when the client drops the name, or order_hold after the removal came or the last
// Listener or route was written, whichever is later, and 4 times order_hold after the removal in
// any case. In delta the removal waits. In SotW the list of Clusters keeps the last body, and of
// endpoints the error waits. Endpoints that an origin sends empty because their Cluster goes are
// kept back in either dialect (relay/emptied.go, testdata/ads_swap_emptied.txt), and those of a
// Cluster that stays are not. A stream that asks for no Listeners and routes holds nothing. While a
// Listener or a route is not confirmed that was restored, no removal of either type, or emptying,
// is told to who holds it, for cold_wait at most, and no route waits for the Listener (ORD-11,
// testdata/ads_restarted*.txt). A client in state of the world that comes back after that, or to a
// restored weir, keeps what went as well, if its version shows that it holds it (relay/comeback.go,
// testdata/ads_restarted_sotw.txt).
//
// A name that is refused is told so with the next response of its type; where a list is sent whole,
// that is all of it, at once, since an error alone would delete the rest (TestRefusalIsToldAtOnce,
// testdata/origins_refused.txt). An empty list is sent for it to who holds nothing, and else not
// (TestRefusedNames, testdata/sotw_refused.txt). What is left meanwhile is not told of
// (TestRefusalsOfNamesThatLeft). A virtual host that is refused is also told as one that does not
// resolve: Envoy reads no errors, and lets the request wait (ALIAS-7, TestHostsOfASotWOrigin).
//
// # Many small changes
//
// With coalesce changes that come one after the other reach a client together: the first at once,
// the others once a window (coalesce.go, TestCoalesce, testdata/coalesce_*.txt). The window is one
// stream's; streams that were told of the same change have theirs at the same time, as they would
// be written to at the same time without. Requests, first answers, what is owed and what is held
// for order do not wait (TestCoalesceNoAnswer, TestCoalesceTypes), nor does what would end the
// stream or the client's resource if it did (TestCoalesceTombstones, TestCoalesceTTL). Without it,
// too, a stream is woken once by one response of an origin (relay: TestOneWake), and what comes
// while it is being written to, or its client has yet to answer, becomes one
// (TestBusyWriterMerges).
//
// # Known limits
//
//   - Nothing is ordered between streams, so clients that are to get types in order use ADS (EC-1).
//   - Resources of v2 types (Config: V2) are written in order like those of v3, and no more: the
//     endpoints of a v2 cluster are not sent again when it changes (WARM-1), and removals of v2
//     clusters wait for no v2 routes.
//   - What is compressed is compressed for each stream anew, by the library: see compress.go for
//     what it costs.
//   - The answer to an xdstp name of an authority that no origin answers for is a resource error
//     (TestRefusedNames). `*` carries none (ABS-12): by a locator with parameters at an origin that
//     understands none, or beyond parameter_sets_per_stream, it is counted, and nothing is told.
//   - In SotW a grouped type has no removals: a client of locators keeps a variant by the side of
//     those that replaced it, which match the same parameters, until it drops the name.
//   - What is told of one located name is one message, however long (DYN-11).
//   - A response with resources of several origins has the identifier of the listener's own, and so
//     have refusals (STREAM-10). With version_mode origin it has the version of the newest response
//     that had to do with it (VER-5), if all of its origins are so configured, else that of its
//     content. Nor does it have heartbeats in SotW: a new TTL is told with the resource.
//   - A stream ended while its client does not read keeps its last messages in the transport until
//     the connection ends.
//   - On a connection that was sent GOAWAY for its age the library sends no pings: a peer that dies
//     between then and the end of its streams, 0.28 of the age at most, is found by TCP alone.
//   - Where the system has TCP_USER_TIMEOUT, grpc sets it to keepalive.timeout: a client that takes
//     nothing from its socket for that long while there is something for it is cut off by the
//     system, before keepalive would find it dead.
//   - In delta, a client counts as in sync when it accepted its last responses, though it refused
//     one before.
//   - What a refused name takes until it is told is the client's text: a client that does not read
//     its refusals costs that much, up to limits.names_per_stream; where memory is limited all
//     clients together may cost an eighth of it (TestUntoldRefusals).
//   - A request is received whole before anything of ours sees it: what is on its way is bounded by
//     limits.request_bytes for each stream, and not by limits.memory. Where that is little and
//     clients are not trusted, limits.request_bytes should be low.
//   - A name at another origin whose way was refused (RELAY-87) stays refused for the life of the
//     stream.
//   - A stream beyond limits.streams_per_connection waits in the client, or is reset by the grpc
//     library: no metric counts either.
//   - Clients behind one address, without certificates, share what limits.new_names_per_second
//     leaves them; a stream whose first request waits for it beyond first_request ends.
//   - Where some streams of a connection are served and others refused, even beyond the eighth that
//     is left for them, the connection stays.
//
// # Departures from the rules
//
//   - REST-6: of types that are not sent whole, what is known at rest_wait is told: that a name is
//     missing says nothing of it, and one that the origin is silent about would keep all others
//     from the client for ever.
//   - REST-2 holds for Fetch as well, and not TRANS-4, which is about streams.
//   - EC-2: with coalesce a client may be behind by that much more than a second, at each hop that
//     has it.
//   - ERR-7: limits hold for the process, not for each listener: what they protect is the process.
//   - RELAY-39 wants no linger for a name known absent. Package relay lets the absence of a name
//     that had existed linger: else a client that was away when its name went is never told on
//     return (relay/testdata/absence_away.txt). Guessed names, which are the rule's reason, do not
//     linger.
//   - RELAY-8: what is sent whole in SotW states no error for the names that wait, since it would
//     say that all else is gone.
//   - ABS-9: for the same reason a list that is sent whole does not tell the error of what it lists
//     (ABS-11).
//   - RELAY-74: a SotW client that may not have secrets is told nothing, as a response would say
//     that there are none (SOTW-9). No key says how a client's identity is passed on: the origin
//     sees the client's node.
//   - RELAY-20, ALIAS-6: where `*` of virtual hosts is wanted beside a namespace both are asked on
//     the main lane, and a host that comes for one counts for both. A virtual host whose name is
//     the namespace itself, without a slash, is one of it.
//   - RELAY-62: a dedicated stream presents the client's own id and cluster even where the origin's
//     are fixed: that is what it is for.
//   - NONCE-12: with equal names, too, an empty nonce begins the type anew if the client has
//     repeated a nonce of the stream before. tonic-xds says nothing when its last name goes: a
//     channel that is closed and opened again asks for the same names. Who never repeated a nonce
//     may only have asked twice, or never sends one, and an answer to each request would have no
//     end.
//   - ORD-2: what refers to nothing and is referred to by nothing, Runtime and types unknown,
//     neither waits nor is waited for.
//   - ORD-3: a kept cluster also stays while what was pending waits for an answer to an earlier
//     response, at most order_hold.
//   - STREAM-4: a later node without dynamic parameters takes none away if it has no user agent
//     name either: it is a thinner one (RELAY-94), and to end the stream for it would do so again
//     and again.
//   - DELTA-11, RELAY-43: who comes back with the current version of what has a TTL is told what is
//     left of it, in delta as a heartbeat, in SotW with the list: it may have missed one, and would
//     let go of what is still promised (relay/testdata/ttl_resume.txt).
//   - RELAY-48: a promise repeated with an end less than 10 ms from the one known is not passed on:
//     in SotW a heartbeat of one listener repeats those of all, and each would be one more at the
//     next hop.
//   - DYN-9: where an origin speaks state of the world the variant that came last wins over those
//     that its response does not list. There is no other word for a removal, and a replica that
//     came later would know the new one alone (relay/store_test.go, TestStoreSplit).
//   - DYN-13: of a variant that is not confirmed on a new stream a removal of the plain name is
//     taken for the word about its map, if nothing else comes for firm_settle: nobody could name it
//     by constraints any more (relay/stale.go).
//   - DYN-1, WILD-2: at an origin with locators the empty map goes as a locator too, and so does
//     `*`. A plain name would be answered without the constraints of the variant that it is, and be
//     taken for what every map matches (DYN-16, DYN-12).
//   - RELAY-69: with an origin that speaks state of the world nothing is shared of grouped types:
//     that a variant went is never said there.
//   - RELAY-96: a wildcard client with initial versions is told nothing of a restored set until
//     that is confirmed, also of names that it lacks: they may have been deleted before it came
//     back. Only what the origin was told that we hold is confirmed by silence of firm_settle;
//     silence about anything else says nothing of it, so a set then takes the longest pause of
//     RELAY-6, and a name is held back until the origin speaks of it, or for 15 s where a list
//     waits for it. An answer confirms a set once the pause of RELAY-6 after it has passed, and a
//     name it speaks of at once. A name that a SotW client adds to its first list is served: it did
//     not hold it. relay/testdata/restored*.txt, and TestConvergence in relay, which found
//     rollbacks in the words of the rule.
//   - ALIAS-5: the word that an alias does not resolve has a version, another one each time it is
//     told: Envoy 1.37 takes the same one for a heartbeat, and the next request for the host waits
//     for ever.
//   - ALIAS-5: a payload-less virtual host without aliases is told as any absence is, since Envoy
//     refuses a response with it. It asks again, and is answered in the form of ALIAS-10.
//   - RELAY-25: a body by an alias that was received later than the set's, and is gone, is not
//     replaced by the set's as long as that lists the alias: the set is behind
//     (relay/testdata/hosts_older.txt).
//   - STREAM-8: a client's half-close ends the stream, since it cannot acknowledge any more.
//   - A request more than twice as long as limits.request_bytes is refused in grpc's words, which
//     do not name the key.
//
// # What to read next
//
// stream.go, writerpool.go, session.go, node.go, order.go, removals.go; testdata/*.txt reads as
// conversations; then the tests order_test.go and model_test.go, where streams are played at random
// and every response is judged.
package downstream
