// Package rest is an origin that is a REST-JSON server, which is polled: "rest" in the config file.
//
// # What it is
//
// Towards the table an [Origin] is a state-of-the-world control plane with a stream for each type.
// It takes the lanes that the table wants ([relay.Origin.TakeLanes]); each carries one type. The
// "stream" of a lane is a row of polls: POST to the path of the type (REST-1), with the node, all
// names, and the version that was accepted last. 304 changes nothing. The response of a 200 is what
// a SotW response would be. A refusal of it goes out with the next poll (REST-5).
//
// A lane is open as long as its last poll succeeded. So a server that is away is away for the table
// too: what it said stays servable, and its silence is not taken for absence (ERR-5).
//
// What is wanted anew is polled for at once, everything else each Config.Poll, give or take a
// tenth. A version is presented only where a 304 says all there is to know: to the server that gave
// it, as long as no name has been added since and nothing has a TTL, which only a new body renews.
//
// Types without a path of their own, as on ADS, and those without a form in SotW are not asked
// (REST-8): whoever configures the table leaves them out ([Types]).
//
// # What a broken server can do
//
// Nothing to those who hold something. A poll that fails, by the connection, by its status, by a
// body that is no DiscoveryResponse or is longer than Config.MaxMessage, changes nothing; the next
// comes after a growing pause, where there are other URLs at one of these. A response has to say a
// version or list resources: an error page in JSON is not taken for an empty set. A resource that
// cannot be read, since its message or one within it is not known or has fields that are not known,
// is refused by name (REST-9), and so is one that [xds.NameFields.Accept] refuses; the rest of
// the response counts, and what it leaves out stays (RELAY-32). A response that is refused again
// and again is asked for after a growing pause. Redirects are not followed, since they would take
// credentials along.
//
// # URLs
//
// They are in order of preference (FED-6). One that fails, and answers no other lane, is lost: the
// next is taken at once for a group that wants what no server has answered, otherwise when the
// first has been lost for cold_wait. The lost one is tried again by one lane at a time, which goes
// on at the other meanwhile, and taken again when it answers.
//
// One that is a relay and refuses the way of a poll (RELAY-87) is asked again at once without it,
// where the way was a client's: the client is sent away. Otherwise the relays form a loop
// (RELAY-88): that is counted and logged, and the URL is taken to be lost.
//
// # Goroutines and locks
//
// Run starts one goroutine for each lane, and one until the origin has answered (reach.go), and
// waits for them. The mutex of servers and that of
// health are leaves, and held for a few assignments.
//
// # What to read next
//
// origin.go, then lane.go, request.go, response.go and servers.go.
package rest
