package relaytest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Stream is one stream an Origin received. What is sent on it is queued and written in order by one
// goroutine, so sending never waits, even for a peer that does not read.
type Stream struct {
	// Set once when the stream is opened.
	N        int // the origin's count of streams, from 1
	Method   string
	Dialect  Dialect
	Metadata metadata.MD
	At       time.Time
	Refused  bool // ended at once by Refuse
	origin   *Origin
	wire     grpc.ServerStream
	wake     chan struct{} // one slot: something was queued
	done     chan struct{} // closed when the stream has ended at the origin

	// Guarded by Origin.mu.
	seen     bool // an expectation has taken it
	ended    bool
	err      error
	queue    []outgoing
	requests []*Request
	sent     []proto.Message
	nonces   int
	subs     map[string]*subscription // by type URL; serving only
	located  map[string]*located      // by type URL; serving with TP2 only
	tally    map[string]*tally        // by type URL
}

// outgoing is one step of the writer: wait, then end the stream or send.
type outgoing struct {
	pause time.Duration
	msg   any // proto.Message or []byte
	end   bool
	err   error // with end
}

// Send sends a DiscoveryResponse or DeltaDiscoveryResponse as it is. The message must not be
// modified afterwards.
func (s *Stream) Send(m proto.Message) {
	s.origin.mu.Lock()
	defer s.origin.mu.Unlock()
	s.sent = append(s.sent, m)
	s.push(outgoing{msg: m})
}

// SendRaw sends b as one gRPC message, whatever it is.
func (s *Stream) SendRaw(b []byte) {
	s.origin.mu.Lock()
	defer s.origin.mu.Unlock()
	s.push(outgoing{msg: b})
}

// Respond sends resources of one type as a well-formed response of the stream's dialect and returns
// its nonce. version is the version_info in SotW, the system_version_info in delta.
func (s *Stream) Respond(typeURL, version string, resources ...Resource) (nonce string) {
	s.origin.mu.Lock()
	defer s.origin.mu.Unlock()
	return s.respond(typeURL, version, pointers(resources), removal{}, 0)
}

// RespondRemoved sends a delta response that removes names and returns its nonce. It panics on a
// SotW stream, where removals are not stated.
func (s *Stream) RespondRemoved(typeURL, version string, names ...string) (nonce string) {
	if s.Dialect != Delta {
		panic("relaytest: a SotW stream cannot state removals")
	}
	s.origin.mu.Lock()
	defer s.origin.mu.Unlock()
	return s.respond(typeURL, version, nil, removal{names: names}, 0)
}

// RespondReplaced sends a delta response that removes variants by their constraints (DYN-14) and
// brings resources, and returns its nonce. It panics on a SotW stream.
func (s *Stream) RespondReplaced(typeURL, version string, gone []*discovery.ResourceName, resources ...Resource) (nonce string) {
	if s.Dialect != Delta {
		panic("relaytest: a SotW stream cannot state removals")
	}
	s.origin.mu.Lock()
	defer s.origin.mu.Unlock()
	return s.respond(typeURL, version, pointers(resources), removal{variants: gone}, 0)
}

func pointers(resources []Resource) (all []*Resource) {
	for i := range resources {
		all = append(all, &resources[i])
	}
	return all
}

// VariantName is a name with constraints, as removals and errors have it.
func VariantName(name string, c *Constraints) *discovery.ResourceName {
	return &discovery.ResourceName{Name: name, DynamicParameterConstraints: c}
}

// End ends the stream after what was sent before, with err (use status.Error) or, if nil, with OK.
func (s *Stream) End(err error) {
	s.origin.mu.Lock()
	defer s.origin.mu.Unlock()
	s.push(outgoing{end: true, err: err})
}

// Done is closed once the stream has ended at the origin, for whatever reason.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Err is what the stream ended with as the origin saw it: what End or Refuse gave, or a CANCELLED
// status if the client or the connection went. Nil while open.
func (s *Stream) Err() error {
	return locked(&s.origin.mu, func() error { return s.err })
}

// Requests are the requests received so far on this stream.
func (s *Stream) Requests() []*Request {
	return locked(&s.origin.mu, func() []*Request { return slices.Clone(s.requests) })
}

// Sent are the responses queued so far on this stream, in order; raw ones excepted. Do not modify
// them.
func (s *Stream) Sent() []proto.Message {
	return locked(&s.origin.mu, func() []proto.Message { return slices.Clone(s.sent) })
}

// removal is what a delta response removes, by either field.
type removal struct {
	names    []string
	variants []*discovery.ResourceName
}

// respond builds, records and queues one response, to be written after pause.
func (s *Stream) respond(typeURL, version string, rs []*Resource, gone removal, pause time.Duration) string {
	s.nonces++
	nonce := fmt.Sprintf("s%d-%d", s.N, s.nonces)
	cp := &core.ControlPlane{Identifier: cmp.Or(s.origin.board.behaviour.Identifier, "relaytest")}
	var m proto.Message
	if s.Dialect == SotW {
		d := &discovery.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: version, Nonce: nonce, ControlPlane: cp}
		for _, r := range rs {
			d.Resources = append(d.Resources, r.sotw())
		}
		m = d
	} else {
		d := &discovery.DeltaDiscoveryResponse{
			TypeUrl: typeURL, SystemVersionInfo: version, Nonce: nonce, ControlPlane: cp,
			RemovedResources: gone.names, RemovedResourceNames: gone.variants,
		}
		for _, r := range rs {
			d.Resources = append(d.Resources, r.delta())
		}
		m = d
	}
	s.sent = append(s.sent, m)
	s.push(outgoing{msg: m, pause: pause})
	return nonce
}

func (s *Stream) push(out outgoing) {
	if s.ended {
		return
	}
	s.queue = append(s.queue, out)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// read records requests until the stream ends. A client that half-closes has its stream ended with
// OK.
func (s *Stream) read() {
	for {
		var raw []byte
		err := s.wire.RecvMsg(&raw)
		if errors.Is(err, io.EOF) {
			s.End(nil)
		}
		if err != nil {
			return
		}
		s.origin.record(s, raw)
	}
}

// write sends what is queued until the stream ends, and returns the status it ends with.
func (s *Stream) write() error {
	ctx := s.wire.Context()
	for {
		out, ok := s.pop()
		if !ok {
			select {
			case <-s.wake:
				continue
			case <-ctx.Done():
				return status.FromContextError(ctx.Err()).Err()
			}
		}
		if out.pause > 0 {
			select {
			case <-time.After(out.pause):
			case <-ctx.Done():
				return status.FromContextError(ctx.Err()).Err()
			}
		}
		if out.end {
			return out.err
		}
		if err := s.wire.SendMsg(out.msg); err != nil {
			return err
		}
	}
}

func (s *Stream) pop() (outgoing, bool) {
	s.origin.mu.Lock()
	defer s.origin.mu.Unlock()
	if len(s.queue) == 0 {
		return outgoing{}, false
	}
	out := s.queue[0]
	s.queue = s.queue[1:]
	return out, true
}
