package relay

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"
)

var rewrite = flag.Bool("update", false, "rewrite the expected output in testdata")

// TestScripts runs the scenarios in testdata. A line that starts in the first column is a command;
// what it printed stands indented below it. Run with -update to rewrite the output, and read the
// difference.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { runScript(t, f) })
	}
}

func runScript(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(t)
	s.states()
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
		for _, out := range s.run(strings.Fields(line)) {
			got.WriteString("  " + out + "\n")
		}
		if err := s.table.Check(); err != nil {
			t.Fatalf("%s: after %q: %v", file, line, err)
		}
	}
	if got.String() == string(data) {
		return
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s: output differs; got:\n%s", file, got.String())
}

type script struct {
	t     *testing.T
	now   time.Time
	cfg   Config
	table *Table
	group *Group
	subs  map[string]*scriptSub
	own   map[string]*Lane // lanes of types that are or were apart
	disk  diskImages

	captured map[string]*State
}

// hold runs what is about holds: capture STATE, hold STATE, free, waiting.
func (s *script) hold(f []string) []string {
	o, key := s.table.Origin("mesh"), s.group.Key()
	switch f[0] {
	case "capture":
		s.captured[f[1]], _ = o.Capture(key)
		return []string{fmt.Sprintf("%d resources, whole %v", s.captured[f[1]].resources(), s.captured[f[1]].whole())}
	case "hold":
		done := o.Hold(s.now, key, s.captured[f[1]])
		return append([]string{fmt.Sprintf("changed %d, unknown %d", done.Changed, done.Unknown)}, s.woken()...)
	case "free":
		return append([]string{fmt.Sprint(o.Free(key))}, s.woken()...)
	}
	n, last := s.group.Waiting()
	return []string{fmt.Sprintf("%d, changed %s ago", n, s.now.Sub(last))}
}

type scriptSub struct {
	*Sub
	owner *Subscriber
	last  *Answer
}

func newScript(t *testing.T) *script {
	s := &script{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), subs: map[string]*scriptSub{}, own: map[string]*Lane{}, captured: map[string]*State{}}
	s.cfg = Config{Settle: 250 * time.Millisecond, Origins: []OriginConfig{{Name: "mesh"}}}
	s.start()
	return s
}

// states has all groups keep their states from now on.
func (s *script) states() {
	s.start()
}

func (s *script) start() {
	var err error
	if s.table, err = New(s.cfg); err != nil {
		s.t.Fatal(err)
	}
	if s.group, err = s.table.Origin("mesh").Group(nil); err != nil {
		s.t.Fatal(err)
	}
	s.group.used.Store(true) // the clients of a script have acknowledged before
}

var shortTypes = map[string]string{
	"cds": xds.ClusterType, "eds": xds.EndpointType, "lds": xds.ListenerType, "rds": xds.RouteType, "srds": xds.ScopedRouteType,
	"sds":     xds.SecretType,
	"vhds":    xds.VirtualHostType,
	"made-up": xds.TypePrefix + "example.Made.Up",
}

func shortType(url string) string {
	for s, u := range shortTypes {
		if u == url {
			return s
		}
	}
	return url
}

func (s *script) run(f []string) []string {
	switch f[0] {
	case "origin":
		s.configure(f)
		for _, w := range f[1:] { // keep=ENTRIES,BYTES of what retired
			if keep, ok := strings.CutPrefix(w, "keep="); ok {
				if _, err := fmt.Sscanf(keep, "%d,%d", &s.cfg.RetiredEntries, &s.cfg.RetiredBytes); err != nil {
					s.t.Fatal(err)
				}
			}
		}
		s.start()
	case "reconfigure": // as "origin", of a table in use
		s.configure(f)
		n, err := s.table.Prepare(s.cfg)
		if err != nil {
			s.t.Fatal(err)
		}
		if n.Commit(s.now).Ended(s.group.origin) {
			return []string{"ends"}
		}
		return s.woken()
	case "wait":
		return s.wait(f[1])
	case "open":
		s.open(f[1:])
	case "lane":
		return s.lane(s.laneOf(f[1]), f[2:])
	case "lanes":
		return s.lanes()
	case "apart":
		return s.apart()
	case "status":
		return s.status()
	case "alarms":
		return s.alarms()
	case "release":
		return append([]string{fmt.Sprintf("%d released", s.table.Origin("mesh").ReleaseGuard(s.now, shortTypes[strings.Join(f[1:], "")]))}, s.woken()...)
	case "freeze":
		return []string{fmt.Sprint(s.table.Origin("mesh").Freeze(s.now))}
	case "unfreeze":
		return append([]string{fmt.Sprint(s.table.Origin("mesh").Unfreeze())}, s.woken()...)
	case "capture", "hold", "free", "waiting":
		return s.hold(f)
	case "snapshot": // what a snapshot keeps is noted, as on disk
		return s.disk.snapshot(s.table, s.now)
	case "restart": // the process ends, and begins again with what the last snapshot kept
		s.start()
		clear(s.subs)
		return s.disk.restore(s.table, s.now)
	case "fallback": // what the last resort has: fallback TYPE NAME=BODY... [TYPE ...]
		return s.fallback(f[1:])
	case "views":
		return []string{fmt.Sprint(s.table.budget.views.Load())}
	case "sources": // of what is held
		return s.sources()
	case "retired":
		entries, bytes := s.table.Retired()
		return []string{fmt.Sprintf("%d entries, %d bytes", entries, bytes)}
	default:
		sub := s.subs[f[0]]
		if sub == nil {
			s.t.Fatalf("no command or client %q", f[0])
		}
		return s.client(sub, f[1:])
	}
	return nil
}

// configure reads what an origin is like.
func (s *script) configure(f []string) {
	s.cfg.Origins = slices.Clone(s.cfg.Origins) // those in force are not to be touched
	o := &s.cfg.Origins[0]
	o.SotW = slices.Contains(f, "sotw")
	o.OriginVersions = slices.Contains(f, "origin-versions")
	o.NoResume = slices.Contains(f, "no-resume")
	o.AbsenceTransient = slices.Contains(f, "transient")
	o.DropOnDataError = slices.Contains(f, "drop")
	o.RecursiveGlobs = slices.Contains(f, "recursive")
	o.WithholdTTL = slices.Contains(f, "withhold")
	o.Secrets = slices.Contains(f, "secrets") // by identity
	o.SecretsByIdentity = o.Secrets
	if s.cfg.Gather = 0; slices.Contains(f, "gather") {
		s.cfg.Gather = 20 * time.Millisecond
	}
	o.Guard = gate.GuardConfig{}
	if slices.Contains(f, "guard") {
		o.Guard = gate.GuardConfig{Share: 0.5, Min: 3, Hold: 30 * time.Second}
	}
	if slices.Contains(f, "guard-few") { // with the defaults
		o.Guard = gate.GuardConfig{Share: 0.5, Min: 10, Hold: 30 * time.Second, Few: true}
	}
}

func (s *script) wait(d string) []string {
	by, err := time.ParseDuration(d)
	if err != nil {
		s.t.Fatal(err)
	}
	end := s.now.Add(by)
	for {
		next := s.table.Advance(s.now)
		if next.IsZero() || next.After(end) {
			break
		}
		s.now = next
	}
	s.now = end
	s.table.Advance(s.now)
	return s.woken()
}

// woken lists the clients that have something to look at.
func (s *script) woken() []string {
	var names []string
	for name, sub := range s.subs {
		select {
		case <-sub.owner.wake:
			names = append(names, name)
		default:
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{"wakes " + strings.Join(names, " ")}
}

// open NAME delta|sotw[+ttl][+polls] TYPE [version=V] [may=NAME,PREFIX*] [holds NAME=BODY...]
func (s *script) open(f []string) {
	dialect, polls := strings.CutSuffix(f[1], "+polls")
	dialect, ttl := strings.CutSuffix(dialect, "+ttl")
	o := SubOptions{TypeURL: shortTypes[f[2]], Delta: dialect == "delta", TTL: ttl, Polls: polls}
	for i, w := range f[3:] {
		if v, ok := strings.CutPrefix(w, "version="); ok {
			o.Version = v
			if from := s.subs[v]; from != nil { // the version another client was sent
				o.Version = from.last.Version
			}
		}
		if v, ok := strings.CutPrefix(w, "may="); ok {
			o.Permit = permitted(v)
		}
		if w == "holds" {
			o.Initial = map[string]string{}
			for _, kv := range f[3+i+1:] {
				name, body, _ := strings.Cut(kv, "=")
				name, aliases := cutAliases(name)
				r := madeResource(o.TypeURL, name, "", body)
				r.Name, r.Aliases = xds.NameKey(name), aliases
				o.Initial[name] = xds.NewVariant(&xds.Provenance{TypeURL: o.TypeURL}, &r, "").Digest.String()
				if s.cfg.Origins[0].OriginVersions {
					o.Initial[name] = body
				}
				if body == "?" {
					o.Initial[name] = "somebody else's version"
				}
			}
			break
		}
	}
	owner := NewSubscriber()
	s.subs[f[0]] = &scriptSub{Sub: s.group.Open(owner, o), owner: owner}
}

// permitted is the permit of names, and of prefixes with a star.
func permitted(names string) *Permit {
	patterns := strings.Split(names, ",")
	return NewPermit(names, func(name string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			prefix, star := strings.CutSuffix(pattern, "*")
			return name == pattern || star && strings.HasPrefix(name, prefix)
		})
	}, func(before, after string, _ bool) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			prefix, star := strings.CutSuffix(pattern, "*")
			return pattern != "-" && (strings.HasPrefix(prefix, before) && (star || strings.HasSuffix(prefix, after)) || star && strings.HasPrefix(before, prefix))
		})
	})
}

func (s *script) client(c *scriptSub, f []string) []string {
	switch f[0] {
	case "+":
		c.Update(s.now, f[1:], nil)
	case "-":
		c.Update(s.now, nil, f[1:])
	case "=":
		names := slices.DeleteFunc(slices.Clone(f[1:]), func(n string) bool { return n == xds.Wildcard })
		c.Replace(s.now, names, len(names) < len(f[1:]))
	case "owe":
		c.Owe(f[1:])
	case "owe-namespaces":
		c.OweNamespaces(f[1:], nil)
	case "namespaces":
		c.Namespaces(f[1:])
	case "take":
		return s.take(c)
	case "ack":
		c.Ack(c.last.Receipt())
	case "nack":
		c.Nack(c.last.Receipt())
	case "close":
		c.Close(s.now)
	case "unreached":
		if !c.Unreached() {
			return []string{"nothing"}
		}
	case "standing":
		return []string{fmt.Sprintf("%+v", c.Standing())}
	default:
		s.t.Fatalf("no client command %q", f[0])
	}
	return s.woken()
}

func (s *script) take(c *scriptSub) []string {
	select {
	case <-c.owner.wake:
	default:
	}
	c.Pending()
	restated := c.Restated()
	a := c.Take(s.now)
	if a != nil && restated {
		s.t.Fatal("the client is sent something, and nothing but what it has was pending")
	}
	if a == nil {
		if c.Standing().Lagging {
			return []string{"lagging"}
		}
		return []string{"nothing"}
	}
	c.last = a
	return s.words(c, a)
}

// words are what an answer says.
func (s *script) words(c *scriptSub, a *Answer) []string {
	var words []string
	for _, v := range a.Variants {
		_, value, _ := xds.AnyParts(v.Any())
		name := v.Spelling()
		if v.Nameless {
			name = "(nameless)"
		}
		if len(v.Aliases) > 0 && c.delta {
			name += "[" + strings.Join(v.Aliases, ",") + "]"
		}
		if v.Notice() {
			words = append(words, "?"+name)
			continue
		}
		word := fmt.Sprintf("%s=%s", name, xds.StringField(value, 2))
		if s.cfg.Origins[0].OriginVersions {
			word += "@" + s.sentVersion(c, v)
		}
		words = append(words, word+s.told(c, v))
	}
	for _, v := range a.Heartbeats {
		words = append(words, "^"+v.Spelling()+s.told(c, v))
	}
	slices.Sort(words)
	var removed []string
	for _, name := range a.Removed {
		removed = append(removed, "-"+name)
	}
	slices.Sort(removed)
	var errs []string
	for _, e := range a.Errors {
		errs = append(errs, fmt.Sprintf("error(%s %d)", e.Spelling(), e.Code))
	}
	slices.Sort(errs)
	if s.cfg.Origins[0].OriginVersions {
		version := a.Version
		if strings.HasPrefix(version, "w2") { // a digest of the set
			version = "content's"
		}
		errs = append(errs, "version "+version)
	}
	return []string{strings.TrimSpace("answer " + strings.Join(slices.Concat(words, removed, errs), " "))}
}

// told is the TTL that the client is told.
func (s *script) told(c *scriptSub, v *xds.Variant) string {
	ttl, ok := v.Remaining(s.now)
	switch {
	case !c.ttl || !v.Timed():
		return ""
	case !ok:
		return "~over"
	}
	return "~" + ttl.String()
}

// sentVersion is the resource version that the body is sent with.
func (s *script) sentVersion(c *scriptSub, v *xds.Variant) string {
	if !c.delta {
		return "-"
	}
	var m discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(v.Delta(), &m); err != nil {
		s.t.Fatal(err)
	}
	return m.Resources[0].Version
}

// lane main open | close | take | delta TYPE [#VERSION] [NAME=BODY[@VERSION]...] [-NAME...] | sotw
// TYPE VERSION NAME=BODY... laneOf is main, side, or one that a type has to itself: cds.main,
// cds.side. What was its own is kept, as upstream does.
func (s *script) laneOf(name string) *Lane {
	typ, lane, own := strings.Cut(name, ".")
	if !own {
		typ, lane = "", name
	}
	i := map[string]laneIndex{"main": mainLane, "side": sideLane}[lane]
	if !own {
		return s.group.lanes[i]
	}
	if sh := s.group.plain(shortTypes[typ]); sh != nil && sh.inQuarantine() {
		s.own[name] = sh.lane(i)
	}
	if s.own[name] == nil {
		s.t.Fatalf("%s was never apart", typ)
	}
	return s.own[name]
}

// apart lists the types that are, and which of their lanes are wanted.
func (s *script) apart() (out []string) {
	for _, as := range apartOf(s.table) {
		line := fmt.Sprintf("%s open %v refused %d", shortType(as.TypeURL), as.Open, as.Refused)
		if !as.Quarantined.IsZero() {
			line += fmt.Sprintf(" quarantined for %v", s.now.Sub(as.Quarantined))
		}
		for _, lane := range []string{"main", "side"} {
			if s.laneOf(shortType(as.TypeURL) + "." + lane).Wanted() {
				line += ", wants " + lane
			}
		}
		out = append(out, line)
	}
	return out
}

// refuse ends the lane's stream as an origin does that will not have what was asked.
func (s *script) refuse(l *Lane) (out []string) {
	r := l.Refused(s.now)
	for _, t := range r.Suspects {
		out = append(out, "suspect "+shortType(t))
	}
	if r.Quarantined {
		out = append(out, fmt.Sprintf("quarantined, first %v, failures %d", r.First, r.Failures))
	}
	return append(out, s.woken()...)
}

// lane main open | close | refuse | rest D | release | take | delta TYPE [NAME=BODY[@VERSION]...]
// [-NAME...] | sotw TYPE VERSION NAME=BODY...
func (s *script) lane(l *Lane, f []string) []string {
	switch f[0] {
	case "open":
		server := uint8(0)
		if len(f) > 1 { // open SERVER
			server = f[1][0] - '0'
		}
		l.Open(s.now, server)
	case "close":
		l.Close()
		return s.woken()
	case "missed":
		l.Missed()
		return s.woken()
	case "refuse":
		return s.refuse(l)
	case "rest":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			s.t.Fatal(err)
		}
		l.RetryAt(s.now.Add(d), "because")
	case "release":
		return []string{fmt.Sprint(l.Release())}
	case "take":
		return s.asks(l)
	case "delta", "sotw":
		return append(s.apply(l, f), s.woken()...)
	default:
		s.t.Fatalf("no lane command %q", f[0])
	}
	return nil
}

func (s *script) asks(l *Lane) []string {
	asks, reopen := l.Take(s.now, s.cfg.Origins[0].SotW)
	var out []string
	for _, a := range asks {
		line := shortType(a.TypeURL)
		if a.First {
			line += " first"
		}
		if a.Wildcard {
			line += " wildcard"
		}
		for _, n := range a.Subscribe {
			line += " +" + n.Name
		}
		for _, n := range a.Unsubscribe {
			line += " -" + n.Name
		}
		for _, n := range slices.Sorted(mapKeys(a.Initial)) {
			line += " " + n + "@" + a.Initial[n]
		}
		if s.cfg.Origins[0].SotW && !a.Wildcard {
			line += " all:"
			for _, n := range a.All {
				line += " " + n.Name
			}
		}
		out = append(out, line)
	}
	if reopen {
		out = append(out, "reopen")
	}
	if len(out) == 0 {
		out = []string{"nothing"}
	}
	return out
}

func mapKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// madeResource is a resource whose payload is a message with the name in field 1 and the body in
// field 2.
func madeResource(typeURL, name, version, body string) xds.Resource {
	value := xds.AppendString(xds.AppendString(nil, 1, name), 2, body)
	r := xds.Resource{Name: name, Version: version}
	r.Any = xds.AppendString(nil, 1, typeURL)
	r.Any = protowire.AppendBytes(protowire.AppendTag(r.Any, 2, protowire.BytesType), value)
	r.PayloadType, r.Payload, _ = xds.AnyParts(r.Any)
	return r
}

// cutAliases reads NAME[ALIAS,ALIAS...].
func cutAliases(word string) (name string, aliases []string) {
	name, list, has := strings.Cut(strings.TrimSuffix(word, "]"), "[")
	if has {
		aliases = strings.Split(list, ",")
	}
	return name, aliases
}

// ttl cuts a word's TTL off: NAME=BODY~TTL.
func (s *script) ttl(word string) (rest string, field []byte) {
	rest, text, ok := strings.Cut(word, "~")
	if !ok {
		return rest, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return rest, xds.AppendTTL(nil, d)
}

func (s *script) apply(l *Lane, f []string) []string {
	resp := &xds.Response{TypeURL: shortTypes[f[1]], Delta: f[0] == "delta", Nonce: "n"}
	words := f[2:]
	if resp.Delta && len(words) > 0 && words[0][0] == '#' {
		resp.Version, words = words[0][1:], words[1:]
	}
	if !resp.Delta {
		resp.Version, words = f[2], f[3:]
	}
	for _, w := range words {
		if name, ok := strings.CutPrefix(w, "-"); ok {
			resp.Removed = append(resp.Removed, name)
			continue
		}
		if name, ok := strings.CutPrefix(w, "!"); ok { // !NAME=CODE
			name, code, _ := strings.Cut(name, "=")
			n, err := strconv.Atoi(code)
			if err != nil {
				s.t.Fatal(err)
			}
			e := relaytest.Marshal(&discoveryv3.ResourceError{
				ResourceName: &discoveryv3.ResourceName{Name: name}, ErrorDetail: &statuspb.Status{Code: int32(n), Message: "because"},
			})
			resp.Errors = append(resp.Errors, e)
			continue
		}
		w, ttl := s.ttl(w)
		if name, ok := strings.CutPrefix(w, "^"); ok { // ^NAME@VERSION~TTL, a heartbeat
			name, version, _ := strings.Cut(name, "@")
			b := append(xds.AppendString(xds.AppendString(nil, xds.FieldName, name), xds.FieldVersion, version), ttl...)
			if !resp.Delta {
				b = xds.AppendString(xds.AppendString(nil, 1, xds.ResourceType), 2, string(b))
			}
			resp.Resources = append(resp.Resources, b)
			continue
		}
		name, body, _ := strings.Cut(w, "=")
		name, aliases := cutAliases(name)
		body, doNotCache := strings.CutSuffix(body, "^") // NAME=BODY^: it must not be cached
		body, version, hasVersion := strings.Cut(body, "@")
		if notice, is := strings.CutPrefix(w, "?"); is { // ?NAME[ALIAS,...]: no payload
			notice, version, hasVersion := strings.Cut(notice, "@")
			name, aliases := cutAliases(notice)
			b := xds.AppendString(nil, xds.FieldName, name)
			for _, alias := range aliases {
				b = xds.AppendString(b, xds.FieldAliases, alias)
			}
			if hasVersion {
				b = xds.AppendString(b, xds.FieldVersion, version)
			}
			resp.Resources = append(resp.Resources, b)
			continue
		}
		if !hasVersion {
			version = "v" + body
		}
		if body == "garbage" {
			resp.Resources = append(resp.Resources, []byte{0xff, 0xff})
			continue
		}
		payload := resp.TypeURL
		if body == "garbled" { // refused too, but for all to see whose it is
			payload += ".No"
		}
		r := madeResource(payload, name, version, body)
		if !resp.Delta && !hasVersion && ttl == nil && !doNotCache {
			resp.Resources = append(resp.Resources, r.Any)
			continue
		}
		b := xds.AppendString(xds.AppendString(nil, xds.FieldName, name), xds.FieldVersion, version)
		for _, alias := range aliases {
			b = xds.AppendString(b, xds.FieldAliases, alias)
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, xds.FieldPayload, protowire.BytesType), r.Any)
		b = append(b, ttl...)
		if doNotCache {
			b = xds.AppendString(b, xds.FieldCacheControl, "\x08\x01")
		}
		if !resp.Delta { // wrapped
			b = xds.AppendString(xds.AppendString(nil, 1, xds.ResourceType), 2, string(b))
		}
		resp.Resources = append(resp.Resources, b)
	}
	l.FindRepeats(resp)
	u, reject := xds.Accept(resp, 0)
	a, ok := l.Apply(s.now, &u)
	if !ok {
		return []string{"never asked"}
	}
	out := []string{fmt.Sprintf("changed %d", a.Changed)}
	if a.Released {
		out[0] += ", released"
	}
	if a.Untimed > 0 {
		out[0] += fmt.Sprintf(", untimed %d", a.Untimed)
	}
	if a.Waiting > 0 {
		out[0] += fmt.Sprintf(", waiting %d", a.Waiting)
	}
	if a.Unrequested > 0 {
		out[0] += fmt.Sprintf(", unrequested %d", a.Unrequested)
	}
	if reject != nil {
		out = append(out, "refused: "+strings.Join(reject.Reasons, "; "))
	}
	return out
}

// alarms are those of mass removals that are held back.
func (s *script) alarms() (out []string) {
	for _, a := range s.table.Origin("mesh").TakeAlarms() {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%d of %d of %s %s for %v", a.Removals, a.Size, shortType(a.TypeURL), a.Selector, a.Until.Sub(s.now))))
	}
	if len(out) == 0 {
		return []string{"none"}
	}
	return out
}

// lanes lists the lanes that want an owner, and which owned ones have nothing left.
func (s *script) lanes() []string {
	out := []string{}
	s.table.Origin("mesh").TakeLanes()
	for i, l := range s.group.lanes {
		out = append(out, fmt.Sprintf("%s wanted %v", []string{"main", "side"}[i], l.Wanted()))
	}
	return out
}

func (s *script) status() []string {
	var out []string
	for _, t := range statuses(s.table) {
		t.TypeURL = shortType(t.TypeURL)
		t.Bytes = 0
		line := fmt.Sprintf("%+v", t)
		line = strings.Replace(line, fmt.Sprintf(" Resources:%+v StaleResources:%+v", t.Resources, t.StaleResources), "", 1)
		line = strings.Replace(line, fmt.Sprintf(" Held:%d Until:%v Frozen:%d Params:%s Shared:%d", t.Held, t.Until, t.Frozen, t.Params, t.Shared), "", 1)
		if t.Held > 0 {
			line += fmt.Sprintf(" held %d for %v", t.Held, t.Until.Sub(s.now))
		}
		if t.Frozen > 0 {
			line += fmt.Sprintf(" frozen %d", t.Frozen)
		}
		if t.Params != "" {
			line += " for " + t.Params
		}
		out = append(out, line)
	}
	return out
}
