package cursor

// rows are rules as games. A line is what happens, or what the client is sent then. After a line
// that is not followed by `gets` nothing may be sent.
//
//	type vhds ttl               how the client is, on the first line: cds eds vhds sds; ttl, withhold, may a b
//	asks a b *                  a delta request; drops a; demands a; g/* is a collection of g1, g2; no:g/* one of
//	                            which the client may have nothing
//	lists a b *                 a SotW request
//	has a=1 b=2, has version    what the client says it holds, in its first request; the version of what there is
//	star a=1 b-                 what the origin says of `*`, and glob of g/*; a=1~60 ends in 60 s
//	says a=1 b- c!14 d>a a=1/d  by name: a body, none, an error, an alias, a body that lists one
//	star firm, glob arriving    how far it has answered; settled, unanswered, restored
//	forgets a                   nothing is known of it any more
//	a=1^ must not be cached; a=1? was restored; glob ill, own: the collection is in error, weir's own
//	first asks a                a request that is not over; a/A: the client writes A
//	lane down, lane 1 up; hold, follow; keep: what is held now stays; all: nothing is taken away
//	ack, nack; requests; owes a; hosts r; push; silent a; unreached; wait 15s; missing: what the client has not; beats, demanded
//	gets a=1 -b ~c !d ?e        bodies, removals, heartbeats, errors, hosts that do not exist
//	gets list a=1 b=2           all there is; gets nothing: a response without anything; ... more follows
var rows = []struct{ rule, dialects, script string }{
	{"DELTA-2: what is asked is answered, though the client has it", "delta", `
		type eds
		says a=1 b-
		asks a b c
		gets a=1 -b
		asks a
		gets a=1
		asks b
		gets -b
		says c=1
		gets c=1`},
	{"DELTA-3: a name that `*` has is answered once more", "delta", `
		type cds
		star a=1 firm
		asks *
		gets a=1
		says a=1
		asks a
		gets a=1`},
	{"DELTA-4: what is dropped is not removed", "delta", `
		type eds
		says a=1
		asks a
		gets a=1
		drops a
		says a=2
		asks a
		gets a=2`},
	{"DELTA-9: a dropped name that a set may have is answered", "delta", `
		type cds
		star a=1 firm
		says a=1 b=1
		asks * a b
		gets a=1 b=1
		drops a
		gets a=1
		drops b
		gets -b`},
	{"DELTA-11, DELTA-12: of what the client has the difference is sent", "delta", `
		type cds
		has a=1 b=1 c=1
		star a=1 b=2 firm
		asks *
		gets b=2 -c`},
	{"DELTA-12, DELTA-13: if all there is to say is what is gone, and that waits, the answer waits for it", "delta", `
		type cds
		has a=1 b=1
		star a=1 firm
		all
		asks *
		all no
		gets -b`},
	{"DELTA-13: it came back meanwhile, so there is nothing to say but that", "delta", `
		type cds
		has a=1 b=1
		star a=1 firm
		all
		asks *
		star b=1
		gets nothing`},
	{"DELTA-13: what was answered is not answered again as it came back", "delta", `
		type cds
		has a=1 b=1
		star a=2 firm
		all
		asks *
		gets a=2
		star b=1`},
	{"DELTA-12: it waits for nothing else", "delta", `
		type cds
		has a=1 b=1
		star a=2 firm
		all
		asks *
		gets a=2
		all no
		gets -b`},
	{"ORD-11: what a client that comes back may hold by name is not told to be gone while nothing is taken away", "sotw", `
		type cds
		has version
		says a- b=1
		all
		lists a b
		all no
		gets list b=1`},
	{"ORD-11: nor of a type that is not sent whole", "sotw", `
		type eds
		has version
		says a!5 b=1
		all
		lists a b
		gets b=1
		all no
		gets !a`},
	{"DELTA-2: who asks for a set once more is not told again what is not there by name", "delta", `
		type cds
		star a=1 firm
		says b-
		asks * b
		gets a=1 -b
		asks *
		gets a=1`},
	{"RELAY-25: what a set has is there, though its own name is said not to be", "delta", `
		type vhds
		says g1!5 stale
		lane down
		unseen asks g/*
		demanded
		demands g1
		lane up
		glob arriving g1=1
		gets g1=1
		demanded no`},
	{"RELAY-25: what came last by a set stays when the set is dropped", "delta", `
		type cds
		says a=1
		star a=2 firm
		asks * a
		gets a=2
		drops *
		says a=3
		gets a=3`},
	{"permits: a set of which the client may have nothing is empty, and is not waited for", "delta", `
		type cds
		has g1=1
		asks no:g/*
		gets -g/* -g1`},
	{"permits: a list does not wait for it", "sotw", `
		type cds
		has version
		star arriving a=1
		lists * no:g/*
		star firm
		gets list a=1
		star a-
		gets list`},
	{"COLL-3: a collection that the client has is answered once, if at all", "delta", `
		type cds
		has g1=1
		star arriving a=1
		glob arriving g1=1
		asks * g/*
		star firm
		gets a=1
		glob firm`},
	{"DELTA-13: `*` is answered though there is nothing", "delta", `
		type cds
		has a=1
		star a=1 firm
		asks *
		gets nothing`},
	{"DELTA-14, DELTA-2: a second request is answered whatever the first one claimed", "delta", `
		type eds
		has a=1
		asks a
		asks a
		says a=1
		gets a=1`},
	{"DELTA-19: of what changed between two steps the last counts", "delta", `
		type cds
		star a=1 firm
		asks *
		gets a=1
		unseen star a=2 b=1
		unseen star a- b-
		star a=3
		gets a=3`},
	{"DEL-5: a removal is sent once", "delta", `
		type eds
		says a=1
		asks a
		gets a=1
		says a-
		gets -a
		lane down
		lane up
		says b=1`},
	{"NONCE-11: what was rejected is not sent again, but another body is", "delta sotw", `
		type eds
		says a=1
		asks a
		gets a=1
		says a=2
		gets a=2
		nack
		lane up
		says a=1
		gets a=1`},
	{"RELAY-6: who holds something waits until a set is firm", "delta", `
		type cds
		has a=1 b=1
		star a=1 arriving
		asks *
		star b=1 settled
		star firm
		gets nothing`},
	{"RELAY-6: who holds nothing is sent what has come; what is not there is not gone yet", "delta", `
		type cds
		star a=1 arriving
		asks *
		gets a=1
		star a-
		star b=1
		gets b=1
		star settled
		gets -a`},
	{"RELAY-7: a list waits for what the client may hold", "sotw", `
		type cds
		has version
		star a=1 settled
		lists *
		star b=1 firm
		gets list a=1 b=1`},
	{"RELAY-7: a list by name waits for each name, but not for ever", "sotw", `
		type cds
		has version
		says a=1
		lists a b
		wait 14s
		wait 2s
		gets list a=1
		says b=1
		gets list a=1 b=1`},
	{"SOTW-9: who comes back keeps what is refused", "sotw", `
		type cds
		has version
		says a!7 b!7
		lists a b
		wait 20s
		says b=1
		gets list b=1 !a
		says b=2
		gets list b=2`},
	{"SOTW-9: but not what of a set that is empty", "sotw", `
		type cds
		has version
		star firm
		says a!7
		lists * a
		wait 16s
		gets list !a`},
	{"SOTW-9: nor what there is", "sotw", `
		type cds
		has version
		says a=2!14
		lists a
		gets list a=2`},
	{"SOTW-9: nor what does not exist", "sotw", `
		type cds
		has version
		says a!7 b!5
		lists a b
		wait 16s
		gets list !a !b`},
	{"SOTW-9: who was sent a list is sent an empty one, too", "sotw", `
		type cds
		has version
		says a=1 c!7
		lists a
		gets list a=1
		lists c
		wait 16s
		gets list !c`},
	{"SOTW-9: but not what it asks for besides, which there is not", "sotw", `
		type cds
		has version
		says a!7 b-
		lists a b
		wait 14s
		wait 2s
		gets list !a`},
	{"RELAY-43: a client of * that has the list is sent nothing", "sotw", `
		type cds
		star a=1 b=1 firm
		has version
		lists *
		star b=2
		gets list a=1 b=2`},
	{"RELAY-96: who holds something is not sent what was restored", "delta", `
		type cds
		has a=2
		star a=1 firm restored
		asks *
		star firm
		gets a=1`},
	{"RELAY-96: who holds nothing is", "delta", `
		type cds
		star a=1 firm restored
		asks *
		gets a=1`},
	{"RELAY-38: what was not there before the stream was lost is not told to who asks now", "delta", `
		type eds
		says a- b=1
		asks b
		gets b=1
		lane down
		asks a
		lane up
		gets -a`},
	{"RELAY-25: of two bodies the client has the one that came last, and it is gone when neither is there", "delta", `
		type cds
		star a=1 firm
		says a=2
		asks * a
		gets a=2
		star a=3
		gets a=3
		says a-
		star a-
		gets -a`},
	{"SOTW-2, VER-4: a list has all, and the version is that of what it has", "sotw", `
		type cds
		star a=1 b=1 firm
		lists *
		gets list a=1 b=1
		star b=2
		gets list a=1 b=2
		star a-
		gets list b=2`},
	{"SOTW-3, DEL-3: of other types what has changed is sent, and nothing is taken away", "sotw", `
		type eds
		says a=1 b=1
		lists a b
		gets a=1 b=1
		says b=2
		gets b=2
		says a-
		says b-
		says a=1
		gets a=1`},
	{"SOTW-4: secrets by name are sent whole", "sotw", `
		type sds
		says a=1 b=1
		lists a b
		gets list a=1 b=1
		says b=2
		gets list a=1 b=2`},
	{"SOTW-5: what is newly named is sent, though it came before", "sotw", `
		type eds
		says a=1 b=1
		lists a
		gets a=1
		lists a b
		gets b=1`},
	{"SOTW-6: dropped and named again is newly named", "sotw", `
		type eds
		says a=1
		lists a
		gets a=1
		lists
		lists a
		gets a=1`},
	{"SOTW-7: a request that changes nothing is not answered", "sotw", `
		type cds
		star a=1 firm
		lists *
		gets list a=1
		lists *
		ack`},
	{"SOTW-8: what is not there is sent when it comes", "sotw", `
		type eds
		lists a
		says a=1
		gets a=1`},
	{"SOTW-9: a list is not empty before that is known", "sotw", `
		type cds
		lists *
		star unanswered
		star settled
		gets list
		star a=1
		gets list a=1
		star a-
		gets list`},
	{"SOTW-9: nor by name, while one of the names is not known", "sotw", `
		type cds
		says a=1
		lists a b
		gets list a=1
		says a-
		says b-
		gets list`},
	{"SOTW-10: * is answered though it is empty", "sotw", `
		type cds
		star settled
		lists *
		gets list`},
	{"WILD-3: names are listed, and * is not any more", "sotw", `
		type cds
		star a=1 b=1 firm
		says a=1
		lists *
		gets list a=1 b=1
		lists a
		gets list a=1`},
	{"ABS-4: what does not exist is said as soon as it is known", "delta", `
		type eds
		asks a
		says a-
		gets -a`},
	{"ABS-5: silence is no absence", "delta sotw", `
		type eds
		asks a
		wait 1h`},
	{"ABS-7, ABS-11: an error is told once, and after the body", "delta sotw", `
		type eds
		says a=1
		asks a
		gets a=1
		says a=2!14
		gets a=2 ...
		wait 1s
		gets !a
		says a=2!14
		says a=2
		gets a=2`},
	{"ABS-9: NOT_FOUND is a removal, too", "delta", `
		type eds
		says a=1
		asks a
		gets a=1
		says a!5
		gets -a !a`},
	{"ABS-10: in state of the world it is an error alone", "sotw", `
		type eds
		asks a
		says a!5
		gets !a`},
	{"ABS-8: an error that is no absence takes nothing away", "delta", `
		type eds
		says a=1
		asks a
		gets a=1
		says a!14
		gets !a
		says a-
		gets -a`},
	{"COLL-3, COLL-4: an empty collection is answered by its name, and its members one by one", "delta", `
		type cds
		glob settled
		asks g/*
		gets -g/*
		glob g1=1
		gets g1=1
		glob g1-
		gets -g1`},
	{"COLL-2: towards state of the world a collection has no removals", "sotw", `
		type eds
		glob g1=1 settled
		lists g/*
		gets g1=1
		glob g1- g2=1
		gets g2=1`},
	{"ALIAS-1, ALIAS-3: who asks for an alias has the resource", "delta", `
		type vhds
		asks x
		says a=1/x x>a
		gets a=1
		says a=2/x
		gets a=2
		drops x
		says a=3/x`},
	{"ALIAS-3: by two names it is one", "delta", `
		type vhds
		says a=1/x/y x>a y>a
		asks x
		gets a=1
		asks y
		gets a=1
		drops x
		says a=2/x/y
		gets a=2`},
	{"ALIAS-4: an alias that is dropped waits for its answer, and is answered by what comes", "delta", `
		type vhds
		says a=1/x x>a
		asks x
		gets a=1
		says a=2 x?
		says b=1/x x>b
		gets b=1 -a`},
	{"ALIAS-10: a host that does not exist is answered at once, each time", "delta", `
		type vhds
		says a-
		demands a
		gets -a ?a
		demands a
		gets -a ?a`},
	{"ALIAS-10: silence of a connected origin is answered the same, and not remembered", "delta", `
		type vhds
		demands a
		silent a
		gets -a ?a
		says a=1
		gets a=1`},
	{"TTL-2, TTL-10: what was accepted is renewed, what was rejected is not", "delta", `
		type eds ttl
		says a=1~60 b=1~60
		asks a
		gets a=1
		ack
		says a=1~120
		gets ~a
		asks b
		gets b=1
		nack
		says b=1~120
		says b=2~120
		gets b=2
		says b=2~180
		gets b=2`},
	{"TTL-7: who is sent no TTLs sees none change", "delta sotw", `
		type eds
		says a=1~60
		asks a
		gets a=1
		says a=1~120
		says a=1`},
	{"TTL-8: that it ends no more takes the body", "delta", `
		type eds ttl
		says a=1~60
		asks a
		gets a=1
		ack
		says a=1
		gets a=1`},
	{"TTL-11: a list is renewed as a whole", "sotw", `
		type cds ttl
		star a=1~60 b=1 firm
		lists *
		gets list a=1 b=1
		ack
		star a=1~120
		gets list a=1 b=1`},
	{"RELAY-51: what ends is withheld from who could not be told", "sotw", `
		type eds withhold
		says a=1~60 b=1
		lists a b
		gets b=1 !a
		says a=1
		gets a=1`},
	{"WARM-3: what is owed is pushed", "delta", `
		type eds
		says a=1
		asks a
		gets a=1
		owes a
		gets a=1`},
	{"WARM-2: in state of the world with the next request, or when it is due", "sotw", `
		type eds
		says a=1
		lists a
		gets a=1
		owes a
		requests
		gets a=1
		owes a
		push
		gets a=1`},
	{"WARM-7: what does not exist is not owed", "delta", `
		type eds
		says a-
		asks a
		gets -a
		owes a
		gets -a
		wait 1s`},
	{"ORD-3: what a state has that the client may go by is not taken away", "delta", `
		type cds
		star a=1 b=1 firm
		asks *
		gets a=1 b=1
		keep
		star a- b=2
		gets b=2
		keep no
		gets -a`},
	{"ORD-3: nor in a list", "sotw", `
		type cds
		star a=1 b=1 firm
		lists *
		gets list a=1 b=1
		keep
		star a- b=2
		gets list a=1 b=2
		keep no
		gets list b=2`},
	{"ORD-11: nothing is taken away", "delta", `
		type cds
		star a=1 firm
		asks *
		gets a=1
		all
		star a-
		all no
		gets -a`},
	{"EC-4: a rollback gives what was, and what has come since goes", "delta", `
		type cds
		star a=1 firm
		asks *
		gets a=1
		unseen hold
		star a=2 b=1
		follow
		gets a=2 b=1
		hold 1
		gets a=1 -b`},
	{"NONCE-10: what the client has not passes", "delta", `
		type eds
		says a=1 b=1
		asks a
		gets a=1
		missing
		says a=2
		asks b
		gets b=1
		missing no
		gets a=2`},
	{"DELTA-2: who asks for a set again is sent it again", "delta", `
		type cds
		star a=1 firm
		asks *
		gets a=1
		asks *
		gets a=1`},
	{"DELTA-2: who asks for a name in error again is told again", "delta", `
		type eds
		says a!14
		asks a
		gets !a
		asks a
		gets !a`},
	{"DELTA-2: who drops a collection and asks for it again in one moment is sent it", "delta", `
		type eds
		star b=1 firm
		glob g1=1 settled
		asks g/* *
		gets b=1 g1=1
		unseen drops g/*
		asks g/*
		gets g1=1`},
	{"RELAY-96: of restored names a client is sent what it does not hold", "delta", `
		type eds
		has b=1
		says a=1? b=2?
		asks a b
		gets a=1
		says b=3
		gets b=3`},
	{"RELAY-96: and a client that holds nothing, all", "sotw", `
		type eds
		says a=1?
		lists a
		gets a=1`},
	{"WARM-6: what is owed is sent of a set, too, and all of it if nobody knows what", "delta", `
		type eds
		star a=1 b=1 firm
		asks *
		gets a=1 b=1
		owes a
		gets a=1
		owes *
		gets a=1 b=1
		owes c`},
	{"WARM-4: the hosts of a route configuration that was sent are sent again", "delta", `
		type vhds
		says ra=1 sb=1 rc=1/x x>rc
		star rd=1 sd=1 firm
		asks ra sb x *
		gets ra=1 sb=1 rc=1 rd=1 sd=1
		hosts r
		gets ra=1 rc=1 rd=1`},
	{"WILD-9: what a set has cannot be dropped by one name, which is answered", "delta", `
		type cds
		star a=1 firm
		asks *
		gets a=1
		drops a
		gets a=1
		drops b`},
	{"DELTA-9: so is what the client says it holds, in its first request", "delta", `
		type cds
		has a=1 b=1
		star a=1 firm
		first asks *
		drops a b
		gets a=1 -b`},
	{"RELAY-20: who drops a collection has what it has otherwise", "delta", `
		type eds
		star b=1 firm
		glob g1=1 g2=1 settled
		says g2=1
		asks g/* g2 *
		gets b=1 g1=1 g2=1
		drops g/*
		gets -g1`},
	{"RELAY-8: that the origin cannot be reached is said of each name that is waited for, once", "delta sotw", `
		type eds
		asks a
		unreached
		gets !a
		unreached
		says a=1
		gets a=1`},
	{"RELAY-9: what must not be cached stays with those who have it", "delta", `
		type eds
		says a=1^
		asks a
		gets a=1
		lane down
		asks a
		gets a=1`},
	{"RELAY-9: and nobody else is given it while its stream is lost", "delta", `
		type eds
		says a=1^ b=1
		lane down
		asks a b
		gets b=1
		lane up
		gets a=1`},
	{"ABS-8, ABS-11: a list tells no error of what it has", "sotw", `
		type cds
		star a=1 firm
		lists *
		gets list a=1
		star a=1!14
		star a=2!14
		gets list a=2`},
	{"ABS-9: what is no member and does not exist is an error and a removal", "delta", `
		type cds
		star a=1 firm
		asks *
		gets a=1
		star c!5
		gets -c !c`},
	{"ABS-12: the error of a collection is told, and its members end it", "delta sotw", `
		type eds
		glob g1=1 settled
		asks g/*
		gets g1=1
		glob ill
		gets !g/*
		glob g2=1
		gets g2=1
		glob settled
		gets g1=1 g2=1`},
	{"ALIAS-1: who drops a resource by its name drops it by its aliases", "delta", `
		type vhds
		says a=1/x x>a
		asks x
		gets a=1
		drops a
		says a=2/x`},
	{"ALIAS-1: an alias that is gone while its resource stays is removed", "delta", `
		type vhds
		says a=1/x x>a
		asks x a
		gets a=1
		says a=2 x-
		gets a=2 -x`},
	{"ALIAS-3: who comes back by an alias that is gone loses what it had by it", "delta", `
		type vhds
		has a=1
		says x- a-
		asks x
		gets -x -a`},
	{"NAME-9: a name is told as the client wrote it first", "delta", `
		type eds
		says a- b!14
		asks a/A b/B
		gets -A !B
		asks a/Z
		gets -A`},
	{"RELAY-7: a list waits for what is in error, which the client may have", "sotw", `
		type cds
		has version
		star a=1 b!14 firm
		lists *
		wait 16s
		gets list a=1 !b`},
	{"RELAY-96: a SotW client is not sent restored names that it came back with, and others are", "sotw", `
		type eds
		has version
		says a=1? b=1?
		lists a
		lists a b
		gets b=1
		says a=2
		gets a=2`},
	{"RELAY-4: what the states do not know of the client keeps, and no answer is made of it", "delta", `
		type eds
		says a=1
		asks a
		gets a=1
		forgets a
		asks a
		says a=2
		gets a=2`},
	{"RELAY-74: what a client may not have is not there, and nothing of it is told", "delta", `
		type cds may a
		star a=1 b=1 firm
		says b=1
		asks * b
		gets a=1 -b
		star b=2
		says b!14`},
	{"NAME-9: and what it drops as well", "delta", `
		type eds
		star firm
		says a-
		asks * a/A
		gets -A
		drops a
		gets -A`},
	{"DELTA-4: who drops `*` keeps what it has by name, and by an alias", "sotw", `
		type cds
		star a=1 b=1 firm
		says a=1
		lists * a
		gets list a=1 b=1
		lists a
		star b=2
		says a=2
		gets list a=2`},
	{"DELTA-4: who drops an alias has nothing of it", "delta", `
		type vhds
		says a=1/x x>a
		asks x
		gets a=1
		drops x
		asks a
		gets a=1
		drops a
		says a-
		asks x
		says a=1/x
		gets a=1`},
	{"ALIAS-3: what an alias stands for comes later", "delta", `
		type vhds
		asks x
		says x>a
		says a=1/x
		gets a=1`},
	{"ALIAS-3: and again", "delta", `
		type vhds
		asks x
		says x>a a-
		says a=1/x
		gets a=1`},
	{"RELAY-96: who comes back with an alias is not told that it is gone by the name", "delta", `
		type vhds
		has a=1 b=1
		asks x
		says x>b b=1/x
		gets b=1 -a`},
	{"DELTA-4: what the client says it holds and does not ask for is taken away when its aliases are known", "delta", `
		type vhds
		has a=1 b=1
		asks x y
		says x>b b=1/x
		gets b=1
		says y-
		gets -a -y`},
	{"WILD-9: two sets, of which one is dropped, and a name by it", "delta", `
		type cds
		star a=1 g1=1 firm
		glob g1=1 g2=1 settled
		asks * g/*
		gets a=1 g1=1 g2=1
		drops g/*
		gets -g2`},
	{"TTL-8: of two that say the same the one that ends later counts", "delta", `
		type eds ttl
		star a=1~60 firm
		says a=1~120
		asks * a
		gets a=1
		ack
		star a=1~180
		gets ~a
		says a=1~90
		star a=1
		gets a=1`},
	{"RELAY-96: what stood for the origin is doubted by who holds what the origin said", "delta", `
		type cds
		has a=2
		star a=1 firm fallback
		asks *
		star firm
		gets a=1`},
	{"RELAY-96: and not by who holds what stood for it", "delta", `
		type cds standin
		has a=2
		star a=1 firm fallback
		asks *
		gets a=1`},
	{"RELAY-38: a collection that was empty before its stream was lost is not answered", "delta", `
		type cds
		glob settled stale
		asks g/*
		glob settled
		gets -g/*`},
	{"RELAY-38: and one that was not is", "delta", `
		type cds
		glob g1=1 settled stale
		asks g/*
		gets g1=1`},
	{"RELAY-38: an error of a set that was told before its stream was lost is not told", "delta sotw", `
		type eds
		star a=1 firm
		glob g1=1 settled ill stale
		asks g/*
		gets g1=1
		glob settled ill
		gets !g/*`},
	{"NAME-9: what the client says it holds is spelt as it does", "delta", `
		type eds
		has b/B=1
		star firm
		asks *
		gets -B`},
	{"DELTA-2: who asks for an empty set again is answered again", "delta", `
		type cds
		star firm
		asks *
		gets nothing
		asks *
		gets nothing`},
	{"DELTA-2: who has it by an alias, too, if it says that it has it and drops it", "delta", `
		type vhds
		has a=1/x
		asks x a
		drops a
		says a=1/x x>a
		gets a=1`},
	{"DELTA-11: by an alias what the client has is not sent, either", "delta", `
		type vhds
		has a=1/x
		asks x
		requests
		says a=1/x x>a`},
	{"DELTA-2: but if it has asked for something since", "delta", `
		type vhds
		has a=1/x
		asks x
		asks y
		says a=1/x x>a
		gets a=1`},
	{"DELTA-4: what it has by a name or by an alias stays when `*` goes", "delta", `
		type vhds
		star a=1/x b=1 c=1 firm
		says a=1/x x>a b=1 c-
		asks * x b
		gets a=1 b=1 c=1
		drops *
		says a=2/x b=2
		gets a=2 b=2`},
	{"ALIAS-1: who drops an alias of what it asks for by name drops that", "delta", `
		type vhds
		says a=1/x x>a
		asks a
		gets a=1
		drops x
		says a=2/x`},
	{"ALIAS-1: but not of what a set has", "delta", `
		type vhds
		says a=1/x x>a
		star a=1/x firm
		asks a *
		gets a=1
		drops x
		says a=2/x
		gets a=2`},
	{"ALIAS-1, WILD-9: nor does it drop an alias by the name of what a set has", "delta", `
		type vhds
		star a=1/x firm
		says a=1/x x>a
		asks * x
		gets a=1
		drops a
		gets a=1
		star a-
		says a=2/x
		gets a=2`},
	{"WARM-4: a host that does not exist is answered again, too", "delta", `
		type vhds
		says ra- sb-
		asks ra sb
		gets -ra -sb
		hosts r
		gets -ra`},
	{"RELAY-74: what a client says it holds and may not have goes as soon as it is known what a set has", "delta", `
		type cds may a
		has a=1 b=1
		star a=1 arriving
		asks *
		star firm
		gets -b`},
	{"RELAY-74: and by name at once", "delta", `
		type cds may a
		has a=1 b=1
		star a=1 arriving
		asks * b
		gets -b`},
	{"RELAY-74: an alias of what it may not have is of nothing", "delta", `
		type vhds may x
		says a=1/x x>a
		asks x
		gets -x`},
	{"ABS-8: a member in error stays with who has it", "delta", `
		type cds
		star c=1 d=1 firm
		asks *
		gets c=1 d=1
		star c!14
		gets !c
		star d!5
		gets -d !d
		star c-
		gets -c`},
	{"ABS-12: of a step that has only what is missing the error of a collection is not told", "delta", `
		type eds
		glob g1=1 settled
		asks g/*
		gets g1=1
		missing
		glob ill
		missing no
		gets !g/*`},
	{"TTL-10: what a client says it holds it has accepted", "delta", `
		type eds ttl
		has a=1
		says a=1~60
		asks a
		gets ~a
		says a=1~120
		gets ~a`},
	{"TTL-10: what was sent again it has not, before it says so", "delta", `
		type eds ttl
		says a=1~60
		asks a
		gets a=1
		ack
		asks a
		gets a=1
		says a=1~120
		gets a=1`},
	{"DELTA-2: who asks for a set again is told its members' errors again", "delta", `
		type cds
		star a=1 c!14 firm
		asks *
		gets a=1 !c
		asks *
		gets a=1 !c
		drops *
		asks *
		gets a=1 !c
		unseen drops *
		asks *
		gets a=1 !c`},
	{"DELTA-9: the error of what is dropped is the answer, if a set has it", "delta", `
		type cds
		star a=1 c!14 firm
		says c!14
		asks * c
		gets a=1 !c
		drops c
		gets !c`},
	{"DELTA-9, ALIAS-1: so is what an alias stood for", "delta", `
		type vhds
		star a=1/x firm
		says a=1/x x>a
		asks * x
		gets a=1
		drops x
		gets a=1`},
	{"RELAY-38: a stream that is open is enough to say so", "delta", `
		type eds
		says a-
		lane down
		lane 1 up
		asks a
		gets -a`},
	{"ABS-7: an error that ends as an absence is answered by that", "delta", `
		type cds
		says a!14
		asks a b
		gets !a
		says b!14
		gets !b
		says b-
		gets -b`},
	{"RELAY-9: a set that restored has what must not be cached is not sent to others", "delta", `
		type cds
		star a=1^ b=1 firm
		asks *
		gets a=1 b=1
		star firm stale
		asks *
		gets a=1 b=1`},
	{"DELTA-12: of what the client says it holds nothing is known, and then it is of a set", "delta", `
		type cds
		has a=1 b=1
		star arriving
		asks * a
		star b=1 firm
		gets nothing
		says a-
		gets -a`},
	{"SOTW-2: a list that has several sets and names has all of them, and waits for a name no longer than its error", "sotw", `
		type cds
		star a=1 firm
		lists * b
		gets list a=1
		says b!14
		gets list a=1 !b
		says b=1
		gets list a=1 b=1`},
	{"RELAY-7: a client that comes back waits for a name though an error is told of it", "sotw", `
		type cds
		has version
		star a=1 firm
		lists * b
		says b!14
		wait 16s
		gets list a=1 !b`},
	{"TTL-9: heartbeats go alone, and a body takes them along", "sotw", `
		type eds ttl
		says a=1~60 b=1
		lists a b
		gets a=1 b=1
		ack
		says a=1~120
		gets ~a
		says a=1~180 b=2
		gets a=1 b=2`},
	{"NONCE-10: of a step for what is missing the rest is looked at later", "delta", `
		type cds
		star a=1 b=1 firm
		asks *
		gets a=1 b=1
		missing
		star a=2 c=1
		gets c=1
		missing no
		gets a=2`},
	{"ORD-3: what is kept for a state goes with it, though nothing else has changed", "delta", `
		type eds
		says a=1 b=1
		asks a b
		gets a=1 b=1
		keep
		says a-
		says b=2
		gets b=2
		keep no
		gets -a`},
	{"ABS-12: an error of weir's own is no news for who is told of absence", "delta", `
		type eds
		glob g1=1 settled own
		asks g/*
		gets g1=1`},
	{"ABS-12: and in state of the world it is", "sotw", `
		type eds
		glob g1=1 settled own
		lists g/*
		gets g1=1 !g/*`},
	{"DELTA-13: `*` is answered when all of it has come, though that is nothing", "delta", `
		type cds
		star arriving
		asks *
		star settled
		gets nothing`},
	{"NONCE-10: and not in a step for what is missing", "delta", `
		type cds
		star firm
		missing
		asks *
		missing no
		gets nothing`},
	{"COLL-3: that a collection is empty cannot be said in state of the world", "sotw", `
		type eds
		glob settled
		lists g/*
		glob g1=1
		gets g1=1`},
	{"COLL-3: nor in a list", "sotw", `
		type cds
		star a=1 firm
		glob settled
		lists * g/*
		gets list a=1`},
	{"ABS-8: who says that it holds what is in error is told so, and keeps it", "delta", `
		type eds
		has a=1
		says a!14
		asks a
		gets !a
		says a-
		gets -a`},
	{"NAME-9: the spelling of what the client had is forgotten with that, and not before", "delta", `
		type cds
		has a/A=1 b/B=1
		star a=1 firm
		asks *
		gets -B
		star a-
		gets -A
		star a=1
		gets a=1
		star a-
		gets -a`},
	{"NAME-9: who asks again may write it otherwise", "delta", `
		type cds
		says a-
		asks a/A
		gets -A
		unseen drops a
		asks a/B
		gets -B
		unseen drops a
		asks a
		gets -a`},
	{"RELAY-8: it is said of a collection, too, of each as the client wrote it", "delta sotw", `
		type eds
		glob unanswered
		lists a/A g/*
		unreached
		gets !A !g/*
		unreached
		glob g1=1 settled
		gets g1=1`},
	{"RELAY-8: and not of `*`, or of a collection that is there", "delta", `
		type eds
		glob g1=1 settled
		asks * g/*
		gets g1=1
		unreached`},
	{"DELTA-4: who drops an alias of which nothing is known any more has nothing of it", "delta", `
		type vhds
		says a=1/x x>a
		asks x y
		gets a=1
		says x?
		drops x`},
	{"ALIAS-3: what a client says it holds and drops goes, if its alias stands for something else", "delta", `
		type vhds
		has a=1
		asks x a
		drops a
		says b=1/x x>b
		gets b=1 -a`},
	{"TTL-10: a step for heartbeats has nothing else", "delta", `
		type eds ttl
		says a=1~60 b=1~60 c=1~60
		asks a b c
		gets a=1 b=1 c=1
		ack
		beats
		says a=1~120 b=2~60
		gets ~a
		asks c d
		says c=1~120 d=1
		beats no
		gets b=2 c=1 d=1`},
	{"ALIAS-10: a step for what is waited for has nothing else", "delta", `
		type vhds
		says a=1 b=1
		demanded
		asks a
		demands b
		gets b=1
		demanded no
		gets a=1`},
	{"RELAY-51: what the client has it keeps, though it ends now", "sotw", `
		type eds withhold
		says a=1
		lists a
		gets a=1
		says a=1~60
		says a=2~60
		gets !a
		says a=2~120
		says a=3
		gets a=3`},
	{"TTL-10: what it claimed otherwise it has not accepted", "delta", `
		type eds ttl
		has a=1
		says a=2~60
		asks a
		gets a=2
		says a=2~120
		gets a=2`},
	{"DELTA-9: in state of the world what is dropped needs no answer", "sotw", `
		type eds
		glob g1=1 settled
		says g1=1
		lists g/* g1
		gets g1=1
		lists g/*`},
	{"RELAY-38: of an alias, too, what was said before its stream was lost is no news", "delta", `
		type vhds
		has a=1/x
		says a=1/x x- b=1/y y>b
		lane down
		asks x y
		gets b=1
		lane up
		gets -x -a`},
	{"ALIAS-10: of other types a name that does not exist is removed, and nothing else", "delta", `
		type eds
		says a-
		demands a
		gets -a`},
	{"ABS-10: nor is there a removal of a member in error in state of the world", "sotw", `
		type eds
		glob g1=1 settled
		lists g/*
		gets g1=1
		glob g2!5
		gets !g2`},
	{"RELAY-51: delta says when a resource ends, by a removal", "delta", `
		type eds withhold
		says a=1~60
		asks a
		gets a=1`},
	{"RELAY-51: and so do lists, and TTLs", "sotw", `
		type cds withhold
		star a=1~60 firm
		lists *
		gets list a=1`},
	{"RELAY-51: of types that are not listed, too", "sotw", `
		type eds ttl withhold
		says a=1~60
		lists a
		gets a=1`},
	{"RELAY-51: whatever was wrong before", "sotw", `
		type eds withhold
		says a!14
		lists a
		gets !a
		says a=1~60
		gets !a`},
	{"SOTW-4: who asks for all of a type is sent lists", "sotw", `
		type eds
		star a=1 b=1 firm
		lists *
		gets list a=1 b=1
		star a-
		gets list b=1`},
	{"RELAY-7: a list waits for `*`, whatever else it has", "sotw", `
		type cds
		says b=1
		lists * b
		star a=1 firm
		gets list a=1 b=1`},
	{"RELAY-7: and for no collection, if it has anything else", "sotw", `
		type cds
		says b=1
		lists g/* b
		gets list b=1
		glob g1=1 settled
		gets list b=1 g1=1`},
	{"RELAY-7: not beside all, either", "sotw", `
		type cds
		star a=1 firm
		lists * g/*
		gets list a=1
		glob g1=1 settled
		gets list a=1 g1=1`},
}
