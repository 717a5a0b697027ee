package downstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// control is a control plane of either dialect, for the scripts and the model: it knows what exists
// and tells it to the lanes that ask. Nothing happens by itself: ask lets a lane ask, produce puts
// into flight what it has not been told, deliver applies one response. A body is its own version.
type control struct {
	tb     testing.TB
	sotw   bool
	origin *relay.Origin
	state  map[string]map[string]string // type, name: body
	faults map[string]map[string]codes.Code
	muted  map[string]bool // types it does not answer
	varied bool            // a name had constraints, ever
	// unversioned: it gives resources no versions, and so is told none (RELAY-91).
	unversioned bool
	lanes       []*controlLane
	nonce       int
	// wanted are the streams that a core wants to the origin; nil: those of the table.
	wanted func() []coreLane

	// aliases are those that virtual hosts go by, if they are asked for.
	aliases map[string][]string
	// ttl is that of a body; nil: none has one. uncached says of a body that it must not be cached.
	ttl      func(body string) time.Duration
	uncached func(body string) bool
	// hidden names are served when they are asked for, and are not in `*`.
	hidden func(name string) bool
	// tailor makes the body that a lane is sent of a body; nil: it is the same for all.
	tailor func(l *controlLane, typeURL, name, body string) string
	// pieces says into how many responses n resources are cut (delta).
	pieces func(n int) int
	// applied is told of every response the table has taken.
	applied func(l *controlLane, s *stated, a relay.Applied)
}

// controlLane is the control plane's end of one upstream stream.
type controlLane struct {
	coreLane
	open  bool
	since time.Time // when it was opened last
	types map[string]*askedType
	queue []*stated
}

// askedType is what a lane asked of a type on its present stream, and was told.
type askedType struct {
	wildcard bool
	names    map[string]bool
	known    map[string]string // body; "": stated absent
	faults   map[string]codes.Code
	answered bool
}

// stated is a response in flight.
type stated struct {
	typeURL string
	full    bool // what is not in it is gone
	bodies  map[string]string
	removed []string
	faults  map[string]codes.Code
	first   bool   // of a first answer
	broken  string // a name whose payload has another type, or that is listed twice
	twice   bool
}

func newControl(tb testing.TB, origin *relay.Origin, sotw bool) *control {
	return &control{
		tb: tb, sotw: sotw, origin: origin, state: map[string]map[string]string{}, muted: map[string]bool{},
		faults: map[string]map[string]codes.Code{}, hidden: func(string) bool { return false },
		pieces: func(int) int { return 1 }, applied: func(*controlLane, *stated, relay.Applied) {},
	}
}

// set makes a name exist with a body; an empty one makes it go.
func (c *control) set(typeURL, name, body string) {
	if c.state[typeURL] == nil {
		c.state[typeURL] = map[string]string{}
	}
	c.varied = c.varied || strings.Contains(name, "{")
	delete(c.faults[typeURL], name)
	if body == "" {
		delete(c.state[typeURL], name)
		return
	}
	c.state[typeURL][name] = body
}

// fail states an error of a name instead.
func (c *control) fail(typeURL, name string, code codes.Code) {
	if c.faults[typeURL] == nil {
		c.faults[typeURL] = map[string]codes.Code{}
	}
	c.faults[typeURL][name] = code
}

// takeLanes takes up the lanes that are wanted.
func (c *control) takeLanes() {
	wanted := c.wanted
	if wanted == nil {
		wanted = func() (all []coreLane) {
			for _, l := range c.origin.TakeLanes() {
				all = append(all, tableLane{l})
			}
			return all
		}
	}
	for _, l := range wanted() {
		if !slices.ContainsFunc(c.lanes, func(x *controlLane) bool { return x.coreLane == l }) {
			c.lanes = append(c.lanes, &controlLane{coreLane: l})
		}
	}
}

// ask opens the lane if it is to be open, and lets it ask.
func (c *control) ask(now time.Time, l *controlLane) {
	for range 5 {
		if unwanted, forget := l.Gone(); unwanted {
			l.open, l.queue = false, nil
			if forget {
				c.lanes = slices.DeleteFunc(c.lanes, func(x *controlLane) bool { return x == l })
			}
			return
		}
		if !l.open {
			l.open, l.since, l.types, l.queue = true, now, map[string]*askedType{}, nil
			l.Open(now, 0)
		}
		asks, reopen := l.Take(now, c.sotw)
		for _, a := range asks {
			c.asked(l, a)
		}
		if !reopen {
			return
		}
		c.close(l)
	}
}

func (c *control) close(l *controlLane) {
	if l.open {
		l.Close()
		l.open, l.queue = false, nil
	}
}

func (c *control) asked(l *controlLane, a relay.Ask) {
	ty := l.types[a.TypeURL]
	if (ty == nil) != a.First {
		c.tb.Fatalf("%s: first is %v, and it was asked before: %v", a.TypeURL, a.First, ty != nil)
	}
	if ty == nil {
		ty = &askedType{
			wildcard: a.Wildcard, names: map[string]bool{}, known: maps.Clone(a.Initial), faults: map[string]codes.Code{},
		}
		if ty.known == nil {
			ty.known = map[string]string{}
		}
		l.types[a.TypeURL] = ty
	}
	for _, n := range a.Unsubscribe {
		delete(ty.names, askedWord(n))
		delete(ty.known, n.Name)
		delete(ty.faults, n.Name)
		delete(ty.known, "?"+askedWord(n))
	}
	for _, n := range a.Subscribe {
		ty.names[askedWord(n)] = true
		if !a.First {
			delete(ty.known, c.resource(a.TypeURL, n.Name))
			ty.repeatMembers(a.TypeURL, n.Name)
			ty.repeatVariants(n)
		}
	}
	ty.answered = false
}

// produce puts into flight what the lane has not been told of a type.
func (c *control) produce(l *controlLane, typeURL string) {
	ty := l.types[typeURL]
	if !l.open || ty == nil || c.muted[typeURL] {
		return
	}
	first := !ty.answered
	changed := first
	full := c.sotw && (xds.FullState(typeURL) || ty.wildcard)
	var names map[string]bool
	var selected map[string]bool
	if !ty.wildcard {
		names = c.members(typeURL, ty)
		if selected = maps.Clone(names); xds.IsVirtualHost(typeURL) {
			for name, body := range ty.known { // one that lost the alias it was asked by is stated without
				names[name] = names[name] || body != ""
			}
		}
	} else {
		names = c.variants(typeURL, ty)
		for name := range c.state[typeURL] {
			if strings.Contains(name, "{") {
				continue
			}
			names[name] = !c.hidden(name)
		}
		for name := range ty.known {
			names[name] = true
		}
	}
	bodies, removed, faults := []string(nil), []string(nil), map[string]codes.Code{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !names[name] {
			continue
		}
		body, exists := c.body(l, typeURL, name)
		was, told := ty.known[name]
		if code, failed := c.faults[typeURL][name]; failed && !ty.wildcard {
			if ty.faults[name] != code {
				ty.faults[name], faults[name], changed = code, code, true
			}
			continue
		}
		delete(ty.faults, name)
		switch {
		case exists && (full || !told || was != body):
			bodies = append(bodies, name)
			changed = changed || !told || was != body
			ty.known[name] = body
		case !exists && (!told || was != "") && !c.sotw:
			removed, changed = append(removed, name), true
			ty.known[name] = ""
		case !exists && told && c.sotw:
			delete(ty.known, name)
			changed = changed || full
		}
	}
	if !changed {
		return
	}
	for name := range names {
		if _, sent := slices.BinarySearch(bodies, name); selected != nil && !selected[name] && (sent || slices.Contains(removed, name)) {
			delete(ty.known, name)
		}
	}
	ty.answered = true
	pieces := 1
	if !c.sotw && len(bodies) > 1 {
		pieces = c.pieces(len(bodies))
	}
	for i := range pieces {
		s := &stated{typeURL: typeURL, full: full, bodies: map[string]string{}, first: first || c.sotw}
		for _, name := range bodies[i*len(bodies)/pieces : (i+1)*len(bodies)/pieces] {
			s.bodies[name], _ = c.body(l, typeURL, name)
		}
		if i == pieces-1 {
			s.removed, s.faults = removed, faults
		}
		l.queue = append(l.queue, s)
	}
}

// body is what a lane is sent of a name.
func (c *control) body(l *controlLane, typeURL, name string) (body string, exists bool) {
	if body, exists = c.state[typeURL][name]; exists && c.tailor != nil {
		body = c.tailor(l, typeURL, name, body)
	}
	return body, exists
}

// members are the names a lane asked for, and those that its globs and namespaces select (COLL-1,
// ALIAS-6): a glob itself if it selects none (COLL-3).
func (c *control) members(typeURL string, ty *askedType) map[string]bool {
	names := c.variants(typeURL, ty)
	for name := range ty.names {
		if c.hasVariants(typeURL, ty, name) {
			continue
		}
		if real := c.resource(typeURL, name); real != name {
			names[real] = true
			continue
		}
		prefix, glob := strings.CutSuffix(name, "/*")
		if space := xds.IsVirtualHost(typeURL) && !strings.Contains(name, "/"); !space && (!glob || !xds.IsNewStyle(name)) {
			names[name] = true
			continue
		}
		none := true
		for _, of := range []map[string]string{c.state[typeURL], ty.known} {
			for member, body := range of {
				if rest, ok := strings.CutPrefix(member, prefix+"/"); ok && rest != "*" && !strings.Contains(rest, "/") {
					names[member], none = true, none && body == ""
				}
			}
		}
		names[name] = none
	}
	return names
}

// repeatMembers has all be told again that a glob or a namespace selects.
func (ty *askedType) repeatMembers(typeURL, name string) {
	prefix, glob := strings.CutSuffix(name, "/*")
	if glob || xds.IsVirtualHost(typeURL) && !strings.Contains(name, "/") {
		maps.DeleteFunc(ty.known, func(member, _ string) bool {
			rest, within := strings.CutPrefix(member, prefix+"/")
			return within && !strings.Contains(rest, "/")
		})
	}
}

// resource is the name of the resource that an alias stands for, if there is one.
func (c *control) resource(typeURL, name string) string {
	for real, aliases := range c.aliases {
		if xds.IsVirtualHost(typeURL) && c.state[typeURL][real] != "" && slices.Contains(aliases, name) {
			return real
		}
	}
	return name
}

// deliver has the table take the oldest response in flight.
func (c *control) deliver(now time.Time, l *controlLane) {
	if len(l.queue) == 0 {
		return
	}
	s := l.queue[0]
	l.queue = l.queue[1:]
	c.nonce++
	parsed, err := xds.ParseResponse(c.encode(s), !c.sotw)
	if err != nil {
		c.tb.Fatal(err)
	}
	u, bad := xds.Accept(parsed, 0)
	if (bad != nil) != (s.broken != "") {
		c.tb.Fatalf("the response is bad: %v", bad)
	}
	a, ok := l.Apply(now, &u)
	if !ok {
		c.tb.Fatalf("%s was never asked for", s.typeURL)
	}
	c.applied(l, s, a)
}

func (c *control) encode(s *stated) []byte {
	var errs []*discoveryv3.ResourceError
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		errs = append(errs, &discoveryv3.ResourceError{
			ResourceName: &discoveryv3.ResourceName{Name: name},
			ErrorDetail:  &statuspb.Status{Code: int32(s.faults[name]), Message: "because"},
		})
	}
	sotw := &discoveryv3.DiscoveryResponse{TypeUrl: s.typeURL, Nonce: fmt.Sprint(c.nonce), VersionInfo: "1", ResourceErrors: errs}
	delta := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: s.typeURL, Nonce: fmt.Sprint(c.nonce), RemovedResources: s.removed, ResourceErrors: errs,
	}
	delta.RemovedResources, delta.RemovedResourceNames = dividedNames(delta.RemovedResources)
	for _, name := range slices.Sorted(maps.Keys(s.bodies)) {
		if base, _, variant := cutLocator(name); variant {
			x := &discoveryv3.Resource{
				ResourceName: resourceName(name), Version: s.bodies[name], Resource: payload(s.typeURL, base, s.bodies[name]),
			}
			delta.Resources = append(delta.Resources, x)
			wrapped, err := anypb.New(x)
			if err != nil {
				c.tb.Fatal(err)
			}
			sotw.Resources = append(sotw.Resources, wrapped)
			continue
		}
		a := payload(s.typeURL, name, s.bodies[name])
		if name == s.broken && !s.twice {
			a.TypeUrl = "type.googleapis.com/another.Type"
		} else if name == s.broken {
			other := payload(s.typeURL, name, "other")
			sotw.Resources = append(sotw.Resources, other)
			delta.Resources = append(delta.Resources, &discoveryv3.Resource{Name: name, Version: "other", Resource: other})
		}
		x := &discoveryv3.Resource{Name: name, Version: s.bodies[name], Resource: a}
		if c.uncached != nil && c.uncached(s.bodies[name]) {
			x.CacheControl = &discoveryv3.Resource_CacheControl{DoNotCache: true}
		}
		if c.ttl != nil && c.ttl(s.bodies[name]) > 0 {
			x.Ttl = durationpb.New(c.ttl(s.bodies[name]))
		}
		if x.Ttl != nil || x.CacheControl != nil { // SotW says it in the wrapper
			wrapped, err := anypb.New(x)
			if err != nil {
				c.tb.Fatal(err)
			}
			a = wrapped
		}
		sotw.Resources = append(sotw.Resources, a)
		if c.unversioned {
			x.Version = ""
		}
		if xds.IsVirtualHost(s.typeURL) {
			x.Aliases = c.aliases[name]
		}
		delta.Resources = append(delta.Resources, x)
	}
	var m proto.Message = delta
	if c.sotw {
		m = sotw
	}
	b, err := proto.Marshal(m)
	if err != nil {
		c.tb.Fatal(err)
	}
	return b
}

// serve lets everything happen that can happen at once. It reports whether anything did.
func (c *control) serve(now time.Time) (did bool) {
	c.takeLanes()
	for _, l := range slices.Clone(c.lanes) {
		c.ask(now, l)
		for _, typeURL := range slices.SortedFunc(maps.Keys(l.types), xds.CompareTypes) {
			c.produce(l, typeURL)
		}
		for len(l.queue) > 0 {
			c.deliver(now, l)
			did = true
		}
	}
	return did
}
