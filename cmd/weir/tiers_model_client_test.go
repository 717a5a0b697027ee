package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/relaytest"
)

// tiersClient has all clusters and listeners, the routes that those name, and the endpoints of the
// clusters that have them. It rejects what has a bad part.
type tiersClient struct {
	*relaytest.Client
	id, cluster string
	delta       bool
	tier        canary.Tier
	heard       int // responses that were looked at
	held        tiersState
	versions    map[string]map[string]string
	names       map[string]map[string]bool
	unsent      map[string][]*tiersAnswer
	version     map[string]string // SotW: the last acknowledged
	nonces      map[string]string
	order       int // place in the orders of its tier of what its routes are of, at least
	listed      int // and of its listeners
	rested      int // and of what it had when it had acknowledged all
}

// tiersAnswer is how a response is to be answered.
type tiersAnswer struct {
	nonce, version, reject string
}

// proberName is the cluster of the client that asks for all routes.
const proberName = "prober"

var tiersTypes = []string{cds, eds, lds, rds}

func (w *tiersWorld) open(cluster string) {
	w.ids++
	c := &tiersClient{id: fmt.Sprint(cluster, w.ids), cluster: cluster, delta: w.rnd.IntN(2) == 0, tier: canary.Rest}
	if cluster == "canary" {
		c.tier = canary.Canaries
	}
	c.reset()
	w.clients = append(w.clients, c)
	c.reconnect(w)
	w.deliver()
}

func (c *tiersClient) reset() {
	c.held, c.versions, c.names = tiersState{}, map[string]map[string]string{}, map[string]map[string]bool{}
	for _, typeURL := range tiersTypes {
		c.held[typeURL], c.versions[typeURL], c.names[typeURL] = map[string]string{}, map[string]string{}, map[string]bool{}
	}
	c.version, c.order, c.listed, c.rested = map[string]string{}, 0, 0, 0
}

// reconnect connects to the weir that runs.
func (c *tiersClient) reconnect(w *tiersWorld) {
	if c.Client != nil {
		c.Close()
	}
	dialect := relaytest.SotW
	if c.delta {
		dialect = relaytest.Delta
	}
	c.Client = relaytest.NewClient(w.t, w.weir.net.Connect(w.t), relaytest.ClientConfig{Dialect: dialect, ManualACK: true})
	c.heard = 0
	c.begin(w)
}

// begin opens a stream, and says what the client holds. What a SotW client holds its version does
// not say, so it comes with nothing.
func (c *tiersClient) begin(w *tiersWorld) {
	c.Open(relaytest.Node(c.id, c.cluster))
	c.heard = c.total()
	c.unsent, c.nonces = map[string][]*tiersAnswer{}, map[string]string{}
	if !c.delta {
		c.reset()
	}
	if c.cluster == proberName {
		for i := range tiersRoutes {
			c.names[rds][fmt.Sprint("r", i)] = true
		}
	}
	w.logf("%s opens a stream (delta: %v) with %v", c.id, c.delta, c.held)
	for _, typeURL := range tiersTypes {
		if typeURL == cds || typeURL == lds || len(c.names[typeURL]) > 0 {
			c.ask(typeURL, c.list(typeURL), nil, c.versions[typeURL])
		}
	}
}

func (c *tiersClient) total() (n int) {
	for _, typeURL := range tiersTypes {
		n += len(c.Responses(typeURL))
	}
	return n
}

func (w *tiersWorld) leave(c *tiersClient) {
	w.logf("%s leaves", c.id)
	c.Close()
	w.clients = slices.DeleteFunc(w.clients, func(x *tiersClient) bool { return x == c })
}

// list is what a request names.
func (c *tiersClient) list(typeURL string) []string {
	if typeURL == cds || typeURL == lds {
		return []string{"*"}
	}
	return slices.Sorted(maps.Keys(c.names[typeURL]))
}

// ask sends a request: in delta what changes, else the whole list.
func (c *tiersClient) ask(typeURL string, more, less []string, initial map[string]string) {
	if c.delta {
		c.Send(&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: typeURL, ResourceNamesSubscribe: more, ResourceNamesUnsubscribe: less, InitialResourceVersions: maps.Clone(initial),
		})
		return
	}
	c.Send(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: c.list(typeURL), VersionInfo: c.version[typeURL], ResponseNonce: c.nonces[typeURL]})
}

// answer acknowledges or rejects what came, of some types or of all.
func (c *tiersClient) answer(w *tiersWorld, all bool) {
	for _, typeURL := range tiersTypes {
		if !all && w.rnd.IntN(2) == 0 {
			continue
		}
		for _, a := range c.unsent[typeURL] {
			var detail *statuspb.Status
			if a.reject != "" {
				detail = &statuspb.Status{Code: 3, Message: a.reject}
				w.rejects(c, a.reject)
			} else {
				c.version[typeURL] = a.version
			}
			c.nonces[typeURL] = a.nonce
			if c.delta {
				c.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: a.nonce, ErrorDetail: detail})
				continue
			}
			c.Send(&discoveryv3.DiscoveryRequest{
				TypeUrl: typeURL, ResponseNonce: a.nonce, VersionInfo: c.version[typeURL], ResourceNames: c.list(typeURL), ErrorDetail: detail,
			})
		}
		c.unsent[typeURL] = nil
	}
	w.accepts(c)
}

// deliver has all clients look at what has come, until nothing more comes at this moment.
func (w *tiersWorld) deliver() {
	for again := true; again; {
		synctest.Wait()
		again = false
		for _, c := range w.clients {
			if err := c.Err(); err != nil {
				w.fail("the stream of %s ended: %v", c.id, err)
			}
			for _, r := range c.news() {
				again = true
				w.receive(c, r)
			}
		}
		w.check()
	}
}

// news are the responses that were not looked at yet, in order.
func (c *tiersClient) news() (all []*relaytest.Response) {
	for _, typeURL := range tiersTypes {
		for _, r := range c.Responses(typeURL) {
			if r.N > c.heard {
				all = append(all, r)
			}
		}
	}
	slices.SortFunc(all, func(a, b *relaytest.Response) int { return a.N - b.N })
	if len(all) > 0 {
		c.heard = all[len(all)-1].N
	}
	return all
}

// receive is what a client does with a response.
func (w *tiersWorld) receive(c *tiersClient, r *relaytest.Response) {
	w.counts["responses"]++
	typeURL := r.TypeURL()
	bodies, reject := map[string]string{}, ""
	for i := range r.Items {
		bodies[r.Items[i].Name] = tiersText(r.Items[i].Body)
		if strings.Contains(bodies[r.Items[i].Name], "bad") {
			reject = fmt.Sprintf("%s: %s is bad", r.Items[i].Name, bodies[r.Items[i].Name])
		}
	}
	w.logf("%s receives %s %v -%v %s", c.id, metrics.ShortName(typeURL), bodies, r.Removed(), reject)
	c.unsent[typeURL] = append(c.unsent[typeURL], &tiersAnswer{r.Nonce(), r.Version(), reject})
	w.isOf(c, bodies)
	held, versions := c.held[typeURL], c.versions[typeURL]
	if !c.delta && (typeURL == cds || typeURL == lds) {
		maps.DeleteFunc(held, func(name, _ string) bool { return bodies[name] == "" })
	}
	for i := range r.Items {
		name := r.Items[i].Name
		if strings.Contains(bodies[name], "bad") {
			continue // all else counts, as with Envoy
		}
		if typeURL == cds || typeURL == lds || c.names[typeURL][name] { // it was dropped meanwhile
			held[name], versions[name] = bodies[name], r.Items[i].Version
		}
	}
	for _, name := range r.Removed() {
		delete(held, name)
		delete(versions, name)
	}
	switch typeURL {
	case cds:
		c.refer(eds, func(yield func(string) bool) {
			for name, body := range held {
				if body == "eds" && !yield(name) {
					return
				}
			}
		})
	case lds:
		if route, is := held["l0"]; is && c.cluster != proberName {
			c.refer(rds, slices.Values([]string{"r" + route}))
		}
	}
	w.judge(c)
}

// refer subscribes to exactly the names that are referred to.
func (c *tiersClient) refer(typeURL string, to func(yield func(string) bool)) {
	wanted := map[string]bool{}
	for name := range to {
		wanted[name] = true
	}
	var more, less []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !c.names[typeURL][name] {
			more = append(more, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.names[typeURL])) {
		if !wanted[name] {
			less = append(less, name)
			delete(c.held[typeURL], name)
			delete(c.versions[typeURL], name)
		}
	}
	c.names[typeURL] = wanted
	if len(more)+len(less) > 0 {
		c.ask(typeURL, more, less, nil)
	}
}

// tiersBodyField is an unknown field of all resources of a play, with their body.
const tiersBodyField = 1000

func tiersBody(typeURL, name, body string) *anypb.Any {
	value := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	switch {
	case typeURL == eds:
		value = relaytest.Endpoints(name, "10.0.0.1:80").Value
	case body == "eds":
		value = relaytest.EDSCluster(name, "").Value
	}
	value = protowire.AppendString(protowire.AppendTag(slices.Clone(value), tiersBodyField, protowire.BytesType), body)
	return &anypb.Any{TypeUrl: typeURL, Value: value}
}

// tiersText is the body of a resource.
func tiersText(a *anypb.Any) string {
	for b := a.GetValue(); len(b) > 0; {
		n, t, m := protowire.ConsumeTag(b)
		if n == tiersBodyField {
			text, _ := protowire.ConsumeString(b[m:])
			return text
		}
		b = b[m+protowire.ConsumeFieldValue(n, t, b[m:]):]
	}
	return ""
}

// tiersTextOf is that of an encoded Any.
func tiersTextOf(encoded []byte) string {
	a := &anypb.Any{}
	if err := proto.Unmarshal(encoded, a); err != nil {
		panic(err)
	}
	return tiersText(a)
}

func numberIn(s string) (n int) {
	_, _ = fmt.Sscan(s, &n)
	return n
}

// settle lets so much time pass that all is decided, with clients that answer at once.
func (w *tiersWorld) settle(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, c := range w.clients {
			c.answer(w, true)
		}
		w.wait(time.Second)
	}
}
