package downstream

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest/seed"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"
)

// TestEachIdentityHasItsOwnSecret plays clients of several identities that ask for secrets of the
// same names, and claim each other's nodes, in both dialects and by polls: they come, leave, refuse,
// come back and lag in any order, while the origin changes the secrets and is away, the rules and
// the groups change, and weir restarts. The origin gives each group of one identity a secret of its
// own of each name. No message has a byte of another's, and at each rest every client has what the
// rules allow it, and nothing else. No page, log line or snapshot has a byte of any.
func TestEachIdentityHasItsOwnSecret(t *testing.T) {
	base, judged, held := seed.Of(t, *fixedSeed), 0, 0
	for i := range uint64(8) {
		t.Run(fmt.Sprintf("%d in world %d", base, i), func(t *testing.T) {
			w := newSecretWorld(t, rand.New(rand.NewPCG(base, i)), i%2 == 1)
			for range 12 {
				for range 60 {
					w.step()
				}
				w.rest()
			}
			judged, held = judged+w.judged, held+w.held
		})
	}
	t.Logf("%d responses were judged, and %d secrets at rest", judged, held)
	if judged < 800 || held < 200 {
		t.Error("too little was judged")
	}
}

// secretWords are the bodies of secrets in a text: whose they are, by whom the origin took the asker
// for, and of which name.
var secretWords = regexp.MustCompile(`key-of<([^|]*)\|([^|]*)\|\d+>`)

// nobodysSecret is what the origin gives a group that may have several identities.
const nobodysSecret = "any"

type secretWorld struct {
	t       *testing.T
	rng     *rand.Rand
	sotw    bool
	apart   bool // groups are of one identity
	rules   []authz.Rule
	rig     *rig
	config  relay.Config
	control *control
	clients []*secretClient
	down    bool
	changes int
	judged  int
	held    int
}

// secretClient is a client that may come back, with what it holds.
type secretClient struct {
	w        *secretWorld
	who      string
	delta    bool
	pipe     *pipe // nil: it is away
	asks     []string
	holds    map[string]string // body by name
	versions map[string]string
	version  string
	nonce    string
	unacked  []*message
}

var (
	secretIdentities = []string{"spiffe://corp/ns/a/sa/x", "spiffe://corp/ns/b/sa/x", "spiffe://corp/ns/b/sa/y", ""}
	secretNames      = []string{"key", "a/key", "b/key", "x"}
	// secretRules are sets of rules; with groups of several identities most allow little.
	secretRules = [][]authz.Rule{
		{{Who: []string{"spiffe://corp/**"}, Names: []string{"**"}}, {Who: []string{"anonymous"}}},
		{{Who: []string{"spiffe://corp/ns/{ns}/sa/{sa}"}, Names: []string{"{ns}/key", "{sa}", "key"}}, {Who: []string{"anonymous"}}},
		{{Who: []string{"spiffe://corp/ns/b/**"}, Names: []string{"*", "b/*"}}, {Who: []string{"spiffe://corp/ns/a/sa/x"}, Names: []string{"key"}}},
		{{Who: []string{"spiffe://corp/ns/{ns}/**"}, Names: []string{"{ns}/*"}}, {Who: []string{"spiffe://corp/**"}, Types: []string{cds}}},
	}
)

func newSecretWorld(t *testing.T, rng *rand.Rand, sotw bool) *secretWorld {
	w := &secretWorld{t: t, rng: rng, sotw: sotw, apart: true, rules: secretRules[0]}
	for i := range 10 {
		w.clients = append(w.clients, &secretClient{
			w: w, who: secretIdentities[i%len(secretIdentities)], delta: i%3 > 0, holds: map[string]string{}, versions: map[string]string{},
		})
	}
	w.begin()
	return w
}

// begin is a new process.
func (w *secretWorld) begin() {
	w.config = w.configured()
	w.rig = newRigWith(w.t, w.config)
	w.rig.now = zero.Add(time.Duration(w.changes) * time.Hour)
	w.reach()
	w.ruled()
}

func (w *secretWorld) configured() relay.Config {
	o := relay.OriginConfig{Name: "mesh", SotW: w.sotw, Secrets: true, SecretsByIdentity: true, GroupBy: []string{"cluster"}}
	if w.apart {
		o.GroupBy, o.IdentityTo = append(o.GroupBy, "identity"), "WHO"
	}
	return relay.Config{Settle: 250 * time.Millisecond, Origins: []relay.OriginConfig{o}}
}

// reach has a control plane for the present part of the table.
func (w *secretWorld) reach() {
	w.control = newControl(w.t, w.rig.origin, w.sotw)
	w.control.tailor = func(l *controlLane, _, name, body string) string {
		who := l.Node().GetMetadata().GetFields()["WHO"].GetStringValue()
		if who == "" {
			who = nobodysSecret
		}
		return fmt.Sprintf("key-of<%s|%s|%s>", who, name, body)
	}
	w.change()
}

// change has every secret change.
func (w *secretWorld) change() {
	w.changes++
	for _, name := range secretNames {
		w.control.set(sds, name, fmt.Sprint(w.changes))
	}
}

func (w *secretWorld) ruled() {
	compiled, problems := authz.Compile(w.rules)
	if len(problems) > 0 {
		w.t.Fatal(problems)
	}
	w.rig.configure(func(c *Config, _ *ListenerConfig) { c.Rules = compiled })
}

// reload takes other rules, and at times other groups, into force.
func (w *secretWorld) reload() {
	w.rules = secretRules[w.rng.IntN(len(secretRules))]
	w.apart = w.apart != (w.rng.IntN(2) == 0)
	w.config = w.configured()
	next, err := w.rig.table.Prepare(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	origin := next.Origin("mesh")
	change := next.Commit(w.rig.now)
	if origin != w.rig.origin {
		for _, l := range w.control.lanes {
			w.control.close(l)
		}
		old := w.control
		w.rig.origin = origin
		w.reach()
		w.t.Cleanup(func() { old.takeLanes() })
	}
	w.ruled()
	for _, c := range w.clients {
		if c.pipe != nil && (!c.pipe.session.keepsRights(w.rig.set) || !c.pipe.session.adopt(w.rig.set, change)) {
			c.leaves()
		}
	}
}

// restart ends the process, and begins again with what a snapshot has: nothing of secrets.
func (w *secretWorld) restart() {
	kept := snapshot(w.rig.table, w.rig.now)
	if i := slices.IndexFunc(kept.images, func(x relay.TypeImage) bool { return x.TypeURL == sds }); i >= 0 {
		w.t.Fatalf("a snapshot has secrets: %+v", kept.images[i])
	}
	for _, c := range w.clients {
		c.leaves()
	}
	w.begin()
	kept.restore(w.t, w.rig.table, w.rig.now)
}

// may judges by the rules' text: in groups of several identities a rule has to name the client's.
func (w *secretWorld) may(who, name string) bool {
	typeURL := sds
	if w.apart {
		typeURL = rds // for no rule in particular
	}
	_, allowed := (&matrix{rules: w.rules}).may(who, "", typeURL, name)
	return allowed && who != ""
}

func (w *secretWorld) fits(who string) bool {
	fits, _ := (&matrix{rules: w.rules}).may(who, "", sds, "")
	return fits
}

// owner is who the origin takes a client for.
func (w *secretWorld) owner(who string) string {
	if w.apart {
		return who
	}
	return nobodysSecret
}

func (w *secretWorld) step() {
	c := w.clients[w.rng.IntN(len(w.clients))]
	switch n := w.rng.IntN(100); {
	case n < 25:
		w.serves()
	case n < 30:
		w.change()
	case n < 32:
		w.down = !w.down
		for _, l := range w.control.lanes {
			w.control.close(l)
		}
	case n < 34:
		w.reload()
	case n < 35:
		w.restart()
	case n < 38:
		c.polls()
	case n < 45:
		w.rig.wait(time.Duration(w.rng.IntN(400)) * time.Millisecond)
	case c.pipe == nil:
		c.comes()
	case n < 50:
		c.leaves()
	case n < 60:
		c.chooses()
	case n < 70:
		c.answers(w.rng.IntN(4) == 0)
	default:
		c.reads()
	}
	if err := w.rig.table.Check(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *secretWorld) serves() {
	if !w.down {
		w.control.serve(w.rig.now)
	}
}

// rest has everything arrive that can, and compares.
func (w *secretWorld) rest() {
	w.down = false
	w.change() // who refused a secret is sent the next
	for _, step := range []time.Duration{0, time.Second, 300 * time.Millisecond, 3 * time.Second, 20 * time.Second, time.Second, time.Second} {
		w.rig.wait(step)
		for range 4 {
			w.serves()
			for _, c := range w.clients {
				if c.pipe == nil && step == 0 {
					c.comes()
				}
				c.reads()
				c.answers(false)
			}
		}
	}
	for _, c := range w.clients {
		want := map[string]string{}
		for _, name := range c.asks {
			if w.may(c.who, name) {
				want[name] = fmt.Sprintf("key-of<%s|%s|%d>", w.owner(c.who), name, w.changes)
			}
		}
		w.held += len(want)
		if fits := w.fits(c.who); (c.pipe != nil) != fits || !maps.Equal(c.holds, want) {
			w.t.Fatalf("%s asks for %v (here %v, and may be: %v), and holds %v, want %v", c.describe(), c.asks, c.pipe != nil, fits, c.holds, want)
		}
	}
	w.looks()
}

// looks searches what people see for secrets.
func (w *secretWorld) looks() {
	var pages strings.Builder
	fmt.Fprintf(&pages, "%+v\n", inspect.Status(w.rig.origin))
	inspect.Query(w.rig.origin, inspect.ResourceQuery{}, func(x inspect.ResourceInfo) bool {
		fmt.Fprintf(&pages, "%+v\n", x)
		return true
	})
	for _, c := range w.clients {
		if c.pipe != nil {
			fmt.Fprintf(&pages, "%+v\n", c.pipe.session.status(time.Now()))
		}
	}
	for x := range w.rig.table.Images(func(*relay.TypeImage) uint64 { return 0 }) {
		fmt.Fprintf(&pages, "%+v\n", x)
	}
	if text := pages.String(); strings.Contains(text, "key-of") {
		w.t.Fatalf("people see a secret: %s", text)
	}
}

func (c *secretClient) describe() string {
	return fmt.Sprintf("%q (delta %v, groups by identity %v)", c.who, c.delta, c.w.apart)
}

func (c *secretClient) from() caller {
	return caller{local: true, tls: c.who != "", verified: c.who != "", identity: c.who}
}

// node is what the client claims to be: somebody else.
func (c *secretClient) node() *corev3.Node {
	n := func() string { return secretIdentities[c.w.rng.IntN(len(secretIdentities))] }
	return &corev3.Node{Id: n(), Cluster: n(), Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"WHO": structpb.NewStringValue(n())}}}
}

func (c *secretClient) comes() {
	w := c.w
	c.pipe = newPipe(w.rig, c.delta)
	c.pipe.session.from, c.pipe.node = c.from(), c.node()
	c.nonce, c.unacked = "", nil
	if len(c.asks) == 0 {
		c.asks = c.some()
	}
	if c.delta {
		c.sends(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: c.asks, InitialResourceVersions: maps.Clone(c.versions)}, nil)
	} else {
		c.sends(nil, &discoveryv3.DiscoveryRequest{ResourceNames: c.asks, VersionInfo: c.version})
	}
}

func (c *secretClient) leaves() {
	if c.pipe != nil {
		c.pipe.close(c.w.rig.now)
		c.pipe = nil
	}
}

// some are names, one at least.
func (c *secretClient) some() (names []string) {
	for _, i := range c.w.rng.Perm(len(secretNames))[:1+c.w.rng.IntN(len(secretNames))] {
		names = append(names, secretNames[i])
	}
	return names
}

// chooses other names.
func (c *secretClient) chooses() {
	before := c.asks
	c.asks = c.some()
	if !c.delta {
		c.sends(nil, &discoveryv3.DiscoveryRequest{ResourceNames: c.asks, VersionInfo: c.version, ResponseNonce: c.nonce})
		for _, name := range before { // it drops what it does not ask for
			if !slices.Contains(c.asks, name) {
				delete(c.holds, name)
			}
		}
		return
	}
	m := &discoveryv3.DeltaDiscoveryRequest{}
	for _, name := range secretNames {
		switch was, is := slices.Contains(before, name), slices.Contains(c.asks, name); {
		case is && !was:
			m.ResourceNamesSubscribe = append(m.ResourceNamesSubscribe, name)
		case was && !is:
			m.ResourceNamesUnsubscribe = append(m.ResourceNamesUnsubscribe, name)
			delete(c.holds, name)
			delete(c.versions, name)
		}
	}
	c.sends(m, nil)
}

func (c *secretClient) sends(delta *discoveryv3.DeltaDiscoveryRequest, sotw *discoveryv3.DiscoveryRequest) {
	var err error
	if delta != nil {
		delta.TypeUrl = sds
		err = c.pipe.send(c.w.rig.now, delta)
	} else {
		sotw.TypeUrl = sds
		err = c.pipe.send(c.w.rig.now, sotw)
	}
	if err != nil { // no rule fits, or another group is needed
		c.leaves()
	}
}

// answers acknowledges or refuses the oldest response that is not answered.
func (c *secretClient) answers(refuse bool) {
	if c.pipe == nil || len(c.unacked) == 0 {
		return
	}
	m := c.unacked[0]
	c.unacked = c.unacked[1:]
	var detail *statuspb.Status
	if refuse {
		detail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: "bad " + strings.Join(m.words, " ")}
	}
	if c.delta {
		c.sends(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: m.nonce, ErrorDetail: detail}, nil)
	} else {
		c.sends(nil, &discoveryv3.DiscoveryRequest{ResourceNames: c.asks, VersionInfo: m.version, ResponseNonce: m.nonce, ErrorDetail: detail})
	}
}

func (c *secretClient) reads() {
	w := c.w
	if c.pipe == nil || !c.pipe.due(w.rig.now) {
		return
	}
	batch, err := c.pipe.take(w.rig.now)
	for _, r := range batch {
		c.receives(r)
	}
	if len(batch) > 0 {
		c.pipe.session.wrote(w.rig.now, batch)
		c.pipe.deadline = c.pipe.session.next()
	}
	if err != nil { // nothing is known, and the origin is away
		c.leaves()
	}
}

// receives judges a response, and takes it in.
func (c *secretClient) receives(r *response) {
	c.judge(string(r.out.Materialize()))
	m := decode(c.w.t, r, c.delta)
	c.nonce, c.version = m.nonce, m.version
	c.unacked = append(c.unacked, m)
	if !c.delta {
		clear(c.holds)
	}
	for _, word := range m.words {
		name, body, sent := strings.Cut(word, "=")
		if gone, removed := strings.CutPrefix(word, "-"); removed {
			delete(c.holds, gone)
			delete(c.versions, gone)
		} else if sent && (!c.delta || slices.Contains(c.asks, name)) {
			c.holds[name], c.versions[name] = body, m.versions[name]
		}
	}
}

// judge looks for secrets that are not for the client.
func (c *secretClient) judge(raw string) {
	w := c.w
	w.judged++
	found := secretWords.FindAllStringSubmatch(raw, -1)
	for _, x := range found {
		if x[1] != w.owner(c.who) || !w.may(c.who, x[2]) {
			w.t.Fatalf("%s is sent %s", c.describe(), x[0])
		}
	}
	if len(found) != strings.Count(raw, "key-of") {
		w.t.Fatalf("%s is sent %q", c.describe(), raw)
	}
}

// polls is a poll from its beginning to its end.
func (c *secretClient) polls() {
	w := c.w
	session := newPollSession(w.rig.set, &pollers{}, sds, false, c.from(), w.rig.now)
	defer session.close(w.rig.now)
	asks := c.some()
	wire := encoded(w.t, &discoveryv3.DiscoveryRequest{Node: c.node(), TypeUrl: sds, ResourceNames: asks})
	if _, err := takeIn(w.t, session, w.rig.now, wire); err != nil {
		return
	}
	names := &content{}
	names.names.n = len(asks)
	for try := range 3 {
		w.serves()
		if answer, err := session.resolve(w.rig.now, names, true, try == 2); err != nil {
			return
		} else if answer.response != nil {
			c.judge(string(answer.response.out.Materialize()))
			return
		}
	}
}
