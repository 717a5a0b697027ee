package farm

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/cmd/weirload/world"
	"github.com/weir-xds/weir/relay/xds"
)

// origin is the control plane: it sends each change to each of its streams.
type origin struct {
	endpoint
	stamps  []world.Stamp // by resource
	streams []*stream
}

func newOrigin(m *sim) *origin {
	o := &origin{endpoint: m.endpoint(0), stamps: make([]world.Stamp, m.cfg.Resources)}
	for i := range o.stamps {
		o.stamps[i] = 1
	}
	return o
}

// change gives a resource a stamp and sends it.
func (o *origin) change(i int, s world.Stamp) {
	o.stamps[i] = s
	raw := o.response([]int{i})
	for _, s := range o.streams {
		if !s.ended {
			o.cpu.submit(&answering{o, s, raw})
		}
	}
}

// requested implements server: everything that the client does not hold in its present version.
func (o *origin) requested(s *stream) {
	o.streams = append(o.streams, s)
	s.client.entered()
	var all []int
	for i, stamp := range o.stamps {
		if s.initial[world.Name(i)] != stamp.Digits() {
			all = append(all, i)
		}
	}
	o.cpu.submit(&answering{o, s, o.response(all)})
}

func (o *origin) acked(*stream) {}
func (o *origin) left(s *stream) {
	s.ended = true
}

// response is a delta response with resources, where the version of each is its stamp.
func (o *origin) response(indices []int) []byte {
	clusters := world.Clusters.TypeURL()
	b := xds.AppendString(nil, 1, "1")
	for _, i := range indices {
		stamp := o.stamps[i]
		body := xds.AppendString(nil, 1, clusters)
		body = protowire.AppendBytes(protowire.AppendTag(body, 2, protowire.BytesType), o.sim.library.world.Encode(i, stamp))
		one := xds.AppendString(xds.AppendString(nil, xds.FieldVersion, stamp.Digits()), xds.FieldName, world.Name(i))
		one = protowire.AppendBytes(protowire.AppendTag(one, xds.FieldPayload, protowire.BytesType), body)
		b = protowire.AppendBytes(protowire.AppendTag(b, xds.FieldResources, protowire.BytesType), one)
	}
	return xds.AppendString(xds.AppendString(b, 4, clusters), 5, "1")
}

// answering is the task of sending a response.
type answering struct {
	origin *origin
	stream *stream
	raw    []byte
}

func (t *answering) begin() time.Duration {
	c := &t.origin.sim.cfg.Costs
	return c.Delivery.duration() + c.KiB.of(len(t.raw))
}

func (t *answering) finish() {
	t.origin.down.send(t.stream, packet{kind: response, size: len(t.raw), content: &content{raw: t.raw}})
}
