package descriptors

import (
	"fmt"

	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	// maxFile bounds a descriptor file, in bytes.
	maxFile = 64 << 20
	// maxDecoded bounds what it is decoded to, and maxNames the full names of all that it
	// describes, since each holds those of what is around it. All of Envoy's files take a tenth of
	// either.
	maxDecoded, maxNames = 128 << 20, 64 << 20
)

// named is anything that has a name in a descriptor file.
type named interface{ GetName() string }

// names adds up how long full names are.
type names struct{ bytes int }

// bounded returns an error if the full names of a file are too long together.
func (n *names) bounded(f *descriptorpb.FileDescriptorProto) error {
	of := len(f.GetPackage())
	for _, m := range f.GetMessageType() {
		n.message(of, m)
	}
	for _, e := range f.GetEnumType() {
		n.enum(of, e)
	}
	for _, s := range f.GetService() {
		in := n.add(of, s)
		addAll(n, in, s.GetMethod())
	}
	addAll(n, of, f.GetExtension())
	if n.bytes > maxNames {
		return fmt.Errorf("the full names of what it describes have more than %d bytes together", maxNames)
	}
	return nil
}

// add adds the full name of something in what has a full name of so many bytes.
func (n *names) add(of int, x named) int {
	of += 1 + len(x.GetName())
	n.bytes = min(n.bytes+of, 2*maxNames) // so that it cannot overflow
	return of
}

func addAll[T named](n *names, of int, all []T) {
	for _, x := range all {
		n.add(of, x)
	}
}

// message recurses, at most xds.MaxDepth deep: what is nested deeper is not decoded.
func (n *names) message(of int, m *descriptorpb.DescriptorProto) {
	of = n.add(of, m)
	addAll(n, of, m.GetField())
	addAll(n, of, m.GetOneofDecl())
	addAll(n, of, m.GetExtension())
	for _, e := range m.GetEnumType() {
		n.enum(of, e)
	}
	for _, inner := range m.GetNestedType() {
		n.message(of, inner)
	}
}

// enum adds an enumeration. Its values are named beside it.
func (n *names) enum(of int, e *descriptorpb.EnumDescriptorProto) {
	n.add(of, e)
	addAll(n, of, e.GetValue())
}
