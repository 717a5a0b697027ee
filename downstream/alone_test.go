package downstream

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// alone is the core of the tables without the server's sessions: what a client asks goes to the
// relay.Subs of its stream as it comes, and what these have is sent when they wake it. No type
// waits for another, or for an ACK, and nothing is gathered. So what goes wrong here is the
// tables', and what goes wrong behind the server alone is a session's. Origins, orders, restarts
// and time are those of tables. So are tiers, which are fed by sessions as ever (tierHop).
//
// No feature of the world is left out. What a session adds for the sake of order or of warming is
// not judged here: see world.bare.
type alone struct {
	*tables
	open []*aloneStream // and some that have ended
	// may are the names that the rules give, by identity; nil: there are no rules.
	may map[string][]string
}

func newAlone(tb testing.TB, cfg relay.Config) core { return &alone{tables: newTables(tb, cfg)} }

func (c *alone) Order(now time.Time, f []string) error {
	switch f[0] {
	case "restart":
		for _, s := range c.open {
			s.ended = cmp.Or(s.ended, errRestarted)
		}
		c.open = nil
	case "rules":
		c.may = map[string][]string{}
		for i := 1; i+1 < len(f); i += 2 {
			c.may[f[i]] = strings.Split(f[i+1], ",")
		}
		for _, s := range c.open {
			if next := c.permit(s.who); (s.permit == nil) != (next == nil) || next != nil && s.permit.Key() != next.Key() {
				s.Close(now)
				s.ended = errReruled
			}
		}
	}
	return c.tables.Order(now, f)
}

// permit is what an identity may have by the rules; nil: everything.
func (c *alone) permit(who string) *relay.Permit {
	names := c.may[who]
	if c.may == nil || slices.Contains(names, "**") {
		return nil
	}
	return relay.NewPermit(strings.Join(names, ","), func(name string) bool { return slices.Contains(names, name) },
		func(before, after string, _ bool) bool {
			return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, before) && strings.HasSuffix(name, after) })
		})
}

func (c *alone) Join(_ time.Time, j joining) coreStream {
	s := &aloneStream{joining: j, core: c, permit: c.permit(j.who), mailbox: relay.NewSubscriber(), groups: map[string]*relay.Group{}}
	c.open = append(slices.DeleteFunc(c.open, func(s *aloneStream) bool { return s.ended != nil }), s)
	return s
}

// aloneStream is a client's stream.
type aloneStream struct {
	joining
	core    *alone
	permit  *relay.Permit
	mailbox *relay.Subscriber
	groups  map[string]*relay.Group // by origin
	types   []*aloneType
	nonces  int
	stuck   []*message // taken, and not read
	ended   error      // nil: it is open
}

// aloneType is a type on a stream.
type aloneType struct {
	relay.Union
	typeURL string
	names   []string                 // SotW: the names of the last request
	told    map[string]relay.Receipt // by nonce, of what is not answered; SotW: of the last response
	denied  []string                 // delta: names that the rules do not give, of which the client is to be told
}

func (s *aloneStream) Send(now time.Time, m proto.Message) error {
	if s.ended != nil {
		return s.ended
	}
	switch m := m.(type) {
	case *discoveryv3.DeltaDiscoveryRequest:
		st := s.typeOf(m.TypeUrl)
		st.answered(m.ResponseNonce, m.ErrorDetail)
		if st.None() || len(m.ResourceNamesSubscribe)+len(m.ResourceNamesUnsubscribe) > 0 {
			s.ask(now, st, m.ResourceNamesSubscribe, m.ResourceNamesUnsubscribe, relay.SubOptions{Initial: m.InitialResourceVersions})
		}
	case *discoveryv3.DiscoveryRequest:
		st := s.typeOf(m.TypeUrl)
		st.answered(m.ResponseNonce, m.ErrorDetail)
		if st.None() || !slices.Equal(st.names, m.ResourceNames) {
			s.ask(now, st, m.ResourceNames, nil, relay.SubOptions{Version: m.VersionInfo})
		}
	}
	if slices.ContainsFunc(s.types, func(st *aloneType) bool { return len(st.denied) > 0 || !st.None() && st.Peek() }) {
		s.mailbox.Signal()
	}
	return nil
}

func (s *aloneStream) typeOf(typeURL string) *aloneType {
	for _, st := range s.types {
		if st.typeURL == typeURL {
			return st
		}
	}
	s.types = append(s.types, &aloneType{typeURL: typeURL, told: map[string]relay.Receipt{}})
	return s.types[len(s.types)-1]
}

// answered is an ACK, or a NACK.
func (st *aloneType) answered(nonce string, detail *statuspb.Status) {
	told, is := st.told[nonce]
	switch delete(st.told, nonce); {
	case !is:
	case detail == nil:
		st.Ack(told)
	default:
		st.Nack(told)
	}
}

// alonePart is what a request says about the names of one origin.
type alonePart struct {
	origin      *relay.Origin
	names, gone []string
	initial     map[string]string
}

// originOf is the one that a name is asked of (FED-1).
func (s *aloneStream) originOf(name string) *relay.Origin {
	if u, err := xds.ParseURN(name); xds.IsNewStyle(name) && err == nil {
		return s.core.rig.table.Authority(u.Authority)
	}
	return s.core.rig.origin
}

// refuses reports whether the rules do not give a name, and it stands for no others.
func (s *aloneStream) refuses(typeURL, name string) bool {
	selects := name == xds.Wildcard || strings.HasSuffix(name, "/*") || xds.IsVirtualHost(typeURL) && !strings.Contains(name, "/")
	return !selects && !s.permit.Allows(name)
}

// ask passes a request to the tables, to each origin its part: that of the listener's own comes
// first. The first request of a type says what the client holds.
func (s *aloneStream) ask(now time.Time, st *aloneType, names, gone []string, first relay.SubOptions) {
	own, denies := &alonePart{origin: s.core.rig.origin}, false
	all := []*alonePart{own}
	at := func(name string) *alonePart {
		o := s.originOf(name)
		if i := slices.IndexFunc(all, func(p *alonePart) bool { return p.origin == o }); i >= 0 {
			return all[i]
		}
		all = append(all, &alonePart{origin: o})
		return all[len(all)-1]
	}
	for _, name := range names {
		if s.refuses(st.typeURL, name) {
			st.denied, denies = append(st.denied, name), true
			continue
		}
		p := at(name)
		p.names = append(p.names, name)
	}
	if !s.delta {
		gone, st.denied = st.names, nil // origins that are named no longer have a part, too
	}
	for _, name := range gone {
		p := own // `*` may cover it (WILD-9)
		if st.In(s.group(st, s.originOf(name))) != nil {
			p = at(name)
		}
		p.gone = append(p.gone, name)
	}
	for name, version := range first.Initial {
		if !s.permit.Allows(name) {
			st.denied = append(st.denied, name)
			continue
		}
		p := own // that of `*` (WILD-10)
		for _, x := range all {
			if slices.Contains(x.names, name) {
				p = x
			}
		}
		if p.initial == nil {
			p.initial = map[string]string{}
		}
		p.initial[name] = version
	}
	if !st.None() {
		first = relay.SubOptions{}
	}
	first.TypeURL, first.Delta, first.Permit = st.typeURL, s.delta, s.permit
	first.TTL = slices.Contains(s.node.GetClientFeatures(), "xds.config.supports-resource-ttl")
	for _, p := range all {
		g := s.group(st, p.origin)
		sub := st.In(g)
		if sub == nil && len(p.names) == 0 && len(all) > 1 || sub != nil && s.delta && len(p.names)+len(p.gone) == 0 {
			continue
		}
		if first.Initial, first.Params = p.initial, p.origin.Params(s.node, st.typeURL); sub == nil {
			sub = st.Open(g, s.mailbox, first)
		}
		if s.delta {
			st.Update(now, sub, p.names, p.gone)
			continue
		}
		plain := slices.DeleteFunc(slices.Clone(p.names), func(name string) bool { return name == xds.Wildcard })
		st.Replace(now, sub, plain, len(plain) < len(p.names))
	}
	if st.names = names; s.permit != nil && !s.delta {
		st.Part(0).Denies(denies)
	}
}

// group is the one that a type's names of an origin are in.
func (s *aloneStream) group(st *aloneType, o *relay.Origin) *relay.Group {
	key, join := o.Name(), o.GroupFor
	if xds.IsSecret(st.typeURL) && !o.SecretsByIdentity() { // RELAY-29
		key, join = "secrets of "+key, o.DedicatedFor
	}
	if s.groups[key] == nil {
		g, err := join(s.node, s.who, nil)
		if err != nil {
			s.core.tb.Fatal(err)
		}
		s.groups[key] = g
	}
	return s.groups[key]
}

func (s *aloneStream) Turn(now time.Time, stopped bool) (sent []*message, did bool, err error) {
	switch {
	case s.ended != nil:
		return nil, true, s.ended
	case stopped && len(s.stuck) > 0:
		return nil, false, nil
	}
	if len(s.stuck) == 0 {
		select {
		case <-s.mailbox.Wake():
			s.take(now)
		default:
			return nil, false, s.ended
		}
	}
	if !stopped {
		sent, s.stuck = s.stuck, nil
	}
	return sent, true, s.ended
}

func (s *aloneStream) take(now time.Time) {
	for _, st := range s.types {
		if len(st.denied) > 0 {
			slices.Sort(st.denied)
			s.write(st, s.encode(now, st, &relay.Answer{Body: &relay.Body{Removed: slices.Compact(st.denied)}}), relay.Receipt{})
			st.denied = nil
		}
		if st.None() || !st.Pending() {
			continue
		}
		if a := st.Take(now); a != nil {
			s.write(st, s.encode(now, st, a), a.Receipt())
		} else if st.Standing().Lagging {
			s.ended = status.Error(codes.Unavailable, "the client is too far behind")
		}
	}
}

// write has a response be sent, once it has a nonce.
func (s *aloneStream) write(st *aloneType, response []byte, told relay.Receipt) {
	s.nonces++
	nonce := fmt.Sprintf("%p-%d", s, s.nonces)
	if !s.delta {
		clear(st.told)
	}
	st.told[nonce] = told
	s.stuck = append(s.stuck, decodeBytes(s.core.tb, xds.AppendString(response, 5, nonce), s.delta))
}

// encode is a response without its nonce. Most numbers of fields are those of both dialects.
func (s *aloneStream) encode(now time.Time, st *aloneType, a *relay.Answer) (b []byte) {
	n := &sotwFields
	if s.delta {
		n = &deltaFields
	}
	b = xds.AppendString(xds.AppendString(nil, n.typeURL, st.typeURL), n.version, cmp.Or(a.Version, xds.SetDigest{}.Version()))
	for _, e := range a.Errors {
		b = e.Append(b, n.errors)
	}
	for _, list := range a.Pieces(s.delta, now, nil) {
		b = append(b, slices.Concat(list...)...)
	}
	return b
}

// Next: the tables wake whoever has something to do.
func (s *aloneStream) Next() time.Time { return time.Time{} }

func (s *aloneStream) Close(now time.Time) {
	if s.ended != nil {
		return
	}
	s.ended = status.Error(codes.Canceled, "it is closed")
	for _, g := range s.groups { // before the Subs, as what lingers depends on the group's other clients
		g.Release(now)
	}
	for _, st := range s.types {
		if !st.None() {
			st.Close(now)
		}
	}
}
