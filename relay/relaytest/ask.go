package relaytest

import (
	"cmp"
	"maps"
	"slices"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// Request asks for exactly these names of the type, and for nothing else of it; none at all is the
// legacy wildcard if it comes first. In SotW that is one request with the last nonce and the last
// accepted version; in delta the difference to what is subscribed now.
func (c *Client) Request(typeURL string, names ...string) {
	c.tb.Helper()
	c.RequestBoth(typeURL, names)
}

// RequestBoth is Request with locators beside the names.
func (c *Client) RequestBoth(typeURL string, names []string, ls ...*discovery.ResourceLocator) {
	c.tb.Helper()
	c.ask(func(s *State) proto.Message {
		t := s.of(typeURL)
		wanted := locatorSet(ls)
		if c.cfg.Dialect == SotW {
			return t.request(typeURL, names, wanted)
		}
		r := &discovery.DeltaDiscoveryRequest{TypeUrl: typeURL}
		for _, name := range names {
			if !t.names[name] {
				r.ResourceNamesSubscribe = append(r.ResourceNamesSubscribe, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(t.names)) {
			if !slices.Contains(names, name) {
				r.ResourceNamesUnsubscribe = append(r.ResourceNamesUnsubscribe, name)
			}
		}
		r.ResourceLocatorsSubscribe = wanted.without(t.locators).list()
		r.ResourceLocatorsUnsubscribe = t.locators.without(wanted).list()
		return r
	})
}

// Subscribe adds names of the type; none at all is the legacy wildcard if it comes first. In SotW
// the whole list is sent.
func (c *Client) Subscribe(typeURL string, names ...string) {
	c.tb.Helper()
	c.SubscribeBoth(typeURL, names)
}

// SubscribeBoth is Subscribe with locators beside the names.
func (c *Client) SubscribeBoth(typeURL string, names []string, ls ...*discovery.ResourceLocator) {
	c.tb.Helper()
	c.ask(func(s *State) proto.Message {
		t := s.of(typeURL)
		if c.cfg.Dialect == Delta {
			return &discovery.DeltaDiscoveryRequest{
				TypeUrl: typeURL, ResourceNamesSubscribe: names, ResourceLocatorsSubscribe: locatorSet(ls).list(),
			}
		}
		all, allAt := maps.Clone(t.names), maps.Clone(t.locators)
		for _, name := range names {
			all[name] = true
		}
		maps.Copy(allAt, locatorSet(ls))
		return t.request(typeURL, slices.Sorted(maps.Keys(all)), allAt)
	})
}

// Unsubscribe takes names back. In SotW the remaining list is sent.
func (c *Client) Unsubscribe(typeURL string, names ...string) {
	c.tb.Helper()
	c.UnsubscribeBoth(typeURL, names)
}

// UnsubscribeBoth is Unsubscribe with locators beside the names.
func (c *Client) UnsubscribeBoth(typeURL string, names []string, ls ...*discovery.ResourceLocator) {
	c.tb.Helper()
	c.ask(func(s *State) proto.Message {
		t := s.of(typeURL)
		if c.cfg.Dialect == Delta {
			return &discovery.DeltaDiscoveryRequest{
				TypeUrl: typeURL, ResourceNamesUnsubscribe: names, ResourceLocatorsUnsubscribe: locatorSet(ls).list(),
			}
		}
		rest := maps.Clone(t.names)
		for _, name := range names {
			delete(rest, name)
		}
		return t.request(typeURL, slices.Sorted(maps.Keys(rest)), t.locators.without(locatorSet(ls)))
	})
}

// SubscribeWith is a delta Subscribe that states the versions the client holds, by name: for the
// first request of a type on a stream.
func (c *Client) SubscribeWith(typeURL string, initial map[string]string, names ...string) {
	c.tb.Helper()
	c.ask(func(*State) proto.Message {
		return &discovery.DeltaDiscoveryRequest{
			TypeUrl: typeURL, ResourceNamesSubscribe: names, InitialResourceVersions: initial,
		}
	})
}

// Resume asks on a new stream for what was asked on the one before: in delta with the versions
// held, in SotW with the last accepted version_info.
func (c *Client) Resume(typeURL string) {
	c.tb.Helper()
	c.ask(func(s *State) proto.Message {
		t := s.of(typeURL)
		names := slices.Sorted(maps.Keys(t.before))
		if c.cfg.Dialect == SotW {
			return t.request(typeURL, names, t.beforeAt)
		}
		return &discovery.DeltaDiscoveryRequest{
			TypeUrl: typeURL, ResourceNamesSubscribe: names, ResourceLocatorsSubscribe: t.beforeAt.list(),
			InitialResourceVersions: s.plainlyHeld(typeURL),
		}
	})
}

// Send sends any DiscoveryRequest or DeltaDiscoveryRequest; only the node of Open is added if it
// was not sent yet and the message has none. The subscriptions are tracked all the same.
func (c *Client) Send(m proto.Message) {
	c.tb.Helper()
	c.ask(func(*State) proto.Message { return m })
}

// SendRaw sends b as one gRPC message, whatever it is. Nothing is tracked.
func (c *Client) SendRaw(b []byte) {
	c.tb.Helper()
	c.sending.Lock()
	defer c.sending.Unlock()
	wire := c.current()
	if wire == nil {
		c.tb.Fatal("the client has no open stream")
	}
	_ = wire.SendMsg(b) // an ended stream shows in Err
}

// ACK accepts the oldest unanswered response of the type. It fails the test if there is none.
func (c *Client) ACK(typeURL string) {
	c.tb.Helper()
	c.answer(c.unanswered(typeURL)[0], "")
}

// NACK rejects the newest unanswered response of the type and takes its content out of the state.
// It fails the test if there is none.
func (c *Client) NACK(typeURL, message string) {
	c.tb.Helper()
	rs := c.unanswered(typeURL)
	r := rs[len(rs)-1]
	c.Look(func(s *State) { s.of(typeURL).revert(r) })
	c.answer(r, message)
}

// unanswered are the unanswered responses of the type, oldest first, at least one.
func (c *Client) unanswered(typeURL string) []*Response {
	c.tb.Helper()
	rs := look(c, func(s *State) []*Response { return slices.Clone(s.of(typeURL).unanswered) })
	if len(rs) == 0 {
		c.tb.Fatalf("no %s response is unanswered", shortType(typeURL))
	}
	return rs
}

// answer sends an ACK, or a NACK if there is a message. Responses without a nonce cannot be
// answered.
func (c *Client) answer(r *Response, message string) {
	if r.Nonce() == "" {
		return
	}
	var detail *spb.Status
	if message != "" {
		detail = &spb.Status{Code: int32(codes.InvalidArgument), Message: message}
	}
	c.post(func(s *State) proto.Message {
		t := s.of(r.TypeURL())
		t.settle(r, detail == nil)
		if c.cfg.Dialect == Delta {
			return &discovery.DeltaDiscoveryRequest{TypeUrl: r.TypeURL(), ResponseNonce: r.Nonce(), ErrorDetail: detail}
		}
		m := t.request(r.TypeURL(), slices.Sorted(maps.Keys(t.names)), t.locators)
		m.ResponseNonce, m.ErrorDetail = r.Nonce(), detail
		return m
	})
}

// ask is post for the test's goroutine: without a stream the test ends.
func (c *Client) ask(build func(*State) proto.Message) {
	c.tb.Helper()
	if !c.post(build) {
		c.tb.Fatal("the client has no open stream")
	}
}

// post builds a request from the state, notes what it asks for and sends it; false without a
// stream. Sends fail silently on an ended stream, whose status the reader gets.
func (c *Client) post(build func(*State) proto.Message) bool {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	wire := c.wire
	if wire == nil {
		c.mu.Unlock()
		return false
	}
	m := c.introduce(build(&c.state))
	c.state.note(m)
	c.mu.Unlock()
	c.changed.raise()
	_ = wire.SendMsg(m)
	return true
}

// introduce adds the node to the first request of the stream. The message is copied, since the test
// may send it again.
func (c *Client) introduce(m proto.Message) proto.Message {
	if c.node == nil {
		return m
	}
	node := c.node
	c.node = nil
	m = proto.Clone(m)
	switch m := m.(type) {
	case *discovery.DiscoveryRequest:
		m.Node = cmp.Or(m.Node, node)
	case *discovery.DeltaDiscoveryRequest:
		m.Node = cmp.Or(m.Node, node)
	}
	return m
}
