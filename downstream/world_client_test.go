package downstream

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay/xds"
)

// worldClient is a correct client: an Envoy, or another relay.
type worldClient struct {
	name    string
	delta   bool
	apart   bool // a stream for each type; false: ADS
	late    bool // it answers when a line says so
	ttl     bool // it knows TTLs
	canary  bool
	who     string
	env     string
	stopped bool
	streams map[string]*worldStream // by type; "": ADS
	wishes  map[string]*worldWish

	judged clientJudged
}

// worldStream is one of its streams.
type worldStream struct {
	coreStream
	closed bool
	made   int // number of the change that was the last when the batch was made that is not read; 0: there is none
}

func (s *worldStream) end(now time.Time) {
	if !s.closed {
		s.closed = true
		s.Close(now)
	}
}

// worldWish is what a client wants of a type, and has of it.
type worldWish struct {
	names      map[string]bool // `*` among them
	held       map[string]heldBody
	version    string // SotW: the last accepted
	nonce      string // SotW: the last answered
	refused    bool   // SotW: the last response
	lacks      bool   // SotW: it dropped something of the last list
	asked      bool   // on the present stream
	unanswered []*message

	judged wishJudged
}

// heldBody is a body that a client holds of a name.
type heldBody struct {
	body, version string
	aliases       []string
	ends          time.Time // its TTL; zero: none
	at            int       // number of the change of the origin that was the last when it came
}

func (w *world) addClient(name string, delta bool, words []string) {
	c := w.client(name)
	if c != nil {
		return
	}
	c = &worldClient{
		name: name, delta: delta, streams: map[string]*worldStream{}, wishes: map[string]*worldWish{},
		apart: slices.Contains(words, "apart"), late: slices.Contains(words, "late"), ttl: slices.Contains(words, "ttl"),
	}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case word == "canary":
			c.canary = true
		case key == "as":
			c.who = value
		case key == "env":
			c.env = value
		}
	}
	w.clients = append(w.clients, c)
}

func (w *world) client(name string) *worldClient {
	for _, c := range w.clients {
		if c.name == name {
			return c
		}
	}
	return nil
}

func (w *world) runClient(f []string) {
	c := w.client(f[0])
	if c == nil {
		return // its line was struck
	}
	switch f[1] {
	case "wants":
		c.wants(w, scriptTypes[f[2]], f[3:])
	case "acks", "nacks":
		typeURL := ""
		if len(f) > 2 {
			typeURL = scriptTypes[f[2]]
		}
		c.answer(w, typeURL, f[1] == "nacks")
	case "stops", "resumes":
		c.stopped = f[1] == "stops"
	case "returns":
		for _, p := range c.streams {
			p.end(w.now)
		}
		if len(f) > 2 {
			for _, x := range c.wishes {
				clear(x.held)
				x.version, x.nonce = "", ""
			}
		}
		c.lost(w)
	case "leaves":
		for _, p := range c.streams {
			p.end(w.now)
		}
		w.clients = slices.DeleteFunc(w.clients, func(x *worldClient) bool { return x == c })
	default:
		w.tb.Fatalf("no command %q", f[1])
	}
}

// lost opens the streams of a client again that have ended, and asks on them for all that it wants.
func (c *worldClient) lost(w *world) {
	for _, key := range c.kinds() {
		if !c.streams[key].closed {
			continue
		}
		delete(c.streams, key)
		c.judged = clientJudged{}
		for _, typeURL := range worldTypes {
			x := c.wishes[typeURL]
			if x == nil || c.apart && typeURL != key {
				continue
			}
			x.asked, x.nonce = false, ""
			if x.refused || x.lacks || len(x.unanswered) > 0 {
				x.version = "" // it would claim a list that it does not hold
			}
			x.unanswered, x.refused, x.lacks = nil, false, false
			if !c.delta && x.version == "" {
				clear(x.held) // so it says (RELAY-7)
			}
			// It has no words for which variant it holds (DYN-20).
			maps.DeleteFunc(x.held, func(name string, _ heldBody) bool { return isLocated(name) })
			if len(x.names) > 0 {
				c.ask(w, typeURL, nil, nil)
			}
		}
	}
}

// tierOf is the client's tier at an origin.
func (c *worldClient) tierOf(o *worldOrigin) string {
	switch {
	case !o.has("canary"):
		return "newest"
	case c.canary:
		return "canary"
	}
	return "rest"
}

func (c *worldClient) kinds() []string { return slices.Sorted(maps.Keys(c.streams)) }

// stream is the one of a type. It is opened if there is none.
func (c *worldClient) stream(w *world, typeURL string) *worldStream {
	key := ""
	if c.apart {
		key = typeURL
	}
	if c.streams[key] == nil {
		fields := map[string]string{}
		if c.canary {
			fields["tier"] = "canary"
		}
		if c.env != "" {
			fields["env"] = c.env
		}
		var features []string
		if c.ttl {
			features = []string{"xds.config.resource-in-sotw", "xds.config.supports-resource-ttl"}
		}
		j := joining{delta: c.delta, only: key, who: c.who, node: metadataNode("envoy-1", fields, features...)}
		c.streams[key] = &worldStream{coreStream: w.core.Join(w.now, j)}
	}
	return c.streams[key]
}

// wants changes what the client wants, and sends the request.
func (c *worldClient) wants(w *world, typeURL string, words []string) {
	x := c.wishes[typeURL]
	if x == nil {
		x = &worldWish{names: map[string]bool{}, held: map[string]heldBody{}}
		c.wishes[typeURL] = x
	}
	var subscribe, unsubscribe []string
	for _, word := range words {
		name := long(typeURL, word[1:])
		switch {
		case word[0] == '+':
			subscribe, x.names[name] = append(subscribe, name), true
		case x.names[name]:
			unsubscribe = append(unsubscribe, name)
			delete(x.names, name)
		}
	}
	if len(subscribe)+len(unsubscribe) == 0 {
		return
	}
	w.judge.wanted(c, x, typeURL, unsubscribe)
	before := len(x.held)
	if maps.DeleteFunc(x.held, func(name string, h heldBody) bool { return !x.keeps(typeURL, name, h.aliases) }); len(x.held) < before {
		x.lacks = true
	}
	if len(x.names) == 0 {
		x.version = ""
	}
	c.ask(w, typeURL, subscribe, unsubscribe)
}

// keeps reports whether a resource is, or may be, of the subscription. Under `*` a name that was
// dropped is kept until the server says whether it is a member (DELTA-9).
func (x *worldWish) keeps(typeURL, name string, aliases []string) bool {
	if isLocated(name) {
		return x.locates(name)
	}
	return x.names[xds.Wildcard] || x.selects(typeURL, name, aliases)
}

// isLocated reports whether a resource came with its constraints, for a locator: NAME{CONSTRAINTS}.
func isLocated(name string) bool { return strings.Contains(name, "{") }

// locates reports whether a locator of the subscription selects a variant: by env=VALUE, !env, or
// without constraints.
func (x *worldWish) locates(name string) bool {
	base, is, _ := cutLocator(name)
	for wanted := range x.names {
		of, params, locator := cutLocator(wanted)
		if locator && of == base && (len(is) == 0 || slices.Equal(is, params) || len(params) == 0 && is[0] == "!env") {
			return true
		}
	}
	return false
}

// selects reports whether names, aliases, globs or namespaces of the subscription mean a resource,
// or `*` does.
func (x *worldWish) selects(typeURL, name string, aliases []string) bool {
	if isLocated(name) {
		return x.locates(name)
	}
	if x.names[name] || x.names[xds.Wildcard] && !xds.IsNewStyle(name) {
		return true
	}
	for _, alias := range aliases {
		if x.names[alias] {
			return true
		}
	}
	i := strings.LastIndexByte(name, '/')
	return i > 0 && (xds.IsNewStyle(name) && x.names[name[:i]+"/*"] || xds.IsVirtualHost(typeURL) && x.names[name[:i]])
}

// collects reports whether a name stands for a collection.
func collects(typeURL, name string) bool {
	return name == xds.Wildcard || strings.HasSuffix(name, "/*") || xds.IsVirtualHost(typeURL) && !strings.Contains(name, "/")
}

// ask sends a request. On a stream that has not asked for the type it is one for all.
func (c *worldClient) ask(w *world, typeURL string, subscribe, unsubscribe []string) {
	x := c.wishes[typeURL]
	p := c.stream(w, typeURL)
	if p.closed {
		return
	}
	all := slices.Sorted(maps.Keys(x.names))
	first := !x.asked
	if first && len(all) == 0 {
		return
	}
	x.judged.open = true
	x.judged.empty = x.judged.empty || !c.delta || first || slices.ContainsFunc(subscribe, func(name string) bool { return collects(typeURL, name) })
	if x.judged.owed = true; first {
		x.judged.sent = nil
	}
	for _, name := range slices.Concat(subscribe, unsubscribe) { // each is answered, and not all at once
		delete(x.judged.sent, name)
	}
	x.asked = true
	if !c.delta {
		c.send(w, p, x.request(typeURL))
		return
	}
	if first {
		subscribe, unsubscribe = all, nil
	}
	r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL}
	r.ResourceNamesSubscribe, r.ResourceLocatorsSubscribe = divide(subscribe)
	r.ResourceNamesUnsubscribe, r.ResourceLocatorsUnsubscribe = divide(unsubscribe)
	if first {
		x.judged.claims = maps.Clone(x.held)
		maps.DeleteFunc(x.judged.claims, func(name string, _ heldBody) bool { // what is said of a name with a locator is ignored (DYN-20)
			return slices.ContainsFunc(all, func(asked string) bool { base, _, locator := cutLocator(asked); return locator && base == name })
		})
		r.InitialResourceVersions = map[string]string{}
		for name, h := range x.held {
			r.InitialResourceVersions[name] = h.version
		}
	}
	c.send(w, p, r)
}

// request is a SotW request for all that is wanted.
func (x *worldWish) request(typeURL string) *discoveryv3.DiscoveryRequest {
	r := &discoveryv3.DiscoveryRequest{TypeUrl: typeURL, VersionInfo: x.version, ResponseNonce: x.nonce}
	r.ResourceNames, r.ResourceLocators = divide(slices.Sorted(maps.Keys(x.names)))
	return r
}

func (c *worldClient) send(w *world, p *worldStream, m proto.Message) {
	if p.closed {
		return
	}
	w.log("%v    %s -> %s", w.now.Sub(zero), c.name, brief(m))
	if err := p.Send(w.now, m); err != nil {
		w.judge.alarm("stream", "%s's request ends the stream: %v", c.name, err)
	}
}

// answer acknowledges, or rejects, what was received of a type, or of all.
func (c *worldClient) answer(w *world, typeURL string, nack bool) (did bool) {
	for _, of := range worldTypes {
		x := c.wishes[of]
		if x == nil || typeURL != "" && of != typeURL {
			continue
		}
		received := x.unanswered
		x.unanswered = nil
		for i, m := range received {
			var detail *statuspb.Status
			if nack {
				detail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: "no"}
			}
			did = true
			x.judged.owed = x.judged.owed || nack
			if c.delta {
				c.send(w, c.stream(w, of), &discoveryv3.DeltaDiscoveryRequest{TypeUrl: of, ResponseNonce: m.nonce, ErrorDetail: detail})
				continue
			}
			if i < len(received)-1 {
				continue // only the last one counts
			}
			x.nonce = m.nonce
			if x.refused = nack; !nack {
				x.version = m.version
			}
			r := x.request(of)
			r.ErrorDetail = detail
			c.send(w, c.stream(w, of), r)
		}
	}
	return did
}

// next is when something happens by itself at the client's end.
func (c *worldClient) next() (at time.Time) {
	earlier := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, p := range c.streams {
		if !p.closed {
			earlier(p.Next())
		}
	}
	for _, x := range c.wishes {
		for _, h := range x.held {
			earlier(h.ends)
		}
	}
	return at
}

// turn is what the writers of the client's streams do, and what it receives.
func (c *worldClient) turn(w *world) (did bool) {
	for _, x := range c.wishes {
		maps.DeleteFunc(x.held, func(_ string, h heldBody) bool { return !h.ends.IsZero() && !h.ends.After(w.now) })
	}
	for _, key := range c.kinds() {
		did = c.turnOf(w, key) || did
	}
	if !c.late || w.calm {
		did = c.answer(w, "", false) || did
	}
	return did
}

func (c *worldClient) turnOf(w *world, key string) bool {
	p := c.streams[key]
	if p.closed {
		return false
	}
	sent, did, err := p.Turn(w.now, c.stopped)
	if err != nil {
		w.log("%v    %s ends: %v", w.now.Sub(zero), c.name, err)
		w.judge.streamEnded(c, err)
		p.end(w.now)
	}
	if c.stopped && did && p.made == 0 {
		p.made = w.judge.seq
	}
	for _, m := range sent {
		c.receive(w, m, cmp.Or(p.made, w.judge.seq))
	}
	if len(sent) > 0 {
		p.made = 0
	}
	return did
}

// receive takes in a response, and shows it to the judge. made is the number of the change that was
// the last when it was made.
func (c *worldClient) receive(w *world, m *message, made int) {
	x := c.wishes[m.typeURL]
	if x == nil {
		w.judge.alarm("unasked", "%s is sent %s", c.name, scriptType(m.typeURL))
	}
	w.log("%v    %s <- %s %v", w.now.Sub(zero), c.name, scriptType(m.typeURL), m.words)
	before := maps.Clone(x.held)
	whole := !c.delta && (x.names[xds.Wildcard] || xds.SentWhole(m.typeURL))
	if whole {
		x.held = map[string]heldBody{}
		x.lacks = false
	}
	var removed []string
	for _, word := range m.words {
		switch word[0] {
		case '!':
		case '?': // a heartbeat, or an alias that did not resolve
			name, _ := cutAliases(word[1:])
			if h, holds := before[name]; holds {
				h.ends = lasts(w.now, m.ttls[name])
				x.held[name] = h
			}
		case '-':
			removed = append(removed, word[1:])
			delete(x.held, word[1:])
		default:
			name, body := cutLast(word, "=")
			name, aliases := cutAliases(name)
			if !x.keeps(m.typeURL, name, aliases) && !(len(aliases) == 0 && xds.IsVirtualHost(m.typeURL)) {
				x.lacks = true
				continue
			}
			x.held[name] = heldBody{body: body, version: m.versions[name], aliases: aliases, ends: lasts(w.now, m.ttls[name]), at: made}
		}
	}
	x.unanswered = append(x.unanswered, m)
	w.judge.received(c, x, m, made, before, removed, whole)
}

func lasts(now time.Time, ttl time.Duration) time.Time {
	if ttl == 0 {
		return time.Time{}
	}
	return now.Add(ttl)
}
