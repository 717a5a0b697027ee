package downstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// modelClient is a client, the network to it, and what the judge knows of its stream.
type modelClient struct {
	*pipe
	id     int
	delta  bool
	window time.Duration // in which the server gathers changes
	wrote  time.Time     // when a response was last written

	// The client's side.
	wishes map[string]*wishes

	// The network, which keeps the order of each direction.
	toServer []proto.Message
	toClient []*message

	// The judge's: as of what has arrived and what has left.
	served map[string]*served
	nonces map[string]bool
	lists  map[string]bool    // nonces of what was sent whole
	warm   map[string]*warmth // endpoints owed, by name
	lacks  map[string]bool    // endpoints that were not told since a Cluster was that needs them
	// a Cluster response went before its turn: endpoints follow at once, one of these among them;
	// nil: none did
	soon map[string]bool
	// how often they may be sent for nothing: they were owed, and went for another reason too
	again map[string]int
}

// wishes is what a client wants of a type and has of it.
type wishes struct {
	wildcard   bool
	legacy     bool // nothing was named so far
	names      map[string]bool
	held       map[string]string // name: body
	versions   map[string]string // delta: of what is held
	version    string            // SotW: the last accepted
	nonce      string            // SotW: the last answered
	old        []string          // nonces of before
	refused    bool              // SotW: the last response, which it keeps all the same
	lacks      bool              // SotW: something of the last list, which it did not want any more
	unanswered []*message
}

func (w *wishes) wants(name string) bool { return w.names[name] || w.wildcard && !hidden(name) }

func (c *modelClient) waits() bool {
	for _, w := range c.wishes {
		if len(w.unanswered) > 0 {
			return true
		}
	}
	return false
}

// dueNow is due without taking the wake-up.
func (c *modelClient) dueNow(now time.Time) bool {
	if c.due(now) {
		c.session.mailbox.Signal()
		return true
	}
	return false
}

func (m *model) open() {
	if len(m.clients) >= 6 {
		return
	}
	m.connect(&modelClient{delta: m.delta != (m.rnd.IntN(5) == 0), wishes: map[string]*wishes{}})
}

// connect opens a stream for a client that may come with wishes.
func (m *model) connect(c *modelClient) {
	m.ids++
	c.id = m.ids
	if c.window = 0; m.rnd.IntN(2) == 0 {
		c.window = time.Duration(1+m.rnd.IntN(3000)) * time.Millisecond
	}
	m.rig.configure(func(cfg *Config, _ *ListenerConfig) { cfg.Timing.Coalesce = c.window })
	c.pipe = newPipe(m.rig, c.delta)
	c.toServer, c.toClient = nil, nil
	c.served, c.nonces, c.warm = map[string]*served{}, map[string]bool{}, map[string]*warmth{}
	c.lists = map[string]bool{}
	c.again, c.lacks, c.soon = map[string]int{}, map[string]bool{}, nil
	m.clients = append(m.clients, c)
	m.logf("client %d opens, delta %v, coalesce %v", c.id, c.delta, c.window)
	for _, typeURL := range modelTypes {
		w := c.wishes[typeURL]
		if w == nil {
			continue
		}
		if m.rnd.IntN(4) == 0 || !w.wildcard && len(w.names) == 0 { // it does not ask again
			delete(c.wishes, typeURL)
			continue
		}
		if w.refused || len(w.unanswered) > 0 {
			w.version = "" // the one of before would say that it holds what was before
		}
		if w.lacks && w.wildcard && len(w.names) == 0 {
			w.version = "" // it would say that it holds the whole set (RELAY-43)
		}
		w.unanswered = nil
		if !c.delta && w.version == "" {
			clear(w.held) // so it says (RELAY-7); what went meanwhile it would not be told
		}
		w.legacy = w.wildcard && len(w.names) == 0 && !noLegacy(typeURL) && m.rnd.IntN(2) == 0
		if m.rnd.IntN(3) == 0 { // it has lost what it held
			clear(w.held)
			clear(w.versions)
			w.version, w.nonce, w.old = "", "", nil
		}
		m.askFirst(c, typeURL, w)
	}
}

// noLegacy: WILD-5.
func noLegacy(typeURL string) bool { return typeURL == eds || typeURL == rds }

func (m *model) askFirst(c *modelClient, typeURL string, w *wishes) {
	if !c.delta {
		nonce := ""
		if m.rnd.IntN(3) == 0 {
			nonce = w.nonce // of the stream before (NONCE-3)
		}
		m.sends(c, &discoveryv3.DiscoveryRequest{
			TypeUrl: typeURL, VersionInfo: w.version, ResponseNonce: nonce, ResourceNames: w.list(),
		})
		w.nonce, w.old = "", nil
		return
	}
	req := &discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: typeURL, ResourceNamesSubscribe: w.list(), InitialResourceVersions: maps.Clone(w.versions),
	}
	// in one order: a seed is one conversation
	for _, name := range slices.Sorted(maps.Keys(req.InitialResourceVersions)) {
		if m.rnd.IntN(8) == 0 {
			req.InitialResourceVersions[name] = "not ours"
		}
	}
	m.sends(c, req)
}

// list is what a request names for all that is wanted.
func (w *wishes) list() []string {
	names := slices.Sorted(maps.Keys(w.names))
	if w.wildcard && !w.legacy {
		names = append(names, xds.Wildcard)
	}
	return names
}

func (m *model) sends(c *modelClient, req proto.Message) {
	m.logf("client %d sends %s", c.id, brief(req))
	c.toServer = append(c.toServer, req)
}

// brief is a request for the log.
func brief(req proto.Message) string {
	switch r := req.(type) {
	case *discoveryv3.DiscoveryRequest:
		return fmt.Sprintf("%s R=%v N=%s V=%.8s nack %v", scriptType(r.TypeUrl), r.ResourceNames, r.ResponseNonce, r.VersionInfo,
			r.ErrorDetail != nil)
	case *discoveryv3.DeltaDiscoveryRequest:
		return fmt.Sprintf("%s +%v -%v N=%s nack %v has %v", scriptType(r.TypeUrl), r.ResourceNamesSubscribe, r.ResourceNamesUnsubscribe,
			r.ResponseNonce, r.ErrorDetail != nil, slices.Sorted(maps.Keys(r.InitialResourceVersions)))
	}
	return ""
}

// leave ends a stream; most clients come back.
func (m *model) leave(c *modelClient) {
	m.logf("client %d leaves", c.id)
	c.close(m.rig.now)
	m.clients = slices.DeleteFunc(m.clients, func(x *modelClient) bool { return x == c })
	if m.rnd.IntN(4) > 0 {
		m.connect(&modelClient{delta: c.delta, wishes: c.wishes})
	}
}

// wish changes what a client wants, and sends the request.
func (m *model) wish(c *modelClient) {
	typeURL := m.typeURL()
	w := c.wishes[typeURL]
	first := w == nil
	if first {
		w = &wishes{names: map[string]bool{}, held: map[string]string{}, versions: map[string]string{}}
		c.wishes[typeURL] = w
	}
	subscribe, unsubscribe := []string(nil), []string(nil)
	for range 1 + m.rnd.IntN(2) {
		name := m.name(typeURL)
		switch {
		case m.rnd.IntN(4) > 0:
		case !first && w.wildcard && w.legacy && !c.delta && len(w.names) == 0:
			continue // it can be left only by naming something
		case c.delta && !first && !w.wildcard && !c.idle():
			continue // what is on its way from an earlier `*` cannot be told from what this one brings
		default:
			name = xds.Wildcard
		}
		on := m.rnd.IntN(5) > 1 || first
		if slices.Contains(subscribe, name) || slices.Contains(unsubscribe, name) {
			continue
		}
		if on {
			subscribe = append(subscribe, name)
		} else {
			unsubscribe = append(unsubscribe, name)
		}
		if name == xds.Wildcard {
			w.wildcard = on
		} else if w.names[name] = on; !on {
			delete(w.names, name)
		}
	}
	if len(subscribe)+len(unsubscribe) == 0 {
		if first {
			delete(c.wishes, typeURL)
		}
		return
	}
	if first && w.wildcard && len(w.names) == 0 && !noLegacy(typeURL) && m.rnd.IntN(2) == 0 {
		w.legacy, subscribe = true, nil
	}
	if len(w.names) > 0 && !c.delta {
		w.legacy = false
	}
	if c.delta {
		w.legacy = false // a first request alone can mean it
	}
	w.drop()
	if c.delta {
		m.sends(c, &discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: typeURL, ResourceNamesSubscribe: subscribe, ResourceNamesUnsubscribe: unsubscribe,
		})
		return
	}
	if w.legacy && len(w.names) == 0 && !w.wildcard {
		w.wildcard = true
	}
	m.sends(c, &discoveryv3.DiscoveryRequest{
		TypeUrl: typeURL, VersionInfo: w.version, ResponseNonce: w.nonce, ResourceNames: w.list(),
	})
}

// drop lets go of what is not wanted.
func (w *wishes) drop() {
	if !w.wildcard && len(w.names) == 0 {
		w.version = "" // of a set it has left
	}
	before := len(w.held)
	maps.DeleteFunc(w.held, func(name, _ string) bool { return !w.keeps(name) })
	w.lacks = w.lacks || len(w.held) < before
	maps.DeleteFunc(w.versions, func(name, _ string) bool { return !w.keeps(name) })
}

// keeps: what was named is kept under `*` until the server says whether it is a member (DELTA-9).
func (w *wishes) keeps(name string) bool { return w.wildcard || w.names[name] }

// idle: nothing is on its way.
func (c *modelClient) idle() bool {
	return len(c.toServer)+len(c.toClient)+len(c.stuck) == 0
}

// oddRequest is one with an old or made-up nonce (NONCE-4, NONCE-7), or again what was said before.
func (m *model) oddRequest(c *modelClient) {
	typeURL := m.typeURL()
	w := c.wishes[typeURL]
	if w == nil {
		return
	}
	nonce := "made-up"
	if len(w.old) > 0 {
		nonce = w.old[m.rnd.IntN(len(w.old))]
	}
	if c.delta {
		m.sends(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: nonce})
		return
	}
	m.sends(c, &discoveryv3.DiscoveryRequest{
		TypeUrl: typeURL, VersionInfo: w.version, ResponseNonce: nonce, ResourceNames: w.list(),
	})
}

// forgets has a client begin a type anew on its stream, as one does that has lost what it knew of
// it (NONCE-12).
func (m *model) forgets(c *modelClient) {
	typeURL := m.typeURL()
	w := c.wishes[typeURL]
	if w == nil || c.delta || w.nonce == "" {
		return
	}
	m.logf("client %d forgets %s", c.id, scriptType(typeURL))
	clear(w.held)
	clear(w.versions)
	w.version, w.nonce, w.old, w.unanswered = "", "", nil, nil
	m.sends(c, &discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: w.list()})
}

// receive takes the oldest response from the network.
func (m *model) receive(c *modelClient) {
	if len(c.toClient) == 0 {
		return
	}
	msg := c.toClient[0]
	c.toClient = c.toClient[1:]
	w := c.wishes[msg.typeURL]
	if w == nil {
		m.fail("client %d gets a %s it never asked for", c.id, msg.typeURL)
	}
	bodies, removed := msg.contents()
	// A response that was taken before the request for `*` arrived has only what changed (SOTW-3).
	// It removes nothing that the client has by name (DEL-3): in Envoy a watch of names of such a
	// type keeps what an update leaves out.
	if c.lists[msg.nonce] && (w.wildcard || xds.SentWhole(msg.typeURL)) {
		clear(w.held)
		w.lacks = false
	}
	for name, body := range bodies {
		if w.keeps(name) {
			w.held[name], w.versions[name] = body, msg.versions[name]
		} else {
			w.lacks = true
		}
	}
	for _, name := range removed {
		delete(w.held, name)
		delete(w.versions, name)
	}
	m.logf("client %d receives %s N=%s, holds %v", c.id, scriptType(msg.typeURL), msg.nonce, w.held)
	w.unanswered = append(w.unanswered, msg)
	if m.calm || m.rnd.IntN(4) > 0 {
		m.answer(c, msg.typeURL)
	}
}

// contents are a message's resources and removals.
func (msg *message) contents() (bodies map[string]string, removed []string) {
	bodies = map[string]string{}
	for _, word := range msg.words {
		switch word[0] {
		case '!':
		case '-':
			removed = append(removed, word[1:])
		default:
			name, body, _ := strings.Cut(word, "=")
			bodies[name] = body
		}
	}
	return bodies, removed
}

func (m *model) answerOne(c *modelClient) { m.answer(c, m.typeURL()) }

// answer says ACK or NACK to what waits, in delta in any order.
func (m *model) answer(c *modelClient, typeURL string) {
	w := c.wishes[typeURL]
	if w == nil || len(w.unanswered) == 0 {
		return
	}
	waiting := w.unanswered
	w.unanswered = nil
	if c.delta {
		m.rnd.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
	}
	for _, msg := range waiting {
		var detail *statuspb.Status
		if m.rnd.IntN(5) == 0 {
			detail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: "no"}
		}
		w.old = append(w.old, msg.nonce)
		if c.delta {
			m.sends(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: msg.nonce, ErrorDetail: detail})
			continue
		}
		w.nonce = msg.nonce
		if w.refused = detail != nil; !w.refused {
			w.version = msg.version
		}
		m.sends(c, &discoveryv3.DiscoveryRequest{
			TypeUrl: typeURL, VersionInfo: w.version, ResponseNonce: w.nonce, ErrorDetail: detail, ResourceNames: w.list(),
		})
	}
}

// arrive gives the oldest request to the session.
func (m *model) arrive(c *modelClient) {
	if len(c.toServer) == 0 {
		return
	}
	req := c.toServer[0]
	c.toServer = c.toServer[1:]
	m.logf("client %d's request arrives: %s", c.id, brief(req))
	c.hears(m, proto.Clone(req))
	if err := c.pipe.send(m.rig.now, req); err != nil {
		m.fail("client %d: %v", c.id, err)
	}
}

// turn is the writer's, if it is its turn: it takes a batch, which is judged, and writes it now or
// on a later one.
func (m *model) turn(c *modelClient) {
	if len(c.stuck) == 0 {
		if !c.due(m.rig.now) {
			return
		}
		batch, err := c.take(m.rig.now)
		if err != nil {
			m.ended(c, err)
			return
		}
		for _, r := range batch {
			m.judge(c, decode(m.t, r, c.delta))
		}
		c.stuck = batch
		if !m.calm && m.rnd.IntN(4) == 0 {
			return
		}
	}
	for _, msg := range c.write(m.rig.now) {
		c.toClient = append(c.toClient, msg)
		c.left(m, msg)
	}
}
