// Package plan is the order of types on one ADS stream (section 17 of the protocol): states in,
// steps out. It writes nothing, keeps no content, and knows no wire. relay/cursor has the other
// half.
//
// # The idea
//
// States do not change. So make before break is two pointers of a stream for each origin:
//
//	       target   what the tier of the client is served now
//	         ▲
//	  back ──┘      clusters, endpoints and secrets of this state were added and changed
//	   ▲
//	  front         listeners and routes of this state were written
//
//	target ──► 1. backends: all of the target, and what back or front still has ──► back = target
//	           2. their Cluster response is acknowledged, or order_hold has passed
//	           3. front: listeners and routes of back, not of a newer state    ──► front = back
//	           4. backends once more: what no state has any more is taken away
//
// A backend is taken away only if no state has it whose routes the client has, is about to get, or
// could get. So no route is ever without its cluster, whatever the target does meanwhile: changes
// that overtake each other, a rollback, a freeze, A, B, A in one moment. And the front moves within
// order_hold of the first change that it lacks. The rest follows from these two: ORD-3, ORD-5,
// RELAY-84, EC-2 to EC-4. rows_test.go has each rule as a game, model_test.go plays them at random.
//
// # What is around it
//
// The caller has a cursor for each type: what the client holds, and what it asked for.
// [Stream.Next] calls it with a [Step], in order; the cursor writes what the step's states say
// otherwise than the client holds ([Part.Has]), and returns a nonce or 0. What is owed whatever the
// client holds (WARM-1 to WARM-7, DELTA-2, SOTW-5) is the cursor's; the plan gives it its turn:
// endpoints after clusters, virtual hosts after routes, and a push when no request comes (WARM-2).
// The caller calls Next when a target changes, a request comes, or at the time that Next said, and
// [Stream.Ack] for each answer first. ORD-9 is no part of it: what is gathered is not published
// yet.
//
// # Exceptions, and where they are
//
//	virtual hosts on demand (ALIAS-8), heartbeats (TTL-4)      passing
//	endpoints that an unanswered cluster waits for             may: Missing
//	endpoints that the next front needs                        backends: Missing
//	urgent types of a tier that is held                        the target has them (state.Timeline)
//	clusters that the origin does not speak of (ORD-8)         begin, ready; Config.Complete
//	what a client named, until it drops the name (ORD-10)      bring: named
//	a front that nobody has confirmed (ORD-11)                 bring: unconfirmed
//	what was asked since the front was written                 fill
//	hosts that take the domains of others                      fronts: together
//	several origins: one response, a front for each (FED-5)    groups; moves
//	a stream that asks for no listener or route (EC-1)         anyOrder
//
// Unknown is not absent here either: a state that does not know a backend does not take it away.
//
// # Who imports it
//
// Packages relay/cursor and downstream.
//
// # What to read next
//
// plan.go, then next.go from inOrder on; the rows of rows_test.go.
package plan
