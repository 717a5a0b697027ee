package downstream

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	cds = xds.ClusterType
	eds = xds.EndpointType
	lds = xds.ListenerType
	rds = xds.RouteType
	sds = xds.SecretType
	vhd = xds.VirtualHostType
	odd = "type.googleapis.com/example.Odd"
)

var zero = time.Unix(1e9, 0)

// rig is a table driven by hand: the test says when lanes open, what the origin answers, and what
// time it is.
type rig struct {
	tb     testing.TB
	table  *relay.Table
	origin *relay.Origin
	cfg    Config
	set    *settings
	now    time.Time
	lanes  []*relay.Lane
	count  int // of responses applied
	// version is the system_version_info of what the origin says.
	version string
}

func newRig(tb testing.TB) *rig {
	tb.Helper()
	return newRigOf(tb, relay.OriginConfig{Name: "mesh", Authorities: []string{"served"}})
}

func newRigOf(tb testing.TB, origins ...relay.OriginConfig) *rig {
	tb.Helper()
	return newRigWith(tb, relay.Config{Origins: origins})
}

func newRigWith(tb testing.TB, cfg relay.Config) *rig {
	tb.Helper()
	if cfg.Settle == 0 {
		// what waits for it is then told from what waits for gather and the like
		cfg.Settle = 250 * time.Millisecond
	}
	if cfg.History.Versions == 0 { // a client that comes back is recognized by its version
		cfg.History = history.Bounds{Versions: 2, Bytes: 64 << 20, Age: 24 * time.Hour}
	}
	table, err := relay.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{tb: tb, table: table, origin: table.Origin("mesh"), now: zero}
	r.cfg = Config{Table: table, Instance: "here"}
	r.configure(func(*Config, *ListenerConfig) {})
	return r
}

// configure makes the settings of sessions begun from now on.
func (r *rig) configure(change func(*Config, *ListenerConfig)) {
	r.tb.Helper()
	cfg, lc := r.cfg, ListenerConfig{Origin: r.origin}
	change(&cfg, &lc)
	if err := cfg.normalize(); err != nil {
		r.tb.Fatal(err)
	}
	if err := lc.normalize(r.table); err != nil {
		r.tb.Fatal(err)
	}
	r.cfg, r.set = cfg, newSettings(cfg, lc)
}

// open opens the upstream streams that are wanted.
func (r *rig) open() {
	for _, l := range r.origin.TakeLanes() {
		l.Open(r.now, 0)
		l.Identify("origin-1")
		r.lanes = append(r.lanes, l)
	}
}

// up opens the lanes that are wanted, and asks on all what there is to ask.
func (r *rig) up() {
	r.open()
	for _, l := range r.lanes {
		if _, reopen := l.Take(r.now, false); reopen {
			l.Close()
			l.Open(r.now, 0)
			l.Take(r.now, false)
		}
	}
}

// down breaks the upstream streams.
func (r *rig) down() {
	for _, l := range r.lanes {
		l.Close()
	}
}

// says has the origin answer: words are name=body for a resource, name[alias,alias]=body for one
// with aliases, ?name[alias] for an alias that did not resolve, and -name for a removal. A name may
// be a variant's: name{key=value}.
func (r *rig) says(typeURL string, words ...string) {
	r.tb.Helper()
	u := r.response(typeURL, words)
	for _, l := range r.lanes {
		if _, ok := l.Apply(r.now, &u); ok {
			return
		}
	}
	r.tb.Fatalf("%s was never asked for", typeURL)
}

// answer has the origin answer the names that it is asked for now, each with a resource of a body.
func (r *rig) answer(typeURL, body string) {
	r.tb.Helper()
	r.open()
	for _, l := range r.lanes {
		for {
			asks, _ := l.Take(r.now, false)
			var words []string
			for _, a := range asks {
				for _, n := range a.Subscribe {
					if a.TypeURL == typeURL {
						words = append(words, n.Name+"="+body)
					}
				}
			}
			if len(words) == 0 {
				break
			}
			u := r.message(typeURL, words)
			l.Apply(r.now, &u)
		}
	}
}

// response is what the origin answers next.
func (r *rig) response(typeURL string, words []string) xds.Update {
	r.tb.Helper()
	r.up()
	return r.message(typeURL, words)
}

// message is a response, of the words of says.
func (r *rig) message(typeURL string, words []string) xds.Update {
	r.tb.Helper()
	r.count++
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: fmt.Sprint("n", r.count), SystemVersionInfo: r.version}
	for _, w := range words {
		if name, gone := strings.CutPrefix(w, "-"); gone {
			plain, located := dividedNames([]string{name})
			m.RemovedResources = append(m.RemovedResources, plain...)
			m.RemovedResourceNames = append(m.RemovedResourceNames, located...)
			continue
		}
		if fault, ok := strings.CutPrefix(w, "!"); ok { // !name:CODE
			name, code := cutLast(fault, ":")
			var c codes.Code
			if err := c.UnmarshalJSON([]byte(strconv.Quote(code))); err != nil {
				r.tb.Fatal(err)
			}
			m.ResourceErrors = append(m.ResourceErrors, &discoveryv3.ResourceError{
				ResourceName: &discoveryv3.ResourceName{Name: name}, ErrorDetail: &statuspb.Status{Code: int32(c), Message: "because"},
			})
			continue
		}
		name, body := cutLast(w, "=")
		name, aliases := cutAliases(name)
		if notice, is := strings.CutPrefix(name, "?"); is {
			m.Resources = append(m.Resources, &discoveryv3.Resource{Name: notice, Aliases: aliases})
			continue
		}
		x := &discoveryv3.Resource{Name: name, Aliases: aliases, Version: fmt.Sprint("v", r.count), Resource: payload(typeURL, name, body)}
		if base, _, variant := cutLocator(name); variant {
			x.Name, x.ResourceName, x.Resource = "", resourceName(name), payload(typeURL, base, body)
		}
		m.Resources = append(m.Resources, x)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		r.tb.Fatal(err)
	}
	parsed, err := xds.ParseResponse(b, true)
	if err != nil {
		r.tb.Fatal(err)
	}
	u, bad := xds.Accept(parsed, 0)
	if bad != nil {
		r.tb.Fatal(bad)
	}
	return u
}

// cutAliases reads NAME[ALIAS,ALIAS].
func cutAliases(word string) (name string, aliases []string) {
	name, list, has := strings.Cut(strings.TrimSuffix(word, "]"), "[")
	if has {
		aliases = strings.Split(list, ",")
	}
	return name, aliases
}

// cutLast divides at the last separator: names may have it too.
func cutLast(s, sep string) (before, after string) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):]
	}
	return s, ""
}

// settled is says, and then time passes until the set is complete for everybody.
func (r *rig) settled(typeURL string, words ...string) {
	r.tb.Helper()
	r.says(typeURL, words...)
	r.wait(5 * time.Second)
}

func (r *rig) wait(d time.Duration) {
	r.now = r.now.Add(d)
	r.table.Advance(r.now)
}

// payload is a resource of any type: field 1 is the name, field 2 the body.
func payload(typeURL, name, body string) *anypb.Any {
	if typeURL == eds && strings.HasPrefix(body, "none") { // a locality without endpoints
		body = string(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), body))
	}
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), body)
	if strings.HasPrefix(body, "eds") { // a cluster of type EDS
		b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), 3)
		if _, service, ok := strings.Cut(body, ">"); ok { // whose endpoints have another name
			config := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), long(eds, service))
			b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), config)
		}
	}
	return &anypb.Any{TypeUrl: typeURL, Value: b}
}

// nameAndBody reads a payload back.
func nameAndBody(a *anypb.Any) string {
	var part [3]string
	for b := a.Value; len(b) > 0; {
		n, t, m := protowire.ConsumeTag(b)
		if t != protowire.BytesType {
			b = b[m+protowire.ConsumeFieldValue(n, t, b[m:]):]
			continue
		}
		v, k := protowire.ConsumeString(b[m:])
		if b = b[m+k:]; int(n) < len(part) {
			part[n] = v
		}
	}
	// without endpoints
	if n, t, m := protowire.ConsumeTag([]byte(part[2])); n == 1 && t == protowire.BytesType {
		part[2], _ = protowire.ConsumeString([]byte(part[2][m:]))
	}
	return part[1] + "=" + part[2]
}

// clientEnd is the client's end of one session.
type clientEnd struct {
	*rig
	session *session
	node    *corev3.Node
	nonces  map[string]string // the last of each type
	taken   []*message
	notes   []note // of all its requests

	deadline time.Time // the writer sleeps until then, unless woken
}

// message is one decoded response.
type message struct {
	typeURL, nonce, version, identifier string
	// name=body, -name, !name:CODE, sorted in that order
	words    []string
	versions map[string]string        // of the resources, in delta
	ttls     map[string]time.Duration // of the resources that have one
	why      string                   // texts of the errors
	size     int
}

func (r *rig) client(delta bool) *clientEnd {
	return &clientEnd{
		rig: r, session: newSession(r.set, delta, r.now, relay.NewSubscriber()), node: &corev3.Node{Id: "envoy-1", Cluster: "edge"},
		nonces: map[string]string{},
	}
}

// asks sends a SotW request with the whole list and the last nonce: an ACK of whatever came last.
func (p *clientEnd) asks(typeURL string, names ...string) {
	p.tb.Helper()
	p.sends(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: names, ResponseNonce: p.nonces[typeURL]})
}

// subscribes sends a delta request: names, and -name to unsubscribe. It acknowledges nothing.
func (p *clientEnd) subscribes(typeURL string, words ...string) {
	p.tb.Helper()
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL}
	for _, w := range words {
		if name, gone := strings.CutPrefix(w, "-"); gone {
			req.ResourceNamesUnsubscribe = append(req.ResourceNamesUnsubscribe, name)
		} else {
			req.ResourceNamesSubscribe = append(req.ResourceNamesSubscribe, w)
		}
	}
	p.sends(req)
}

// acks accepts the last response of each type by a delta request.
func (p *clientEnd) acks(types ...string) {
	p.tb.Helper()
	for _, typeURL := range types {
		p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: p.nonces[typeURL]})
	}
}

func (p *clientEnd) sends(m proto.Message) {
	p.tb.Helper()
	if err := p.sent(m); err != nil {
		p.tb.Fatalf("the request ended the stream: %v", err)
	}
}

func (p *clientEnd) sent(m proto.Message) error {
	switch m := m.(type) {
	case *discoveryv3.DiscoveryRequest:
		m.Node, p.node = p.node, nil
	case *discoveryv3.DeltaDiscoveryRequest:
		m.Node, p.node = p.node, nil
	}
	notes, err := takeIn(p.tb, p.session, p.now, encoded(p.tb, m))
	p.notes = append(p.notes, notes...)
	p.up()
	return err
}

// takeIn is what the reader does with a message.
func takeIn(tb testing.TB, s *session, now time.Time, wire []byte) ([]note, error) {
	tb.Helper()
	in := s.newRequest()
	defer in.done()
	if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, in); err != nil || in.err != nil {
		tb.Fatal(err, in.err)
	}
	err := s.request(now, in)
	return in.notes, err
}

func encoded(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	wire, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return wire
}

// gets does what the writer does, and compares what is written with one line for each message: the
// type's short name, and words. Names are in no order on the wire, and sorted here.
func (p *clientEnd) gets(sentence string, want ...string) {
	p.tb.Helper()
	var got []string
	for _, m := range p.writes() {
		got = append(got, strings.Join(append([]string{metrics.ShortName(m.typeURL)}, m.words...), " "))
	}
	if !slices.Equal(got, want) {
		p.tb.Fatalf("%s: got %q, want %q", sentence, got, want)
	}
}

// writes is the writer's turn.
func (p *clientEnd) writes() []*message {
	p.tb.Helper()
	awake := !p.deadline.IsZero() && !p.now.Before(p.deadline)
	select {
	case <-p.session.mailbox.Wake():
		awake = true
	default:
	}
	batch := p.session.take(p.now)
	if err := p.session.tick(p.now); err != nil {
		p.tb.Fatalf("the stream ended: %v", err)
	}
	if len(batch) > 0 && !awake {
		p.tb.Errorf("the writer sleeps, and has something to write")
	}
	out := p.written(batch)
	p.deadline = p.session.next()
	return out
}

// written is what a batch says, once it is on the wire.
func (p *clientEnd) written(batch []*response) []*message {
	p.tb.Helper()
	var out []*message
	for _, r := range batch {
		m := decode(p.tb, r, p.session.delta)
		p.nonces[m.typeURL] = m.nonce
		out = append(out, m)
	}
	p.session.wrote(p.now, batch)
	p.taken = append(p.taken, out...)
	return out
}

// nonceOf is a response's nonce as it is written.
func (p *clientEnd) nonceOf(r *response) string { return p.session.prefix + fmt.Sprint(r.nonce) }

func decode(tb testing.TB, r *response, delta bool) *message {
	tb.Helper()
	data, err := codec{}.Marshal(r)
	if err != nil {
		tb.Fatal(err)
	}
	b := data.Materialize()
	if len(b) != r.size {
		tb.Fatalf("the response counts %d bytes, and has %d", r.size, len(b))
	}
	return decodeBytes(tb, b, delta)
}

// decodeBytes reads a response as it is on the wire.
func decodeBytes(tb testing.TB, b []byte, delta bool) *message {
	tb.Helper()
	m := &message{versions: map[string]string{}, ttls: map[string]time.Duration{}, size: len(b)}
	var errs []*discoveryv3.ResourceError
	if delta {
		d := &discoveryv3.DeltaDiscoveryResponse{}
		if err := proto.Unmarshal(b, d); err != nil {
			tb.Fatal(err)
		}
		m.typeURL, m.nonce, m.version, m.identifier = d.TypeUrl, d.Nonce, d.SystemVersionInfo, d.ControlPlane.GetIdentifier()
		for _, x := range d.Resources {
			word := "?" + x.Name
			if x.Ttl != nil {
				m.ttls[x.Name] = x.Ttl.AsDuration()
			}
			if x.Resource != nil {
				word = nameAndBody(x.Resource)
				m.versions[x.Name] = x.Version
			}
			if x.ResourceName != nil {
				word = locatedWord(tb, x)
			}
			if len(x.Aliases) > 0 {
				name, body := cutLast(word, "=")
				word = name + "[" + strings.Join(x.Aliases, ",") + "]"
				if body != "" {
					word += "=" + body
				}
			}
			m.words = append(m.words, word)
		}
		slices.Sort(m.words)
		slices.Sort(d.RemovedResources)
		for _, name := range d.RemovedResources {
			m.words = append(m.words, "-"+name)
		}
		var gone []string
		for _, n := range d.RemovedResourceNames {
			gone = append(gone, "-"+located(n))
		}
		slices.Sort(gone)
		m.words = append(m.words, gone...)
		errs = d.ResourceErrors
	} else {
		d := &discoveryv3.DiscoveryResponse{}
		if err := proto.Unmarshal(b, d); err != nil {
			tb.Fatal(err)
		}
		m.typeURL, m.nonce, m.version, m.identifier = d.TypeUrl, d.Nonce, d.VersionInfo, d.ControlPlane.GetIdentifier()
		for _, x := range d.Resources {
			if x.TypeUrl != "type.googleapis.com/envoy.service.discovery.v3.Resource" {
				m.words = append(m.words, nameAndBody(x))
				continue
			}
			wrapped := &discoveryv3.Resource{}
			if err := x.UnmarshalTo(wrapped); err != nil {
				tb.Fatal(err)
			}
			if wrapped.Ttl != nil {
				m.ttls[wrapped.Name] = wrapped.Ttl.AsDuration()
			}
			if wrapped.ResourceName == nil && wrapped.Resource == nil {
				m.words = append(m.words, "?"+wrapped.Name)
			} else if wrapped.ResourceName == nil {
				m.words = append(m.words, nameAndBody(wrapped.Resource))
			} else {
				m.words = append(m.words, locatedWord(tb, wrapped))
			}
		}
		slices.Sort(m.words)
		errs = d.ResourceErrors
	}
	for _, e := range errs {
		m.why += e.ErrorDetail.Message
		m.words = append(m.words, fmt.Sprintf("!%s:%v", strings.TrimSuffix(located(e.ResourceName), "{}"), codes.Code(e.ErrorDetail.Code)))
	}
	return m
}

// versions are those of all resources of a type that were taken.
func (p *clientEnd) versions(typeURL string) map[string]string {
	all := map[string]string{}
	for _, m := range p.taken {
		if m.typeURL == typeURL {
			maps.Copy(all, m.versions)
		}
	}
	return all
}

// refuses sends a NACK of the last response.
func (p *clientEnd) refuses(typeURL, message string, names ...string) {
	p.tb.Helper()
	detail := &statuspb.Status{Code: int32(codes.InvalidArgument), Message: message}
	if p.session.delta {
		p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: p.nonces[typeURL], ErrorDetail: detail})
		return
	}
	p.sends(&discoveryv3.DiscoveryRequest{
		TypeUrl: typeURL, ResponseNonce: p.nonces[typeURL], ErrorDetail: detail, ResourceNames: names,
	})
}

// of is how a type stands.
func (p *clientEnd) of(typeURL string) TypeStatus {
	p.tb.Helper()
	for _, t := range p.session.status(p.now).Types {
		if t.TypeURL == typeURL {
			return t
		}
	}
	p.tb.Fatalf("the stream has no %s", typeURL)
	return TypeStatus{}
}
