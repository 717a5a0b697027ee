package downstream

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/relay/xds"
)

// judge knows what the origins said when, what clients asked for and what operators ordered, and the
// rules. It knows nothing of the core. Whatever it finds is an alarm, and ends the play:
//
//	foreign     a body that the origin never had of that name, for such a client
//	denied      a body of a name that the client must not have
//	older       a body that the origin had only before the one that the client has of the name, though no return was ordered
//	taken       a removal of what the origin has not taken away since it made the body that the client has
//	cluster     a route on ADS whose cluster the client lacks, and no state of the origin's did
//	chatter     a response that changes nothing, and that no request asked for
//	behind      a body that the origin has not had for worldBound, though all are well
//	rest        when all is quiet, a client has not what its subscription selects
//	kept        a body that the origin had for the first time after the order that keeps the client at an earlier one
//	mixture     when all is quiet, a tier that is held has no state of the origin's, but several
//	restless    it does not come to rest
//	stream      a stream ends without a reason
//	unasked     a response of a type that was not asked for
//	check, stopped, panic    what the core says of itself
type judge struct {
	w         *world
	seq       int // of changes of origins and orders, counted together
	times     []time.Time
	responses int // with anything in them but heartbeats
	spans     map[string][]span
	bodies    map[string][]string // keys of spans, by body
	state     map[string]string   // body by key of spans, as of now
	aliases   map[string][]aliasSpan
	wanted1   map[string]int // by tier, type and selector: since when
	orders    map[string]int // by origin and tier: the last hold
	ruledAt   int
	restartAt int // the last restart
	lastOrder int
	trouble   time.Time                  // when an origin went away, or came back
	unwell    map[*worldClient]time.Time // when something was wrong last that excuses delays
}

// span is how long an origin had a body of a name: of the changes from to to, without that.
type span struct {
	body     string
	from, to int
}

type aliasSpan struct {
	aliases []string
	from    int
}

// worldBound is how far a client may be behind under continuous change: two seconds that a set
// settles and changes are gathered, order_hold, and five seconds for each of two types that a client
// has not acknowledged (NONCE-10), rounded up.
const worldBound = 20 * time.Second

// worldComplete is for how long after it was asked a set may be incomplete, so that a freeze or a
// hold does not keep all of it.
const worldComplete = 5 * time.Second

type clientJudged struct {
	clusters bool // a response of clusters came on the present subscription
	// armed: since then there was a moment at which no route lacked its cluster. Before, what the
	// client has is of the order in which it asked.
	armed bool
}

type wishJudged struct {
	owed bool // a request was not answered yet
	// A collection was asked for: what it has is given at once or once it has settled, and may repeat
	// the answers to names of the same request, or be an empty response.
	empty  bool
	open   bool // SotW: some name may not be decided yet
	sent   map[string]sentWord
	claims map[string]heldBody // what the client said that it holds, until the first response
	parent bool                // what refers to it was sent since its last response (WARM-1)
	owes   map[string]bool     // endpoints of clusters that were sent since they were
	since  time.Time
	// learned: the subscription changed while its tier was held. What was unknown is then given as it
	// became known, and may be of another state.
	learned bool
}

func (j *judge) begin() {
	j.spans, j.bodies, j.state, j.aliases = map[string][]span{}, map[string][]string{}, map[string]string{}, map[string][]aliasSpan{}
	j.wanted1, j.orders, j.unwell = map[string]int{}, map[string]int{}, map[*worldClient]time.Time{}
	j.times = []time.Time{j.w.now}
}

func (j *judge) alarm(kind, format string, args ...any) {
	panic(&alarm{kind: kind, text: fmt.Sprintf(format, args...)})
}

// next counts a change or an order.
func (j *judge) next() int {
	j.seq++
	j.times = append(j.times, j.w.now)
	return j.seq
}

func spanKey(typeURL, word string) string { return typeURL + " " + word }

// changed takes note of what an origin has now.
func (j *judge) changed(o *worldOrigin) {
	n := j.next()
	for _, typeURL := range worldTypes {
		for word, body := range o.state[typeURL] {
			key := spanKey(typeURL, word)
			if typeURL == vhd {
				all := j.aliases[word]
				if len(all) == 0 || !slices.Equal(all[len(all)-1].aliases, o.aliases[word]) {
					j.aliases[word] = append(all, aliasSpan{slices.Clone(o.aliases[word]), n})
				}
			}
			if j.state[key] == body {
				continue
			}
			j.ends(key, n)
			j.state[key] = body
			j.spans[key] = append(j.spans[key], span{body, n, math.MaxInt})
			if !slices.Contains(j.bodies[body], key) {
				j.bodies[body] = append(j.bodies[body], key)
			}
		}
	}
	for key := range maps.Clone(j.state) {
		typeURL, word, _ := strings.Cut(key, " ")
		if j.w.originOf(word) == o && o.state[typeURL][word] == "" {
			j.ends(key, n)
			delete(j.state, key)
		}
	}
}

func (j *judge) ends(key string, n int) {
	if all := j.spans[key]; len(all) > 0 && all[len(all)-1].to == math.MaxInt {
		all[len(all)-1].to = n
	}
}

// words are the names with constraints that a client can be given a resource by.
func (c *worldClient) words(name string) []string {
	if isLocated(name) {
		return []string{strings.TrimSuffix(name, "{}")}
	}
	if c.env == "" {
		return []string{name, name + "{!env}"}
	}
	return []string{name, name + "{env=" + c.env + "}"}
}

// at is the body that the origin had of a name for a client, as of a change.
func (j *judge) at(c *worldClient, typeURL, name string, n int) string {
	for _, word := range c.words(name) {
		for _, s := range j.spans[spanKey(typeURL, word)] {
			if s.from <= n && n < s.to {
				return s.body
			}
		}
	}
	return ""
}

// began is the last change, up to one, that gave a name a body.
func (j *judge) began(c *worldClient, typeURL, name, body string, upTo int) (from int) {
	for _, word := range c.words(name) {
		for _, s := range j.spans[spanKey(typeURL, word)] {
			if s.body == body && s.from <= upTo {
				from = max(from, s.from)
			}
		}
	}
	return from
}

// first is the change that gave a name a body for the first time.
func (j *judge) first(c *worldClient, typeURL, name, body string) int {
	from := math.MaxInt
	for _, word := range c.words(name) {
		for _, s := range j.spans[spanKey(typeURL, word)] {
			if s.body == body {
				from = min(from, s.from)
			}
		}
	}
	return from
}

// ended is the last change that took a body from a name; math.MaxInt: it has it.
func (j *judge) ended(c *worldClient, typeURL, name, body string) (to int) {
	for _, word := range c.words(name) {
		for _, s := range j.spans[spanKey(typeURL, word)] {
			if s.body == body {
				to = max(to, s.to)
			}
		}
	}
	return to
}

// ordered takes note of an order for an origin.
func (j *judge) ordered(o *worldOrigin, f []string) {
	n := j.next()
	j.lastOrder = n
	if f[0] == "hold" || f[0] == "freeze" {
		j.orders[o.name+" "+heldTier(f)] = n
		for _, c := range j.w.clients {
			for _, x := range c.wishes {
				// what is not complete yet becomes known under the order
				if x.judged.owed || x.judged.since.Add(worldComplete).After(j.w.now) {
					x.judged.learned, c.judged.armed = true, false
				}
			}
		}
	}
	if f[0] == "unfreeze" || f[0] == "follow" { // those who held it back are behind
		j.bad()
		for _, c := range j.w.clients {
			for _, x := range c.wishes {
				x.judged.learned = x.judged.learned && (o.frozen || o.held[c.tierOf(o)])
			}
		}
	}
}

func heldTier(f []string) string {
	if len(f) > 1 {
		return f[1]
	}
	return ""
}

// bad takes note that delays are excused.
func (j *judge) bad() {
	for _, c := range j.w.clients {
		j.unwell[c] = j.w.now
	}
}

// ruled: whoever has other rights now may be sent what they come to.
func (j *judge) ruled() {
	j.ruledAt = j.next()
	j.bad()
	for _, c := range j.w.clients {
		for _, x := range c.wishes {
			x.judged.owed = true
		}
	}
}

func (j *judge) restarted() {
	j.bad()
	clear(j.wanted1)
	j.ruledAt = j.next()
	j.restartAt = j.seq
	for _, o := range j.w.origins {
		o.silent = o.mute
	}
}

// confirmed reports whether a client may be given what was restored, though it says that it has
// something newer (RELAY-96): a silent origin confirms what was restored, and a whole list does not
// wait for ever for a name of which the origin says nothing, or something that a freeze has wait.
func (j *judge) confirmed(c *worldClient, typeURL, name string, was heldBody) bool {
	o := j.w.originOf(name)
	if was.at >= j.restartAt {
		return false
	}
	list := !c.delta && xds.SentWhole(typeURL) && c.wishes[typeURL].names[name]
	return o.silent || list && (o.frozen || o.held[c.tierOf(o)] || j.at(c, typeURL, name, j.seq) == "")
}

// streamEnded judges the end of a stream. A client that holds nothing is sent away from an origin that is
// out of reach (RELAY-6).
func (j *judge) streamEnded(c *worldClient, err error) {
	if errors.Is(err, errRestarted) || errors.Is(err, errReruled) {
		return
	}
	away := slices.ContainsFunc(j.w.origins, func(o *worldOrigin) bool { return o.down || o.mute })
	if status.Code(err) == codes.Unavailable && (away || j.w.now.Before(j.trouble.Add(time.Minute)) || j.w.now.Before(j.unwell[c].Add(worldBound))) {
		return
	}
	j.alarm("stream", "%s's stream ends: %v", c.name, err)
}

// wanted takes note of a change of a subscription.
func (j *judge) wanted(c *worldClient, x *worldWish, typeURL string, _ []string) {
	x.judged.since = j.w.now
	o := j.w.origins[0]
	x.judged.learned = x.judged.learned || o.frozen || o.held[c.tierOf(o)]
	if x.judged.learned {
		c.judged.armed = false
	}
	if typeURL == cds {
		c.judged = clientJudged{}
	}
	for name := range x.names {
		key := c.tierOf(j.w.originOf(name)) + " " + spanKey(typeURL, name)
		if _, known := j.wanted1[key]; !known {
			j.wanted1[key] = j.seq
		}
	}
}

// allowed reports whether the rules give a client a name.
func (j *judge) allowed(c *worldClient, name string) bool {
	if j.w.rules == nil {
		return true
	}
	names := j.w.rules[c.who]
	name, _, _ = cutLocator(name)
	return slices.Contains(names, "**") || slices.Contains(names, name)
}

// turned reports whether the client's tier was held at a state since a change, or is.
func (j *judge) turned(c *worldClient, o *worldOrigin, since int) bool {
	return o.held[c.tierOf(o)] || j.orders[o.name+" "+c.tierOf(o)] >= since
}

// keptSince is the order, 0 if there is none, that keeps a client at what its origin had.
func (j *judge) keptSince(c *worldClient, o *worldOrigin) int {
	switch tier := c.tierOf(o); {
	case o.frozen:
		return j.orders[o.name+" "]
	case o.held[tier]:
		return j.orders[o.name+" "+tier]
	}
	return 0
}

// received judges a response. before is what the client held.
func (j *judge) received(c *worldClient, x *worldWish, m *message, made int, before map[string]heldBody, removed []string, whole bool) {
	for name, h := range x.held {
		if was, had := before[name]; !had || was.at != h.at || was.body != h.body {
			j.body(c, x, m.typeURL, name, h, was, had)
		}
	}
	for name, was := range before {
		if _, has := x.held[name]; !has && (whole || slices.Contains(removed, name)) {
			j.removal(c, x, m.typeURL, name, was)
		}
	}
	j.economy(c, x, m, made, whole)
	if j.w.bare {
		return
	}
	switch m.typeURL {
	case cds:
		c.judged.clusters = c.judged.clusters || len(m.words) == 0 || slices.ContainsFunc(m.words, func(w string) bool { return !strings.HasPrefix(strings.TrimLeft(w, "-!?"), "xdstp:") })
		c.refers(eds)
		if e := c.wishes[eds]; e != nil {
			for _, word := range m.words {
				name, _ := cutLast(word, "=")
				if e.judged.owes == nil {
					e.judged.owes = map[string]bool{}
				}
				e.judged.owes[name] = true
			}
		}
	case lds:
		c.refers(rds)
	case rds:
		c.refers(vhd)
	}
	j.routes(c)
}

// refers notes that what refers to a type was sent: that may be sent again (WARM-1).
func (c *worldClient) refers(to string) {
	if x := c.wishes[to]; x != nil {
		x.judged.parent = true
	}
}

// sentWord is what a client was sent of a name last: a body, or "-", and as of which change.
type sentWord struct {
	word string
	at   int
}

// economy judges that a response says something: a request asked for it, or it has a word that
// differs from the last one of that name, or the origin has said something else since then.
func (j *judge) economy(c *worldClient, x *worldWish, m *message, made int, whole bool) {
	said, counts := x.judged.owed || x.judged.parent, false
	sent := x.judged.sent
	if whole || sent == nil {
		x.judged.sent = map[string]sentWord{}
	}
	for _, word := range m.words {
		name, is := cutLast(word, "=")
		if name, _ = cutAliases(name); word[0] == '-' {
			name, is = word[1:], "-"
		}
		if counts = counts || word[0] != '?'; word[0] == '!' || word[0] == '?' {
			said = true
			continue
		}
		was, ever := sent[name]
		said = said || m.ttls[name] > 0 || x.judged.owes[name] || j.lastOrder > was.at || !ever || was.word != is || j.moved(c, m.typeURL, name, was.at)
		delete(x.judged.owes, name)
		x.judged.sent[name] = sentWord{is, made}
	}
	if whole { // a name that is left out was there before
		for name, was := range sent {
			_, has := x.judged.sent[name]
			said = said || !has && was.word != "-"
		}
	}
	if !said && x.judged.empty {
		said, x.judged.empty = true, false
	}
	if !said && !c.delta && x.judged.open {
		said, x.judged.open = true, false
	}
	for name, claimed := range x.judged.claims { // DELTA-11
		h := x.held[name]
		same := slices.Contains(m.words, name+"="+h.body) && h.body == claimed.body
		if same && !x.judged.owes[name] && !x.judged.parent && !j.moved(c, m.typeURL, name, claimed.at) && j.ruledAt <= claimed.at && j.lastOrder <= claimed.at {
			j.alarm("chatter", "%s is sent %s %s=%s, and has said that it holds it", c.name, scriptType(m.typeURL), name, h.body)
		}
	}
	x.judged.claims = nil
	if !said {
		j.alarm("chatter", "%s is sent %s %v, was sent it before, and has not asked", c.name, scriptType(m.typeURL), m.words)
	}
	if x.judged.owed, x.judged.parent = false, false; counts {
		j.responses++
	}
}

// moved reports whether an origin has said anything of a name since a change.
func (j *judge) moved(c *worldClient, typeURL, name string, since int) bool {
	for _, word := range c.words(name) {
		for _, s := range j.spans[spanKey(typeURL, word)] {
			if s.from > since || s.to > since && s.to <= j.seq {
				return true
			}
		}
	}
	return false
}

// body judges one body.
func (j *judge) body(c *worldClient, x *worldWish, typeURL, name string, h, was heldBody, had bool) {
	body, who, tailored := strings.Cut(h.body, "@")
	if tailored && who != c.who {
		j.alarm("foreign", "%s (%s) is given %s %s of %s", c.name, c.who, scriptType(typeURL), name, h.body)
	}
	known := false
	for _, word := range c.words(name) {
		known = known || slices.Contains(j.bodies[body], spanKey(typeURL, word))
	}
	if !known {
		j.alarm("foreign", "%s (env %q) is given %s %s=%s, which is of %v", c.name, c.env, scriptType(typeURL), name, h.body, j.bodies[body])
	}
	if !j.allowed(c, name) {
		j.alarm("denied", "%s (%s) is given %s %s", c.name, c.who, scriptType(typeURL), name)
	}
	urgent := typeURL == eds || typeURL == sds
	if n := j.keptSince(c, j.w.originOf(name)); had && !urgent && !x.judged.learned && was.at < n && n < j.first(c, typeURL, name, body) && !j.everUncached(c, typeURL, name) {
		j.alarm("kept", "%s is given %s %s=%s, which came after the order that keeps it at what it has", c.name, scriptType(typeURL), name, h.body)
	}
	if !had || was.body == h.body || j.turned(c, j.w.originOf(name), was.at) || j.confirmed(c, typeURL, name, was) {
		return
	}
	older, _, _ := strings.Cut(was.body, "@")
	if from := j.began(c, typeURL, name, older, was.at); j.ended(c, typeURL, name, body) <= from {
		j.alarm("older", "%s is given %s %s=%s, and has %s, which the origin has had since then", c.name, scriptType(typeURL), name, h.body, was.body)
	}
}

// removal judges that a client is to have nothing of a name.
func (j *judge) removal(c *worldClient, x *worldWish, typeURL, name string, was heldBody) {
	o := j.w.originOf(name)
	if !j.allowed(c, name) || j.turned(c, o, was.at) || j.confirmed(c, typeURL, name, was) {
		return
	}
	if !x.selects(typeURL, name, j.aliasesNow(o, typeURL, name)) {
		return // under `*` it was kept until it turns out to be no member
	}
	body, _, _ := strings.Cut(was.body, "@")
	from := j.began(c, typeURL, name, body, was.at)
	if body[0] == 't' && !j.times[from].Add(worldTTL).After(j.w.now) {
		return // it has ended, whatever the origin has said since and could not tell
	}
	for n := from; n <= j.seq; n++ {
		if j.at(c, typeURL, name, n) == "" {
			return
		}
		if typeURL == vhd && !x.selects(typeURL, name, j.aliasesAt(name, n)) {
			return
		}
	}
	j.alarm("taken", "%s loses %s %s=%s, which the origin has had ever since", c.name, scriptType(typeURL), name, was.body)
}

func (j *judge) aliasesNow(o *worldOrigin, typeURL, name string) []string {
	if typeURL != vhd {
		return nil
	}
	return o.aliases[name]
}

func (j *judge) aliasesAt(name string, n int) (aliases []string) {
	for _, s := range j.aliases[name] {
		if s.from <= n {
			aliases = s.aliases
		}
	}
	return aliases
}

// routes judges that the clusters of all routes are there.
func (j *judge) routes(c *worldClient) {
	clusters, routes := c.wishes[cds], c.wishes[rds]
	if c.apart || clusters == nil || routes == nil || !clusters.names[xds.Wildcard] || !c.judged.clusters {
		return
	}
	if routes.judged.learned || clusters.judged.learned {
		return
	}
	lacks := false
	for name, h := range routes.held {
		_, to, refers := strings.Cut(h.body, ">")
		to, _, _ = strings.Cut(to, "@")
		if _, has := clusters.held[to]; has || !refers || !j.allowed(c, to) {
			continue
		}
		body, _, _ := strings.Cut(h.body, "@")
		excused := j.unknownThen(c, name, body, to)
		for n := j.began(c, rds, name, body, h.at); n <= j.seq && !excused; n++ {
			now := j.at(c, rds, name, n)
			excused = now == "" || now == body && j.at(c, cds, to, n) == ""
		}
		if lacks = lacks || !excused; !excused && c.judged.armed {
			j.alarm("cluster", "%s has route %s=%s, and no cluster %s", c.name, name, h.body, to)
		}
	}
	c.judged.armed = c.judged.armed || !lacks
}

// unknownThen reports whether a client's tier is held, and may be at a state of before its routes or
// clusters were asked for: of these the state says nothing, and they stay as they were.
func (j *judge) unknownThen(c *worldClient, route, body, cluster string) bool {
	o := j.w.origins[0]
	if !o.held[c.tierOf(o)] {
		return false
	}
	asked := func(typeURL, name string) (n int) {
		for selector := range c.wishes[typeURL].names {
			if selector == name || selector == xds.Wildcard {
				n = max(n, j.wanted1[c.tierOf(o)+" "+spanKey(typeURL, selector)])
			}
		}
		return n
	}
	routes, clusters := asked(rds, route), asked(cds, cluster)
	for n := 0; n <= max(routes, clusters); n++ {
		if n <= routes && j.at(c, cds, cluster, n) == "" || n <= clusters && j.at(c, rds, route, n) == body {
			return true
		}
	}
	return false
}

// progress judges that nobody is left behind under continuous change.
func (j *judge) progress() {
	w := j.w
	for _, c := range w.clients {
		excused := c.stopped
		for _, x := range c.wishes {
			excused = excused || x.refused
		}
		for _, o := range w.origins {
			excused = excused || o.down || o.mute || o.frozen || o.held[c.tierOf(o)] || o.has("guard")
		}
		if excused {
			j.unwell[c] = w.now
			continue
		}
		from := w.now.Add(-worldBound)
		if j.unwell[c].After(from) {
			continue
		}
		for typeURL, x := range c.wishes {
			if x.judged.since.After(from) || len(x.names) == 0 {
				continue
			}
			for name, h := range x.held {
				if !j.allowed(c, name) || j.stays(typeURL, name) {
					continue
				}
				if j.wordless(c, x, typeURL, name) && j.hadSince(c, typeURL, name, "", from) {
					continue // it was gone until a moment ago, and nobody had a word for that
				}
				body, _, _ := strings.Cut(h.body, "@")
				if !j.hadSince(c, typeURL, name, body, from) {
					j.alarm("behind", "%s has %s %s=%s, which the origin has not had for %v", c.name, scriptType(typeURL), name, h.body, worldBound)
				}
			}
		}
	}
}

// hadSince reports whether the origin had a body of a name at any time since a time.
func (j *judge) hadSince(c *worldClient, typeURL, name, body string, since time.Time) bool {
	for n := len(j.times) - 1; n >= 0; n-- {
		if j.at(c, typeURL, name, n) == body {
			return true
		}
		if j.times[n].Before(since) {
			return false
		}
	}
	return false
}

// silent reports whether neither the origin nor weir has a word for the end of a resource (DEL-3).
func (j *judge) silent(c *worldClient, x *worldWish, typeURL, name string) bool {
	return j.wordless(c, x, typeURL, name) && j.at(c, typeURL, name, j.seq) == ""
}

// wordless is silent for whatever may end.
func (j *judge) wordless(c *worldClient, x *worldWish, typeURL, name string) bool {
	star := x.names[xds.Wildcard]
	says := xds.FullState(typeURL) || star && len(x.names) == 1
	return j.w.originOf(name).sotw && !says || !c.delta && !star && !xds.SentWhole(typeURL)
}

// rest judges that all have exactly what they are to have.
func (j *judge) rest() {
	w := j.w
	for _, c := range w.clients {
		for _, typeURL := range worldTypes {
			if x := c.wishes[typeURL]; x != nil {
				j.compare(c, x, typeURL)
			}
		}
	}
	for _, o := range w.origins {
		for _, tier := range []string{"newest", "canary", "rest"} {
			if o.frozen || o.held[tier] {
				j.oneState(o, tier)
			}
		}
	}
}

// compare is for the names of origins that nobody holds.
func (j *judge) compare(c *worldClient, x *worldWish, typeURL string) {
	want, got := map[string]string{}, map[string]string{}
	follows := func(name string) bool {
		o := j.w.originOf(name)
		return !o.frozen && !o.held[c.tierOf(o)]
	}
	for _, o := range j.w.origins {
		for word := range o.state[typeURL] {
			name, _, _ := cutLocator(word)
			body := j.at(c, typeURL, name, j.seq)
			if body == "" || !follows(name) || !j.allowed(c, name) || !x.selects(typeURL, name, j.aliasesNow(o, typeURL, name)) {
				continue
			}
			if o.tailors(typeURL) {
				body += "@" + c.who
			}
			want[name] = body
		}
	}
	for wanted := range x.names {
		base, _, locator := cutLocator(wanted)
		for word, body := range j.w.originOf(base).state[typeURL] {
			of, _, variant := cutLocator(word)
			if !variant {
				word += "{}"
			}
			if !locator || of != base || !follows(base) || !j.allowed(c, base) || !x.locates(word) {
				continue
			}
			if j.w.originOf(base).tailors(typeURL) {
				body += "@" + c.who
			}
			want[word] = body
		}
	}
	for name, h := range x.held {
		if follows(name) && !j.stays(typeURL, name) && !j.silent(c, x, typeURL, name) && (j.allowed(c, name) || c.delta) {
			got[name] = h.body
		}
	}
	if !maps.Equal(want, got) {
		j.alarm("rest", "%s (delta %v) of %s %v has %v, and is to have %v", c.name, c.delta, scriptType(typeURL), slices.Sorted(maps.Keys(x.names)), got, want)
	}
}

// stays reports whether a tier keeps something that the origin has removed: removals of what is
// urgent wait there.
func (j *judge) stays(typeURL, name string) bool {
	o := j.w.originOf(name)
	return o.has("canary") && (typeURL == eds || typeURL == sds) && o.state[typeURL][name] == ""
}

// oneState judges that what the clients of a tier have of an origin that holds it is of one moment:
// names that somebody wanted at that time, of types that are not urgent.
func (j *judge) oneState(o *worldOrigin, tier string) {
	from := j.orders[o.name+" "+tier] // whatever came after the order is not of the state
	if o.frozen && (from == 0 || !o.held[tier]) {
		from = j.orders[o.name+" "]
	}
	var why string
	for n := from; n >= 0; n-- {
		if why = j.differs(o, tier, n); why == "" {
			return
		}
	}
	j.alarm("mixture", "%s of %s: %s", tier, o.name, why)
}

func (j *judge) differs(o *worldOrigin, tier string, n int) string {
	for _, c := range j.w.clients {
		if c.tierOf(o) != tier {
			continue
		}
		for _, typeURL := range []string{cds, lds, rds, vhd} {
			x := c.wishes[typeURL]
			if x == nil {
				continue
			}
			for name := range j.names(o, typeURL, x) {
				if !j.knownAt(tier, typeURL, name, x, n) || !j.allowed(c, name) || j.everUncached(c, typeURL, name) || j.silent(c, x, typeURL, name) {
					continue
				}
				want := ""
				if x.selects(typeURL, name, j.aliasesAt(name, n)) {
					want = j.at(c, typeURL, name, n)
				}
				if got, _, _ := strings.Cut(x.held[name].body, "@"); got != want {
					return fmt.Sprintf("%s has %s %s=%s, and at %d there was %q", c.name, scriptType(typeURL), name, got, n, want)
				}
			}
		}
	}
	return ""
}

// names are those that the origin ever had, and those that the client has.
func (j *judge) names(o *worldOrigin, typeURL string, x *worldWish) map[string]bool {
	all := map[string]bool{}
	for key := range j.spans {
		of, word, _ := strings.Cut(key, " ")
		if name, _, _ := cutLocator(word); of == typeURL && j.w.originOf(name) == o {
			all[name] = true
		}
	}
	for name := range x.held {
		if j.w.originOf(name) == o {
			all[name] = true
		}
	}
	return all
}

// knownAt reports whether a tier knew a name at a change: a subscription to it was there.
func (j *judge) knownAt(tier, typeURL, name string, x *worldWish, n int) bool {
	for selector := range x.names {
		only := worldWish{names: map[string]bool{selector: true}}
		if since, is := j.wanted1[tier+" "+spanKey(typeURL, selector)]; is && since < n && only.selects(typeURL, name, j.aliasesAt(name, n)) {
			return true
		}
	}
	return false
}

// everUncached: what must not be cached is in no state, and so is a body that has ended.
func (j *judge) everUncached(c *worldClient, typeURL, name string) bool {
	for _, word := range c.words(name) {
		for _, s := range j.spans[spanKey(typeURL, word)] {
			if s.body[0] == 'u' || s.body[0] == 't' {
				return true
			}
		}
	}
	return false
}
