package loads

import (
	"errors"
	"sync"
	"unicode/utf8"

	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Report is a client's report in wire format, an encoded LoadStatsRequest that Read has accepted.
type Report struct{ wire []byte }

// Read accepts a report if the protobuf library would. It makes no messages, since a thousand
// reports a second have to be added (FuzzReport, BenchmarkAdd). The report shares wire.
func Read(wire []byte) (Report, error) {
	if err := reportShape().check(wire, protowire.DefaultRecursionLimit); err != nil {
		return Report{}, err
	}
	return Report{wire}, nil
}

// Why a report does not decode, in addition to the errors of xds.Fields.
var (
	errUTF8  = errors.New("a string is not UTF-8")
	errDepth = errors.New("messages are nested too deeply")
)

// shape has the fields of a message type that decide whether bytes are valid: strings and messages.
// No type in a report has a list of numbers, which might be packed (TestNoListsOfNumbers).
type shape struct{ fields []content } // by number

// content is the type of a field.
type content struct {
	text bool   // a string
	of   *shape // a message
}

var reportShape = sync.OnceValue(func() *shape {
	return shapeOf((&loadstats.LoadStatsRequest{}).ProtoReflect().Descriptor(), map[protoreflect.FullName]*shape{})
})

// shapeOf returns the shape of a message type. known has those that are made or being made, since
// types may contain themselves.
func shapeOf(d protoreflect.MessageDescriptor, known map[protoreflect.FullName]*shape) *shape {
	if s := known[d.FullName()]; s != nil {
		return s
	}
	s := &shape{}
	known[d.FullName()] = s
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		c := content{text: f.Kind() == protoreflect.StringKind}
		if f.Kind() == protoreflect.MessageKind {
			c.of = shapeOf(f.Message(), known)
		}
		if n := int(f.Number()) + 1; n > len(s.fields) {
			s.fields = append(s.fields, make([]content, n-len(s.fields))...)
		}
		s.fields[f.Number()] = c
	}
	return s
}

// check validates a message as the protobuf library does. A field with an unexpected wire type
// counts as unknown. depth is how deeply messages may still be nested.
func (s *shape) check(b []byte, depth int) error {
	if depth--; depth < 0 {
		return errDepth
	}
	f := xds.Walk(b)
	for f.Next() {
		if f.Bytes == nil || int(f.Number) >= len(s.fields) {
			continue
		}
		switch c := &s.fields[f.Number]; {
		case c.text && !utf8.Valid(f.Bytes):
			return errUTF8
		case c.of != nil:
			if err := c.of.check(f.Bytes, depth); err != nil {
				return err
			}
		}
	}
	return f.Err()
}
