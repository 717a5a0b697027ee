package loads

import (
	"bytes"
	"math"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay/xds"
)

// Add adds a client's report. from is nil for a client that has left, whose gauges do not count.
// lost is the number of requests that were not added because of Most. It allocates nothing for what
// the sums have already (BenchmarkAdd).
//
// It reads fields as the protobuf library does: the last value of a number or a string counts, and
// the parts of a message that occurs more than once are merged.
func (s *Sums) Add(from *Reporter, report Report) (lost uint64) {
	if from != nil {
		s.Leave(from)
	}
	for f := xds.Walk(report.wire); f.Next(); {
		if f.IsBytes(2) {
			lost += s.addCluster(from, f.Bytes)
		}
	}
	return lost
}

func (s *Sums) addCluster(from *Reporter, b []byte) (lost uint64) {
	var name, service []byte
	var dropped uint64
	for f := xds.Walk(b); f.Next(); {
		switch {
		case f.IsBytes(1):
			name = f.Bytes
		case f.IsBytes(6):
			service = f.Bytes
		case f.IsVarint(3):
			dropped = f.Value
		}
	}
	c := s.clusters[clusterKey{string(name), string(service)}]
	if c == nil {
		if !s.room(len(name) + len(service)) {
			return dropped + issuedIn(b)
		}
		c = &cluster{localities: map[localityKey]*locality{}}
		s.clusters[clusterKey{string(name), string(service)}] = c
	}
	c.dropped += dropped
	for f := xds.Walk(b); f.Next(); {
		switch {
		case f.IsBytes(2):
			lost += s.addLocality(from, c, f.Bytes)
		case f.IsBytes(5):
			s.addMetric(&c.drops, f.Bytes) // of the same form
		}
	}
	return lost
}

// issuedIn returns the number of requests issued in a cluster.
func issuedIn(b []byte) (n uint64) {
	for f := xds.Walk(b); f.Next(); {
		if f.IsBytes(2) {
			n += number(f.Bytes, issued)
		}
	}
	return n
}

// number returns the value of a number field of a message.
func number(b []byte, of protowire.Number) (n uint64) {
	for f := xds.Walk(b); f.Next(); {
		if f.IsVarint(of) {
			n = f.Value
		}
	}
	return n
}

// place says which locality numbers belong to. Its strings share the report.
type place struct {
	named                 bool
	region, zone, subZone []byte
	priority              uint32
}

func (p *place) read(b []byte) {
	p.named = true
	for f := xds.Walk(b); f.Next(); {
		switch {
		case f.IsBytes(1):
			p.region = f.Bytes
		case f.IsBytes(2):
			p.zone = f.Bytes
		case f.IsBytes(3):
			p.subZone = f.Bytes
		}
	}
}

func (s *Sums) addLocality(from *Reporter, c *cluster, b []byte) (lost uint64) {
	var at place
	var sum locality // the report's numbers; messages are read below
	messages := false
	for f := xds.Walk(b); f.Next(); {
		switch {
		case f.IsBytes(1):
			at.read(f.Bytes)
		case f.IsVarint(6):
			at.priority = uint32(f.Value)
		case f.Type == protowire.VarintType && int(f.Number) < len(sum.counts):
			sum.counts[f.Number] = f.Value
		case f.IsBytes(12):
			sum.cpu.read(f.Bytes)
		case f.IsBytes(13):
			sum.memory.read(f.Bytes)
		case f.IsBytes(14):
			sum.application.read(f.Bytes)
		case f.IsBytes(5), f.IsBytes(7):
			messages = true
		}
	}
	l := s.locality(c, &at)
	if l == nil {
		return sum.counts[issued]
	}
	l.add(from, &sum)
	if !messages {
		return 0
	}
	for f := xds.Walk(b); f.Next(); {
		switch {
		case f.IsBytes(5):
			s.addMetric(&l.metrics, f.Bytes)
		case f.IsBytes(7):
			s.addEndpoint(from, l, f.Bytes)
		}
	}
	return 0
}

// locality returns the locality to add to; nil: there is no room for it.
func (s *Sums) locality(c *cluster, at *place) *locality {
	l := c.localities[localityKey{string(at.region), string(at.zone), string(at.subZone), at.priority}]
	if l == nil && s.room(len(at.region)+len(at.zone)+len(at.subZone)) {
		l = &locality{named: at.named}
		c.localities[localityKey{string(at.region), string(at.zone), string(at.subZone), at.priority}] = l
	}
	return l
}

// add adds all numbers except those of named metrics and of endpoints.
func (l *locality) add(from *Reporter, sum *locality) {
	l.counts.add(from, &sum.counts)
	l.cpu.add(&sum.cpu)
	l.memory.add(&sum.memory)
	l.application.add(&sum.application)
}

func (n *counts) add(from *Reporter, more *counts) {
	for field, x := range more {
		if isGauge(field) {
			from.stands(&n[field], x)
		} else {
			n[field] += x
		}
	}
}

func (u *utilization) read(b []byte) {
	u.known = true
	u.metric.read(b, 1)
}

func (u *utilization) add(more *utilization) {
	u.known = u.known || more.known
	u.finished += more.finished
	u.value += more.value
}

// read reads a metric's two numbers, whose fields follow each other, and returns its name, which is
// field 1, if it has one.
func (m *metric) read(b []byte, first protowire.Number) (name []byte) {
	for f := xds.Walk(b); f.Next(); {
		switch {
		case f.IsVarint(first):
			m.finished = f.Value
		case f.Number == first+1 && f.Type == protowire.Fixed64Type:
			m.value = math.Float64frombits(f.Value)
		case f.IsBytes(1):
			name = f.Bytes
		}
	}
	return name
}

func (s *Sums) addMetric(to *map[string]*metric, b []byte) {
	var m metric
	name := m.read(b, 2)
	sum := (*to)[string(name)]
	if sum == nil {
		if !s.room(len(name)) {
			return
		}
		if *to == nil {
			*to = map[string]*metric{}
		}
		sum = &metric{}
		(*to)[string(name)] = sum
	}
	sum.finished += m.finished
	sum.value += m.value
}

// stands adds a client's share of a gauge.
func (r *Reporter) stands(of *uint64, n uint64) {
	if r == nil || n == 0 {
		return
	}
	*of += n
	r.gauges = append(r.gauges, gauge{of, n})
}

// endpoint has the sums of an endpoint.
type endpoint struct {
	address, metadata []byte // encoded; nil: not set
	counts            counts
	metrics           map[string]*metric // nil: none
}

func (s *Sums) addEndpoint(from *Reporter, l *locality, b []byte) {
	var sum endpoint // the numbers and messages of the report; they share its bytes
	metrics := false
	for f := xds.Walk(b); f.Next(); {
		switch {
		case f.IsBytes(1):
			sum.address = xds.Merged(sum.address, f.Bytes)
		case f.Type == protowire.VarintType && int(f.Number) < len(sum.counts):
			sum.counts[f.Number] = f.Value
		case f.IsBytes(5):
			metrics = true
		case f.IsBytes(6):
			sum.metadata = xds.Merged(sum.metadata, f.Bytes)
		}
	}
	e := s.endpoint(l, sum.address)
	if e == nil {
		return
	}
	if sum.metadata != nil && (e.metadata == nil || !bytes.Equal(e.metadata, sum.metadata)) {
		s.setMetadata(e, sum.metadata)
	}
	e.counts.add(from, &sum.counts)
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
