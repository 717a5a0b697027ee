package main

import (
	"errors"
	"io"
	"strconv"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// bare is the yardstick: what grpc-go itself costs when the server knows nothing of xDS but
// subscriptions and nonces. Responses are encoded once and shared by all clients; only the nonce is
// a client's own.
//
// It serves what a fleet asks for and nothing else. The first request of a stream subscribes, to
// everything or to names. Further requests are taken for ACKs: read, counted and dropped. No
// response waits for the ACK of another. Changes that a client was not sent yet are merged, so a
// slow client costs no more than the resources that it wants.
type bare struct {
	world.Counter
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	world *world.World

	// Guards what follows; held for map work, and while a body is built; taken before that of a
	// mailbox.
	mu     sync.Mutex
	pieces []piece
	whole  [2][]byte               // everything, by dialect; nil: has to be built
	all    map[*mailbox]struct{}   // clients of everything
	named  []map[*mailbox]struct{} // clients of one resource, by its index
}

// piece is one resource as a `resources` field, by dialect. The bytes never change.
type piece [2][]byte

// The dialects.
const (
	sotw = iota
	delta
)

func newBare(w *world.World) *bare {
	b := &bare{
		world: w, pieces: make([]piece, w.Len()),
		all: map[*mailbox]struct{}{}, named: make([]map[*mailbox]struct{}, w.Len()),
	}
	for i := range b.pieces {
		b.pieces[i] = b.encode(i, world.Stamp(0))
	}
	return b
}

// Change implements world.Plane.
func (b *bare) Change(indices []int, s world.Stamp) error {
	fresh := make([]piece, len(indices))
	for n, i := range indices {
		fresh[n] = b.encode(i, s)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.whole = [2][]byte{}
	for n, i := range indices {
		b.pieces[i] = fresh[n]
		for m := range b.named[i] {
			m.put(i, fresh[n][m.dialect])
		}
	}
	for m := range b.all {
		if m.dialect == sotw {
			m.put(everything, b.wholeList(sotw))
			continue
		}
		for n, i := range indices {
			m.put(i, fresh[n][delta])
		}
	}
	return nil
}

// encode returns both forms of a resource. In delta its version is the stamp.
func (b *bare) encode(i int, s world.Stamp) piece {
	body := appendBytes(nil, 1, []byte(b.world.Kind().TypeURL())) // google.protobuf.Any
	body = appendBytes(body, 2, b.world.Encode(i, s))
	inner := appendBytes(appendBytes(nil, 3, []byte(world.Name(i))), 1, []byte(s.Digits()))
	return piece{sotw: appendBytes(nil, 2, body), delta: appendBytes(nil, 2, appendBytes(inner, 2, body))}
}

func appendBytes(to []byte, field protowire.Number, data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), data)
}

// wholeList returns one body for all clients of everything.
func (b *bare) wholeList(dialect int) []byte {
	if b.whole[dialect] != nil {
		return b.whole[dialect]
	}
	size := 0
	for _, p := range b.pieces {
		size += len(p[dialect])
	}
	body := make([]byte, 0, size)
	for _, p := range b.pieces {
		body = append(body, p[dialect]...)
	}
	b.whole[dialect] = body
	return body
}

// join subscribes a stream. Its mailbox then has all that it asked for.
func (b *bare) join(m *mailbox, names []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(names) == 0 || len(names) == 1 && names[0] == "*" {
		b.all[m] = struct{}{}
		m.put(everything, b.wholeList(m.dialect))
		return nil
	}
	for _, name := range names {
		i, ok := b.world.Index(name)
		if !ok {
			return status.Errorf(codes.Unimplemented, "there is no %q, and the yardstick knows no absence", name)
		}
		if b.named[i] == nil {
			b.named[i] = map[*mailbox]struct{}{}
		}
		b.named[i][m] = struct{}{}
		m.put(i, b.pieces[i][m.dialect])
	}
	return nil
}

func (b *bare) leave(m *mailbox, names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, m)
	for _, name := range names {
		if i, ok := b.world.Index(name); ok {
			delete(b.named[i], m)
		}
	}
}

// StreamAggregatedResources implements the service.
func (b *bare) StreamAggregatedResources(wire discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return b.serve(wire, sotw)
}

// DeltaAggregatedResources implements the service.
func (b *bare) DeltaAggregatedResources(wire discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return b.serve(wire, delta)
}

// serve serves one stream: this goroutine reads, and another one writes.
func (b *bare) serve(wire grpc.ServerStream, dialect int) error {
	first := &rawRequest{}
	if err := wire.RecvMsg(first); err != nil {
		return err
	}
	typeURL, names, err := first.subscription(dialect)
	if err != nil {
		return err
	}
	if typeURL != b.world.Kind().TypeURL() {
		return status.Errorf(codes.Unimplemented, "the yardstick has %s only, and was asked for %q", b.world.Kind(), typeURL)
	}
	b.Streams.Add(1)
	b.Names.Add(int64(len(names)))
	m := &mailbox{dialect: dialect, wake: make(chan struct{}, 1)}
	defer b.leave(m, names)
	if err := b.join(m, names); err != nil {
		return err
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go b.write(wire, m, quit, done)
	for err == nil {
		err = wire.RecvMsg(dropped{})
	}
	close(quit)
	<-done
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// write sends what is put into the mailbox.
func (b *bare) write(wire grpc.ServerStream, m *mailbox, quit <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	head := mem.SliceBuffer(appendBytes(nil, 4, []byte(b.world.Kind().TypeURL())))
	for nonce := uint64(0); ; {
		select {
		case <-quit:
			return
		case <-m.wake:
		}
		body := m.take(append(make(mem.BufferSlice, 0, 3), head))
		if len(body) == 1 {
			continue // it was taken with the last wake-up
		}
		nonce++
		number := strconv.AppendUint(make([]byte, 0, 20), nonce, 10)
		tail := appendBytes(make([]byte, 0, 44), 5, number)
		if m.dialect == sotw {
			tail = appendBytes(tail, 1, number) // version_info, which nothing compares here
		}
		if wire.SendMsg(append(body, mem.SliceBuffer(tail))) != nil {
			return
		}
	}
}
