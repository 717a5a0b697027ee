package descriptors

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// TestHostileDescriptors: a file is refused before what it decodes to has been paid for: some bytes
// for each descriptor became hundreds, and each name holds those of all that is around it.
func TestHostileDescriptors(t *testing.T) {
	file := func(f *descriptorpb.FileDescriptorProto) string {
		b, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{f}})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	long := &descriptorpb.DescriptorProto{Name: proto.String(strings.Repeat("M", 64<<10))}
	for range 10_000 {
		long.NestedType = append(long.NestedType, &descriptorpb.DescriptorProto{Name: proto.String("a")})
	}
	deep := ""
	for range 1000 {
		deep = string(protowire.AppendString(protowire.AppendTag(nil, 3, protowire.BytesType), deep)) // nested_type
	}
	deep = string(protowire.AppendString(protowire.AppendTag(nil, 4, protowire.BytesType), deep)) // message_type
	deep = string(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), deep)) // file
	for name, row := range map[string]struct{ text, want string }{
		"files":    {strings.Repeat("\x0a\x00", 4<<20), "decoded it needs more than 134217728 bytes of memory"},
		"messages": {string(protowire.AppendString([]byte("\x0a"), strings.Repeat("\x22\x00", 4<<20))), "decoded it needs more than 134217728 bytes of memory"},
		"depth":    {deep, "messages are nested more than 100 deep"},
		"names": {
			file(&descriptorpb.FileDescriptorProto{Name: proto.String("a.proto"), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{long}}),
			"the full names of what it describes have more than 67108864 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.pb")
			if err := os.WriteFile(path, []byte(row.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := ReadFiles([]string{path})
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), path+": ") || !strings.Contains(err.Error(), row.want) || len(err.Error()) > 4096 {
				t.Errorf("%.300v\nand not\n%s", err, row.want)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
				t.Errorf("%d MiB were allocated for %d bytes", took>>20, len(row.text))
			}
		})
	}
}
