package xds

import (
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// shape is what a decoded message of one type needs.
type shape struct {
	size  int  // of the message itself, in bytes
	isAny bool // it is google.protobuf.Any
	// flat: no message in it is nested without a bound, since its types do not contain one another,
	// nor a google.protobuf.Any.
	flat  bool
	parts []*part // by number, up to lastPart; nil: unknown
	rest  map[protowire.Number]*part
}

// part is what a field of a message needs.
type part struct {
	each    int    // for each occurrence, in bytes, besides its content
	packed  int    // for each byte of packed numbers; 0: they are no numbers
	message *shape // nil: it is none
}

// lastPart is the highest number of a field that is found by index.
const lastPart = 63

// Sizes in bytes.
const (
	listGrowth  = 3 // of a list that grows the old and the new one are there for a moment
	pointerSize = 8
	stringSize  = 16
	sliceSize   = 24
	numberSize  = 8
	wrapperSize = 16 // of a member of a oneof
	mapSlotSize = 96 // of an entry of a map, with its share of free slots
	dynamicSize = 256
)

func (s *shape) field(n protowire.Number) *part {
	if n <= lastPart {
		if int(n) < len(s.parts) {
			return s.parts[n]
		}
		return nil
	}
	return s.rest[n]
}

// shape makes the shape of a type and of all types below it. The caller holds mu.
func (m *Meter) shape(t protoreflect.MessageType) *shape {
	name := t.Descriptor().FullName()
	if s := m.shapes[name]; s != nil {
		return s
	}
	var fresh []*shape
	s := m.fresh(t.Descriptor(), sizeOf(t), &fresh)
	flatten(fresh)
	return s
}

// fresh makes the shape of a type that may have none yet.
func (m *Meter) fresh(d protoreflect.MessageDescriptor, size int, all *[]*shape) *shape {
	name := d.FullName()
	if s := m.shapes[name]; s != nil {
		return s
	}
	s := &shape{size: size, isAny: name == anyName, rest: map[protowire.Number]*part{}}
	m.shapes[name] = s
	*all = append(*all, s)
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		p := m.part(f, all)
		if f.Number() > lastPart {
			s.rest[f.Number()] = p
			continue
		}
		for len(s.parts) <= int(f.Number()) {
			s.parts = append(s.parts, nil)
		}
		s.parts[f.Number()] = p
	}
	return s
}

const anyName = "google.protobuf.Any"

func (m *Meter) part(f protoreflect.FieldDescriptor, all *[]*shape) *part {
	p := &part{}
	if f.ContainingOneof() != nil {
		p.each = wrapperSize
	}
	element := numberSize
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		p.message, element = m.fresh(f.Message(), m.sizeOf(f), all), pointerSize
	case protoreflect.StringKind:
		element = stringSize
	case protoreflect.BytesKind:
		element = sliceSize
	case protoreflect.DoubleKind, protoreflect.FloatKind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind,
		protoreflect.Sfixed32Kind, protoreflect.Sfixed64Kind:
		p.packed = 1
	default:
		p.packed = numberSize // of a number that has one byte on the wire
	}
	if f.IsList() {
		p.each += listGrowth * element
	}
	return p
}

// sizeOf returns the size of the message in a field.
func (m *Meter) sizeOf(f protoreflect.FieldDescriptor) int {
	if f.IsMap() {
		return mapSlotSize // an entry is no message once it is decoded
	}
	t, err := m.types.FindMessageByName(f.Message().FullName())
	if err != nil {
		return dynamicSize
	}
	return sizeOf(t)
}

// sizeOf returns the size of an empty message of a type.
func sizeOf(t protoreflect.MessageType) int {
	empty := t.Zero().Interface()
	if _, ok := empty.(*dynamicpb.Message); ok {
		return dynamicSize
	}
	size := int(reflect.TypeOf(empty).Elem().Size())
	return size + size/8 // what the allocator adds
}

// flatten marks what is flat among shapes: what contains only what is flat.
func flatten(all []*shape) {
	for added := true; added; {
		added = false
		for _, s := range all {
			if !s.flat && s.flatNow() {
				s.flat, added = true, true
			}
		}
	}
}

func (s *shape) flatNow() bool {
	if s.isAny {
		return false
	}
	for _, p := range s.parts {
		if p != nil && p.message != nil && !p.message.flat {
			return false
		}
	}
	for _, p := range s.rest {
		if p.message != nil && !p.message.flat {
			return false
		}
	}
	return true
}
