package downstream

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// TestNobodyGetsWhatIsDenied plays clients of several identities in all dialects against one table:
// every type, by name, `*`, glob and namespace, while resources come, change, go and are in error,
// while the origin is away, and over changes of the rules. What a client is sent is searched for the
// names and bodies of what it may not have, and in the end it has all that it may have. What it may
// have is judged by the rules' text alone. Secrets are shared by identity.
func TestNobodyGetsWhatIsDenied(t *testing.T) {
	sets := [][]authz.Rule{
		{
			{Who: []string{"spiffe://corp/ns/{ns}/sa/*"}, Names: []string{"{ns}/*", "shared", "xdstp://mesh/*/{ns}/*"}},
			{Who: []string{"uri:ops"}, Names: []string{"team-*/*", "xdstp://mesh/**"}},
			{Who: []string{"anonymous"}, Types: []string{eds, cds}, Names: []string{"shared"}},
		},
		{
			{Who: []string{"spiffe://corp/ns/team-b/**"}, Names: []string{"team-a/*", "xdstp://mesh/**"}, Claims: map[string][]string{"node.cluster": {"edge"}}},
			{Who: []string{"spiffe://corp/**"}, Origins: []string{"mesh"}, Names: []string{"{never}/*", "team-b/two", "team-b/xone"}},
			{Who: []string{"uri:ops"}, Types: []string{cds, lds, rds}},
			{Who: []string{"anonymous"}, Origins: []string{"elsewhere"}},
		},
	}
	for _, how := range []string{"delta ads", "delta per-type", "sotw ads", "sotw per-type", "poll"} {
		for i := range sets {
			t.Run(fmt.Sprint(how, " ", i), func(t *testing.T) {
				m := newMatrix(t, how, sets[i])
				m.play(sets[1-i])
			})
		}
	}
}

var matrixNames = []string{"team-a/one", "team-a/two", "team-b/one", "team-b/two", "shared", "hidden", "//team-a/xone", "//team-b/xone"}

// matrix is one world of it.
type matrix struct {
	t       *testing.T
	how     string
	rules   []authz.Rule
	ruledBy [][]authz.Rule // so far
	config  relay.Config
	rig     *rig
	control *control
	seats   []*seat
	down    bool
}

// seat is a client that asks for one type in one way.
type seat struct {
	*pipe
	m              *matrix
	who, cluster   string
	typeURL        string
	asks           []string
	holds          map[string]string // body by name
	versions       map[string]string
	version, nonce string
	said           map[string]bool // names that the client itself has written
	ended          bool            // no rule fits
}

func newMatrix(t *testing.T, how string, rules []authz.Rule) *matrix {
	m := &matrix{t: t, how: how, config: relay.Config{Settle: 250 * time.Millisecond, Origins: []relay.OriginConfig{
		{Name: "mesh", Authorities: []string{"mesh"}, Secrets: true, SecretsByIdentity: true},
	}}}
	m.rig = newRigWith(t, m.config)
	m.control = newControl(t, m.rig.origin, false)
	m.ruled(rules)
	for _, typeURL := range m.types() {
		for _, name := range matrixNames {
			m.control.set(typeURL, long2(typeURL, name), "1")
		}
	}
	for _, who := range []string{"spiffe://corp/ns/team-a/sa/x", "spiffe://corp/ns/team-b/sa/y", "uri:ops", ""} {
		for _, typeURL := range m.types() {
			clusters := []string{"edge", "core"}
			if !strings.Contains(who, "team-b") {
				clusters = clusters[:1] // no rule asks
			}
			for _, cluster := range clusters {
				for _, asks := range m.subscriptions(typeURL) {
					m.seats = append(m.seats, &seat{m: m, who: who, cluster: cluster, typeURL: typeURL, asks: asks, holds: map[string]string{}, versions: map[string]string{}})
				}
			}
		}
	}
	return m
}

func long2(typeURL, name string) string {
	if id, is := strings.CutPrefix(name, "//"); is {
		return long(typeURL, "//mesh/"+id)
	}
	return name
}

func (m *matrix) delta() bool { return strings.HasPrefix(m.how, "delta") }

func (m *matrix) types() []string {
	if m.delta() {
		return []string{cds, eds, vhd, sds}
	}
	return []string{cds, eds, lds, rds, sds}
}

func (m *matrix) subscriptions(typeURL string) (all [][]string) {
	var names []string
	for _, name := range matrixNames {
		names = append(names, long2(typeURL, name))
	}
	all = append(all, names, []string{xds.Wildcard})
	switch {
	case m.how == "poll" && typeURL == sds:
		return all[:1] // nothing lingers, and a set settles only while it is wanted
	case m.how == "poll":
	case !m.delta():
		all = append(all, []string{xds.Wildcard, "hidden", "shared"})
	case typeURL == vhd:
		all[1] = []string{"team-a", "team-b"}
		all = append(all, []string{"team-b", "team-a/one", "team-b/one"})
	default:
		all = append(all, []string{xds.Wildcard, "hidden", "shared"}, []string{long2(typeURL, "//team-a/*"), long2(typeURL, "//team-b/*")})
	}
	return all
}

func (m *matrix) ruled(rules []authz.Rule) {
	compiled, problems := authz.Compile(rules)
	for _, p := range problems {
		if !p.Warning {
			m.t.Fatal(p)
		}
	}
	m.rules, m.ruledBy = rules, append(m.ruledBy, rules)
	m.rig.configure(func(c *Config, _ *ListenerConfig) { c.Rules = compiled })
	next, err := m.rig.table.Prepare(m.config)
	if err != nil {
		m.t.Fatal(err)
	}
	change := next.Commit(m.rig.now)
	for _, s := range m.seats {
		if s.pipe != nil && s.session.keepsRights(m.rig.set) {
			s.session.adopt(m.rig.set, change)
		} else if s.pipe != nil {
			s.leave()
		}
	}
}

// expression reads a pattern in another way than the product does.
func expression(pattern string, parts map[string]string, bind bool) *regexp.Regexp {
	key := fmt.Sprint(pattern, parts, bind)
	if x, known := expressions.Load(key); known {
		return x.(*regexp.Regexp)
	}
	x := readExpression(pattern, parts, bind)
	expressions.Store(key, x)
	return x
}

var expressions sync.Map

func readExpression(pattern string, parts map[string]string, bind bool) *regexp.Regexp {
	words := regexp.MustCompile(`\*\*|\*|\{[a-z]+\}`)
	out, last := "^", 0
	for _, at := range words.FindAllStringIndex(pattern, -1) {
		out += regexp.QuoteMeta(pattern[last:at[0]])
		switch word := pattern[at[0]:at[1]]; {
		case word == "**":
			out += ".*"
		case word == "*":
			out += "[^/]*"
		case bind:
			out += "(?P<" + strings.Trim(word, "{}") + ">[^/]+)"
		case parts[strings.Trim(word, "{}")] == "":
			return regexp.MustCompile("^a^") // nothing
		default:
			out += regexp.QuoteMeta(parts[strings.Trim(word, "{}")])
		}
		last = at[1]
	}
	return regexp.MustCompile(out + regexp.QuoteMeta(pattern[last:]) + "$")
}

// may judges by the rules' text: whether a rule fits the client, and whether one allows it the name.
func (m *matrix) may(who, cluster, typeURL, name string) (fits, allowed bool) {
	if who == "" {
		who = "anonymous"
	}
	for _, r := range m.rules {
		for _, pattern := range r.Who {
			x := expression(pattern, nil, true)
			found := x.FindStringSubmatch(who)
			if found == nil || len(r.Claims) > 0 && !slices.Contains(r.Claims["node.cluster"], cluster) {
				continue
			}
			parts := map[string]string{}
			for i, part := range x.SubexpNames() {
				parts[part] = found[i]
			}
			fits = true
			if len(r.Origins) > 0 && !slices.Contains(r.Origins, "mesh") || len(r.Types) > 0 && !slices.Contains(r.Types, typeURL) {
				continue
			}
			// A secret is for whom a pattern names (RELAY-74).
			alone := typeURL != sds || pattern == who && who != "anonymous"
			allowed = allowed || alone && len(r.Names) == 0 || slices.ContainsFunc(r.Names, func(p string) bool {
				return (alone || strings.Contains(p, "{")) && expression(p, parts, false).MatchString(name)
			})
		}
	}
	return fits, allowed
}

func (m *matrix) play(other []authz.Rule) {
	m.enter()
	m.pass()
	m.judge("at first")
	for _, typeURL := range m.types() { // everything changes, some goes, some is in error
		for i, name := range matrixNames {
			switch name = long2(typeURL, name); i % 4 {
			case 0, 1:
				m.control.set(typeURL, name, "2")
			case 2:
				m.control.set(typeURL, name, "")
			}
		}
		m.control.fail(typeURL, "hidden", codes.Internal)
	}
	m.pass()
	m.judge("after changes")
	m.ruled(other)
	m.enter()
	m.pass(15 * time.Second) // a list for who came back waits so long for a name in error
	m.judge("by other rules")
	for _, typeURL := range m.types() {
		for _, name := range matrixNames {
			m.control.set(typeURL, long2(typeURL, name), "3")
		}
	}
	m.pass()
	m.judge("all there again")
	m.down = true
	for _, l := range m.control.lanes {
		m.control.close(l)
	}
	for _, s := range m.seats {
		s.leave()
	}
	m.enter()
	m.pass()
	m.down = false
	m.pass(10 * time.Second)
	m.judge("after an outage")
	m.asked()
}

// enter has the clients that are not there come, with what they hold.
func (m *matrix) enter() {
	for _, s := range m.seats {
		if s.pipe == nil {
			s.enter()
		}
	}
}

func (s *seat) enter() {
	m := s.m
	if m.how == "poll" {
		return // each pass polls
	}
	s.pipe = newPipe(m.rig, m.delta())
	s.session.from, s.node = s.caller(), &corev3.Node{Id: "x", Cluster: s.cluster}
	if strings.HasSuffix(m.how, "per-type") {
		s.session.only = s.typeURL
	}
	s.nonce, s.said = "", map[string]bool{}
	for _, name := range s.asks {
		s.said[name] = true
	}
	for name := range s.holds {
		s.said[name] = true
	}
	var err error
	if m.delta() {
		err = s.send(m.rig.now, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: s.typeURL, ResourceNamesSubscribe: s.asks, InitialResourceVersions: maps.Clone(s.versions)})
	} else {
		err = s.send(m.rig.now, &discoveryv3.DiscoveryRequest{TypeUrl: s.typeURL, ResourceNames: s.asks, VersionInfo: s.version})
		if !slices.Contains(s.asks, xds.Wildcard) && !xds.SentWhole(s.typeURL) {
			clear(s.holds) // no word can take it away
		}
	}
	s.ends(err)
}

func (s *seat) caller() caller {
	return caller{local: true, tls: s.who != "", verified: s.who != "", identity: s.who}
}

// ends judges whether a client is ended, by what it says or by that.
func (s *seat) ends(err error) {
	s.ended = err != nil
	if fits, _ := s.m.may(s.who, s.cluster, s.typeURL, ""); fits == s.ended || s.ended && status.Code(err) != codes.PermissionDenied {
		s.m.t.Fatalf("%s: a rule fits is %v, and its stream: %v", s.describe(), fits, err)
	}
	if s.ended {
		clear(s.holds)
		clear(s.versions)
		s.leave()
	}
}

func (s *seat) leave() {
	if s.pipe != nil {
		s.close(s.m.rig.now)
	}
	s.pipe = nil
}

func (s *seat) describe() string {
	return fmt.Sprintf("%s: %q in %s asks %s for %v", s.m.how, s.who, s.cluster, s.typeURL, s.asks)
}

// pass lets time pass until everything is settled.
func (m *matrix) pass(steps ...time.Duration) {
	steps = append(steps, 250*time.Millisecond, 300*time.Millisecond, 3*time.Second, 3*time.Second, time.Second)
	for n, step := range steps {
		for i := range 3 {
			if !m.down {
				m.control.serve(m.rig.now)
			}
			for _, s := range m.seats {
				switch {
				case m.how == "poll":
					if i == 2 && n >= len(steps)-3 {
						s.polls()
					}
				case s.pipe != nil && s.due(m.rig.now):
					s.reads()
				}
			}
		}
		m.rig.wait(step)
	}
}

func (s *seat) reads() {
	batch, err := s.take(s.m.rig.now)
	if err != nil {
		s.m.t.Fatalf("%s: %v", s.describe(), err)
	}
	for _, r := range batch {
		s.receives(r)
	}
	if len(batch) == 0 {
		return
	}
	s.session.wrote(s.m.rig.now, batch)
	var ack proto.Message = &discoveryv3.DiscoveryRequest{TypeUrl: s.typeURL, ResourceNames: s.asks, VersionInfo: s.version, ResponseNonce: s.nonce}
	if s.session.delta {
		ack = &discoveryv3.DeltaDiscoveryRequest{TypeUrl: s.typeURL, ResponseNonce: s.nonce}
	}
	if err := s.send(s.m.rig.now, ack); err != nil {
		s.m.t.Fatalf("%s: %v", s.describe(), err)
	}
}

// polls is a poll from its beginning to its end.
func (s *seat) polls() {
	m := s.m
	from := s.caller()
	session := newPollSession(m.rig.set, &pollers{}, s.typeURL, false, from, m.rig.now)
	defer session.close(m.rig.now)
	wire := encoded(m.t, &discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "x", Cluster: s.cluster}, TypeUrl: s.typeURL, ResourceNames: s.asks})
	if _, err := takeIn(m.t, session, m.rig.now, wire); err != nil {
		s.said = map[string]bool{}
		s.ends(err)
		return
	}
	s.ended, s.said = false, map[string]bool{}
	for _, name := range s.asks {
		s.said[name] = true
	}
	names := &content{}
	names.names.n = len(s.asks)
	var answer polled
	var err error
	for try := 0; try < 4 && err == nil && answer.response == nil; try++ { // it waits
		if !m.down {
			m.control.serve(m.rig.now)
		}
		answer, err = session.resolve(m.rig.now, names, true, try == 3)
	}
	switch {
	case status.Code(err) == codes.PermissionDenied, status.Code(err) == codes.FailedPrecondition:
		clear(s.holds)
	case err != nil:
		m.t.Fatalf("%s: %v", s.describe(), err)
	case answer.response != nil:
		clear(s.holds)
		s.receives(answer.response)
	}
}

// receives searches what is sent, and takes it in.
func (s *seat) receives(r *response) {
	m := s.m
	raw := string(r.out.Materialize())
	for _, name := range matrixNames {
		name = long2(s.typeURL, name)
		if _, allowed := m.may(s.who, s.cluster, s.typeURL, name); !allowed && !s.said[name] && strings.Contains(raw, name) {
			m.t.Fatalf("%s: is sent the name of %s: %q", s.describe(), name, raw)
		}
	}
	msg := decode(m.t, r, m.delta())
	s.nonce, s.version = msg.nonce, msg.version
	if !m.delta() && (xds.SentWhole(s.typeURL) || slices.Contains(s.asks, xds.Wildcard)) {
		clear(s.holds)
	}
	for _, w := range msg.words {
		name, body, sent := strings.Cut(w, "=")
		gone, removed := strings.CutPrefix(w, "-")
		fault, failed := strings.CutPrefix(w, "!")
		switch {
		case removed:
			delete(s.holds, gone)
			delete(s.versions, gone)
		case failed:
			at := strings.LastIndexByte(fault, ':')
			if _, allowed := m.may(s.who, s.cluster, s.typeURL, fault[:at]); !allowed && fault[at+1:] != "PermissionDenied" {
				m.t.Fatalf("%s: %s", s.describe(), w)
			}
		case sent && !strings.HasPrefix(name, "?"):
			if _, allowed := m.may(s.who, s.cluster, s.typeURL, name); !allowed {
				m.t.Fatalf("%s: is sent %s", s.describe(), w)
			}
			s.holds[name], s.versions[name] = body, msg.versions[name]
		}
	}
}

// judge compares what each client holds with what it may have of what there is.
func (m *matrix) judge(when string) {
	for _, s := range m.seats {
		fits, _ := m.may(s.who, s.cluster, s.typeURL, "")
		want := map[string]string{}
		for name, body := range m.control.state[s.typeURL] {
			_, allowed := m.may(s.who, s.cluster, s.typeURL, name)
			if _, failed := m.control.faults[s.typeURL][name]; fits && allowed && s.selects(name) && !failed {
				want[name] = body
			}
		}
		got := maps.Clone(s.holds)
		maps.DeleteFunc(got, func(name string, _ string) bool {
			_, failed := m.control.faults[s.typeURL][name]
			_, exists := m.control.state[s.typeURL][name]
			// state of the world has no word for it
			return failed || !exists && !m.delta() && !xds.SentWhole(s.typeURL) && !slices.Contains(s.asks, xds.Wildcard)
		})
		if !maps.Equal(got, want) {
			m.t.Fatalf("%s: %s holds %v, want %v", when, s.describe(), got, want)
		}
	}
}

func (s *seat) selects(name string) bool {
	return slices.ContainsFunc(s.asks, func(ask string) bool {
		prefix, glob := strings.CutSuffix(ask, "/*")
		within := strings.HasPrefix(name, prefix+"/") && !strings.Contains(name[len(prefix)+1:], "/")
		return ask == name || ask == xds.Wildcard || (glob || s.typeURL == vhd && !strings.Contains(ask, "/")) && within
	})
}

// asked: no name was asked of the origin that nobody may have.
func (m *matrix) asked() {
	for _, l := range m.control.lanes {
		for typeURL, ty := range l.types {
			for name := range ty.names {
				some := strings.HasSuffix(name, "/*") || !strings.Contains(name, "/") && typeURL == vhd
				for _, m.rules = range m.ruledBy { // what was allowed before may linger
					for _, s := range m.seats {
						_, allowed := m.may(s.who, s.cluster, typeURL, name)
						some = some || allowed
					}
				}
				if !some {
					m.t.Errorf("%s: the origin is asked for %s %s, which nobody may have", m.how, typeURL, name)
				}
			}
		}
	}
}
