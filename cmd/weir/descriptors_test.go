package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/relay/relaytest"
)

const widgetURL = "type.googleapis.com/example.Widget"

// putDescriptors writes the descriptor of a message with these string fields, numbered from 2.
func putDescriptors(t *testing.T, path string, fields ...string) {
	t.Helper()
	m := &descriptorpb.DescriptorProto{Name: proto.String("Widget")}
	for i, name := range fields {
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(int32(i + 2)),
			Type:  descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		})
	}
	data, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("example.proto"), Package: proto.String("example"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{m},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTypesNeedNoCode: a type that nobody compiled in is taken from files, under the name that is
// in a field of its own, and shown with its fields; another descriptor file counts from the next
// reload.
func TestTypesNeedNoCode(t *testing.T) {
	dir, pb := newFiles(t), filepath.Join(t.TempDir(), "widget.pb")
	putDescriptors(t, pb, "id", "color")
	dir.put(t, "widgets.yaml", "- { \"@type\": "+widgetURL+", id: w1, color: red }\n")
	text := freePorts + filesOrigin(dir) + "timing: { drain: 1s }\n"
	w := startReloading(t, text)
	state := func() string { return fmt.Sprint(w.active.Load().origins[0].status().Files) }
	if !strings.Contains(state(), "weir does not know this message") {
		t.Errorf("the file cannot be read without descriptors, and says so: %s", state())
	}
	types := fmt.Sprintf("types: { %q: { name_field: id, descriptors: %q } }\n", widgetURL, pb)
	w.applied(text + types)
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(widgetURL, "*")
	c.AwaitNames(widgetURL, "the name is in the field id", "w1")
	code, out, errs := weir(t, "get", widgetURL, "w1", "--from", w.listenAddress(), "-o", "yaml", "--descriptors", pb)
	if code != 0 || !strings.Contains(out, "color: red") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	if _, body := w.get("/resources?bodies=true&type=" + widgetURL + "&name=w1"); !strings.Contains(body, `"color"`) {
		t.Errorf("the admin page shows the fields: %s", body)
	}

	dir.put(t, "widgets.yaml", "- { \"@type\": "+widgetURL+", id: w2, size: xl }\n")
	await(t, "the field is not known", func() bool { return strings.Contains(state(), "size") })
	putDescriptors(t, pb, "id", "color", "size")
	w.applied(text + types) // the same text
	c.AwaitNames(widgetURL, "the new descriptors count", "w2")
	if err := os.WriteFile(pb, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := w.again(text + types); s.Refused.IsZero() || !strings.Contains(fmt.Sprint(s.Problems), "is not a FileDescriptorSet") {
		t.Errorf("a broken descriptor file is refused: %+v", s)
	}
	c.CheckClean()
}

// TestValidateReadsDescriptors: what is wrong with them is reported at its key.
func TestValidateReadsDescriptors(t *testing.T) {
	pb := filepath.Join(t.TempDir(), "widget.pb")
	putDescriptors(t, pb, "id")
	for _, row := range []struct {
		types string
		code  int
		want  string // part of what is said on stderr; "": nothing
	}{
		{fmt.Sprintf("{ name_field: id, descriptors: %q }", pb), 0, ""},
		{fmt.Sprintf("{ name_field: color, descriptors: %q }", pb), 1, `.name_field: example.Widget has no field "color"`},
		{fmt.Sprintf("{ name_field: id, descriptors: %q }", pb+"x"), 1, `:2:`},
		{`{ name_field: id, descriptors: "/not/here/y.pb" }`, 1, `.descriptors: stat /not/here/y.pb: no such file or directory`},
	} {
		file := write(t, "origins: [{ name: a, grpc: { addresses: ['a:1'] } }]\ntypes: { "+widgetURL+": "+row.types+" }\n")
		code, _, errs := weir(t, "validate", file)
		if code != row.code || !strings.Contains(errs, row.want) || row.want == "" && errs != "" {
			t.Errorf("%s: %d %q, want %d %q", row.types, code, errs, row.code, row.want)
		}
	}
}

// TestTypesReachOrigins: the name fields of all types, and over them those of the origin, are the
// control plane's.
func TestTypesReachOrigins(t *testing.T) {
	cfg, err := config.Parse("weir.yaml", []byte(`
origins: [{ name: a, grpc: { addresses: ['a:1'] }, name_fields: { a/b.C: 7 } }]
types: { a/b.C: { name_field: 2 }, a/b.D: { name_field: 3 } }
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	known, err := readTypes(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if f := known.NameFields(cfg.Origins[0].NameFields); f["a/b.C"] != 7 || f["a/b.D"] != 3 {
		t.Errorf("%v", f)
	}
}
