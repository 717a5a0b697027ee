package downstream

import (
	"maps"
	"slices"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// heldClient is a client of a group that is held. It has all clusters and listeners, the routes
// that those name, and the endpoints of the clusters that have them.
type heldClient struct {
	*pipe
	id       int
	delta    bool
	held     map[string]map[string]string
	versions map[string]map[string]string
	names    map[string]map[string]bool
	unsent   map[string][]*message // not acknowledged
	version  map[string]string     // SotW: the last acknowledged
	nonces   map[string]string
	routed   int // place in heldWorld.order of the state of its route, at least
}

var heldTypes = []string{cds, eds, lds, rds}

func (w *heldWorld) open(cluster string, delta bool) *heldClient {
	w.ids++
	c := &heldClient{
		pipe: newPipe(w.rig, delta), id: w.ids, delta: delta, held: map[string]map[string]string{},
		versions: map[string]map[string]string{}, names: map[string]map[string]bool{}, unsent: map[string][]*message{}, version: map[string]string{}, nonces: map[string]string{},
	}
	c.node.Cluster = cluster
	for _, typeURL := range heldTypes {
		c.held[typeURL], c.versions[typeURL], c.names[typeURL] = map[string]string{}, map[string]string{}, map[string]bool{}
	}
	w.begin(c)
	if cluster == "edge" {
		w.clients = append(w.clients, c)
	}
	return c
}

// begin asks for all, on a stream that has just begun.
func (w *heldWorld) begin(c *heldClient) {
	w.logf("client %d begins with %v", c.id, c.held)
	for _, typeURL := range heldTypes {
		if typeURL == cds || typeURL == lds || len(c.names[typeURL]) > 0 {
			c.ask(w, typeURL, c.list(typeURL), nil, c.versions[typeURL])
		}
	}
}

// leave ends the stream of a client that comes back, and says what it holds.
func (w *heldWorld) leave(c *heldClient) {
	w.logf("client %d leaves", c.id)
	c.close(w.rig.now)
	c.pipe = newPipe(w.rig, c.delta)
	clear(c.unsent)
	clear(c.nonces)
	if !c.delta { // its version may say less than what it holds, so it comes with nothing (testdata/ads_restarted_sotw.txt)
		c.version, c.routed = map[string]string{}, 0
		for _, typeURL := range heldTypes {
			c.held[typeURL], c.names[typeURL] = map[string]string{}, map[string]bool{}
		}
	}
	w.begin(c)
}

// list is what a request names.
func (c *heldClient) list(typeURL string) []string {
	if typeURL == cds || typeURL == lds {
		return []string{"*"}
	}
	return slices.Sorted(maps.Keys(c.names[typeURL]))
}

// ask sends a request: in delta what changes, else the whole list.
func (c *heldClient) ask(w *heldWorld, typeURL string, more, less []string, initial map[string]string) {
	var req proto.Message = &discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: c.list(typeURL), VersionInfo: c.version[typeURL], ResponseNonce: c.nonces[typeURL]}
	if c.delta {
		req = &discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: typeURL, ResourceNamesSubscribe: more, ResourceNamesUnsubscribe: less, InitialResourceVersions: initial,
		}
	}
	if err := c.send(w.rig.now, req); err != nil {
		w.fail("client %d: %v", c.id, err)
	}
}

// answer acknowledges what came, of one type or of all.
func (c *heldClient) answer(w *heldWorld, all bool) {
	for _, typeURL := range heldTypes {
		if !all && w.rnd.IntN(2) == 0 {
			continue
		}
		for _, msg := range c.unsent[typeURL] {
			var req proto.Message = &discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResponseNonce: msg.nonce, VersionInfo: msg.version, ResourceNames: c.list(typeURL)}
			if c.delta {
				req = &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: msg.nonce}
			}
			c.version[typeURL], c.nonces[typeURL] = msg.version, msg.nonce
			if err := c.send(w.rig.now, req); err != nil {
				w.fail("client %d: %v", c.id, err)
			}
		}
		c.unsent[typeURL] = nil
	}
}

// turn is the writer's. The group is not held at another state in the midst of it: what is held at
// A, B and A again while a writer takes one type after the other may give the client routes of B
// after clusters of A.
func (w *heldWorld) turn(c *heldClient) {
	if !c.due(w.rig.now) {
		return
	}
	batch, err := c.take(w.rig.now)
	if err != nil {
		w.fail("client %d: %v", c.id, err)
	}
	c.stuck = batch
	for _, msg := range c.write(w.rig.now) {
		w.receive(c, msg)
	}
}

// receive is what the client does with a message.
func (w *heldWorld) receive(c *heldClient, msg *message) {
	w.messages++
	typeURL := msg.typeURL
	held, versions := c.held[typeURL], c.versions[typeURL]
	bodies, removed := msg.contents()
	if !c.delta && (typeURL == cds || typeURL == lds) {
		clear(held)
		clear(versions)
	}
	for name, body := range bodies {
		if typeURL == cds || typeURL == lds || c.names[typeURL][name] { // it was dropped meanwhile
			held[name], versions[name] = body, msg.versions[name]
		}
	}
	for _, name := range removed {
		delete(held, name)
		delete(versions, name)
	}
	c.unsent[typeURL] = append(c.unsent[typeURL], msg)
	w.logf("client %d receives %s %v", c.id, scriptType(typeURL), msg.words)
	switch typeURL {
	case cds:
		c.refer(w, eds, func(name string) bool { return strings.HasPrefix(held[name], "eds") }, held)
	case lds:
		routes := map[string]string{}
		for _, route := range held {
			routes["r"+route] = route
		}
		c.refer(w, rds, func(string) bool { return true }, routes)
	}
	w.judge(c)
}

// refer subscribes to exactly the names that are referred to.
func (c *heldClient) refer(w *heldWorld, typeURL string, is func(string) bool, of map[string]string) {
	var more, less []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if is(name) && !c.names[typeURL][name] {
			more = append(more, name)
			c.names[typeURL][name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.names[typeURL])) {
		if _, still := of[name]; !still {
			less = append(less, name)
			delete(c.names[typeURL], name)
			delete(c.held[typeURL], name)
			delete(c.versions[typeURL], name)
		}
	}
	if len(more)+len(less) > 0 {
		w.logf("client %d asks %s +%v -%v", c.id, scriptType(typeURL), more, less)
		c.ask(w, typeURL, more, less, nil)
	}
}

// judge: each route leads to a cluster that the client has, and is of no later state than its
// clusters.
func (w *heldWorld) judge(c *heldClient) {
	if c == w.newest {
		return
	}
	for name, to := range c.held[rds] {
		// A SotW origin's lists of one moment, after which its streams are opened anew, are not gathered.
		if w.known(name) && !(w.freed && w.control.sotw) && c.held[cds]["x"+to] == "" {
			w.fail("client %d has route %s to x%s, and clusters %v", c.id, name, to, c.held[cds])
		}
	}
	clusters, route := -1, -1
	for i, p := range w.order {
		world := w.worlds[p]
		if contains(c.held[cds], world[cds]) {
			clusters = i
		}
		if route < 0 && i >= c.routed && len(c.held[rds]) > 0 && contains(world[rds], c.held[rds]) {
			route = i
		}
	}
	if route > clusters {
		w.fail("client %d has routes of world %d, and clusters %v", c.id, w.order[route], c.held[cds])
	}
	c.routed = max(c.routed, route)
}

// known reports whether all states since all was quiet have the route. One that a state does not
// have stays as it is, and the listener leaves it.
func (w *heldWorld) known(route string) bool {
	return !slices.ContainsFunc(w.order[w.rested:], func(p int) bool { return w.worlds[p][rds][route] == "" })
}

// contains reports whether all has what part has.
func contains(all, part map[string]string) bool {
	for name, body := range part {
		if all[name] != body {
			return false
		}
	}
	return true
}

// quiet brings all to rest, and finds one state at each client.
func (w *heldWorld) quiet() {
	w.follow()
	for range 40 {
		w.serve()
		for _, c := range w.clients {
			w.turn(c)
			c.answer(w, true)
		}
		w.wait(200 * time.Millisecond)
	}
	at := w.held
	if at < 0 {
		at = len(w.worlds) - 1
	}
	world := w.worlds[at]
	for _, c := range w.clients {
		for _, typeURL := range []string{cds, lds, rds} {
			if !maps.Equal(c.held[typeURL], world[typeURL]) {
				w.fail("client %d holds %s %v, and is to hold world %d: %v", c.id, scriptType(typeURL), c.held[typeURL], at, world[typeURL])
			}
		}
		for name := range c.names[eds] {
			if body, is := w.control.state[eds][name]; is && c.held[eds][name] != body || c.held[eds][name] == "" {
				w.fail("client %d holds endpoints %v, the origin has %v", c.id, c.held[eds], w.control.state[eds])
			}
		}
		w.found++
	}
	w.rested, w.freed = len(w.order)-1, false
	w.seen = append(w.seen, past{w.rig.table.Revision(), at})
	if len(w.seen) > 6 {
		w.seen = w.seen[1:]
	}
}
