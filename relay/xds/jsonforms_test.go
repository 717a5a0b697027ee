package xds

import (
	"bytes"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

// TestCanonicalJSON: what Envoy reads beyond canonical JSON is read as Envoy reads it, and on the
// same lines. What may be meant in several ways, or in none, is left to the parser.
func TestCanonicalJSON(t *testing.T) {
	const plain = `"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster"`
	for _, row := range []struct{ text, want, forms string }{
		{`{"name": "a"}`, "", ""},
		{`{"lbPolicy": "round_robin", "type": "STATIC"}`, `{"lbPolicy": "ROUND_ROBIN", "type": "STATIC"}`, formEnum},
		{`{"connect_timeout": {"seconds": 5}}`, `{"connect_timeout": "5s"}`, formDuration},
		{"{\"connectTimeout\": {\n\"seconds\": \"1\",\n\"nanos\": 5}\n}", "{\"connectTimeout\": \"1.000000005s\"\n\n\n}", formDuration},
		{`{"connectTimeout": {}}`, `{"connectTimeout": "0s"}`, formDuration},
		{`{"connectTimeout": {"seconds": 1, "nanos": -5}}`, "", ""},
		{`{"connectTimeout": {"minutes": 1}}`, "", ""},
		{`{"respectDnsTtl": "true", "useTcpForDnsLookups": "Off"}`, `{"respectDnsTtl": true, "useTcpForDnsLookups": false}`, formBool + ", " + formBool},
		{`{"respectDnsTtl": "maybe"}`, "", ""},
		{`{"perConnectionBufferLimitBytes": {"value": 7}}`, `{"perConnectionBufferLimitBytes": 7}`, formWrapper},
		{"{\"perConnectionBufferLimitBytes\": {\n\"value\":\n7\n}}", "{\"perConnectionBufferLimitBytes\": \n\n7\n}", formWrapper},
		{`{"perConnectionBufferLimitBytes": {"value": 7, "more": 1}}`, "", ""},
		{
			`{"healthChecks": {"timeout": {"seconds": 1}, "reuseConnection": "no"}}`, `{"healthChecks": [{"timeout": "1s", "reuseConnection": false}]}`,
			formList + ", " + formDuration + ", " + formBool,
		},
		{`{"healthChecks": [{"timeout": {"seconds": 1}}, {}]}`, `{"healthChecks": [{"timeout": "1s"}, {}]}`, formDuration},
		{`{"healthChecks": null}`, "", ""},
		{
			`{"typedExtensionProtocolOptions": {"a": {"lbPolicy": "maglev", ` + plain + `}}}`,
			`{"typedExtensionProtocolOptions": {"a": {"lbPolicy": "MAGLEV", ` + plain + `}}}`, formEnum,
		},
		{
			`{"typedExtensionProtocolOptions": {"a": {"value": {"seconds": 1}, "@type": "type.googleapis.com/google.protobuf.Duration"}}}`,
			`{"typedExtensionProtocolOptions": {"a": {"value": "1s", "@type": "type.googleapis.com/google.protobuf.Duration"}}}`, formDuration,
		},
		{`{"typedExtensionProtocolOptions": {"a": {"lbPolicy": "maglev", "@type": "no/such.Type"}}}`, "", ""},
		{`{"metadata": {"filterMetadata": {"a": {"b": "true", "lbPolicy": "maglev"}}}}`, "", ""},
		{`{"unknown": {"lbPolicy": "maglev"}, "lbPolicy": "maglev"}`, `{"unknown": {"lbPolicy": "maglev"}, "lbPolicy": "MAGLEV"}`, formEnum},
		{`{"lbPolicy": "maglev", "healthChecks": {"timeout": `, `{"lbPolicy": "MAGLEV", "healthChecks": [{"timeout": ]`, formEnum + ", " + formList},
	} {
		if row.want == "" {
			row.want = row.text
		}
		got, forms := CanonicalJSON([]byte(row.text), (&clusterv3.Cluster{}).ProtoReflect().Descriptor(), protoregistry.GlobalTypes)
		var whats []string
		for _, f := range forms {
			whats = append(whats, f.What)
		}
		if string(got) != row.want || strings.Join(whats, ", ") != row.forms {
			t.Errorf("%s:\n got %s (%s)\nwant %s (%s)", row.text, got, strings.Join(whats, ", "), row.want, row.forms)
		}
	}
}

// FuzzCanonicalJSON: what is canonical stays as it is, no line moves, and what is rewritten is
// canonical.
func FuzzCanonicalJSON(f *testing.F) {
	for _, text := range []string{
		`{"@type":"type.googleapis.com/envoy.config.cluster.v3.Cluster","lbPolicy":"maglev","connectTimeout":{"seconds":1}}`,
		`{"@type":"type.googleapis.com/envoy.config.listener.v3.Listener","filterChains":{"filters":{"name":"a"}},"bindToPort":{"value":"on"}}`,
		`{"value":{"nanos":1},"@type":"type.googleapis.com/google.protobuf.Duration"}`, `{"@type":"type.googleapis.com/google.protobuf.Any","value":{}}`,
		`{"@type":"type.googleapis.com/envoy.config.listener.v3.Listener","useOriginalDst":{},"address":[{}],"filterChains":[[{}]]}`,
		"{", "[", `{"@type"`, `{"@type":"type.googleapis.com/envoy.config.listener.v3.Listener","bindToPort":{"value":"on"`, `"`, `{"":}`, `]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := (JSONBound{MaxJSONDepth, 1 << 20}).Check(text); err != nil {
			return
		}
		same := bytes.Clone(text)
		var a, b anypb.Any
		strict := protojson.Unmarshal(text, &a)
		got, forms := CanonicalJSON(text, a.ProtoReflect().Descriptor(), protoregistry.GlobalTypes)
		if !bytes.Equal(text, same) || bytes.Count(got, []byte("\n")) != bytes.Count(text, []byte("\n")) {
			t.Fatalf("%q became %q", same, got)
		}
		if strict == nil && (len(forms) > 0 || !bytes.Equal(got, text)) {
			t.Fatalf("%q is canonical, and became %q", same, got)
		}
		again, _ := CanonicalJSON(got, a.ProtoReflect().Descriptor(), protoregistry.GlobalTypes)
		if protojson.Unmarshal(got, &a) == nil && (!bytes.Equal(again, got) || protojson.Unmarshal(again, &b) != nil || !proto.Equal(&a, &b)) {
			t.Fatalf("%q became %q and then %q", same, got, again)
		}
	})
}
