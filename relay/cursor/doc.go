// Package cursor is what one client holds of one type, and what it is to be sent to come to a
// state. It writes nothing, keeps no state alive but those of its last step, and knows no origin.
//
// # The idea
//
// A client asks for names and sets. What it is to have of a resource is a pure function of that and
// of a state (want.go). What it has is a set of its own, of bodies by the resources' own names. So
// each response is the difference of the two, whatever lies between: a change, a rollback, another
// subscription, a stream that comes back. Delta and state of the world are two ways to write it.
//
//	request ──► Subscribe, Unsubscribe, Replace, Claim, Requested ──► what is due (request.go)
//	plan.Step ──► Take ──► names: what is due, and what the states have otherwise (take.go)
//	                         └► settle: has, and is to have (settle.go); is told (tell.go)
//	              ──► Answer, or nothing; and then it is noted as written (answer.go)
//	client's answer ──► Ack
//
// A step may keep what other states have (plan.Part.Has), so nothing is taken away by this package
// that the plan of the stream still needs. A client that asks for one set and nothing else, as
// nearly all do, shares its way from one set to the next with all who go it, and the bytes
// (share.go).
//
// # Rules, and where they are
//
//	`*`, globs, namespaces, names, both at once (RELAY-20, 25)    find; Newer says what came last
//	aliases (ALIAS-1 to 5)            standsFor, waitsFor; resources are held by their own names
//	parameter maps, permits           Source; Entry.For picks the variant (DYN-9)
//	a set that is not complete, restored (RELAY-6, 7, 96)          ready, doubts
//	what is owed though nothing changed (DELTA-2, SOTW-5, WARM)    why, due
//	what a client says it holds (DELTA-11, 12, RELAY-43)           Claim, recognize
//	absence (ABS-4, 5, RELAY-38), errors (ABS-7 to 12)             absent, say
//	lists that are sent whole, and wait (SOTW-2, 4, 9, RELAY-7)    Whole, mustWait
//	TTLs (TTL-2 to 11, RELAY-51)                                   renew, withhold; flight
//	several origins (FED-5)                                        a part for each Source; origins.go
//	locators (DYN-2, 7, 14 to 16)                                  a part for each map; located.go
//	what the client has accepted and rejected (TTL-10, CSDS-3)     verdict.go
//	hosts that do not exist (ALIAS-10)                             Unresolved, Silent; noticed
//
// What is not here yet: of two sets with two bodies of a name, that the one which came last counts
// (RELAY-25). The first one does.
//
// # Cost
//
// A step costs what differs, and at most what the client names ([BenchmarkTake]); a client is the
// bytes of BenchmarkClient, and what it holds, which it shares with the states. What a peer can
// choose is bounded by its subscription: names are kept in maps, and what was dropped until the
// request is over. [Interest] is who is to be woken.
//
// # Who imports it
//
// Packages relay and downstream.
//
// # What to read next
//
// cursor.go, want.go, take.go, settle.go, tell.go; the games of rows_test.go.
package cursor
