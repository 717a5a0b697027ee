package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// rows are the rules of section 17 and what they meet, as games. A line is what happens, or what
// the client is written then. After a line that is not followed by `writes` nothing may be written.
//
//	asks cds eds            by `*`; names cds a b: by names; also cds a: by name, beside `*`
//	again eds               the client requests it again
//	says cds+a=x lds-l      the origin's next state; what a body refers to is after =, else its own name;
//	                        eds*a: it is empty, as its cluster goes
//	learns, status, hold, follow, wait 100ms, ack cds, nack cds, demands, beats 1s
//	reads cds               the client reads it only now
//	unseen says cds+a       nothing looks at it
//	writes cds +a; eds +a   + is new, ~ is changed, - is taken away, = is sent once more
var rows = []struct{ rule, dialects, script string }{
	{"ORD-1: types that are pending together leave in one order", "delta sotw", `
		says rtds+x vhds+v rds+r=c lds+l=r sds+c eds+c cds+c
		asks rtds vhds rds lds sds eds cds
		writes cds +c; eds +c; sds +c; rtds +x
		ack cds
		writes lds +l; rds +r; vhds +v`},
	{"ORD-2: what is added goes first; of what is taken away, what refers goes before what it refers to", "delta", `
		says cds+a eds+a lds+l1=r1 rds+r1=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack cds
		writes lds +l1; rds +r1
		ack lds
		ack rds
		ack eds
		says cds-a eds-a lds-l1 rds-r1 cds+b eds+b lds+l2=r2 rds+r2=b
		writes cds +b; eds +b
		ack cds
		writes lds +l2; rds +r2; lds -l1; rds -r1; cds -a
		ack eds
		writes eds -a`},
	{"ORD-1: when a front is due, endpoints that may be written go before it", "delta sotw", `
		says cds+a eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		wait 100ms
		unseen says cds+b eds+a rds+r=b
		unseen wait 100ms
		again cds
		writes cds +b
		wait 400ms
		writes eds ~a; rds ~r`},
	{"ORD-2: a list has what is added and what is gone", "sotw", `
		says cds+a eds+a lds+l1=r1 rds+r1=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack cds
		writes lds +l1; rds +r1
		ack lds
		ack rds
		ack eds
		says cds-a eds-a lds-l1 rds-r1 cds+b eds+b lds+l2=r2 rds+r2=b
		writes cds +b; eds +b
		ack cds
		writes lds +l2 -l1; rds +r2 -r1; cds -a
		ack eds
		writes eds -a`},
	{"ORD-3: a cluster that went meanwhile stays until the routes are written", "delta", `
		says cds+x eds+x lds+l=r rds+r=x
		asks cds eds lds rds
		writes cds +x; eds +x
		says cds+y eds+y
		writes eds +y
		says rds+r=y
		says cds-x eds-x
		ack cds
		writes cds +y; eds =y; lds +l; rds +r
		ack lds
		ack rds
		ack eds
		ack eds
		ack eds
		ack cds
		writes rds ~r; cds -x; eds -x`},
	{"ORD-3: the same as lists", "sotw", `
		says cds+x eds+x lds+l=r rds+r=x
		asks cds eds lds rds
		writes cds +x; eds +x
		says cds+y eds+y
		writes eds +y
		says rds+r=y
		says cds-x eds-x
		ack cds
		writes cds +y; lds +l; rds +r
		ack lds
		ack rds
		ack eds
		ack eds
		ack cds
		writes rds ~r; cds -x; eds -x =y`},
	{"ORD-3: endpoints that are emptied with their cluster, too", "delta", `
		says cds+a eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack eds
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		says cds-a eds*a cds+b eds+b rds+r=b
		writes cds +b; eds +b
		ack eds
		ack cds
		writes rds ~r; cds -a; eds ~a`},
	{"ORD-3: who has none of them is told at once", "delta sotw", `
		says cds+a eds*a lds+l
		asks cds eds lds
		writes cds +a; eds +a
		ack cds
		writes lds +l`},
	{"ORD-3: what only the routes before used goes once they are written, though clusters may not be", "delta sotw", `
		says cds+a sds+a lds+l=r rds+r=a
		asks cds sds lds rds
		writes cds +a; sds +a
		ack sds
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		wait 100ms
		unseen says cds-a sds-a cds+b rds+r=b
		unseen wait 100ms
		again cds
		writes cds +b
		wait 400ms
		writes rds ~r; sds -a
		ack cds
		writes cds -a`},
	{"ORD-3: what a route refers to that became known of the front stays until the front moves", "delta sotw", `
		status rds unanswered
		says cds+x lds+l
		asks cds lds rds
		writes cds +x
		ack cds
		writes lds +l
		says cds+a
		writes cds +a
		ack cds
		learns rds+r=a
		writes rds +r
		says cds-a cds+b rds+r=b
		writes cds +b
		says cds+c
		ack cds
		writes cds +c
		ack lds
		ack rds
		ack cds
		writes rds ~r; cds -a`},
	{"ORD-4: what is not reordered leaves as it came", "delta sotw", `
		asks rtds lds
		writes lds; rtds
		ack lds
		ack rtds
		says lds+l=r
		writes lds +l
		ack lds
		says rtds+x
		writes rtds +x
		ack rtds
		says rtds+y
		writes rtds +y`},
	{"ORD-5: a route waits for the ACK of its cluster", "delta sotw", `
		says cds+a eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		wait 499ms
		ack cds
		writes lds +l; rds +r`},
	{"ORD-5: no longer than order_hold, whatever comes meanwhile, and endpoints that never come", "delta sotw", `
		says cds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds
		wait 300ms
		says cds+b
		wait 199ms
		wait 1ms
		writes cds +b; lds +l; rds +r
		says rds+r=b
		wait 499ms
		wait 1ms
		writes rds ~r`},
	{"ORD-7: a NACK holds nothing", "delta sotw", `
		says cds+a eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		nack cds
		writes lds +l; rds +r`},
	{"ORD-8: clusters that the origin does not speak of hold routes for cold_wait, from when it was asked", "delta sotw", `
		status cds unanswered
		says lds+l=r rds+r=a
		wait 500ms
		asks cds lds rds
		wait 500ms
		wait 999ms
		wait 1ms
		writes lds +l; rds +r
		ack lds
		ack rds
		says rds+r=b
		writes rds ~r
		ack rds
		learns cds+a cds+b
		writes cds +a +b
		says cds+c rds+r=c
		ack cds
		writes cds +c
		ack cds
		writes rds ~r`},
	{"ORD-8: once they are there, their ACK is waited for", "delta sotw", `
		status cds unanswered
		says lds+l=r rds+r=a
		asks cds lds rds
		wait 1s
		learns cds+a
		writes cds +a
		wait 400ms
		ack cds
		writes lds +l; rds +r`},
	{"ORD-10: what is asked for by name stays for order_hold after the routes", "delta sotw", `
		says cds+a eds+a lds+l=r rds+r=a
		names cds a b
		writes cds +a
		names eds a b
		writes eds +a
		asks lds rds
		ack cds
		writes lds +l; rds +r
		wait 1s
		ack lds
		ack rds
		ack eds
		says cds-a eds-a cds+b eds+b rds+r=b
		writes cds +b; eds +b
		ack eds
		ack cds
		writes rds ~r
		wait 499ms
		wait 1ms
		writes cds -a; eds -a`},
	{"ORD-10: what no change of a route goes with does not wait", "delta", `
		says cds+a cds+b lds+l=r rds+r=b
		names cds a b
		writes cds +a +b
		asks lds rds
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		wait 500ms
		wait 1s
		says cds-a cds+b
		writes cds ~b
		says cds+b
		ack cds
		writes cds ~b
		says cds+b
		ack cds
		writes cds -a ~b`},
	{"ORD-10: or until the client drops it", "delta sotw", `
		says cds+a lds+l=r rds+r=a
		names cds a b
		writes cds +a
		asks lds rds
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		wait 1s
		says cds-a cds+b rds+r=b
		writes cds +b
		ack cds
		writes rds ~r
		names cds b
		wait 1s`},
	{"ORD-10: beside a set, what is asked for by name stays, and no more", "delta sotw", `
		says cds+a cds+z lds+l=r rds+r=a
		asks cds
		writes cds +a +z
		also cds a
		asks lds rds
		ack cds
		writes lds +l; rds +r
		wait 1s
		ack lds
		ack rds
		says cds-a cds-z cds+b rds+r=b
		writes cds +b
		ack cds
		writes rds ~r; cds -z
		ack cds
		wait 499ms
		wait 1ms
		writes cds -a`},
	{"ORD-5: routes wait for endpoints that clusters need, and not for longer than order_hold", "delta sotw", `
		says cds+a eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack eds
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		says cds+b rds+r=b
		writes cds +b
		needs b
		ack cds
		wait 100ms
		needs nothing
		writes rds ~r
		ack rds
		says cds+d rds+r=d
		writes cds +d
		needs d
		ack cds
		wait 500ms
		writes rds ~r`},
	{"ORD-5: nor for more than twice order_hold, whatever they need meanwhile", "delta sotw", `
		says cds+a eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack eds
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		says cds+b rds+r=b
		writes cds +b
		needs b
		ack cds
		wait 400ms
		needs c
		wait 400ms
		needs d
		wait 199ms
		wait 1ms
		writes rds ~r`},
	{"ORD-11: who comes back is about to ask for what refers to clusters", "delta sotw", `
		says cds+a cds+b
		asks cds
		writes cds +a +b
		ack cds
		unseen says cds-b
		returns cds
		writes cds
		ack cds
		wait 499ms
		wait 1ms
		writes cds -b
		ack cds
		says cds-a
		writes cds -a`},
	{"ORD-11: nothing refers to what is no backend", "delta sotw", `
		says rtds+a rtds+b
		asks rtds
		writes rtds +a +b
		ack rtds
		unseen says rtds-b
		returns rtds
		writes rtds -b`},
	{"ORD-5: what becomes known of routes waits for clusters on their way, which it may refer to", "delta sotw", `
		status rds unanswered
		says cds+a lds+l
		asks cds lds rds
		writes cds +a
		ack cds
		writes lds +l
		ack lds
		says cds+b
		writes cds +b
		learns rds+r=b
		wait 100ms
		ack cds
		writes rds +r`},
	{"ORD-5: for order_hold at most", "delta sotw", `
		status rds unanswered
		says cds+a lds+l
		asks cds lds rds
		writes cds +a
		ack cds
		writes lds +l
		ack lds
		says cds+b
		writes cds +b
		learns rds+r=b
		wait 500ms
		writes rds +r`},
	{"ORD-5: nor longer once listeners and routes are due", "delta sotw", `
		status rds unanswered
		says cds+a eds+a lds+l
		asks cds eds lds rds
		writes cds +a; eds +a
		ack eds
		ack cds
		writes lds +l
		ack lds
		unseen says cds+b lds+m
		unseen wait 300ms
		again cds
		writes cds +b
		needs b
		wait 200ms
		learns rds+r=a
		writes rds +r
		needs nothing
		writes lds +m`},
	{"ORD-5: and for a list of which nothing was sent, as it had not settled", "sotw", `
		status rds unanswered
		says cds+a lds+l
		asks cds lds rds
		writes cds +a
		ack cds
		writes lds +l
		ack lds
		status cds unanswered
		says cds+b
		unseen learns rds+r=b
		status cds live
		writes cds +b
		ack cds
		writes rds +r`},
	{"but for those that it has not", "delta sotw", `
		status rds unanswered
		says cds+a lds+l
		asks cds lds rds
		writes cds +a
		ack cds
		writes lds +l
		ack lds
		says cds+b
		writes cds +b
		says cds+d
		learns rds+r=d
		ack cds
		writes cds +d
		ack cds
		writes rds +r`},
	{"ORD-8: nor while it is not known what the clusters are", "delta sotw", `
		status rds unanswered
		says cds+a lds+l
		asks cds lds rds
		writes cds +a
		ack cds
		writes lds +l
		ack lds
		status cds unanswered
		learns rds+r=b
		wait 1s
		learns cds+b
		writes cds +b
		ack cds
		writes rds +r`},
	{"ORD-11: nothing is taken away while listeners and routes are not confirmed", "delta sotw", `
		status lds restored
		status rds restored
		says cds+a eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		ack eds
		says cds-a eds-a cds+b eds+b
		writes cds +b; eds +b
		ack cds
		ack eds
		wait 1s
		status rds live
		status lds live
		writes cds -a; eds -a`},
	{"ORD-5, ORD-8: clusters that were waited for have as long for their answer as any", "delta sotw", `
		status cds unanswered
		says rds+r=a
		asks cds rds
		unseen wait 1s
		unseen status cds settled
		says cds+a
		writes cds +a
		wait 400ms
		ack cds
		writes rds +r`},
	{"ORD-5, ORD-8: and so have those that come in pieces", "delta sotw", `
		status cds unanswered
		says rds+r=a
		asks cds rds
		unseen wait 1s
		unseen status cds arriving
		says cds+a
		writes cds +a
		wait 499ms
		wait 1ms
		writes rds +r`},
	{"ORD-11: nor before those are written that come in place of what was not confirmed", "delta sotw", `
		status rds restored
		says cds+a lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		says cds-a cds+b
		writes cds +b
		ack cds
		unseen status rds live
		says rds+r=b
		writes rds ~r; cds -a`},
	{"ORD-11: nor after a reconnect", "delta sotw", `
		says cds+a cds+b lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a +b
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		status rds stale
		says cds-b
		wait 1s
		status rds live
		writes cds -b`},
	{"ORD-11: for cold_wait at most, on a stream that is open", "delta sotw", `
		says cds+a cds+b lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a +b
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		status rds stale
		wait 3s
		up
		says cds-b
		wait 1900ms
		wait 200ms
		writes cds -b`},
	{"ORD-11: nothing is held that is confirmed, and what is not anew is waited for anew", "delta sotw", `
		up in the second lane, which is enough
		says cds+a cds+b cds+c cds+d lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a +b +c +d
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		says cds-b
		writes cds -b
		ack cds
		status rds stale
		says cds-c
		wait 1s
		status rds live
		writes cds -c
		ack cds
		status rds stale
		says cds-d
		wait 1900ms
		wait 200ms
		writes cds -d`},
	{"ORD-11: other types hold nothing", "delta sotw", `
		says cds+a cds+b eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a +b; eds +a
		ack eds
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		status eds stale
		says cds-b
		writes cds -b`},
	{"ORD-11: a route that the origin has spoken of waits for no listener", "delta", `
		status lds unanswered
		says cds+a eds+a rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack cds
		writes rds +r`},
	{"WARM-1, 3, 6: a changed cluster owes its endpoints", "delta", `
		says cds+a eds+a
		asks cds eds
		writes cds +a; eds +a
		ack cds
		ack eds
		says cds+a
		writes cds ~a; eds =a`},
	{"WARM-2: by the request that follows", "sotw", `
		says cds+a eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack eds
		ack cds
		writes lds +l; rds +r
		says cds+a
		writes cds ~a
		again eds
		writes eds =a`},
	{"WARM-2: or order_hold after the ACK of the cluster", "sotw", `
		says cds+a eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack eds
		ack cds
		writes lds +l; rds +r
		wait 1s
		says cds+a
		writes cds ~a
		wait 300ms
		ack cds
		wait 100ms
		ack rds
		says rds+r=a
		writes rds ~r
		wait 399ms
		wait 1ms
		writes eds =a`},
	{"WARM-2: of that cluster, not of one before it", "sotw", `
		says cds+a eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack eds
		ack cds
		writes lds +l; rds +r
		wait 100ms
		says cds+a
		writes cds ~a
		wait 100ms
		ack cds
		wait 499ms
		wait 1ms
		writes eds =a`},
	{"WARM-2: later clusters do not put it off, nor do their ACKs", "sotw", `
		says cds+a eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack eds
		ack cds
		writes lds +l; rds +r
		wait 1s
		says cds+a
		writes cds ~a
		ack cds
		wait 300ms
		says cds+b
		writes cds +b
		wait 100ms
		ack cds
		wait 99ms
		wait 1ms
		writes eds =a`},
	{"WARM-2: an ACK of another type is none of the cluster", "sotw", `
		says cds+a eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack eds
		ack cds
		writes lds +l; rds +r
		wait 1s
		says cds+a
		writes cds ~a
		wait 100ms
		ack lds
		ack rds
		wait 200ms
		ack cds
		wait 499ms
		wait 1ms
		writes eds =a`},
	{"WARM-4: a changed route owes its virtual hosts", "delta", `
		says rds+r vhds+v=r
		asks rds vhds
		writes rds +r; vhds +v
		ack rds
		ack vhds
		says rds+r
		writes rds ~r; vhds =v`},
	{"WARM-5: a changed cluster owes neither routes nor secrets", "delta sotw", `
		says cds+a sds+a lds+l=r rds+r=a
		asks cds sds lds rds
		writes cds +a; sds +a
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		ack sds
		says cds+a
		writes cds ~a
		ack cds
		wait 1s`},
	{"WARM-7: endpoints that do not exist are owed to nobody", "delta sotw", `
		says cds+a
		asks cds eds
		writes cds +a; eds
		ack cds
		ack eds
		says cds+a
		writes cds ~a
		ack cds
		wait 1s`},
	{"EC-1: a stream of one type waits for no other", "delta sotw", `
		says cds+a rds+r=a
		asks rds
		writes rds +r
		ack rds
		says cds+b rds+r=b
		writes rds ~r`},
	{"EC-1: nor do removals", "delta sotw", `
		says cds+a eds+a
		asks cds
		writes cds +a
		ack cds
		says cds-a eds-a cds+b
		writes cds +b -a`},
	{"EC-2, EC-3: states between may be skipped, and the last one comes", "delta sotw", `
		says cds+a lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a
		says cds+b rds+r=b
		says cds+c rds+r=c cds-b
		ack cds
		writes cds +c; lds +l; rds +r
		ack lds
		ack rds
		ack cds
		writes rds ~r`},
	{"EC-4: a state never goes out after a newer one, but when a tier is taken back", "delta sotw", `
		says cds+a lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		hold
		says cds+b cds-a rds+r=b
		wait 1s
		follow
		writes cds +b
		back
		ack cds
		writes cds -b
		ack cds
		wait 1s`},
	{"NONCE-10: one response is in flight", "delta sotw", `
		asks eds
		writes eds
		ack eds
		says eds+a
		writes eds +a
		wait 100ms
		says eds+b
		says eds+c
		ack eds
		writes eds +b +c`},
	{"NONCE-10: after order_hold one more, at a time", "delta sotw", `
		asks eds
		writes eds
		ack eds
		says eds+a
		writes eds +a
		says eds+b
		wait 499ms
		wait 1ms
		writes eds +b
		says eds+c
		wait 499ms
		wait 1ms
		writes eds +c`},
	{"NONCE-10: of clusters alone", "delta sotw", `
		says cds+a
		asks cds
		writes cds +a
		says cds+b
		wait 100ms
		ack cds
		writes cds +b`},
	{"Envoy refuses a virtual host beside the one whose domains it takes: they are exchanged in one response", "delta", `
		says rds+r vhds+v=r
		asks rds vhds
		writes rds +r; vhds +v
		ack rds
		ack vhds
		says vhds+w=r vhds-v
		writes vhds +w -v`},
	{"ORD-2: if a route goes, too, what it refers to goes after it", "delta", `
		says rds+r vhds+v=r
		asks rds vhds
		writes rds +r; vhds +v
		ack rds
		ack vhds
		says rds+s vhds+w=s rds-r vhds-v
		writes rds +s; rds -r; vhds +w -v`},
	{"ORD-2: what virtual hosts there are goes after the routes that go", "delta", `
		says rds+r rds+s vhds+v=s
		asks rds vhds
		writes rds +r +s; vhds +v
		ack rds
		ack vhds
		says rds-r vhds+w=s
		writes rds -r; vhds +w`},
	{"ORD-1: if no route goes, virtual hosts keep their place", "delta", `
		says cds+a cds+b rds+r vhds+v=r ecds+e
		asks cds rds vhds ecds
		writes cds +a +b
		ack cds
		writes rds +r; vhds +v; ecds +e
		ack rds
		ack vhds
		ack ecds
		says cds-b rds+r vhds+w=r vhds-v ecds+f
		writes rds ~r; vhds +w -v; ecds +f; cds -b`},
	{"NONCE-10: of what waits for no cluster", "delta sotw", `
		says cds+a rtds+x
		asks cds lds rtds
		writes cds +a; rtds +x
		says rtds+y
		wait 100ms
		ack rtds
		writes rtds +y`},
	{"NONCE-10: what arrives in pieces is one response", "delta", `
		status cds arriving
		asks cds
		says cds+a
		writes cds +a
		says cds+b
		writes cds +b`},
	{"NONCE-2, NONCE-8: in delta an ACK of a later response is none of an earlier one", "delta", `
		says cds+a lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a
		says cds+b
		wait 500ms
		writes cds +b; lds +l; rds +r
		ack cds
		says rds+r=b
		ack rds
		ack lds
		wait 499ms
		wait 1ms
		writes rds ~r`},
	{"NONCE-10: of responses that are never answered the last two count", "delta", `
		says cds+a lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a
		says cds+b
		wait 500ms
		writes cds +b; lds +l; rds +r
		ack lds
		ack rds
		says cds+c
		wait 500ms
		writes cds +c
		ack cds
		ack cds
		says rds+r=b
		writes rds ~r`},
	{"NONCE-2: in state of the world it is", "sotw", `
		says cds+a lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a
		says cds+b
		wait 500ms
		writes cds +b; lds +l; rds +r
		ack cds
		ack rds
		ack lds
		says rds+r=b
		writes rds ~r`},
	{"NONCE-10: of routes, too", "delta sotw", `
		says lds+l=r rds+r=a
		asks lds rds
		writes lds +l; rds +r
		ack lds
		wait 100ms
		says rds+r=b
		says rds+r=c
		wait 100ms
		ack rds
		writes rds ~r`},
	{"NONCE-6: what is asked meanwhile, too", "delta sotw", `
		says lds+l=r rds+r=a rds+s=a
		names rds r
		writes rds +r
		asks lds
		writes lds +l
		ack lds
		names rds r s
		wait 100ms
		ack rds
		writes rds +s`},
	{"ORD-5: order_hold counts from the change, not from when the client was looked at", "delta sotw", `
		says cds+a lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		unseen says cds+b rds+r=b
		unseen wait 300ms
		again cds
		writes cds +b
		wait 199ms
		wait 1ms
		writes rds ~r`},
	{"ORD-5: but from the request for what nobody looked at before", "delta sotw", `
		says cds+a lds+l=r rds+r=a
		wait 1s
		asks cds lds rds
		writes cds +a
		wait 499ms
		wait 1ms
		writes lds +l; rds +r`},
	{"ORD-5: there and back begins anew", "delta", `
		says cds+a lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		says cds+b rds+r=b
		writes cds +b
		back
		wait 500ms
		writes cds -b
		wait 100ms
		follow
		wait 399ms
		wait 1ms
		writes cds +b
		wait 99ms
		wait 1ms
		writes rds ~r`},
	{"ORD-5: there and back to the newest begins anew", "delta", `
		says cds+a lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		says cds+b cds-a rds+r=b
		writes cds +b
		ack cds
		writes rds ~r; cds -a
		ack rds
		ack cds
		back
		writes cds +a
		follow
		wait 500ms
		writes cds -a
		wait 100ms
		says cds+c rds+r=c
		wait 399ms
		wait 1ms
		writes cds +c
		wait 99ms
		wait 1ms
		writes rds ~r`},
	{"ORD-5: the time in which the client does not read is none of its waiting", "delta sotw", `
		says cds+a lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		unseen says cds+b rds+r=b
		unseen wait 100ms
		again cds
		writes cds +b
		wait 200ms
		reads cds
		wait 399ms
		wait 1ms
		writes rds ~r`},
	{"NONCE-10: order_hold begins when the response is read", "delta sotw", `
		says cds+a
		asks cds
		writes cds +a
		says cds+b
		wait 300ms
		reads cds
		wait 499ms
		wait 1ms
		writes cds +b`},
	{"RELAY-84: routes do not overtake clusters that wait for an ACK", "delta sotw", `
		says cds+a lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a
		says cds+b
		says rds+r=b
		wait 500ms
		writes cds +b; lds +l; rds +r`},
	{"RELAY-84: nor clusters that have changed since", "delta sotw", `
		says cds+a lds+l=r rds+r=a
		asks cds lds rds
		writes cds +a
		ack cds
		writes lds +l; rds +r
		ack lds
		ack rds
		says rds+r=a
		writes rds ~r
		wait 100ms
		says cds+b rds+r=b
		writes cds +b
		wait 50ms
		ack cds
		says cds+b
		writes cds ~b
		says cds+b
		wait 450ms
		writes cds ~b; rds ~r`},
	{"exception: endpoints that an unanswered cluster waits for pass an unanswered response", "delta", `
		says cds+a eds+z
		asks cds eds lds
		writes cds +a; eds +z
		says eds+a
		writes eds +a
		says eds+a
		wait 100ms
		ack eds
		ack eds
		writes eds ~a`},
	{"exception: virtual hosts on demand (ALIAS-8)", "delta", `
		says cds+a vhds+v
		asks cds vhds
		writes cds +a
		demands
		writes vhds on demand
		ack cds
		writes vhds +v`},
	{"exception: heartbeats (TTL-4)", "delta sotw", `
		says cds+a
		asks cds lds
		writes cds +a
		beats 300ms
		wait 299ms
		wait 1ms
		writes cds heartbeat
		ack cds
		writes lds`},
	{"exception: urgent types of a tier that is held", "delta sotw", `
		says cds+a eds+a lds+l=r rds+r=a
		asks cds eds lds rds
		writes cds +a; eds +a
		ack eds
		ack cds
		writes lds +l; rds +r
		hold
		says cds+b rds+r=b eds+a
		writes eds ~a`},
	{"what is asked later is answered of the front", "delta sotw", `
		says cds+a lds+l=r rds+r=a
		asks cds lds
		writes cds +a
		ack cds
		writes lds +l
		asks rds
		writes rds +r`},
}

func TestRows(t *testing.T) {
	for _, row := range rows {
		for _, dialect := range strings.Fields(row.dialects) {
			t.Run(row.rule+", "+dialect, func(t *testing.T) {
				g := &game{t: t, c: newClient(t, dialect == "delta", 1), now: zero}
				g.line = state.NewTimeline(g.now, state.Config{Urgent: func(typeURL string) bool { return typeURL == eds }, Bounds: func() (int64, time.Duration) { return 1 << 20, time.Hour }})
				for _, typeURL := range []string{cds, eds, sds, lds, rds, vhs, ecs, "rtds"} {
					g.status(typeURL, "live")
				}
				for line := range strings.SplitSeq(strings.TrimSpace(row.script), "\n") {
					g.play(strings.TrimSpace(line))
				}
				g.quiet("at the end")
			})
		}
	}
}

// TestComplete: of several sets the last one counts, and of each that is settled none is waited
// for.
func TestComplete(t *testing.T) {
	line := state.NewTimeline(zero, state.Config{})
	asked := func(selector string, phase state.Phase, at time.Time) state.Change {
		return state.Change{TypeURL: cds, Selector: selector, Status: &state.Status{Phase: phase, Asked: at}}
	}
	s := line.Publish(zero, 1, asked("a", state.Unanswered, zero.Add(time.Second)), asked("b", state.Arriving, zero),
		asked("c", state.Settled, zero.Add(time.Minute)))
	if got, want := config.Complete(s.Kind(cds)...), zero.Add(time.Second+config.Cold); got != want {
		t.Errorf("until %v, want %v", got, want)
	}
	if got := config.Complete(s.Kind(cds)[2]); !got.IsZero() {
		t.Errorf("a settled set is waited for until %v", got)
	}
}

// TestHas: several bodies of a name are something to have, as one is.
func TestHas(t *testing.T) {
	two := state.NewEntry(state.Facts{Name: "a", Bodies: []*xds.Variant{say(eds, "a", "1").Entry.Body(), say(eds, "a", "2").Entry.Body()}})
	one, other := say(eds, "a", "0").Entry, say(eds, "a", "1").Entry
	p := Part{To: &state.State{}}
	if got := p.Has(one, func(*state.State) (state.Entry, bool) { return two, true }); got != two {
		t.Errorf("the client is to have %v", got)
	}
	// What was given ahead stays, if it is that.
	p.Ahead = &state.State{}
	for _, row := range []struct{ held, ahead, to, want state.Entry }{
		{one, one, other, one},
		{one, other, two, two},
		{one, two, other, other},
		{two, one, other, other},
		{two, two, other, other},
		{state.Entry{}, one, other, other},
		{state.Entry{}, state.Entry{}, other, other},
	} {
		if got := p.Has(row.held, func(s *state.State) (state.Entry, bool) {
			if s == p.Ahead {
				return row.ahead, true
			}
			return row.to, true
		}); got != row.want {
			t.Errorf("%v: the client is to have %v", row, got)
		}
	}
}

// TestHasUnknown (ORD-3): what the client has goes if the next state, and each of Keep, knows that
// there is none. Unknown is not absent.
func TestHasUnknown(t *testing.T) {
	type its struct {
		e     state.Entry
		known bool
	}
	one := say(eds, "a", "0").Entry
	there, absent, unknown := its{one, true}, its{known: true}, its{}
	for _, row := range []struct {
		to, first, second its
		all, stays        bool
	}{
		{absent, absent, absent, false, false},
		{absent, absent, absent, true, true},
		{unknown, absent, absent, false, true},
		{absent, unknown, absent, false, true},
		{absent, absent, unknown, false, true},
		{absent, there, absent, false, true},
		{absent, absent, there, false, true},
	} {
		to, first, second := &state.State{}, &state.State{}, &state.State{}
		all := map[*state.State]its{to: row.to, first: row.first, second: row.second}
		p := Part{To: to, Keep: [3]*state.State{first, nil, second}, All: row.all}
		got := p.Has(one, func(s *state.State) (state.Entry, bool) { return all[s].e, all[s].known })
		if want := map[bool]state.Entry{true: one}[row.stays]; got != want {
			t.Errorf("%v: the client is to have %v, want %v", row, got, want)
		}
	}
}

// TestJoin: a group that joins has the next number, and is served as the others.
func TestJoin(t *testing.T) {
	c := newClient(t, true, 1, cds)
	lines := origins(2)
	if got := c.stream.Join(); got != 1 {
		t.Errorf("its number is %d", got)
	}
	lines[1].Publish(zero, 9, change(cds, say(cds, "a", "0")))
	if got := look(c, zero, lines); got != "cds +a" {
		t.Errorf("writes %q", got)
	}
}

// game is a row that is played.
type game struct {
	t        *testing.T
	c        *client
	line     *state.Timeline
	now      time.Time
	revision uint64
	last     string
	again    time.Time
}

func typeOf(name string) string {
	for typeURL, s := range short {
		if s == name {
			return typeURL
		}
	}
	return name
}

func (g *game) quiet(line string) {
	g.t.Helper()
	if len(g.c.log) > 0 {
		g.t.Fatalf("before %q: writes %s", line, strings.Join(g.c.log, "; "))
	}
}

func (g *game) play(line string) {
	g.t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	words := strings.Fields(rest)
	if verb == "writes" {
		if got := strings.Join(g.c.log, "; "); got != rest {
			g.t.Fatalf("after %q: writes %q, want %q", g.last, got, rest)
		}
		g.c.log = nil
		return
	}
	g.quiet(line)
	g.last = line
	unseen := verb == "unseen"
	if unseen {
		verb, words = words[0], words[1:]
	}
	switch verb {
	case "asks":
		for _, w := range words {
			g.c.ask(typeOf(w))
		}
	case "names":
		g.c.ask(typeOf(words[0]), words[1:]...)
	case "also":
		a := g.c.asks[typeOf(words[0])]
		a.Names, a.also = true, map[string]bool{}
		for _, w := range words[1:] {
			a.also[w] = true
		}
	case "reads":
		g.c.reads(g.now, typeOf(words[0]))
	case "again":
		g.c.asks[typeOf(words[0])].again = true
	case "says":
		g.revision++
		g.line.Publish(g.now, g.revision, g.changes(words, nil)...)
	case "learns":
		g.line.Publish(g.now, g.revision, g.changes(words, &state.Status{Phase: state.Firm, Age: state.Live})...)
	case "status":
		g.status(typeOf(words[0]), words[1])
	case "ack", "nack":
		g.c.ack(g.now, typeOf(words[0]))
	case "hold":
		g.line.Hold(g.now, state.Rest, g.line.Newest())
	case "needs":
		if g.c.asks[eds].Needed = g.now; words[0] == "nothing" {
			g.c.asks[eds].Needed = time.Time{}
		}
	case "returns":
		g.c.connect()
		for _, w := range words {
			g.c.asks[typeOf(w)].Holds = true
		}
	case "up":
		g.line.Connect(min(1, len(words)), state.Lane{Open: true})
	case "follow":
		g.line.Hold(g.now, state.Rest, nil)
	case "back":
		states := g.line.States()
		g.line.Hold(g.now, state.Rest, states[len(states)-1].State)
	case "demands":
		g.c.asks[vhs].Demands = true
	case "beats", "wait":
		d, err := time.ParseDuration(words[0])
		if err != nil {
			g.t.Fatal(err)
		}
		if verb == "wait" {
			g.now = g.now.Add(d)
		} else {
			g.c.asks[cds].Beat = g.now.Add(d)
		}
	default:
		g.t.Fatalf("what is %q?", line)
	}
	if unseen || verb == "wait" && (g.again.IsZero() || g.again.After(g.now)) {
		return // it looks again when it said
	}
	g.again = g.c.next(g.now, []*state.Target{g.line.Target(state.Rest)})
	if !g.again.IsZero() && !g.again.After(g.now) {
		g.t.Fatalf("after %q: look again at %v, which is past", line, g.again)
	}
}

// changes are "cds+a=x lds-l".
func (g *game) changes(words []string, status *state.Status) (all []state.Change) {
	for _, w := range words {
		at := strings.IndexAny(w, "+-*")
		typeURL := typeOf(w[:at])
		name, to, is := strings.Cut(w[at+1:], "=")
		if !is {
			to = name
		}
		g.revision++
		e := say(typeURL, name, to+" "+g.now.String()+string(rune('a'+g.revision%26)))
		switch w[at] {
		case '-':
			e = state.Edit{Name: name}
		case '*':
			e.Entry.Body().Orphan()
		}
		i := slices.IndexFunc(all, func(c state.Change) bool { return c.TypeURL == typeURL })
		if i < 0 {
			i, all = len(all), append(all, change(typeURL))
			all[i].Status = status
		}
		all[i].Edits = append(all[i].Edits, e)
	}
	return all
}

func (g *game) status(typeURL, word string) {
	s, is := map[string]state.Status{
		"live":       {Phase: state.Firm, Age: state.Live},
		"settled":    {Phase: state.Settled, Age: state.Live},
		"restored":   {Phase: state.Firm, Age: state.Restored},
		"arriving":   {Phase: state.Arriving, Age: state.Live},
		"stale":      {Phase: state.Firm, Age: state.Stale},
		"unanswered": {Phase: state.Unanswered, Asked: g.now},
	}[word]
	if !is {
		g.t.Fatalf("what is %q?", word)
	}
	g.revision++
	g.line.Publish(g.now, g.revision, state.Change{TypeURL: typeURL, Selector: "*", Status: &s})
}
