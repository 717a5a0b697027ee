package downstream

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// states is the core of the states that the tables make: what clients are sent comes from cursors by the
// plan of their stream. What is asked of origins, orders, restarts and time are those of tables.
type states struct{ *alone }

func newStates(tb testing.TB, cfg relay.Config) core {
	return &states{&alone{tables: newTables(tb, cfg)}}
}

func (c *states) Join(now time.Time, j joining) coreStream {
	s := &statesStream{aloneStream: &aloneStream{joining: j, core: c.alone, permit: c.permit(j.who), mailbox: relay.NewSubscriber(), groups: map[string]*relay.Group{}}}
	s.cfg = plan.Config{Delta: j.delta, Hold: c.rig.set.timing.OrderHold, Cold: 10 * time.Second}
	c.open = append(slices.DeleteFunc(c.open, func(s *aloneStream) bool { return s.ended != nil }), s.aloneStream)
	return s
}

// statesStream is a client's stream.
type statesStream struct {
	*aloneStream
	cfg   plan.Config
	plan  *plan.Stream
	from  []*relay.Group // by index of the plan
	types []*statesType
	again time.Time
	nonce uint64
	now   time.Time
}

// statesType is a type on a stream.
type statesType struct {
	*cursor.Cursor
	typeURL string
	wants   []*relay.Wants // by source; nil: nothing was asked for there
	sources map[int]int    // by group
	names   []string       // SotW: those of the last request
	named   bool           // SotW: a request has named something
	told    map[string]told
	denied  []string
}

type told struct{ nonce, number uint64 }

func (s *statesStream) Send(now time.Time, m proto.Message) error {
	if s.ended != nil {
		s.leave(now)
		return s.ended
	}
	s.now = now
	switch m := m.(type) {
	case *discoveryv3.DeltaDiscoveryRequest:
		st, first := s.typeOf(now, m.TypeUrl, len(m.InitialResourceVersions) > 0, "")
		s.answered(now, st, m.ResponseNonce, m.ErrorDetail == nil)
		s.delta(now, st, m, first)
	case *discoveryv3.DiscoveryRequest:
		st, first := s.typeOf(now, m.TypeUrl, m.VersionInfo != "", m.VersionInfo)
		s.answered(now, st, m.ResponseNonce, m.ErrorDetail == nil)
		if first || !slices.Equal(st.names, m.ResourceNames) {
			s.replace(now, st, m.ResourceNames)
		}
		st.Requested(now)
	}
	s.mailbox.Signal()
	return nil
}

// groups are those of all origins: what is shared, and what is for this stream alone.
func (s *statesStream) join() {
	for _, o := range s.core.rig.table.Origins() {
		for _, typeURL := range []string{xds.ClusterType, xds.SecretType} {
			s.from = append(s.from, s.group(&aloneType{typeURL: typeURL}, o))
		}
	}
	s.plan = plan.New(s.cfg, len(s.from))
}

func (s *statesStream) typeOf(now time.Time, typeURL string, holds bool, version string) (_ *statesType, first bool) {
	if s.plan == nil {
		s.join()
	}
	for _, st := range s.types {
		if st.typeURL == typeURL {
			return st, false
		}
	}
	c := cursor.Config{
		TypeURL: typeURL, Delta: s.joining.delta, Holds: holds, Version: version, Began: now,
		TTL: slices.Contains(s.node.GetClientFeatures(), "xds.config.supports-resource-ttl"),
	}
	st := &statesType{typeURL: typeURL, sources: map[int]int{}, told: map[string]told{}}
	st.Cursor = s.group(&aloneType{typeURL: typeURL}, s.core.rig.origin).Cursor(c)
	s.types = append(s.types, st)
	return st, true
}

// source is where names of an origin come from.
func (s *statesStream) source(st *statesType, o *relay.Origin) int {
	g := s.group(&aloneType{typeURL: st.typeURL}, o)
	at := slices.Index(s.from, g)
	if i, is := st.sources[at]; is {
		return i
	}
	p := o.Params(s.node, st.typeURL)
	w := g.Want(s.mailbox, st.typeURL, p, s.permit)
	st.sources[at] = st.Open(w.Source(at, false))
	st.wants = append(st.wants, w)
	return st.sources[at]
}

func (s *statesStream) answered(now time.Time, st *statesType, nonce string, accepted bool) {
	t, is := st.told[nonce]
	if !is {
		return
	}
	delete(st.told, nonce)
	s.plan.Ack(now, st.typeURL, t.nonce)
	st.Ack(t.number, accepted)
}

func (s *statesStream) delta(now time.Time, st *statesType, m *discoveryv3.DeltaDiscoveryRequest, first bool) {
	own := s.core.rig.origin
	gone := map[string]bool{}
	for _, name := range m.ResourceNamesUnsubscribe {
		gone[xds.NameKey(name)] = true
	}
	subscribe := m.ResourceNamesSubscribe
	if first && len(subscribe) == 0 {
		s.source(st, own)
	}
	of := map[string]int{} // by canonical name
	for _, name := range subscribe {
		if s.refuses(st.typeURL, name) {
			st.denied = append(st.denied, name)
			continue
		}
		i := s.source(st, s.originOf(name))
		key := xds.NameKey(name)
		if of[key] = i; gone[key] && !st.covered(key) {
			continue // WILD-8
		}
		added, _ := st.wants[i].Add(now, name)
		st.Subscribe(i, added[0])
	}
	if first {
		for name, version := range m.InitialResourceVersions {
			if !s.permit.Allows(name) {
				st.denied = append(st.denied, name)
				continue
			}
			key, spelt := xds.Spell(name)
			i, is := of[key]
			if !is {
				i = s.source(st, own)
			}
			st.Claim(i, key, spelt, xds.Claim(version, false))
		}
	}
	for _, name := range m.ResourceNamesUnsubscribe {
		i := s.source(st, own)
		if at, is := st.sources[slices.Index(s.from, s.group(&aloneType{typeURL: st.typeURL}, s.originOf(name)))]; is {
			i = at
		}
		st.Unsubscribe(i, st.wants[i].Drop(now, name)[0])
	}
	st.Requested(now)
}

func (st *statesType) covered(string) bool { return false }

func (s *statesStream) replace(now time.Time, st *statesType, names []string) {
	own := s.core.rig.origin
	st.names, st.denied = names, nil
	lists := map[int][]cursor.Name{s.source(st, own): {}}
	for _, i := range st.sources {
		lists[i] = nil
	}
	listed := map[int]map[string]bool{}
	for _, name := range names {
		if s.refuses(st.typeURL, name) {
			st.denied = append(st.denied, name)
			continue
		}
		i := s.source(st, s.originOf(name))
		added, _ := st.wants[i].Add(now, name)
		n := added[0]
		if lists[i] = append(lists[i], n); listed[i] == nil {
			listed[i] = map[string]bool{}
		}
		listed[i][n.Name] = true
	}
	st.named = st.named || len(names) > 0
	if !st.named { // the legacy wildcard (WILD-2, 3)
		i := s.source(st, own)
		lists[i], _ = st.wants[i].Add(now, xds.Wildcard)
		listed[i] = map[string]bool{xds.Wildcard: true}
	}
	for i, list := range lists {
		st.Replace(i, list)
		for _, name := range st.wants[i].Names() {
			if !listed[i][name] {
				st.wants[i].Drop(now, name)
			}
		}
	}
}

func (s *statesStream) Turn(now time.Time, stopped bool) (sent []*message, did bool, err error) {
	switch {
	case s.ended != nil:
		s.leave(now)
		return nil, true, s.ended
	case stopped && len(s.stuck) > 0:
		return nil, false, nil
	}
	if len(s.stuck) == 0 {
		due := !s.again.IsZero() && !s.again.After(now)
		select {
		case <-s.mailbox.Wake():
			due = true
		default:
		}
		if !due {
			return nil, false, s.ended
		}
		s.write(now)
	}
	if !stopped {
		sent, s.stuck = s.stuck, nil
	}
	return sent, true, s.ended
}

// write makes what may be written now.
func (s *statesStream) write(now time.Time) {
	s.now = now
	if s.plan == nil {
		return
	}
	for _, st := range s.types {
		if len(st.denied) > 0 && s.joining.delta {
			slices.Sort(st.denied)
			s.send(now, st, &cursor.Answer{Removed: slices.Compact(st.denied)})
			st.denied = nil
		}
		for i, w := range st.wants {
			if xds.IsVirtualHost(st.typeURL) {
				for _, name := range w.Silent() {
					st.Silent(i, name)
				}
			}
		}
	}
	for range 4 {
		var asks []plan.Ask
		var targets []*state.Target
		for _, st := range s.types {
			asks = append(asks, st.Ask(s.cfg))
		}
		for _, g := range s.from {
			targets = append(targets, g.States().Target(state.Rest))
		}
		more := false
		s.again = s.plan.Next(now, targets, asks, func(step plan.Step) uint64 {
			i := slices.IndexFunc(s.types, func(st *statesType) bool { return st.typeURL == step.TypeURL })
			st := s.types[i]
			a := st.Take(now, step)
			if a == nil {
				return 0
			}
			more = more || a.More
			s.send(now, st, a)
			s.owe(step.TypeURL, a)
			return s.nonce
		})
		for _, st := range s.types {
			if at := st.Until(); at.After(now) && (s.again.IsZero() || at.Before(s.again)) {
				s.again = at
			}
		}
		if !more && !s.again.Equal(now) {
			break
		}
	}
}

// owe: what was sent is warmed by what comes after it.
func (s *statesStream) owe(typeURL string, a *cursor.Answer) {
	for _, st := range s.types {
		switch {
		case typeURL == xds.ClusterType && st.typeURL == xds.EndpointType:
			for _, v := range a.Changed {
				st.Owe(v.Name)
			}
		case typeURL == xds.RouteType && xds.IsVirtualHost(st.typeURL):
			st.OweHosts(func(name string) bool {
				return slices.ContainsFunc(a.Changed, func(v *xds.Variant) bool { return name == v.Name || strings.HasPrefix(name, v.Name+"/") })
			})
		}
	}
}

func (s *statesStream) send(now time.Time, st *statesType, a *cursor.Answer) {
	s.nonce++
	nonce := fmt.Sprintf("%p-%d", s, s.nonce)
	if !s.joining.delta {
		clear(st.told)
	}
	st.told[nonce] = told{s.nonce, a.Number}
	n := &sotwFields
	if s.joining.delta {
		n = &deltaFields
	}
	b := xds.AppendString(xds.AppendString(nil, n.typeURL, st.typeURL), n.version, cmp.Or(a.Version, xds.SetDigest{}.Version()))
	for _, e := range a.Errors {
		b = e.Append(b, n.errors)
	}
	plain, pairs := a.Pieces(now, nil)
	b = append(append(b, slices.Concat(plain...)...), slices.Concat(pairs...)...)
	for _, v := range a.Heartbeats {
		if ttl, ok := v.Remaining(now); ok {
			b = append(b, v.Heartbeat(s.joining.delta, ttl)...)
		}
	}
	b = append(b, slices.Concat(relay.UnresolvedFields(a.Unresolved, "")...)...)
	for _, name := range a.Removed {
		b = xds.AppendString(b, n.removed, name)
	}
	s.stuck = append(s.stuck, decodeBytes(s.core.tb, xds.AppendString(b, 5, nonce), s.joining.delta))
}

func (s *statesStream) Next() time.Time {
	if len(s.stuck) > 0 {
		return time.Time{}
	}
	return s.again
}

func (s *statesStream) Close(now time.Time) {
	if s.ended != nil {
		s.leave(now)
		return
	}
	s.ended = status.Error(codes.Canceled, "it is closed")
	for _, g := range s.groups {
		g.Release(now)
	}
	s.leave(now)
}

func (s *statesStream) leave(now time.Time) {
	for _, st := range s.types {
		for _, w := range st.wants {
			w.Close(now)
		}
		st.wants = nil
	}
}
