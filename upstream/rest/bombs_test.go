package rest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream"

	"github.com/weir-xds/weir/relay/xds"
)

// alone is an origin that nothing runs.
func alone(t *testing.T, urls ...string) *Origin {
	t.Helper()
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "rest", SotW: true, PerType: true, Types: Types()}}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := New(Config{Name: "rest", URLs: append(urls, "http://a")[:1], Instance: "weir-1", MaxMessage: 4 << 20}, table.Origin("rest"))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestAnswerBombs: a response whose JSON costs far more than its size is refused, or the resource in
// it is; what is taken of memory is in proportion to its text. The rest of the response is used.
func TestAnswerBombs(t *testing.T) {
	deepAny := func(levels int) string {
		const one = `{"@type": "type.googleapis.com/google.protobuf.Any", "value": `
		return strings.Repeat(one, levels) + "{}" + strings.Repeat("}", levels)
	}
	metadata := func(value string) string {
		return `{"@type": "` + cds + `", "name": "bad", "metadata": {"filterMetadata": {"a": {"b": ` + value + `}}}}`
	}
	wrapped := func(inner string) string {
		return `{"@type": "` + xds.ResourceType + `", "name": "bad", "resource": ` + inner + `}`
	}
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%x": 0, `, i)
		}
		return b.String()
	}
	answer := func(resources string) string {
		return `{"versionInfo": "1", "nonce": "n", "resources": [` + cluster("good") + ", " + resources + `]}`
	}
	many := func(one string, n int) string { return strings.Repeat(one+",", n) + one }
	for _, row := range []struct {
		name, body     string
		refused, words string // of resources
		err            string
	}{
		{
			"deep Anys", answer(`{"@type": "` + cds + `", "name": "bad", "typedExtensionProtocolOptions": {"a": ` + deepAny(1500) + `}}`),
			"bad", "nested more than 100 deep", "",
		},
		{"deep Anys in a wrapper", answer(wrapped(deepAny(1500))), "bad", "nested more than 100 deep", ""},
		{"some Anys in a wrapper", answer(wrapped(deepAny(20))), "bad", "more than 16 google.protobuf.Any", ""},
		{"deep arrays", answer(metadata(strings.Repeat("[", 4000) + strings.Repeat("]", 4000))), "bad", "nested more than 100 deep", ""},
		{"wide arrays", answer(metadata("[" + many("0", 400_000) + "]")), "bad", "bytes of memory", ""},
		{"empty messages", answer(`{"@type": "` + cds + `", "name": "bad", "filters": [` + many("{}", 400_000) + `]}`), "bad", "bytes of memory", ""},
		{"keys of a resource", answer(`{"@type": "x", "name": "bad", ` + keys(200_000) + `"z": 0}`), "bad", "bytes of memory", ""},
		{"bad resources", answer(many(`{"@type":"x","name":"bad"}`, 50_000)), "bad", "unable to resolve", ""},
		{"nameless resources", answer(many(`{"@type":"x"}`, 100_000)), "", "unable to resolve", ""},
		{"a long text", answer(`{"@type": "` + strings.Repeat("x", 1<<20) + `", "name": "bad"}`), "bad", "unable to resolve", ""},
		{"empty resources", answer(many(`{}`, 500_000)), "", "", ""},
		{"keys", `{` + keys(100_000) + `"versionInfo": "1", "resources": []}`, "", "", "unknown field"},
		{"details", `{"versionInfo": "1", "resources": [], "resourceErrors": [{"errorDetail": {"details": [` + deepAny(1500) + `]}}]}`, "", "", "nested more than 100 deep"},
		{"errors", `{"versionInfo": "1", "resources": [], "resourceErrors": [` + many("{}", 500_000) + `]}`, "", "", "bytes of memory"},
		{"resources twice", `{"versionInfo": "1", "resources": [` + many("{}", 100_000) + `], "resources": []}`, "", "", "duplicate"},
		{"no end", strings.TrimSuffix(answer(cluster("b")), "]}"), "", "", "unexpected end"},
		{"a wrong end", strings.TrimSuffix(answer(cluster("b")), "]}") + "}]", "", "", "invalid character"},
		{"no object", `[` + many("{}", 100_000) + `]`, "", "", "not a DiscoveryResponse"},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := alone(t)
			before := allocatedSoFar()
			r, err := o.parse(t.Context(), cds, []byte(row.body))
			took := allocatedSoFar() - before
			most := 2<<20 + 32*len(row.body)
			if row.name == "empty resources" || row.name == "nameless resources" {
				most *= 5 // which is garbage after each one
			}
			if took > most {
				t.Errorf("a response of %d bytes takes %d, want at most %d", len(row.body), took, most)
			}
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) {
					t.Errorf("got %v, want an error with %q", err, row.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			u, reject, err := o.update(nil, r)
			if err != nil {
				t.Fatal(err)
			}
			if len(u.Resources) == 0 || u.Resources[0].Name != "good" {
				t.Errorf("%d resources are used, want the good one", len(u.Resources))
			}
			if reject == nil || !strings.Contains(reject.Error(), row.words) || row.refused != "" && !strings.Contains(reject.Error(), row.refused) {
				t.Fatalf("refused with %.300v", reject)
			}
			if len(reject.Error()) > 200_000 {
				t.Errorf("the reasons have %d bytes", len(reject.Error()))
			}
		})
	}
}

// TestAnswerEnds: the parsing of a long response ends with its context, between two resources.
func TestAnswerEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	body := `{"versionInfo": "1", "resources": [` + strings.Repeat(cluster("a")+",", 1000) + cluster("b") + `]}`
	before := allocatedSoFar()
	if _, err := alone(t).parse(ctx, cds, []byte(body)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if took := allocatedSoFar() - before; took > 500_000 {
		t.Errorf("%d bytes are taken after the end", took)
	}
}

// TestCompressedAnswerBomb: a response is read no further than max_message, which is of the
// uncompressed text, and an error no further than what is logged of it.
func TestCompressedAnswerBomb(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	for range 64 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for code, words := range map[int]string{http.StatusOK: "max_message", http.StatusInternalServerError: "500"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(code)
			_, _ = w.Write(zipped.Bytes())
		}))
		o := alone(t, server.URL)
		before := allocatedSoFar()
		_, err := o.ask(t.Context(), o.servers.all[0], cds, nil, &discoveryv3.DiscoveryRequest{})
		if took := allocatedSoFar() - before; took > 32<<20 {
			t.Errorf("%d: %d bytes are taken of 64 MiB, and 4 MiB may be read", code, took)
		}
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%d: got %.300v", code, err)
		}
		if code == http.StatusOK && upstream.FailureOf(err) == "" {
			t.Error("the failure has no reason")
		}
		o.client.CloseIdleConnections()
		server.Close()
	}
}

func allocatedSoFar() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.TotalAlloc)
}
