// Package rest is an origin that is a REST-JSON server, which is polled: "rest" in the config file.
//
// # What it is
//
// To the table an [Origin] is a state-of-the-world control plane with a stream for each type. It
// takes the lanes that the table wants ([relay.Origin.TakeLanes]); each has one type. The "stream"
// of a lane is a series of polls: POST to the path of the type (REST-1), with the node, all names,
// and the version that was last accepted. 304 changes nothing. A 200 is handled like a SotW
// response, and rejected with the next poll (REST-5).
//
// A lane is open as long as its last poll succeeded. So for the table the lane closes when the
// server fails: what was answered stays servable, and silence is not taken for absence (ERR-5).
//
// New subscriptions are polled for at once, everything else every Config.Poll, varied by a tenth. A
// version is presented only if a 304 to it is a full answer: to the server that gave it, as long as
// no name was added since, and if nothing has a TTL, which only a new body renews. Types without a
// path of their own, and those without a SotW form, cannot be asked (REST-8): the table is
// configured without them ([Types]).
//
// # What a broken server can do
//
// It cannot take away what clients hold. A poll that fails changes nothing: by the connection, by
// its status, or by a body that is too long or no DiscoveryResponse with a version or resources.
// The next poll comes after a growing pause, at another URL if there is one. Redirects could leak
// credentials, and are not followed.
//
// A resource is rejected by name if it, or a message in it, is unknown or has unknown fields
// (REST-9), if it is nested too deeply or would take far more memory than its size
// (TestAnswerBombs), or if [xds.NameFields.Accept] rejects it. The rest of the response is applied,
// and what it leaves out stays (RELAY-32). What Envoy reads beyond canonical JSON is read as well,
// and logged once (TestFormsOfEnvoy). Resources are decoded one by one, so a long response does not
// delay the end of Run (TestAnswerEnds). After several rejected responses the pause grows.
//
// # URLs
//
// URLs are in order of preference (FED-6). A URL that fails, and answers no other lane, is lost. A
// group that wants what no server has answered uses the next one at once, others once the first has
// been lost for cold_wait. One lane at a time probes a lost URL. When it answers, all use it.
//
// A server that is a relay may refuse the path of a poll (RELAY-87). If the path was a client's,
// that client's stream ends, and the server is polled again at once. Otherwise the relays form a
// loop (RELAY-88): that is counted and logged, and the URL counts as lost.
//
// # Goroutines and locks
//
// Run starts one goroutine for each lane, and one until the origin has answered, and waits for
// them. All mutexes are leaves, held for a few assignments.
//
// # Who imports it
//
// Packages cmd/weir and cmd/weir/config.
//
// # What to read next
//
// origin.go, then lane.go, request.go, response.go and servers.go.
package rest
