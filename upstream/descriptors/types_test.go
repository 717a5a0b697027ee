package descriptors

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	widgetURL = "type.googleapis.com/example.Widget"
	gearURL   = "type.googleapis.com/example.Gear"
)

func field(name string, n int32, of descriptorpb.FieldDescriptorProto_Type, message string) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{
		Name: proto.String(name), Number: proto.Int32(n), Type: of.Enum(),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
	if message != "" {
		f.TypeName = proto.String(message)
	}
	return f
}

// widgets is a file with Widget { string the_id = 3; repeated string tags = 4; Address = 5; Any =
// 6; Duration = 7 }, which imports what is linked in, and Gear { string id = 1 }.
func widgets() *descriptorpb.FileDescriptorSet {
	const text, message = descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	tags := field("tags", 4, text, "")
	tags.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	return &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("example/widget.proto"), Package: proto.String("example"), Syntax: proto.String("proto3"),
		Dependency: []string{
			"envoy/config/core/v3/address.proto", "google/protobuf/any.proto", "google/protobuf/duration.proto",
		},
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("Widget"), Field: []*descriptorpb.FieldDescriptorProto{
				field("the_id", 3, text, ""), tags, field("address", 5, message, ".envoy.config.core.v3.Address"),
				field("inner", 6, message, ".google.protobuf.Any"), field("wait", 7, message, ".google.protobuf.Duration"),
			}},
			{Name: proto.String("Gear"), Field: []*descriptorpb.FieldDescriptorProto{field("id", 1, text, "")}},
		},
	}}}
}

func write(t *testing.T, set *descriptorpb.FileDescriptorSet) string {
	t.Helper()
	data, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "widget.pb")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A message of a descriptor file is read from JSON and written as it, within and around what is
// linked in.
func TestJSONOfDescribedMessages(t *testing.T) {
	path := write(t, widgets())
	known, wrong := Read([]Type{{URL: widgetURL, NameField: "the_id", File: path}, {URL: gearURL, NameField: "1", File: path}})
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	if f := known.NameFields(nil); f[widgetURL] != 3 || f[gearURL] != 1 {
		t.Errorf("the name fields are %v", f)
	}
	if f := known.NameFields(map[string]int{gearURL: 7}); f[widgetURL] != 3 || f[gearURL] != 7 {
		t.Errorf("an origin's own name fields go before: %v", f)
	}
	text := `{"@type":"` + widgetURL + `","theId":"w","tags":["a"],
	  "address":{"socketAddress":{"address":"::1","portValue":80}},
	  "inner":{"@type":"type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig","name":"x",
	    "typedConfig":{"@type":"` + gearURL + `","id":"g"}},
	  "wait":"1.500s"}`
	var a anypb.Any
	if err := protojson.Unmarshal([]byte(text), &a); err == nil {
		t.Fatal("the test is about messages that are not linked in")
	}
	if err := (protojson.UnmarshalOptions{Resolver: known}).Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	out, err := protojson.MarshalOptions{Resolver: known}.Marshal(&a)
	if err != nil {
		t.Fatal(err)
	}
	bare := strings.NewReplacer(" ", "", "\n", "", "\t", "")
	if got, want := bare.Replace(string(out)), bare.Replace(text); got != want {
		t.Errorf("read and written again it is\n%s, not\n%s", got, want)
	}
}

// nil knows what is linked in, and nothing else.
func TestLinkedIn(t *testing.T) {
	var none *Types
	if _, err := none.FindMessageByURL("type.googleapis.com/envoy.config.cluster.v3.Cluster"); err != nil {
		t.Error(err)
	}
	if _, err := none.FindMessageByURL(widgetURL); err == nil {
		t.Error("nobody has described this")
	}
	if _, err := none.FindExtensionByName("udpa.annotations.file_status"); err != nil {
		t.Error(err)
	}
	if _, err := none.FindExtensionByNumber("google.protobuf.FileOptions", 222707719); err != nil {
		t.Error(err)
	}
	some, _ := Read([]Type{{URL: widgetURL, File: write(t, widgets())}})
	if _, err := some.FindExtensionByNumber("google.protobuf.FileOptions", 1); err == nil {
		t.Error("there is no such extension")
	}
}

// What is not in order is told, and the rest counts.
func TestWrongTypes(t *testing.T) {
	path := write(t, widgets())
	lacks := widgets()
	lacks.File[0].Dependency = append(lacks.File[0].Dependency, "example/other.proto")
	dangling := widgets()
	dangling.File[0].MessageType[0].Field[2].TypeName = proto.String(".example.Nothing")
	garbage := filepath.Join(t.TempDir(), "garbage.pb")
	if err := os.WriteFile(garbage, []byte("message Widget {}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		Type
		descriptors bool
		want        string // part of the error; "": none
	}{
		{Type{URL: widgetURL, File: path}, false, ""},
		{Type{URL: widgetURL, File: path, NameField: "theId"}, false, ""},
		{Type{URL: widgetURL, NameField: "12"}, false, ""},
		{Type{URL: widgetURL, NameField: "the_id"}, false, "the message is not known"},
		{Type{URL: widgetURL, NameField: "0"}, false, "0 is no protobuf field number"},
		{Type{URL: widgetURL, NameField: "19500"}, false, "19500 is no protobuf field number"},
		{Type{URL: widgetURL, File: path, NameField: "name"}, false, `example.Widget has no field "name"`},
		{Type{URL: widgetURL, File: path, NameField: "12"}, false, `example.Widget has no field "12"`},
		{Type{URL: widgetURL, File: path, NameField: "tags"}, false, `field "tags" of example.Widget is not a single string`},
		{Type{URL: widgetURL, File: path, NameField: "7"}, false, `field "7" of example.Widget is not a single string`},
		{Type{URL: "a/example.Other", File: path}, true, "defines no message example.Other"},
		{Type{URL: widgetURL, File: garbage}, true, "is not a FileDescriptorSet"},
		{Type{URL: widgetURL, File: write(t, &descriptorpb.FileDescriptorSet{})}, true, "has no files"},
		{Type{URL: widgetURL, File: write(t, lacks)}, true, "imports example/other.proto, but does not contain it: write it with protoc --include_imports"},
		{Type{URL: widgetURL, File: write(t, dangling)}, true, "its descriptors are not in order"},
		{Type{URL: widgetURL, File: t.TempDir()}, true, "is not a regular file"},
		{Type{URL: widgetURL, File: path + ".none"}, true, "no such file"},
	} {
		known, wrong := Read([]Type{row.Type, {URL: gearURL, NameField: "id", File: path}})
		if row.want == "" {
			if len(wrong) > 0 {
				t.Errorf("%+v: %v", row.Type, wrong[0])
			}
		} else if len(wrong) != 1 || wrong[0].URL != row.URL || wrong[0].Descriptors != row.descriptors ||
			!strings.Contains(wrong[0].Error(), row.want) {
			t.Errorf("%+v: %v, want %q", row.Type, wrong, row.want)
		}
		if known.NameFields(nil)[gearURL] != 1 {
			t.Errorf("%+v: the other type counts", row.Type)
		}
	}
	if _, wrong := Read([]Type{{URL: widgetURL, File: path + ".none"}}); !errors.Is(wrong[0], fs.ErrNotExist) {
		t.Errorf("%v should tell that there is no file", wrong)
	}
	if _, err := ReadFiles([]string{path, garbage}); err == nil || !strings.Contains(err.Error(), garbage) {
		t.Errorf("%v should name the file", err)
	}
}

// Equal tells by content: a file may be another under the same name.
func TestEqualTypes(t *testing.T) {
	path := write(t, widgets())
	read := func(field string) *Types {
		known, wrong := Read([]Type{{URL: widgetURL, NameField: field, File: path}})
		if len(wrong) > 0 {
			t.Fatal(wrong)
		}
		return known
	}
	a := read("the_id")
	if !a.Equal(read("the_id")) || !a.Equal(read("theId")) || a.Equal(read("")) || a.Equal(nil) || !(*Types)(nil).Equal(nil) {
		t.Error("what says the same is equal, and nothing else is")
	}
	more := widgets()
	more.File[0].MessageType = append(more.File[0].MessageType, &descriptorpb.DescriptorProto{Name: proto.String("New")})
	data, err := proto.Marshal(more)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if a.Equal(read("the_id")) {
		t.Error("the file has changed")
	}
}

// FuzzDescriptors: whatever a descriptor file has, it is read or refused.
func FuzzDescriptors(f *testing.F) {
	data, err := proto.Marshal(widgets())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := parse(data)
		if (files == nil) == (err == nil) {
			t.Errorf("%v, and %v", files, err)
		}
	})
}
