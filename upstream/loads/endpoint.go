package loads

import (
	"bytes"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/proto"
)

// endpoint has the sums of an endpoint. progress is a gauge.
type endpoint struct {
	address, metadata         []byte // encoded; nil: not set
	successes, errors, issued uint64
	progress                  uint64
	metrics                   map[string]*metric // nil: none
}

func (s *Sums) addEndpoint(from *Reporter, l *locality, b []byte) {
	var sum endpoint // the numbers and messages of the report; they share its bytes
	metrics := false
	for f := xds.Walk(b); f.Next(); {
		switch {
		case f.IsBytes(1):
			sum.address = xds.Merged(sum.address, f.Bytes)
		case f.IsVarint(2):
			sum.successes = f.Value
		case f.IsVarint(3):
			sum.progress = f.Value
		case f.IsVarint(4):
			sum.errors = f.Value
		case f.IsBytes(5):
			metrics = true
		case f.IsBytes(6):
			sum.metadata = xds.Merged(sum.metadata, f.Bytes)
		case f.IsVarint(7):
			sum.issued = f.Value
		}
	}
	e := s.endpoint(l, sum.address)
	if e == nil {
		return
	}
	if sum.metadata != nil && (e.metadata == nil || !bytes.Equal(e.metadata, sum.metadata)) {
		s.setMetadata(e, sum.metadata)
	}
	e.successes += sum.successes
	e.errors += sum.errors
	e.issued += sum.issued
	from.stands(&e.progress, sum.progress)
	if !metrics {
		return
	}
	for f := xds.Walk(b); f.Next(); {
		if f.IsBytes(5) {
			s.addMetric(&e.metrics, f.Bytes)
		}
	}
}

// setMetadata copies what the last report says of an endpoint. If there is no room for it, the
// endpoint has none.
func (s *Sums) setMetadata(e *endpoint, metadata []byte) {
	s.size -= units(len(e.metadata)) - 1
	e.metadata = nil
	if extra := units(len(metadata)) - 1; s.size+extra <= Most {
		s.size += extra
		e.metadata = append([]byte{}, metadata...)
	}
}

// endpoint returns the endpoint to add to; nil: there is no room for it. Its key is the canonical
// encoding of its address, so that equal addresses are one endpoint. Clients nearly always send
// that encoding, so the bytes of the report are tried first.
func (s *Sums) endpoint(l *locality, address []byte) *endpoint {
	if e := l.endpoints[string(address)]; e != nil {
		return e
	}
	key := canonical(address)
	e := l.endpoints[key]
	if e == nil && s.room(2*len(key)) {
		e = &endpoint{}
		if address != nil {
			e.address = []byte(key)
		}
		if l.endpoints == nil {
			l.endpoints = map[string]*endpoint{}
		}
		l.endpoints[key] = e
	}
	return e
}

// canonical returns the same text for equal addresses.
func canonical(address []byte) string {
	a := &corev3.Address{}
	if err := proto.Unmarshal(address, a); err != nil {
		return "" // cannot happen: Read has refused it
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(a)
	if err != nil {
		return "" // cannot happen: it was decoded from the wire
	}
	return string(b)
}
