package cursor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// rows are rules as games. A line is what happens, or what the client is sent then. After a line that is
// not followed by `gets` nothing may be sent.
//
//	type vhds ttl               how the client is, on the first line: cds eds vhds sds; ttl, withhold, may a b
//	asks a b *                  a delta request; drops a; demands a; g/* is a collection of g1, g2
//	lists a b *                 a SotW request
//	has a=1 b=2, has version    what the client says it holds, in its first request; the version of what there is
//	star a=1 b-                 what the origin says of `*`, and glob of g/*; a=1~60 ends in 60 s
//	says a=1 b- c!14 d>a a=1/d  by name: a body, none, an error, an alias, a body that lists one
//	star firm, glob arriving    how far it has answered; settled, unanswered, restored
//	learns, forgets             as says
//	a=1^ must not be cached; a=1? was restored; glob ill: the collection is in error
//	first asks a                a request that is not over; a/A: the client writes A
//	lane down, up; hold, follow; keep: what is held now stays; all: nothing is taken away
//	ack, nack; requests; owes a; hosts r; push; silent a; unreached; wait 15s; missing: what the client has not
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
		glob settled
		gets g1=1`},
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
}

func TestRows(t *testing.T) {
	for _, row := range rows {
		for dialect := range strings.FieldsSeq(row.dialects) {
			for _, shared := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/shared %t", row.rule, dialect, shared), func(t *testing.T) {
					g := &game{t: t, now: zero, delta: dialect == "delta", last: map[string]*xds.Variant{}}
					if shared {
						g.memo = &Memo{}
					}
					g.line = state.NewTimeline(zero, state.Config{Bytes: 1 << 30, Age: time.Hour})
					g.line.Connect(zero, 0, state.Lane{Open: true})
					lines := strings.Split(strings.TrimSpace(row.script), "\n")
					for i, line := range lines {
						if line = strings.TrimSpace(line); strings.HasPrefix(line, "gets") {
							continue
						}
						want := "-"
						if i+1 < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[i+1]), "gets") {
							want = strings.TrimSpace(lines[i+1])
						}
						g.play(line, want)
					}
				})
			}
		}
	}
}

// game is a row that is played.
type game struct {
	t       *testing.T
	delta   bool
	typeURL string
	cfg     Config
	source  Source
	memo    *Memo
	cursor  *Cursor
	line    *state.Timeline
	now     time.Time
	rev     uint64
	keep    *state.State
	all     bool
	missing bool
	held    []*state.State
	last    map[string]*xds.Variant
	claims  []string
	answer  uint64
}

var typesOfRows = map[string]string{"cds": cds, "eds": eds, "sds": sds, "vhds": vhs}

func (g *game) play(line, want string) {
	words := strings.Fields(line)
	what := words[0]
	unseen := what == "unseen" || what == "first"
	if what == "unseen" {
		words = words[1:]
		what = words[0]
	}
	push := g.do(what, words[1:])
	if unseen || g.cursor == nil {
		return
	}
	s := plan.Step{TypeURL: g.typeURL, Push: push, Parts: []plan.Part{{To: g.line.Target(state.Rest).State, Keep: [2]*state.State{g.keep}, All: g.all}}}
	if g.missing {
		s.Only = plan.Missing
	}
	a := g.cursor.Take(g.now, s)
	if got := g.words(a); got != sorted(want) {
		g.t.Fatalf("after %q: %s\n          want: %s", line, got, sorted(want))
	}
	if a != nil {
		g.answer = a.Number
	}
}

// sorted has the words of a line in the order in which they are compared.
func sorted(line string) string {
	words := strings.Fields(line)
	from := min(len(words), 1)
	if len(words) > 1 && words[1] == "list" {
		from = 2
	}
	slices.Sort(words[from:])
	return strings.Join(words, " ")
}

func (g *game) words(a *Answer) string {
	if a == nil {
		return "-"
	}
	words := []string{"gets"}
	body := func(v *xds.Variant) string {
		_, payload, _ := xds.AnyParts(v.Any())
		return v.Name + "=" + string(payload)
	}
	if a.Whole {
		words = append(words, "list")
		var digests []xds.Digest
		for e := range a.All[0].All() {
			words = append(words, body(e.Body()))
			digests = append(digests, e.Body().Digest)
		}
		if a.Version != a.All[0].Sum().Version() || len(digests) == 0 && a.Version != (xds.SetDigest{}).Version() {
			g.t.Errorf("the version of %v is %s (VER-4)", words, a.Version)
		}
	} else {
		for _, v := range a.Changed {
			words = append(words, body(v))
		}
	}
	for _, v := range a.Heartbeats {
		words = append(words, "~"+v.Name)
	}
	for _, name := range a.Removed {
		words = append(words, "-"+strings.Replace(name, selectorOfRows, "g/*", 1))
	}
	for _, e := range a.Errors {
		words = append(words, "!"+strings.Replace(e.Spelling(), selectorOfRows, "g/*", 1))
	}
	for _, name := range a.Unresolved {
		words = append(words, "?"+name)
	}
	if len(words) == 1 {
		words = append(words, "nothing")
	}
	if a.More {
		words = append(words, "...")
	}
	return sorted(strings.Join(words, " "))
}

const selectorOfRows = "xdstp:///envoy.config.cluster.v3.Cluster/g/*"

func nameOfRows(word string) Name {
	switch word {
	case "*":
		return All
	case "g/*":
		return Name{Name: selectorOfRows, Covers: func(name string) bool { return strings.HasPrefix(name, "g") }}
	}
	name, spelt, _ := strings.Cut(word, "/")
	return Name{Name: name, Spelt: spelt}
}

// open begins the stream.
func (g *game) open() {
	if g.cursor != nil {
		return
	}
	g.cfg.Memo, g.cfg.Began = g.memo, g.now
	g.cursor = New(g.cfg)
	g.cursor.Open(g.source)
	for _, c := range g.claims {
		name, payload, _ := strings.Cut(c, "=")
		g.cursor.Claim(0, name, "", body(like{typeURL: g.typeURL, name: name, payload: payload}).Digest)
	}
}

// do does what a line says. push: what is owed is due.
func (g *game) do(what string, words []string) (push bool) {
	word := strings.Join(words, " ")
	switch what {
	case "type":
		g.typeURL = typesOfRows[words[0]]
		g.cfg = Config{TypeURL: g.typeURL, Delta: g.delta, Patience: 15 * time.Second, Cold: 10 * time.Second}
		g.cfg.Unreachable = func(name string) *xds.NameError { return xds.NewNameError(name, unavailable, "it is away") }
		g.source = Source{Ends: ends}
		for i, option := range words[1:] {
			g.cfg.TTL = g.cfg.TTL || option == "ttl"
			g.cfg.Withhold = g.cfg.Withhold || option == "withhold"
			if may := words[i+2:]; option == "may" {
				g.source.Allows = func(name string) bool { return slices.Contains(may, name) }
				g.source.Filter = state.NewFilter(g.source.Params, g.source.Allows)
				break
			}
		}
	case "has":
		if g.cfg.Holds = true; word != "version" {
			g.claims = words
			break
		}
		x, _ := g.line.Newest().Of(g.typeURL, "*")
		g.cfg.Version = x.Members.Sum().Version()
	case "asks", "lists", "drops", "demands":
		g.open()
		g.request(what, words)
	case "star", "glob", "says", "learns":
		g.say(what, words)
	case "lane":
		g.line.Connect(g.now, 0, state.Lane{Open: word == "up"})
	case "hold":
		if g.held = append(g.held, g.line.Newest()); word == "1" {
			g.line.Hold(g.now, state.Rest, g.held[0])
		} else {
			g.line.Hold(g.now, state.Rest, g.line.Newest())
		}
	case "follow":
		g.line.Hold(g.now, state.Rest, nil)
	case "keep":
		if g.keep = g.line.Newest(); word == "no" {
			g.keep = nil
		}
	case "all":
		g.all = word != "no"
	case "missing":
		g.missing = word != "no"
	case "ack", "nack":
		g.cursor.Ack(g.answer, what == "ack")
	case "requests":
		g.cursor.Requested(g.now)
	case "owes":
		g.cursor.Owe(words...)
	case "hosts":
		g.cursor.OweHosts(func(name string) bool { return strings.HasPrefix(name, word) })
	case "silent":
		g.cursor.Silent(0, word)
	case "unreached":
		g.cursor.Unreached()
	case "first":
		g.open()
		for _, name := range words[1:] {
			g.cursor.Subscribe(0, nameOfRows(name))
		}
	case "forgets":
		g.line.Forget(g.now, state.Change{TypeURL: g.typeURL, Edits: []state.Edit{{Name: word}}})
	case "push":
		return true
	case "wait":
		d, err := time.ParseDuration(word)
		if err != nil {
			g.t.Fatal(err)
		}
		g.now = g.now.Add(d)
	default:
		g.t.Fatalf("%q is no line", what)
	}
	return false
}

func (g *game) request(what string, words []string) {
	var names []Name
	for _, word := range words {
		n := nameOfRows(word)
		n.Demand = what == "demands"
		names = append(names, n)
	}
	switch what {
	case "lists":
		g.cursor.Replace(0, names)
	case "drops":
		for _, n := range names {
			g.cursor.Unsubscribe(0, n.Name)
		}
	default:
		for _, n := range names {
			g.cursor.Subscribe(0, n)
		}
	}
	g.cursor.Requested(g.now)
}

// say is what the origin says.
func (g *game) say(what string, words []string) {
	c := state.Change{TypeURL: g.typeURL, Selector: map[string]string{"star": "*", "glob": selectorOfRows}[what]}
	phases := map[string]state.Phase{"unanswered": state.Unanswered, "arriving": state.Arriving, "settled": state.Settled, "firm": state.Firm}
	for _, word := range words {
		name, payload, is := strings.Cut(word, "=")
		phase, isPhase := phases[word]
		switch {
		case isPhase:
			c.Status = &state.Status{Phase: phase, Age: state.Live}
		case word == "ill":
			x, _ := g.line.Newest().Of(g.typeURL, c.Selector)
			x.Status.Err = xds.NewNameError(c.Selector, unavailable, "it is so")
			c.Status = &x.Status
		case word == "restored":
			c.Status.Age = state.Restored
		case is:
			c.Edits = append(c.Edits, g.edit(name, payload))
		case strings.HasSuffix(word, "-") && c.Selector == "":
			c.Edits = append(c.Edits, gone(strings.TrimSuffix(word, "-")))
		case strings.HasSuffix(word, "-"), strings.HasSuffix(word, "?") && !is:
			c.Edits = append(c.Edits, state.Edit{Name: word[:len(word)-1]})
		case strings.Contains(word, "!"):
			name, code, _ := strings.Cut(word, "!")
			n, _ := strconv.Atoi(code)
			e := failed(name, uint32(n), "it is so")
			if x, _ := g.line.Newest().Of(g.typeURL, ""); n == unavailable && x.Members.Get(name).Body() != nil { // it keeps its body
				f := e.Entry.Facts()
				f.Bodies = []*xds.Variant{x.Members.Get(name).Body()}
				e.Entry = state.NewEntry(f)
			}
			c.Edits = append(c.Edits, e)
		case strings.Contains(word, ">"):
			name, of, _ := strings.Cut(word, ">")
			c.Edits = append(c.Edits, alias(name, of))
		default:
			g.t.Fatalf("%q is nothing that can be said", word)
		}
	}
	g.rev++
	if what == "learns" {
		g.line.Learn(g.now, c)
		return
	}
	g.line.Publish(g.now, g.rev, c)
}

// edit is of a body: payload/alias~seconds!code.
func (g *game) edit(name, text string) state.Edit {
	l := like{typeURL: g.typeURL, name: name}
	text, l.uncached = strings.CutSuffix(text, "^")
	if text, restored := strings.CutSuffix(text, "?"); restored {
		l.payload = text
		return state.Edit{Name: name, Entry: state.NewEntry(state.Facts{Name: name, Bodies: []*xds.Variant{body(l)}, Age: state.Restored})}
	}
	text, code, failed := strings.Cut(text, "!")
	text, end, timed := strings.Cut(text, "~")
	if timed {
		seconds, _ := strconv.Atoi(end)
		l.end = zero.Add(time.Duration(seconds) * time.Second)
	}
	parts := strings.Split(text, "/")
	if l.payload = parts[0]; len(parts) > 1 {
		l.aliases = parts[1:]
	}
	if n, _ := strconv.Atoi(code); failed {
		l.err = xds.NewNameError(name, uint32(n), "it is so")
	}
	return say(l)
}
