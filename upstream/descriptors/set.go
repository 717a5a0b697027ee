package descriptors

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/weir-xds/weir/relay/xds"
)

// readSet reads one file, as written by protoc --descriptor_set_out.
func readSet(path string) (*set, error) {
	data, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	files, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &set{Types: dynamicpb.NewTypes(files), file: path, sum: sha256.Sum256(data)}, nil
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would block
		return nil, fmt.Errorf("%s: is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: is longer than %d bytes", path, maxFile)
	}
	return data, err
}

// parse makes descriptors of a FileDescriptorSet. Imports that it lacks are taken from the
// linked-in files, so that it need not contain Envoy's own.
func parse(data []byte) (*protoregistry.Files, error) {
	var fds descriptorpb.FileDescriptorSet
	if err := xds.Unmarshal(data, &fds, maxDecoded); err != nil {
		return nil, fmt.Errorf("is not a FileDescriptorSet, as protoc --descriptor_set_out writes it: %w", err)
	}
	if len(fds.GetFile()) == 0 {
		return nil, errors.New("has no files; is it a FileDescriptorSet, as protoc --descriptor_set_out writes it?")
	}
	n := names{}
	for _, f := range fds.GetFile() {
		if err := n.bounded(f); err != nil {
			return nil, err
		}
	}
	if err := complete(&fds); err != nil {
		return nil, err
	}
	files, err := protodesc.NewFiles(&fds)
	if err != nil {
		return nil, fmt.Errorf("its descriptors are not in order: %w", err)
	}
	return files, nil
}

// complete adds missing imports, and theirs.
func complete(fds *descriptorpb.FileDescriptorSet) error {
	have := map[string]bool{}
	for _, f := range fds.GetFile() {
		have[f.GetName()] = true
	}
	for i := 0; i < len(fds.File); i++ { // fds.File grows
		for _, path := range fds.File[i].GetDependency() {
			if have[path] {
				continue
			}
			linked, err := protoregistry.GlobalFiles.FindFileByPath(path)
			if err != nil {
				return fmt.Errorf("%s imports %s, but does not contain it: write it with protoc --include_imports",
					fds.File[i].GetName(), path)
			}
			have[path] = true
			fds.File = append(fds.File, protodesc.ToFileDescriptorProto(linked))
		}
	}
	return nil
}

const (
	// maxFile bounds a descriptor file, in bytes.
	maxFile = 64 << 20
	// maxDecoded bounds what it is decoded to, and maxNames the full names of all that it
	// describes, since each holds those of what is around it. All of Envoy's files take a tenth of
	// either.
	maxDecoded, maxNames = 128 << 20, 64 << 20
)

// names adds up how long full names are.
type names struct{ bytes int }

// bounded returns an error if the full names of a file are too long together.
func (n *names) bounded(f *descriptorpb.FileDescriptorProto) error {
	n.within(len(f.GetPackage()), f.ProtoReflect())
	if n.bytes > maxNames {
		return fmt.Errorf("the full names of what it describes have more than %d bytes together", maxNames)
	}
	return nil
}

// within adds the full names of what a descriptor lists, whose own one has so many bytes. It
// recurses, at most xds.MaxDepth deep: what is nested deeper is not decoded.
func (n *names) within(of int, m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !f.IsList() || f.Message() == nil {
			return true
		}
		name := f.Message().Fields().ByName("name")
		for i := range v.List().Len() {
			x, full := v.List().Get(i).Message(), of
			if name != nil {
				full += 1 + len(x.Get(name).String())
				n.bytes = min(n.bytes+full, 2*maxNames) // so that it cannot overflow
			}
			if f.Name() == "enum_type" {
				full = of // values are named beside their enumeration
			}
			n.within(full, x)
		}
		return true
	})
}
