package downstream

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
)

// A world is a core (core_test.go) with origins, clients and operators around it, and a judge. It is
// played line by line, so a play is a list of lines, and what is left of them when most are struck
// is a play as well. These are the lines:
//
//	world NAME=DIALECT+OPTION.. ..    the origins; the first line of a play. The first is the listener's own, the others
//	                               have their name as authority. Options: guard, canary, pertype, params; secrets, or identity: bodies
//	                               of secrets, or all, are made for each identity
//	ORIGIN TYPE NAME=BODY -NAME.. TYPE..    it changes. NAME{env=VALUE} is a variant, NAME[ALIAS,ALIAS] has
//	                               aliases; bodies that begin with u must not be cached, those with t have a TTL
//	ORIGIN down|up                 its streams
//	ORIGIN mutes|speaks            it leaves what it is asked unanswered, and tells no changes
//	ORIGIN ORDER..                 see tables.Order: freeze, unfreeze, release, hold TIER STATE, follow TIER
//	rules [WHO NAME,NAME..]..      what each identity may have of plain names from now on
//	client NAME delta|sotw [WORD..]    a client: apart (a stream for each type), canary, late (it acknowledges when a line says
//	                               so), as=IDENTITY, env=VALUE, ttl (it knows TTLs)
//	NAME wants TYPE +NAME -NAME    a request of it
//	NAME acks|nacks [TYPE]         an answer to all that it has received and not answered
//	NAME stops|resumes             reading
//	NAME returns [empty]           its stream breaks, and it comes back with what it holds, or with nothing
//	NAME leaves
//	save | restart                 a snapshot; the end of the process, and the begin of another one
//	wait DURATION
//	rest                           all is well again, and time passes until all is quiet; then the judge compares
//
// Type names are short. //NAME/ID is short for an xdstp name of an authority.
type world struct {
	tb      *playTB
	core    core
	now     time.Time
	gather  time.Duration
	origins []*worldOrigin
	clients []*worldClient
	rules   map[string][]string // names by identity; nil: everybody has everything
	judge   judge
	line    int  // the number of the present one
	calm    bool // rest: everybody answers at once
	// bare: the core is alone, which keeps no order of types and warms nothing. So routes may come
	// before their clusters (ORD-5), and nothing is sent again because of what refers to it (WARM-1).
	bare bool
	log  func(format string, args ...any)
}

// worldOrigin is a control plane, and what operators ordered for its groups.
type worldOrigin struct {
	*control
	name    string
	options []string
	down    bool
	mute    bool
	silent  bool                 // it is, or was since the last restart
	lapses  map[string]time.Time // of TYPE NAME
	frozen  bool
	held    map[string]bool // tiers
}

func (o *worldOrigin) has(option string) bool { return slices.Contains(o.options, option) }

// playTB turns the end of a test into the end of a play.
type playTB struct {
	testing.TB
}

// playFatal is the panic of one.
type playFatal string

func (tb *playTB) Helper() {}
func (tb *playTB) Fatal(args ...any) {
	panic(playFatal(fmt.Sprint(args...)))
}

func (tb *playTB) Fatalf(format string, args ...any) {
	panic(playFatal(fmt.Sprintf(format, args...)))
}

// makeCore makes the core that is played; maskedFeatures are the features that it is played without.
var (
	makeCore       = newCore
	maskedFeatures []string
)

// newCore is weir as it is.
func newCore(tb testing.TB, cfg relay.Config) core { return newTables(tb, cfg) }

// play runs lines and returns the first alarm, or nil.
func play(t testing.TB, lines []string) *alarm {
	a, _ := playWith(t, lines, func(string, ...any) {})
	return a
}

// playWith is play, and says what happens. It counts the responses that were judged.
func playWith(t testing.TB, lines []string, log func(format string, args ...any)) (a *alarm, responses int) {
	w := &world{tb: &playTB{t}, now: zero, log: log}
	w.judge.w = w
	defer func() {
		if p := recover(); p != nil {
			a = alarmOf(p, w.line)
		}
		responses = w.judge.responses
	}()
	for i, line := range lines {
		if line == "" || line[0] == '#' {
			continue
		}
		w.line = i
		log("%v  %s", w.now.Sub(zero), line)
		w.run(line)
	}
	return nil, 0
}

// alarm is what the judge says: of what kind, and what was seen.
type alarm struct {
	kind, text string
	line       int
}

// alarmOf is the alarm of a panic: the judge's, or the core's.
func alarmOf(p any, line int) *alarm {
	switch p := p.(type) {
	case *alarm:
		p.line = line
		return p
	case playFatal:
		return &alarm{kind: "stopped", text: string(p), line: line}
	}
	return &alarm{kind: "panic", text: fmt.Sprint(p) + "\n" + panicPlace(), line: line}
}

// panicPlace is where a panic was, without what is above the play.
func panicPlace() string {
	stack := string(debug.Stack())
	if i := strings.Index(stack, "panic("); i >= 0 {
		stack = stack[i:]
	}
	if i := strings.Index(stack, ".(*world)."); i >= 0 {
		stack = stack[:i]
	}
	return stack
}

// worldTypes are those that worlds have resources of.
var worldTypes = []string{cds, eds, lds, rds, vhd, sds}

func (w *world) run(line string) {
	f := strings.Fields(line)
	switch o := w.origin(f[0]); {
	case f[0] == "world":
		w.begin(f[1:])
	case w.core == nil:
		w.tb.Fatal("a play begins with a world")
	case o != nil:
		w.runOrigin(o, f[1:])
	case f[0] == "rules":
		w.setRules(f[1:])
	case f[0] == "client":
		w.addClient(f[1], f[2] == "delta", f[3:])
	case f[0] == "save":
		w.mustOrder(f)
	case f[0] == "restart":
		w.restart()
	case f[0] == "wait":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			w.tb.Fatal(err)
		}
		w.wait(d)
		w.judge.progress()
	case f[0] == "rest":
		w.rest()
	default:
		w.runClient(f)
	}
	if w.settle(); w.core != nil {
		if err := w.core.Check(); err != nil {
			w.judge.alarm("check", "%v", err)
		}
	}
}

func (w *world) begin(f []string) {
	w.gather = 20 * time.Millisecond
	cfg := relay.Config{Gather: w.gather, Linger: 5 * time.Second, History: worldHistory}
	for _, word := range f {
		name, options, _ := strings.Cut(word, "=")
		o := &worldOrigin{name: name, options: strings.Split(options, "+"), lapses: map[string]time.Time{}, held: map[string]bool{}}
		w.origins = append(w.origins, o)
		cfg.Origins = append(cfg.Origins, o.config())
	}
	w.core = makeCore(w.tb, cfg)
	_, w.bare = w.core.(*alone)
	for _, o := range w.origins {
		c := newControl(w.tb, nil, o.has("sotw"))
		c.wanted = func() []coreLane { return w.core.Lanes(o.name) }
		c.hidden = func(name string) bool { return xds.IsNewStyle(name) }
		c.aliases = map[string][]string{}
		c.ttl = func(body string) time.Duration {
			if body[0] == 't' {
				return worldTTL
			}
			return 0
		}
		c.uncached = func(body string) bool { return body[0] == 'u' }
		if o.tailors(sds) {
			c.tailor = func(l *controlLane, typeURL, _, body string) string {
				if !o.tailors(typeURL) {
					return body
				}
				return body + "@" + l.Node().GetMetadata().GetFields()["WHO"].GetStringValue()
			}
		}
		o.control = c
	}
	w.judge.begin()
}

// worldTTL is the TTL of all that has one.
const worldTTL = 7 * time.Second

func (o *worldOrigin) config() relay.OriginConfig {
	c := relay.OriginConfig{Name: o.name, SotW: o.has("sotw"), Authorities: []string{o.name}, PerType: o.has("pertype")}
	if o.has("guard") {
		c.Guard = gate.GuardConfig{Share: 0.5, Min: 3, Hold: time.Hour}
	}
	if o.has("canary") {
		c.Canary = &node.Canary{Match: map[string]string{"metadata.tier": "canary"}}
	}
	if o.has("params") {
		c.TP2, c.FromNode = true, map[string]string{"env": "metadata.env"}
	}
	if c.Secrets = o.has("secrets"); o.has("identity") {
		c.GroupBy = []string{"identity"}
	}
	if o.tailors(sds) {
		c.IdentityTo = "WHO"
	}
	return c
}

// tailors reports whether bodies of a type differ with the client's identity.
func (o *worldOrigin) tailors(typeURL string) bool {
	return o.has("identity") || o.has("secrets") && typeURL == sds
}

func (w *world) origin(name string) *worldOrigin {
	for _, o := range w.origins {
		if o.name == name {
			return o
		}
	}
	return nil
}

// originOf is the origin of a name.
func (w *world) originOf(name string) *worldOrigin {
	for _, o := range w.origins[1:] {
		if strings.HasPrefix(name, "xdstp://"+o.name+"/") {
			return o
		}
	}
	return w.origins[0]
}

func (w *world) runOrigin(o *worldOrigin, f []string) {
	if slices.Contains([]string{"down", "up", "mutes", "speaks"}, f[0]) {
		w.judge.trouble = w.now
	}
	switch f[0] {
	case "down":
		o.down = true
		for _, l := range o.lanes {
			o.close(l)
		}
	case "up":
		o.down = false
	case "mutes", "speaks":
		o.mute = f[0] == "mutes"
		o.silent = o.silent || o.mute
	case "freeze", "unfreeze", "release", "hold", "follow":
		w.order(o, f)
	default:
		typeURL := ""
		for _, word := range f {
			if scriptTypes[word] != "" {
				typeURL = scriptTypes[word]
				continue
			}
			w.change(o, typeURL, word)
		}
		w.judge.changed(o)
	}
}

// change is one word of a change: NAME[ALIAS,ALIAS]=BODY, or -NAME.
func (w *world) change(o *worldOrigin, typeURL, word string) {
	if typeURL == "" {
		w.tb.Fatalf("the origin cannot say %q", word)
	}
	if name, gone := strings.CutPrefix(word, "-"); gone {
		o.set(typeURL, long(typeURL, name), "")
		delete(o.lapses, typeURL+" "+long(typeURL, name))
		return
	}
	name, body := cutBody(word)
	name, aliases := cutAliases(name)
	name = long(typeURL, name)
	if body[0] == 't' && o.state[typeURL][name] == body {
		return // it is not sent again, so its end is as before
	}
	base, _, variant := cutLocator(name)
	for other := range maps.Clone(o.state[typeURL]) { // all have one form, or each has its own
		if of, _, is := cutLocator(other); of == base && is != variant {
			o.set(typeURL, other, "")
		}
	}
	o.set(typeURL, name, body)
	if typeURL == vhd {
		o.aliases[name] = aliases
	}
	delete(o.lapses, typeURL+" "+name)
	if body[0] == 't' {
		o.lapses[typeURL+" "+name] = w.now.Add(worldTTL)
	}
}

// lapse ends what has a TTL, about which an origin says nothing more.
func (w *world) lapse() {
	for _, o := range w.origins {
		did := false
		for key, at := range o.lapses {
			if at.After(w.now) {
				continue
			}
			typeURL, name, _ := strings.Cut(key, " ")
			ended := o.state[typeURL][name]
			delete(o.state[typeURL], name)
			for _, l := range o.lanes {
				ty := l.types[typeURL]
				if ty == nil {
					continue
				}
				// who was not told of it has still to be told that what was before it is gone
				if body, _, _ := strings.Cut(ty.known[name], "@"); body == ended {
					delete(ty.known, name)
				}
			}
			delete(o.lapses, key)
			did = true
		}
		if did {
			w.judge.changed(o)
		}
	}
}

func (w *world) order(o *worldOrigin, f []string) {
	words := append([]string{f[0], o.name}, f[1:]...)
	if err := w.core.Order(w.now, words); err != nil {
		return // nothing to be held yet
	}
	switch f[0] {
	case "freeze", "unfreeze":
		o.frozen = f[0] == "freeze"
	case "hold", "follow":
		o.held[f[1]] = f[0] == "hold"
	}
	w.judge.ordered(o, f)
}

// setRules reads WHO NAME,NAME pairs.
func (w *world) setRules(f []string) {
	w.rules = map[string][]string{}
	for i := 0; i+1 < len(f); i += 2 {
		w.rules[f[i]] = strings.Split(f[i+1], ",")
	}
	w.mustOrder(append([]string{"rules"}, f...))
	w.judge.ruled()
	w.comeBack()
}

func (w *world) mustOrder(words []string) {
	if err := w.core.Order(w.now, words); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) restart() {
	w.mustOrder([]string{"restart"})
	for _, o := range w.origins {
		o.lanes = nil
	}
	w.judge.restarted()
	w.comeBack()
}

// comeBack has all clients notice which of their streams have ended, and open new ones.
func (w *world) comeBack() {
	for _, c := range w.clients {
		for _, key := range c.kinds() {
			c.turnOf(w, key)
		}
		c.lost(w)
	}
}

// metadataNode is the node of a client.
func metadataNode(id string, fields map[string]string, features ...string) *corev3.Node {
	n := &corev3.Node{Id: id, Cluster: "edge", ClientFeatures: features, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{}}}
	for key, value := range fields {
		n.Metadata.Fields[key] = structpb.NewStringValue(value)
	}
	return n
}

// wait lets time pass from one deadline to the next.
func (w *world) wait(d time.Duration) {
	end := w.now.Add(d)
	for {
		next, _ := w.core.Advance(w.now)
		earlier := func(at time.Time) {
			if !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		for _, c := range w.clients {
			earlier(c.next())
		}
		for _, o := range w.origins {
			for _, at := range o.lapses {
				earlier(at)
			}
		}
		if next.IsZero() || next.After(end) {
			next = end
		}
		if next.After(w.now) {
			w.now = next
		}
		w.lapse()
		w.settle()
		if !next.Before(end) {
			return
		}
	}
}

// settle lets everybody do what can be done now.
func (w *world) settle() {
	if w.core == nil {
		return
	}
	for range 300 {
		_, did := w.core.Advance(w.now)
		for _, o := range w.origins {
			if o.down {
				continue
			}
			if o.mute {
				o.takeLanes()
				for _, l := range slices.Clone(o.lanes) {
					o.ask(w.now, l)
				}
				continue
			}
			did = o.serve(w.now) || did
		}
		for _, c := range w.clients {
			did = c.turn(w) || did
		}
		if !did {
			return
		}
	}
	w.judge.alarm("restless", "something happens at one moment without an end")
}

// rest makes all well: origins that answer, and clients that read and acknowledge. Orders stay in
// force. Then time passes until all is quiet.
func (w *world) rest() {
	w.calm = true
	for _, o := range w.origins {
		if o.down || o.mute {
			w.judge.trouble = w.now
		}
		o.down, o.mute = false, false
	}
	for _, c := range w.clients {
		c.stopped = false
		c.lost(w)
	}
	rounds := 8
	if slices.ContainsFunc(w.origins, func(o *worldOrigin) bool { return o.sotw }) {
		rounds = 26 // a new stream each minute decides about what a SotW origin is silent of
	}
	for i, said := 0, -1; i < rounds || w.judge.responses != said; i++ {
		if i == 60 {
			w.judge.alarm("restless", "the clients are sent something all the time")
		}
		said = w.judge.responses
		for _, o := range w.origins {
			if o.has("guard") {
				w.mustOrder([]string{"release", o.name})
			}
		}
		w.settle()
		for _, c := range w.clients {
			c.answer(w, "", false)
		}
		w.settle()
		w.wait(3 * time.Second)
	}
	w.calm = false
	w.judge.rest()
}
