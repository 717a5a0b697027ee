package redteam

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	csds "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-xds/weir/relay/relaytest/seed"
)

// drawn is a request in which something that was drawn is repeated.
type drawn struct {
	name string
	to   victims
	thrown
}

// roots are the types of requests that weir decodes.
var roots = []struct {
	method string
	of     proto.Message
	to     victims
}{
	{sotwMethod, (*discovery.DiscoveryRequest)(nil), everybody},
	{deltaMethod, (*discovery.DeltaDiscoveryRequest)(nil), everybody},
	{loadMethod, (*loadstats.LoadStatsRequest)(nil), admitted},
	{statusMethod, (*csds.ClientStatusRequest)(nil), operators},
}

// draw is the nth draw of a seed.
func draw(seed, n uint64) drawn {
	rng := rand.New(rand.NewPCG(seed, n))
	root := roots[rng.IntN(len(roots))]
	path, leaf := walk(rng, root.of.ProtoReflect().Descriptor())
	element, kind := content(rng, leaf)
	size := []int{60 << 10, 250 << 10, 4 << 20, 28 << 20}[rng.IntN(4)]
	if root.to == operators {
		size = min(size, 1<<20)
	}
	// The elements are all in one message around them, or each in one of its own, which are merged.
	at := 1 + rng.IntN(len(path))
	unit := wrap(path[at-1:], element)
	body := wrap(path[:at-1], bytes.Repeat(unit, max(1, size/len(unit))))
	d := drawn{to: root.to, thrown: thrown{
		method: root.method, body: append(encode(methods[root.method]), body...), plain: rng.IntN(4) == 0,
		hello: root.method == loadMethod, patience: drawnPatience, streams: []int{1, 3, 20}[rng.IntN(3)], times: 1 + rng.IntN(3),
	}}
	if size > 4<<20 {
		d.streams = min(d.streams, 3) // it is the attacker's machine, too
	}
	d.name = fmt.Sprintf("%s %v at %d: %s, %d KiB, %d streams, %d times, plain %v",
		root.of.ProtoReflect().Descriptor().Name(), path, at, kind, len(d.body)>>10, d.streams, d.times, d.plain)
	return d
}

// walk draws a path of fields. leaf is the message at its end; nil: it is another kind of field.
func walk(rng *rand.Rand, d protoreflect.MessageDescriptor) (path []protowire.Number, leaf protoreflect.MessageDescriptor) {
	for {
		f := d.Fields().Get(rng.IntN(d.Fields().Len()))
		path = append(path, f.Number())
		d = f.Message()
		if d == nil || d.Fields().Len() == 0 || rng.IntN(3) == 0 || len(path) > 8 {
			return path, d
		}
	}
}

// content draws what is in the element.
func content(rng *rand.Rand, leaf protoreflect.MessageDescriptor) (b []byte, kind string) {
	switch rng.IntN(6) {
	case 0, 1:
		return nil, "empty"
	case 2:
		return []byte("some"), "text"
	case 3:
		return randomBytes(rng, 1+rng.IntN(20)), "noise"
	case 4:
		return field(protowire.Number(1+rng.IntN(2000)), nil), "an unknown field"
	}
	if leaf != nil {
		// all its fields at once, as far as they are messages or text
		for i := range leaf.Fields().Len() {
			if f := leaf.Fields().Get(i); f.Kind() == protoreflect.MessageKind || f.Kind() == protoreflect.StringKind {
				b = append(b, field(f.Number(), nil)...)
			}
		}
	}
	return b, "all fields"
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// drawnPatience is how long a stream of a draw waits for an answer: many ask for nothing.
const drawnPatience = 400 * time.Millisecond

func init() {
	attacks["drawn requests"] = func(ctx context.Context, a *attacker) error {
		for n := uint64(0); ctx.Err() == nil; n++ {
			a.throwDrawn(draw(a.Seed, n))
			a.add("draws", 1)
		}
		return ctx.Err()
	}
}

// throwDrawn throws one draw once on each stream.
func (a *attacker) throwDrawn(d drawn) {
	a.pack(d.thrown)
	ctx, cancel := context.WithTimeout(context.Background(), drawnPatience)
	defer cancel()
	var all sync.WaitGroup
	for _, address := range a.whom(d.to) {
		for range d.streams {
			all.Go(func() { a.throwOnce(ctx, address, d.thrown) })
		}
	}
	all.Wait()
}

// drawnSieges draw what is repeated in a request.
var drawnSieges = []siege{{name: "drawn requests", play: func(p *pod) string {
	s := seed.Of(p.T, 0)
	said := by("drawn requests", func(_ *pod, who *target) { who.Seed, who.For = s, 4*p.length })(p)
	for n := range uint64(20) { // whichever it was
		p.Logf("draw %d: %s", n, draw(s, n).name)
	}
	return fmt.Sprintf("seed %d; %s", s, said)
}}}
