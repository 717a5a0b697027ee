package downstream

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// TestScripts runs the conversations in testdata, which read like the diagrams of the protocol
// page. A line that starts in the first column is a command; what followed from it stands indented
// below. Run with -update to rewrite that, and read the difference.
//
//	origin delta|sotw              a new world with an origin of that dialect; a script begins with it
//	origin DIALECT beside NAME=DIALECT..    the same, with other origins that have their name as authority; //NAME/ID is short for an
//	                               xdstp name of that authority, and a line that begins with NAME is what "origin" is for the first
//	origin DIALECT+tp2[+PARAM=metadata.KEY|+ignored]    one that understands dynamic parameters, and maps some from the node; or whose are ignored
//	origin DIALECT+secrets[+identity]    one whose secrets are shared by identity; in groups by identity, else by metadata
//	origin DIALECT+gather          with the default of timing.gather, which is else nothing
//	origin DIALECT+unversioned     one that gives its resources no versions
//	coalesce DURATION              for the streams that begin from now on
//	origin TYPE NAME=BODY -NAME !NAME:CODE.. TYPE..    the origin changes, and says so to whom asked
//	origin down|up                 the upstream streams
//	origin mutes|unmutes TYPE      it leaves a type unanswered
//	snapshot                       what is kept on disk from now on
//	restart                        the process ends, and begins again with that; a client's versions stay known
//	rules [WHO KEY=VALUE,VALUE..] [; WHO ..]    the rules from now on: KEY is names, types, origins, a claim, or set:FIELD; streams that lose by it end
//	client NAME delta|sotw [as=IDENTITY] [KEY=VALUE..]    a new stream, with that metadata; it ends the client's former one
//	NAME -> TYPE V= N= R={..}      a SotW request: version, nonce, names; error=WORD makes it a NACK
//	NAME -> TYPE N= +NAME -NAME    a delta request; has={NAME@BODY} are its initial_resource_versions, ? is no version of ours
//	NAME acks [TYPE..]             an ACK of the last response of each type, or of these, as the dialect wants it
//	NAME stops|resumes             reading; the writer has one batch under way then, and takes no other
//	NAME leaves
//	wait DURATION
//
// NAME{KEY=VALUE;KEY=VALUE} is a locator in a request, and a variant with those constraints in what
// an origin or a response says; there, KEY is one that exists and !KEY one that does not.
//
// What a client is sent is written the same way: versions v1, v2... are numbered in the order they
// are first seen, nonces within their stream. Bodies that begin with eds are Clusters of type EDS,
// with the name after > as that of their endpoints. Endpoints whose body begins with "none" are
// empty. `*` holds every name but those that begin with `~`.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			got, want := runScript(t, f)
			switch {
			case got == want:
			case *update:
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s: %s", f, differenceOf(got, want))
			}
		})
	}
}

// differenceOf is the first line in which two texts differ, with what is before it.
func differenceOf(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	from := max(0, i-6)
	return fmt.Sprintf("line %d:\n%s\n  GOT:\n%s\n  WANT:\n%s", i+1, strings.Join(a[from:i], "\n"), strings.Join(a[i:min(i+4, len(a))], "\n"), strings.Join(b[i:min(i+4, len(b))], "\n"))
}

// runScript plays a scenario. It returns what it has become, and what it is.
func runScript(t *testing.T, file string) (became, is string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t}
	var got strings.Builder
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, " \n")
		if strings.HasPrefix(line, "  ") {
			continue // the former output
		}
		got.WriteString(line + "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		s.out = nil
		s.run(strings.Fields(line))
		for _, out := range s.out {
			got.WriteString("  " + out + "\n")
		}
		if err := s.rig.table.Check(); err != nil {
			t.Fatalf("%s: after %q: %v", file, line, err)
		}
	}
	return got.String(), string(data)
}

var scriptTypes = map[string]string{
	"cds": cds, "eds": eds, "lds": lds, "srds": xds.ScopedRouteType, "rds": rds, "vhds": vhd, "sds": sds, "odd": odd,
}

func scriptType(typeURL string) string {
	for short, url := range scriptTypes {
		if url == typeURL {
			return short
		}
	}
	return typeURL
}

// script is a world in the middle of a scenario.
type script struct {
	t        *testing.T
	rig      *rig
	config   relay.Config
	control  *control            // of the listener's own origin
	others   map[string]*control // by name
	down     map[*control]bool
	clients  []*scriptClient
	versions []string // of SotW, in the order they were seen
	out      []string
	began    time.Time // of the present wait
	disk     *disk
	gather   time.Duration
}

// scriptClient is one client and the writer of its stream.
type scriptClient struct {
	*pipe
	name     string
	stopped  bool
	lists    map[string]*discoveryv3.DiscoveryRequest // SotW: what was asked last
	versions map[string]map[string]string             // delta: by type and NAME@BODY
}

func (s *script) run(f []string) {
	switch {
	case f[0] == "origin" && (strings.HasPrefix(f[1], "delta") || strings.HasPrefix(f[1], "sotw")):
		s.world(f[1:])
	case f[0] == "origin":
		s.origin(s.control, f[1:])
	case s.others[f[0]] != nil:
		s.origin(s.others[f[0]], f[1:])
	case f[0] == "coalesce":
		s.rig.configure(func(c *Config, _ *ListenerConfig) { c.Timing.Coalesce = s.duration(f[1]) })
	case f[0] == "rules":
		s.rules(f[1:])
	case f[0] == "snapshot":
		s.disk = snapshot(s.rig.table, s.rig.now)
	case f[0] == "restart":
		s.restart()
	case f[0] == "client":
		s.open(f[1], f[2] == "delta", f[3:])
	case f[0] == "wait":
		s.wait(f[1])
	default:
		s.client(s.find(f[0]), f[1:])
	}
	s.settle("")
}

func (s *script) world(f []string) {
	origins := []relay.OriginConfig{scriptOrigin("mesh", f[0])}
	for _, w := range f[min(2, len(f)):] {
		name, dialect, _ := strings.Cut(w, "=")
		origins = append(origins, scriptOrigin(name, dialect))
	}
	if s.gather = 0; strings.Contains(f[0], "+gather") {
		s.gather = 20 * time.Millisecond
	}
	s.config = relay.Config{Origins: origins, Gather: s.gather, Settle: 250 * time.Millisecond}
	s.rig = newRigWith(s.t, s.config)
	s.others, s.down = map[string]*control{}, map[*control]bool{}
	for _, o := range origins {
		c := newControl(s.t, s.rig.table.Origin(o.Name), o.SotW)
		c.hidden = func(name string) bool { return strings.HasPrefix(name, "~") }
		c.unversioned = strings.Contains(f[0], "+unversioned")
		s.others[o.Name] = c
	}
	s.control = s.others["mesh"]
	s.clients, s.versions = nil, nil
}

// scriptOrigin reads DIALECT+OPTION..
func scriptOrigin(name, words string) relay.OriginConfig {
	options := strings.Split(words, "+")
	o := relay.OriginConfig{Name: name, SotW: options[0] == "sotw", Authorities: []string{name}}
	for _, w := range options[1:] {
		switch param, field, mapped := strings.Cut(w, "="); {
		case mapped:
			if o.FromNode == nil {
				o.FromNode = map[string]string{}
			}
			o.FromNode[param] = field
		case w == "ignored":
			o.IgnoreParams = true
		case w == "secrets":
			o.Secrets, o.SecretsByIdentity, o.GroupBy = true, true, []string{"metadata"}
		case w == "identity":
			o.GroupBy, o.IdentityTo = []string{"identity"}, "WHO"
		case w == "gather", w == "unversioned":
		default:
			o.TP2 = true
		}
	}
	return o
}

// rules puts others in force, as a reload does.
func (s *script) rules(f []string) {
	var rules []authz.Rule
	for _, w := range f {
		key, value, is := strings.Cut(w, "=")
		last := len(rules) - 1
		switch values := strings.Split(value, ","); {
		case w == ";":
		case !is:
			rules = append(rules, authz.Rule{Who: []string{w}})
		case key == "names":
			rules[last].Names = values
		case key == "origins":
			rules[last].Origins = values
		case key == "types":
			for _, short := range values {
				rules[last].Types = append(rules[last].Types, s.typeURL(short))
			}
		case strings.HasPrefix(key, "set:"):
			rules[last].Set = map[string]string{strings.TrimPrefix(key, "set:"): value}
		default:
			rules[last].Claims = map[string][]string{key: values}
		}
	}
	compiled, problems := authz.Compile(rules)
	for _, p := range problems {
		s.t.Fatal(p)
	}
	s.rig.configure(func(c *Config, _ *ListenerConfig) { c.Rules = compiled })
	next, err := s.rig.table.Prepare(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	change := next.Commit(s.rig.now)
	for _, c := range s.clients {
		if c.closed {
			continue
		}
		if !c.session.keepsRights(s.rig.set) { // its versions stay known
			s.out = append(s.out, fmt.Sprintf("%s ends: %v", c.name, status.Code(errReruled)))
			c.close(s.rig.now)
		} else if !c.session.adopt(s.rig.set, change) {
			s.t.Fatalf("%s keeps its rights, and ends", c.name)
		}
	}
}

func (s *script) controls() []*control {
	return slices.SortedFunc(maps.Values(s.others), func(a, b *control) int { return strings.Compare(a.origin.Name(), b.origin.Name()) })
}

func (s *script) origin(c *control, f []string) {
	switch f[0] {
	case "down":
		s.down[c] = true
		for _, l := range c.lanes {
			c.close(l)
		}
	case "up":
		delete(s.down, c)
	case "mutes":
		c.muted[s.typeURL(f[1])] = true
	case "unmutes":
		delete(c.muted, s.typeURL(f[1]))
	default:
		typeURL := ""
		for _, w := range f {
			if scriptTypes[w] != "" {
				typeURL = scriptTypes[w]
				continue
			}
			s.change(c, typeURL, w)
		}
	}
}

// long is the name behind a word: //NAME/ID is short for an xdstp name.
func long(typeURL, name string) string {
	authority, id, ok := strings.Cut(strings.TrimPrefix(name, "//"), "/")
	if !ok || !strings.HasPrefix(name, "//") {
		return name
	}
	return "xdstp://" + authority + "/" + typeURL[strings.LastIndexByte(typeURL, '/')+1:] + "/" + id
}

func longs(typeURL string, names []string) []string {
	for i := range names {
		names[i] = long(typeURL, names[i])
	}
	return names
}

// short is the other way round.
func short(typeURL, name string) string {
	return strings.Replace(strings.Replace(name, "xdstp:", "", 1), "/"+typeURL[strings.LastIndexByte(typeURL, '/')+1:]+"/", "/", 1)
}

func (s *script) change(c *control, typeURL, w string) {
	if name, gone := strings.CutPrefix(w, "-"); gone {
		c.set(typeURL, long(typeURL, name), "")
		return
	}
	if fault, ok := strings.CutPrefix(w, "!"); ok {
		name, word, _ := strings.Cut(fault, ":")
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(strconv.Quote(word))); err != nil {
			s.t.Fatal(err)
		}
		c.fail(typeURL, long(typeURL, name), code)
		return
	}
	name, body := cutBody(w)
	if typeURL == "" || body == "" {
		s.t.Fatalf("the origin cannot say %q", w)
	}
	c.set(typeURL, long(typeURL, name), body)
}

func (s *script) typeURL(short string) string {
	typeURL := scriptTypes[short]
	if typeURL == "" {
		s.t.Fatalf("no type %q", short)
	}
	return typeURL
}

func (s *script) find(name string) *scriptClient {
	i := slices.IndexFunc(s.clients, func(c *scriptClient) bool { return c.name == name })
	if i < 0 {
		s.t.Fatalf("no command or client %q", name)
	}
	return s.clients[i]
}

func (s *script) open(name string, delta bool, metadata []string) {
	c := &scriptClient{name: name, lists: map[string]*discoveryv3.DiscoveryRequest{}, versions: map[string]map[string]string{}}
	if i := slices.IndexFunc(s.clients, func(c *scriptClient) bool { return c.name == name }); i >= 0 {
		old := s.clients[i]
		old.close(s.rig.now)
		c.versions = old.versions
		s.clients = slices.Delete(s.clients, i, i+1)
	}
	c.pipe = newPipe(s.rig, delta)
	for _, w := range metadata {
		key, value, _ := strings.Cut(w, "=")
		if key == "as" {
			c.session.from = caller{tls: true, verified: true, identity: value}
			continue
		}
		if c.node.Metadata == nil {
			c.node.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		}
		c.node.Metadata.Fields[key] = structpb.NewStringValue(value)
	}
	s.clients = append(s.clients, c)
}

func (s *script) client(c *scriptClient, f []string) {
	switch f[0] {
	case "->":
		s.request(c, s.typeURL(f[1]), f[2:])
	case "acks":
		s.acks(c, f[1:])
	case "stops":
		c.stopped = true
	case "resumes":
		c.stopped = false
	case "leaves":
		c.close(s.rig.now)
		s.clients = slices.DeleteFunc(s.clients, func(x *scriptClient) bool { return x == c })
	default:
		s.t.Fatalf("no client command %q", f[0])
	}
}

func (s *script) request(c *scriptClient, typeURL string, f []string) {
	sotw := &discoveryv3.DiscoveryRequest{TypeUrl: typeURL}
	delta := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL}
	for _, w := range f {
		switch key, value, _ := strings.Cut(w, "="); {
		case key == "V":
			sotw.VersionInfo = s.version(value)
		case key == "N":
			sotw.ResponseNonce = c.nonce(value)
			delta.ResponseNonce = sotw.ResponseNonce
		case key == "R":
			sotw.ResourceNames, sotw.ResourceLocators = divide(longs(typeURL, listOf(value)))
		case key == "error":
			sotw.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: value}
			delta.ErrorDetail = sotw.ErrorDetail
		case key == "has":
			delta.InitialResourceVersions = s.holds(c, typeURL, listOf(value))
		case w[0] == '+':
			names, locators := divide([]string{long(typeURL, w[1:])})
			delta.ResourceNamesSubscribe = append(delta.ResourceNamesSubscribe, names...)
			delta.ResourceLocatorsSubscribe = append(delta.ResourceLocatorsSubscribe, locators...)
		case w[0] == '-':
			names, locators := divide([]string{long(typeURL, w[1:])})
			delta.ResourceNamesUnsubscribe = append(delta.ResourceNamesUnsubscribe, names...)
			delta.ResourceLocatorsUnsubscribe = append(delta.ResourceLocatorsUnsubscribe, locators...)
		default:
			s.t.Fatalf("a request has no %q", w)
		}
	}
	c.lists[typeURL] = sotw
	c.unacked = slices.DeleteFunc(c.unacked, func(m *message) bool { return m.nonce == sotw.ResponseNonce })
	if c.session.delta {
		s.send(c, delta)
		return
	}
	s.send(c, sotw)
}

func (s *script) send(c *scriptClient, m proto.Message) {
	if err := c.send(s.rig.now, m); err != nil {
		s.ended(c, err)
	}
}

func (s *script) acks(c *scriptClient, shorts []string) {
	received := c.unacked
	c.unacked = nil
	for i, m := range received {
		switch newer := func(x *message) bool { return x.typeURL == m.typeURL }; {
		case len(shorts) > 0 && !slices.Contains(shorts, scriptType(m.typeURL)):
			c.unacked = append(c.unacked, m)
		case c.session.delta:
			s.send(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: m.typeURL, ResponseNonce: m.nonce})
		case slices.ContainsFunc(received[i+1:], newer): // only the last nonce counts
		default:
			s.send(c, &discoveryv3.DiscoveryRequest{
				TypeUrl: m.typeURL, ResponseNonce: m.nonce, VersionInfo: m.version,
				ResourceNames: c.lists[m.typeURL].GetResourceNames(), ResourceLocators: c.lists[m.typeURL].GetResourceLocators(),
			})
		}
	}
}

// holds are initial_resource_versions: those of bodies this client was sent.
func (s *script) holds(c *scriptClient, typeURL string, words []string) map[string]string {
	initial := map[string]string{}
	for _, w := range words {
		name, body, _ := strings.Cut(w, "@")
		version := c.versions[typeURL][w]
		if body == "?" {
			version = "somebody else's"
		} else if version == "" {
			s.t.Fatalf("the client was never sent %s", w)
		}
		initial[long(typeURL, name)] = version
	}
	return initial
}

func listOf(word string) []string {
	word = strings.TrimSuffix(strings.TrimPrefix(word, "{"), "}")
	if word == "" {
		return nil
	}
	return strings.Split(word, ",")
}

// version is the version_info behind a word: v1, v2...; another word stands for itself.
func (s *script) version(word string) string {
	if i, err := strconv.Atoi(strings.TrimPrefix(word, "v")); err == nil && i >= 1 && i <= len(s.versions) {
		return s.versions[i-1]
	}
	return word
}

// word is the other way round.
func (s *script) word(version string) string {
	i := slices.Index(s.versions, version)
	if i < 0 {
		i = len(s.versions)
		s.versions = append(s.versions, version)
	}
	return fmt.Sprint("v", i+1)
}

func (s *script) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// wait lets time pass from one deadline to the next, the table's or a writer's.
func (s *script) wait(d string) {
	s.began = s.rig.now
	end := s.began.Add(s.duration(d))
	for {
		next := s.rig.table.Advance(s.rig.now)
		for _, c := range s.clients {
			if len(c.stuck) == 0 && !c.deadline.IsZero() && (next.IsZero() || c.deadline.Before(next)) {
				next = c.deadline
			}
		}
		if next.IsZero() || next.After(end) {
			next = end
		}
		s.rig.now = next
		s.rig.table.Advance(next)
		s.settle(fmt.Sprintf("after %v ", next.Sub(s.began)))
		if !next.Before(end) {
			return
		}
	}
}

// settle lets everybody do what can be done now, until nobody has anything to do.
func (s *script) settle(prefix string) {
	for range 100 {
		did := false
		for _, c := range s.controls() {
			did = !s.down[c] && c.serve(s.rig.now) || did
		}
		for _, c := range slices.Clone(s.clients) {
			did = s.turn(c, prefix) || did
		}
		if !did {
			return
		}
	}
	s.t.Fatal("it does not come to rest")
}

// turn is the writer's, if it is its turn.
func (s *script) turn(c *scriptClient, prefix string) bool {
	if c.stopped && len(c.stuck) > 0 || len(c.stuck) == 0 && !c.due(s.rig.now) {
		return false
	}
	if len(c.stuck) == 0 {
		batch, err := c.take(s.rig.now)
		if err != nil {
			s.ended(c, err)
			return true
		}
		c.stuck = batch
		if c.stopped && len(batch) > 0 {
			return true
		}
	}
	for _, m := range c.write(s.rig.now) {
		c.unacked = append(c.unacked, m)
		s.out = append(s.out, prefix+c.name+" <- "+s.show(c, m))
	}
	return true
}

func (s *script) ended(c *scriptClient, err error) {
	s.out = append(s.out, fmt.Sprintf("%s ends: %v", c.name, status.Code(err)))
	c.close(s.rig.now)
	s.clients = slices.DeleteFunc(s.clients, func(x *scriptClient) bool { return x == c })
}

// show writes a response as a request would be written.
func (s *script) show(c *scriptClient, m *message) string {
	words := []string{scriptType(m.typeURL)}
	nonce := "N=n" + m.nonce[strings.LastIndex(m.nonce, ".")+1:]
	var names, errs []string
	for _, w := range m.words {
		long := w
		if w = short(m.typeURL, w); w[0] == '!' {
			errs = append(errs, w[1:])
			continue
		}
		names = append(names, w)
		name, body := cutBody(w)
		if v := m.versions[strings.TrimSuffix(long, "="+body)]; v != "" {
			if c.versions[m.typeURL] == nil {
				c.versions[m.typeURL] = map[string]string{}
			}
			c.versions[m.typeURL][name+"@"+body] = v
		}
	}
	if c.session.delta {
		words = append(words, nonce)
		for _, w := range names {
			if w[0] != '-' {
				w = "+" + w
			}
			words = append(words, w)
		}
	} else {
		words = append(words, "V="+s.word(m.version), nonce, "R={"+strings.Join(names, ",")+"}")
	}
	if len(errs) > 0 {
		words = append(words, "errors={"+strings.Join(errs, ",")+"}")
	}
	return strings.Join(words, " ")
}

// pipe is one stream without its goroutines: a session, and its writer's state.
type pipe struct {
	rig      *rig
	session  *session
	node     *corev3.Node
	deadline time.Time   // the writer wakes up then; zero: never
	began    bool        // the writer had its first turn
	stuck    []*response // taken, and not written
	unacked  []*message  // received, and not answered
	closed   bool
}

func newPipe(r *rig, delta bool) *pipe {
	return &pipe{
		rig: r, session: newSession(r.set, delta, r.now, relay.NewSubscriber()), node: &corev3.Node{Id: "envoy-1", Cluster: "edge"},
	}
}

// nonce is the one behind a word of this stream: n1, n2...
func (p *pipe) nonce(word string) string {
	if n, ok := strings.CutPrefix(word, "n"); ok {
		return p.session.prefix + n
	}
	return word
}

func (p *pipe) send(now time.Time, m proto.Message) error {
	switch m := m.(type) {
	case *discoveryv3.DiscoveryRequest:
		m.Node, p.node = p.node, nil
	case *discoveryv3.DeltaDiscoveryRequest:
		m.Node, p.node = p.node, nil
	}
	_, err := takeIn(p.rig.tb, p.session, now, encoded(p.rig.tb, m))
	return err
}

// due reports whether the writer would run now: it was woken, or its deadline has come.
func (p *pipe) due(now time.Time) bool {
	if p.closed {
		return false
	}
	select {
	case <-p.session.mailbox.Wake():
		return true
	default:
	}
	return !p.began || !p.deadline.IsZero() && !p.deadline.After(now)
}

// take is the first half of the writer's turn (stream.write).
func (p *pipe) take(now time.Time) ([]*response, error) {
	p.began = true
	batch := p.session.take(now)
	if err := p.session.tick(now); err != nil {
		return nil, err
	}
	p.deadline = p.session.next()
	return batch, nil
}

// write is the second half.
func (p *pipe) write(now time.Time) (out []*message) {
	batch := p.stuck
	p.stuck = nil
	for _, r := range batch {
		m := decode(p.rig.tb, r, p.session.delta)
		out = append(out, m)
	}
	if len(batch) > 0 {
		p.session.wrote(now, batch)
	}
	p.deadline = p.session.next()
	return out
}

func (p *pipe) close(now time.Time) {
	p.closed = true
	p.session.close(now)
}
