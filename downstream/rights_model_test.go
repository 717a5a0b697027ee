package downstream

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/downstream/identity"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest/seed"
	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// TestNobodyGetsWhatIsDeniedAtRandom plays random histories: rules that are reloaded, resources of
// two origins that come, change, go and are in error, origins that are away, restarts from the
// snapshot, and clients that leave and come again with what they hold. The clients are of all
// dialects and of both transports, and ask by names, aliases, locators, `*`, globs and namespaces.
// Bodies say whose they are, and all bytes that a client is sent are searched for what the text of
// the rules in force denies it. In the end each has all that it may have.
func TestNobodyGetsWhatIsDeniedAtRandom(t *testing.T) {
	s := seed.Of(t, *fixedSeed)
	sent := 0
	for i := range max(8, *steps/1250) {
		w := newRightsWorld(t, rand.New(rand.NewPCG(s, uint64(i))), i)
		w.play(30)
		sent += w.sent
	}
	t.Logf("%d responses were judged", sent)
	if sent < *steps/40 {
		t.Errorf("only %d responses were judged", sent)
	}
}

// rightsWorld is one history.
type rightsWorld struct {
	t        *testing.T
	rnd      *rand.Rand
	at       int
	tp2      bool
	config   relay.Config
	rig      *rig
	controls map[string]*control
	down     map[string]bool
	polling  int // one in so many pollers polls after a time; 0: none does
	rules    []authz.Rule
	clients  []*rightsClient
	disk     *disk
	bodies   int
	sent     int
	log      []string
}

// rightsClient asks for one type in one way.
type rightsClient struct {
	*pipe
	w *rightsWorld
	claimant
	id             int
	dialect        string // delta, sotw, poll
	v2, single     bool   // single: in a service for its type
	typeURL        string
	asks           []string
	holds          map[string]string // body by word: name, or name{constraints} in located form
	versions       map[string]string
	version, nonce string
	said           map[string]bool
}

const here = "10.0.0.1:1"

func newRightsWorld(t *testing.T, rnd *rand.Rand, at int) *rightsWorld {
	w := &rightsWorld{t: t, rnd: rnd, at: at, tp2: at%2 == 1, down: map[string]bool{}, polling: 3}
	groups := [][]string{nil, {"identity"}, {"cluster", "metadata.team"}}[rnd.IntN(3)]
	mesh := relay.OriginConfig{Name: "mesh", Authorities: []string{"mesh"}, GroupBy: groups, Secrets: true, TP2: w.tp2}
	if w.tp2 {
		mesh.FromNode = map[string]string{"env": "metadata.env"}
	}
	far := relay.OriginConfig{Name: "far", Authorities: []string{"far"}, GroupBy: groups, SotW: rnd.IntN(4) == 0}
	w.config = relay.Config{Settle: 250 * time.Millisecond, Linger: time.Duration(rnd.IntN(2)) * time.Minute, RetiredEntries: 1000, RetiredBytes: 1 << 20, Origins: []relay.OriginConfig{mesh, far}}
	w.begin()
	for _, origin := range []string{"mesh", "far"} {
		for _, typeURL := range w.types() {
			for _, name := range w.names(origin, typeURL) {
				if rnd.IntN(5) > 0 {
					w.change(origin, typeURL, name)
				}
			}
		}
	}
	w.reload()
	for i := range 16 {
		w.clients = append(w.clients, w.client(i))
	}
	return w
}

// begin starts the process, with what is on disk.
func (w *rightsWorld) begin() {
	now := zero
	if w.rig != nil {
		now = w.rig.now
	}
	was := w.controls
	w.rig, w.controls = newRigWith(w.t, w.config), map[string]*control{}
	w.rig.now = now
	w.rig.configure(func(_ *Config, lc *ListenerConfig) { lc.Address = here })
	for _, o := range w.config.Origins {
		c := newControl(w.t, w.rig.table.Origin(o.Name), o.SotW)
		if !w.tp2 { // an origin that is asked by locators has none
			c.aliases = map[string][]string{"team-a/one": {"team-a/alias", "team-b/alias"}, "team-b/one": {"team-a/also"}}
		}
		if was != nil {
			c.state, c.faults, c.varied = was[o.Name].state, was[o.Name].faults, was[o.Name].varied
		}
		w.controls[o.Name] = c
	}
	if w.disk != nil {
		w.disk.restore(w.t, w.rig.table, now)
	}
}

func (w *rightsWorld) types() []string { return []string{cds, eds, lds, rds, vhd, sds} }

// names are those that an origin may have of a type. No name is a part of another.
func (w *rightsWorld) names(origin, typeURL string) (names []string) {
	if origin == "mesh" {
		names = []string{"team-a/one", "team-a/two", "team-b/one", "team-b/two", "shared", "hidden"}
		if w.tp2 && typeURL != vhd && typeURL != sds {
			names = append(names, "team-a/var{env=prod}", "team-a/var{env=test}", "team-b/var{env=prod}", "varied{env=test}")
		}
		if typeURL == vhd {
			names = slices.DeleteFunc(names, func(n string) bool { return !strings.Contains(n, "/") })
		}
	}
	if typeURL == sds || typeURL == vhd && w.controls[origin].sotw {
		return names
	}
	for _, id := range []string{"team-a/xone", "team-b/xone", "team-a/deep/xtwo"} {
		names = append(names, long(typeURL, "//"+origin+"/"+id))
	}
	return names
}

func (w *rightsWorld) change(origin, typeURL, name string) {
	w.bodies++
	w.controls[origin].set(typeURL, name, markedBody(origin, typeURL, name, fmt.Sprint(w.bodies)))
}

func oneOf[T any](rnd *rand.Rand, all ...T) T { return all[rnd.IntN(len(all))] }

// client draws one.
func (w *rightsWorld) client(id int) *rightsClient {
	rnd := w.rnd
	c := &rightsClient{w: w, id: id, holds: map[string]string{}, versions: map[string]string{}}
	c.who = oneOf(rnd, "spiffe://corp/ns/team-a/sa/web", "spiffe://corp/ns/team-b/sa/web", "spiffe://corp/ns/team-b/sa/edge", "uri:ops", identity.Anonymous)
	c.listener = here
	c.fields = map[string]string{"node.cluster": oneOf(rnd, "edge", "web")}
	for _, key := range []string{"team", "env"} {
		if value := oneOf(rnd, map[string][]string{"team": {"team-a", "ops", ""}, "env": {"prod", "test", ""}}[key]...); value != "" {
			c.fields["node.metadata."+key] = value
		}
	}
	c.dialect = oneOf(rnd, "delta", "delta", "sotw", "sotw", "poll")
	c.single, c.v2 = rnd.IntN(2) == 0, c.dialect != "poll" && rnd.IntN(4) == 0
	for c.typeURL = ""; c.typeURL == "" || c.typeURL == vhd && c.dialect != "delta" || c.typeURL == sds && c.dialect == "poll"; {
		c.typeURL = oneOf(rnd, w.types()...)
	}
	c.asks = w.subscription(c)
	return c
}

// subscription draws what a client asks for.
func (w *rightsWorld) subscription(c *rightsClient) (asks []string) {
	rnd := w.rnd
	for _, origin := range []string{"mesh", "far"} {
		for _, name := range w.names(origin, c.typeURL) {
			base, _, varied := cutLocator(name)
			switch {
			case rnd.IntN(2) == 0:
			case varied && (c.v2 || c.dialect == "poll" || rnd.IntN(2) == 0):
				asks = append(asks, base)
			default:
				asks = append(asks, name)
			}
		}
	}
	if c.typeURL == vhd && !w.tp2 && rnd.IntN(2) == 0 {
		asks = append(asks, "team-a/alias", "team-b/alias", "team-a/also")
	}
	switch {
	case c.typeURL == sds:
	case c.typeURL == vhd && !w.tp2 && rnd.IntN(2) == 0: // the control plane has namespaces and globs without parameters alone
		asks = append(asks, oneOf(rnd, "team-a", "team-b"))
	case c.typeURL != vhd && rnd.IntN(2) == 0:
		asks = append(asks, xds.Wildcard)
	}
	for _, origin := range []string{"mesh", "far"} {
		if c.typeURL != sds && c.dialect == "delta" && !w.controls[origin].sotw && !(w.tp2 && origin == "mesh") && rnd.IntN(2) == 0 {
			asks = append(asks, long(c.typeURL, "//"+origin+"/"+oneOf(rnd, "team-a", "team-b")+"/*"))
		}
	}
	if len(asks) == 0 {
		asks = []string{"shared"}
	}
	slices.Sort(asks)
	return slices.Compact(asks)
}

// ruleset draws rules.
func (w *rightsWorld) ruleset() (rules []authz.Rule) {
	rnd := w.rnd
	for range 1 + rnd.IntN(5) {
		r := authz.Rule{Who: []string{oneOf(rnd, "spiffe://corp/ns/{ns}/sa/{sa}", "spiffe://corp/ns/{ns}/sa/web", "spiffe://corp/ns/team-b/**", "spiffe://corp/**", "uri:*", "anonymous")}}
		if rnd.IntN(3) == 0 {
			r.Who = append(r.Who, oneOf(rnd, "anonymous", "uri:ops", "spiffe://corp/ns/*/sa/edge"))
		}
		for range rnd.IntN(4) {
			r.Names = append(r.Names, oneOf(rnd, "{ns}/*", "shared", "team-b/*", "*/one", "hid*", "varied", "*/also", "xdstp://mesh/**", "xdstp://*/*/{ns}/*", "xdstp://far/*/team-a/*", "xdstp://far/*/*/x*"))
		}
		if rnd.IntN(4) == 0 {
			r.Types = []string{oneOf(rnd, w.types()...), oneOf(rnd, w.types()...)}
		}
		if rnd.IntN(5) == 0 {
			r.Origins = []string{oneOf(rnd, "mesh", "far")}
		}
		if rnd.IntN(5) == 0 {
			r.Listeners = []string{oneOf(rnd, here, "10.0.0.2:1")}
		}
		if rnd.IntN(4) == 0 {
			field := oneOf(rnd, "node.cluster", "node.metadata.team", "parameters.env", "node.metadata.env")
			r.Claims = map[string][]string{field: {oneOf(rnd, "{sa}", "edge", "{ns}", "prod", "*", "team-*")}}
		}
		if rnd.IntN(5) == 0 {
			field := oneOf(rnd, "node.cluster", "node.metadata.team", "parameters.env", "node.metadata.env")
			r.Set = map[string]string{field: oneOf(rnd, "{sa}", "edge", "team-a", "prod", "test")}
		}
		rules = append(rules, r)
	}
	return rules
}

// reload puts other rules in force. Streams that lose by it end.
func (w *rightsWorld) reload() {
	w.rules = w.ruleset()
	w.compile()
	next, err := w.rig.table.Prepare(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	change := next.Commit(w.rig.now)
	for _, c := range w.clients {
		switch {
		case c.pipe == nil:
		case !c.session.keepsRights(w.rig.set):
			c.leave()
		case !c.session.adopt(w.rig.set, change):
			w.fail(c, "keeps its rights, and ends")
		}
	}
}

func (w *rightsWorld) compile() {
	compiled, problems := authz.Compile(w.rules)
	for _, p := range problems {
		if !p.Warning {
			w.t.Fatal(p)
		}
	}
	w.rig.configure(func(c *Config, lc *ListenerConfig) { c.Rules, lc.Address = compiled, here })
}

func (w *rightsWorld) fail(c *rightsClient, format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log {
		w.t.Log(line)
	}
	w.t.Fatalf("world %d, client %d (%s %s v2 %v single %v, %s with %v) asks %s for %q by %+v: %s", w.at, c.id, c.who, c.dialect, c.v2, c.single, c.typeURL,
		c.fields, c.typeURL, c.asks, w.rules, fmt.Sprintf(format, args...))
}

func (w *rightsWorld) play(steps int) {
	for range steps {
		w.step()
		w.pass(oneOf(w.rnd, 0, 10*time.Millisecond, 300*time.Millisecond, 3*time.Second))
	}
	clear(w.down)
	// What was refused is replaced. What an origin of state of the world has no more of is dropped
	// with its last client, and pollers are clients, too (DEL-3, RELAY-12, REST-10).
	w.polling = 0
	for _, c := range w.clients {
		c.leave()
	}
	for _, origin := range []string{"mesh", "far"} {
		control := w.controls[origin]
		for _, typeURL := range w.types() {
			for _, name := range slices.Sorted(maps.Keys(control.state[typeURL])) {
				w.change(origin, typeURL, name)
			}
		}
		clear(control.faults)
	}
	for range 12 {
		w.pass(3 * time.Second)
	}
	w.polling = 1
	for _, c := range w.clients {
		if c.pipe == nil {
			c.enter()
		}
	}
	for range 14 {
		w.pass(3 * time.Second)
	}
	for _, c := range w.clients {
		c.complete()
	}
	if err := w.rig.table.Check(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *rightsWorld) step() {
	rnd, origin, typeURL := w.rnd, oneOf(w.rnd, "mesh", "far"), oneOf(w.rnd, w.types()...)
	what := rnd.IntN(20)
	w.log = append(w.log, fmt.Sprint("step ", what, " ", origin, " ", typeURL))
	switch {
	case what < 7:
		for _, name := range w.names(origin, typeURL) {
			switch rnd.IntN(4) {
			case 0:
				w.change(origin, typeURL, name)
			case 1:
				w.controls[origin].set(typeURL, name, "")
			}
		}
	case what < 8:
		if name := oneOf(rnd, "hidden", "team-b/two"); typeURL != vhd {
			w.controls["mesh"].fail(typeURL, name, codes.Internal)
		}
	case what < 11:
		w.reload()
	case what < 13:
		if w.down[origin] = !w.down[origin]; w.down[origin] {
			for _, l := range w.controls[origin].lanes {
				w.controls[origin].close(l)
			}
		}
	case what < 14 && !w.controls["far"].sotw: // of what is restored the silence of state of the world says nothing (RELAY-96)
		w.disk = snapshot(w.rig.table, w.rig.now)
	case what < 15 && w.disk != nil:
		for _, c := range w.clients {
			c.leave()
		}
		w.begin()
		w.compile()
	case what < 16:
		c := oneOf(rnd, w.clients...)
		c.leave()
		*c = *w.client(c.id)
	default:
		for _, c := range w.clients {
			switch {
			case c.pipe == nil && rnd.IntN(2) == 0:
				c.enter()
			case c.pipe != nil && rnd.IntN(5) == 0:
				c.leave()
			}
		}
	}
}

// pass lets happen what can, then and after a time.
func (w *rightsWorld) pass(d time.Duration) {
	for range 2 {
		for range 3 {
			w.serve()
			for _, c := range w.clients {
				if c.pipe != nil && c.due(w.rig.now) {
					c.reads()
				}
			}
		}
		w.rig.wait(d)
	}
	for _, c := range w.clients {
		if c.dialect == "poll" && w.polling > 0 && w.rnd.IntN(w.polling) == 0 {
			c.polls()
		}
	}
}

func (w *rightsWorld) serve() {
	for _, name := range []string{"mesh", "far"} {
		if !w.down[name] {
			w.controls[name].serve(w.rig.now)
		}
	}
}

func (c *rightsClient) origin(name string) string {
	if xds.IsNewStyle(name) && strings.HasPrefix(name, "xdstp://far/") {
		return "far"
	}
	return "mesh"
}

// maps are the parameter maps with which a client asks for a name: of its plain names, and of
// locators.
func (c *rightsClient) maps(name string) (all []map[string]string) {
	origin := c.origin(name)
	if origin == "far" || !c.w.tp2 {
		return []map[string]string{nil}
	}
	all = append(all, ruledParams(c.w.rules, &c.claimant, origin, c.typeURL))
	for _, ask := range c.asks {
		if base, words, located := cutLocator(ask); located && base == name {
			all = append(all, map[string]string{"parameters.env": strings.TrimPrefix(words[0], "env=")})
		}
	}
	return all
}

// may reports whether a rule allows the client a resource or variant, as it asks for it.
func (c *rightsClient) may(word string) bool {
	name, words, varied := cutLocator(word)
	return slices.ContainsFunc(c.maps(name), func(params map[string]string) bool {
		fits := !varied || "env="+params["parameters.env"] == words[0]
		return fits && allowed(c.w.rules, &c.claimant, c.origin(name), c.typeURL, name, params)
	})
}

func (c *rightsClient) protoNode() *corev3.Node {
	n := &corev3.Node{Id: "x", Cluster: c.fields["node.cluster"], Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{}}}
	for field, value := range c.fields {
		if key, is := strings.CutPrefix(field, "node.metadata."); is {
			n.Metadata.Fields[key] = structpb.NewStringValue(value)
		}
	}
	return n
}

func (c *rightsClient) caller() caller {
	from := caller{identity: c.who, local: true}
	if c.who == identity.Anonymous {
		from.identity = ""
	}
	return from
}

func (c *rightsClient) enter() {
	if c.dialect == "poll" {
		return
	}
	c.pipe = newPipe(c.w.rig, c.dialect == "delta")
	c.session.from, c.pipe.node, c.session.v2 = c.caller(), c.protoNode(), c.v2
	if c.single {
		c.session.only = c.typeURL
	}
	c.nonce = ""
	c.says()
	names, locators := divide(c.asks)
	var req proto.Message = &discoveryv3.DiscoveryRequest{TypeUrl: c.typeURL, ResourceNames: names, ResourceLocators: locators, VersionInfo: c.version}
	if c.session.delta {
		req = &discoveryv3.DeltaDiscoveryRequest{TypeUrl: c.typeURL, ResourceNamesSubscribe: names, ResourceLocatorsSubscribe: locators, InitialResourceVersions: maps.Clone(c.versions)}
	} else if !c.whole() {
		clear(c.holds) // no word can take it away
	}
	c.ends(c.pipe.send(c.w.rig.now, req))
}

func (c *rightsClient) whole() bool {
	return c.dialect != "delta" && (xds.SentWhole(c.typeURL) || slices.Contains(c.asks, xds.Wildcard))
}

// says records the names that the client itself has written, which can be sent back.
func (c *rightsClient) says() {
	c.said = map[string]bool{}
	for _, word := range append(slices.Collect(maps.Keys(c.holds)), c.asks...) {
		name, _, _ := cutLocator(word)
		c.said[name] = true
	}
}

// ends judges whether the client's stream is ended, by what it says or by that.
func (c *rightsClient) ends(err error) {
	_, fits := ruledNode(c.w.rules, &c.claimant)
	if fits == (err != nil) || err != nil && status.Code(err) != codes.PermissionDenied {
		c.w.fail(c, "a rule fits is %v, and its stream: %v", fits, err)
	}
	if err != nil {
		clear(c.holds)
		clear(c.versions)
		c.leave()
	}
}

func (c *rightsClient) leave() {
	if c.pipe != nil {
		c.pipe.close(c.w.rig.now)
	}
	c.pipe = nil
}

func (c *rightsClient) reads() {
	batch, err := c.take(c.w.rig.now)
	switch {
	case status.Code(err) == codes.Unavailable: // nothing is known, and the origin is away
		c.leave()
		return
	case err != nil:
		c.w.fail(c, "ends: %v", err)
	}
	for _, r := range batch {
		c.receives(r)
	}
	if len(batch) == 0 {
		return
	}
	c.session.wrote(c.w.rig.now, batch)
	names, locators := divide(c.asks)
	var ack proto.Message = &discoveryv3.DiscoveryRequest{TypeUrl: c.typeURL, ResourceNames: names, ResourceLocators: locators, VersionInfo: c.version, ResponseNonce: c.nonce}
	if c.session.delta {
		ack = &discoveryv3.DeltaDiscoveryRequest{TypeUrl: c.typeURL, ResponseNonce: c.nonce}
	}
	if err := c.pipe.send(c.w.rig.now, ack); err != nil {
		c.w.fail(c, "ends: %v", err)
	}
}

func (c *rightsClient) polls() {
	w := c.w
	session := newPollSession(w.rig.set, &pollers{}, c.typeURL, false, c.caller(), w.rig.now)
	defer session.close(w.rig.now)
	c.says()
	names, _ := divide(c.asks)
	wire := encoded(w.t, &discoveryv3.DiscoveryRequest{Node: c.protoNode(), TypeUrl: c.typeURL, ResourceNames: names})
	_, err := takeIn(w.t, session, w.rig.now, wire)
	if c.ends(err); err != nil {
		return
	}
	in := &content{}
	in.names.n = len(names)
	var answer polled
	for try := 0; try < 4 && err == nil && answer.response == nil; try++ {
		w.serve()
		answer, err = session.resolve(w.rig.now, in, true, try == 3)
	}
	switch {
	case status.Code(err) == codes.PermissionDenied, status.Code(err) == codes.FailedPrecondition, status.Code(err) == codes.Unimplemented:
		clear(c.holds)
	case err != nil:
		w.fail(c, "is answered %v", err)
	case answer.response != nil:
		clear(c.holds)
		c.receives(answer.response)
	}
}

// receives searches what is sent, and takes it in.
func (c *rightsClient) receives(r *response) {
	w := c.w
	w.sent++
	raw := string(r.out.Materialize())
	for _, m := range marks.FindAllStringSubmatch(raw, -1) {
		if !c.may(m[3]) || c.origin(m[3]) != m[1] || !strings.HasSuffix(c.typeURL, "."+m[2]) {
			w.fail(c, "is sent the body %s in %q", m[0], raw)
		}
	}
	for _, origin := range []string{"mesh", "far"} {
		for _, word := range w.names(origin, c.typeURL) {
			name, _, _ := cutLocator(word)
			allowedSo := slices.ContainsFunc(w.names(origin, c.typeURL), func(x string) bool {
				base, _, _ := cutLocator(x)
				return base == name && c.may(x)
			})
			if !allowedSo && !c.said[name] && strings.Contains(raw, name) {
				w.fail(c, "is sent the name of %s: %q", name, raw)
			}
		}
	}
	msg := decode(w.t, r, c.dialect == "delta")
	c.nonce, c.version = msg.nonce, msg.version
	if c.whole() {
		clear(c.holds)
	}
	for _, word := range msg.words {
		name, body, sent := strings.Cut(word, "=<")
		name, _, _ = strings.Cut(name, "[")
		gone, removed := strings.CutPrefix(word, "-")
		switch {
		case removed:
			delete(c.holds, gone)
			delete(c.versions, gone)
		case sent && !strings.HasPrefix(word, "?"):
			c.holds[name] = "<" + body
			if v := msg.versions[name]; v != "" {
				c.versions[name] = v
			}
		}
	}
}

// complete compares what the client has in the end with what it may have of what it asks for.
func (c *rightsClient) complete() {
	w := c.w
	if c.dialect == "poll" {
		c.polls()
	}
	_, fits := ruledNode(w.rules, &c.claimant)
	want := map[string]string{}
	for origin, control := range w.controls {
		for word, body := range control.state[c.typeURL] {
			name, words, varied := cutLocator(word)
			plain := map[string]string(nil)
			if origin == "mesh" && w.tp2 {
				plain = ruledParams(w.rules, &c.claimant, origin, c.typeURL)
			}
			for _, ask := range c.asks {
				base, _, located := cutLocator(ask)
				switch {
				case !fits:
				case located && ask == word && allowed(w.rules, &c.claimant, origin, c.typeURL, name, map[string]string{"parameters.env": strings.TrimPrefix(words[0], "env=")}):
					want[word] = body
				case located, ask == xds.Wildcard && origin != "mesh", varied && "env="+plain["parameters.env"] != words[0]:
				case includes(c.typeURL, base, name) && allowed(w.rules, &c.claimant, origin, c.typeURL, name, plain),
					c.typeURL == vhd && slices.Contains(control.aliases[name], ask) && allowed(w.rules, &c.claimant, origin, c.typeURL, ask, plain) && allowed(w.rules, &c.claimant, origin, c.typeURL, name, plain):
					want[name] = body
				}
			}
		}
	}
	got := maps.Clone(c.holds)
	if c.dialect == "poll" && w.controls["far"].sotw { // nobody asks long enough for its silence to be an absence (ABS-5)
		maps.DeleteFunc(got, func(word, _ string) bool { return want[word] == "" && c.origin(word) == "far" })
	}
	if c.dialect == "delta" { // what it says to hold of a name with a locator may be any variant, so it keeps that (DYN-20)
		maps.DeleteFunc(got, func(word, _ string) bool {
			return want[word] == "" && slices.ContainsFunc(c.asks, func(ask string) bool { return strings.HasPrefix(ask, word+"{") })
		})
	}
	if c.dialect == "sotw" && !c.whole() { // it has no word for what is gone
		maps.DeleteFunc(got, func(word, _ string) bool { return want[word] == "" })
	}
	if !maps.Equal(got, want) {
		w.fail(c, "in the end it has %v, and may have %v", got, want)
	}
}
