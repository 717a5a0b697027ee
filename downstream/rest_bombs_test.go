package downstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// deepAny is a google.protobuf.Any in JSON, with so many in it, one in another.
func deepAny(levels int) string {
	const one = `{"@type": "type.googleapis.com/google.protobuf.Any", "value": `
	return strings.Repeat(one, levels) + "{}" + strings.Repeat("}", levels)
}

// TestPollBombs: a poll whose JSON is short and costs much is refused before it is decoded, or what
// costs is not decoded. What it takes is in proportion to its text, compressed or not; the next poll
// is answered.
func TestPollBombs(t *testing.T) {
	metadata := func(value string) string { return `{"node": {"id": "a", "metadata": {"a": ` + value + `}}}` }
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%x": 0, `, i)
		}
		return `{` + b.String() + `"z": 0}`
	}
	detail := func(name, details string) string {
		return pollOf(`"` + name + `": {"code": 3, "message": "no", "details": [` + details + `]}`)
	}
	long := "[" + strings.Repeat("0,", 300_000) + "0]"
	for _, row := range []struct {
		name, body string
		code       int
		words      string
	}{
		{"deep arrays", metadata(strings.Repeat("[", 9000) + strings.Repeat("]", 9000)), 400, "nested more than 32 deep"},
		{"deep objects", metadata(strings.Repeat(`{"":`, 9000) + "0" + strings.Repeat("}", 9000)), 400, "nested more than 32 deep"},
		{"deep where nothing is read", pollOf(`"x": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000)), 400, "nested more than 32 deep"},
		{"wide arrays", metadata(long), 400, "node: "},
		{"empty objects", metadata("[" + strings.Repeat("{},", 200_000) + "0]"), 400, "node: "},
		{"nodes", `{"node": {"extensions": [` + strings.Repeat("{},", 200_000) + `{}]}}`, 400, "node: "},
		{"the name of the node escaped", `{"n\u006fde": {"metadata": {"a": ` + long + `}}}`, 400, "node: "},
		{"keys", metadata(keys(100_000)), 400, "node: "},
		{"a long node", metadata(`"` + strings.Repeat(`\u0000`, 200_000) + `"`), 400, "node: "},
		{"repeated keys", metadata("{" + strings.Repeat(`"a": 0, `, 100_000) + `"a": 0}`), 400, "node: "},
		{"repeated nodes", `{"node": {"id": "a"}, "node": {"id": "a"}}`, 400, "duplicate"},
		{"repeated details", pollOf(`"errorDetail": {"code": 3}`, `"error_detail": {"code": 3}`), 400, "duplicate"},
		{"long numbers", metadata(strings.Repeat("1", 900_000)), 400, "decode"},
		{"large exponents", metadata("1e" + strings.Repeat("9", 900_000)), 400, "decode"},
		{"names", pollOf(`"resource_names": [` + strings.Repeat(`"",`, 500_000) + `""]`), 429, "limits.names_per_stream"},
		{"locators", pollOf(`"resource_locators": [` + strings.Repeat(`{},`, 500_000) + `{}]`), 400, "resource_locators"},
		{"unknown fields", pollOf(`"x": [` + strings.Repeat(`{"a": [0]},`, 100_000) + `0]`), 200, ""},
		{"deep Anys", detail("errorDetail", deepAny(1500)), 200, ""},
		{"deep Anys in the other spelling", detail("error_detail", deepAny(1500)), 200, ""},
		{"deep Anys in a third", detail(`error\u005fdetail`, deepAny(1500)), 200, ""},
		{"deep Anys twice", pollOf(`"errorDetail": {"details": [` + deepAny(1500) + `], "details": [` + deepAny(1500) + `]}`), 400, "duplicate"},
		{"deep Anys after an end", pollOf(`"errorDetail": {"details": [`+deepAny(1500)+`]}}`) + detail("errorDetail", deepAny(1500)), 400, ""},
		{"deep Anys without an end", `{"errorDetail": {"details": [` + deepAny(1500), 400, "decode"},
		{"deep Anys that are no list", pollOf(`"errorDetail": {"details": ` + deepAny(1500) + `}`), 400, ""},
		{"wide details", detail("errorDetail", strings.Repeat(`{},`, 300_000)+"{}"), 200, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			few := func(cfg *Config, _ *ListenerConfig) { cfg.Limits.NamesPerStream = 1000 }
			restTest(t, few, func(p *polling) {
				p.filled()
				for how, body := range map[string]string{"identity": row.body, "gzip": string(zipped(t, row.body))} {
					before := allocatedSoFar()
					a := p.do(http.MethodPost, clustersPath, strings.NewReader(body), http.Header{"Content-Encoding": {how}})
					took := allocatedSoFar() - before
					if a.code != row.code || !strings.Contains(a.text, row.words) {
						t.Errorf("%s: want %d with %q, got %d %.200q", how, row.code, row.words, a.code, a.text)
					}
					if most := 4<<20 + 16*len(row.body); took > most {
						t.Errorf("%s: a body of %d bytes takes %d, want at most %d", how, len(row.body), took, most)
					}
					if p.server.intake.inflating.join(nil, 1) != nil {
						t.Fatal("its turn is not given back")
					}
					p.server.intake.inflating.leave(1)
				}
				p.post(clustersPath, pollOf()).want(t, "the next poll", http.StatusOK, "a", "b")
			})
		})
	}
}

// allocatedSoFar is how many bytes were ever allocated.
func allocatedSoFar() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.TotalAlloc)
}

// spiedTypes is a resolver that is asked while a request is parsed: for the extension of that name.
type spiedTypes struct {
	Resolver
	asked func()
}

func (r spiedTypes) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	if name == "weir.asked" {
		r.asked()
	}
	return nil, protoregistry.NotFound
}

const asksType = `"[weir.asked]": 0`

// TestPollParsesWithoutTurn: a long compressed poll has no turn any more while it is parsed, so the
// next one is inflated meanwhile.
func TestPollParsesWithoutTurn(t *testing.T) {
	var server *Server
	asked := false
	restTest(t, func(cfg *Config, _ *ListenerConfig) {
		cfg.Resolver = spiedTypes{protoregistry.GlobalTypes, func() {
			if asked = true; server.intake.inflating.join(nil, 1) != nil {
				t.Fatal("the poll has the turn while it is parsed")
			}
			server.intake.inflating.leave(1)
		}}
	}, func(p *polling) {
		p.filled()
		server = p.server
		body := pollOf(asksType, `"x": "`+strings.Repeat("x", freeInflation)+`"`)
		p.do(http.MethodPost, clustersPath, strings.NewReader(string(zipped(t, body))), http.Header{"Content-Encoding": {"gzip"}}).
			want(t, "a long poll", http.StatusOK, "a", "b")
		if !asked {
			t.Error("it was not parsed")
		}
	})
}

// TestPollIsRefusedUnparsed: a client that may have nothing, whatever its node says, and one beyond
// the rate of new streams, are refused before their bodies are parsed.
func TestPollIsRefusedUnparsed(t *testing.T) {
	for _, row := range []struct {
		name, path string
		change     func(*Config)
		code       int
		words      string
	}{
		{"by the rules", clustersPath, func(cfg *Config) {
			cfg.Rules = compiled(t, authz.Rule{Who: []string{"spiffe://corp/a"}, Names: []string{"a"}})
		}, 403, "authorization"},
		{"secrets", "/v3/discovery:secrets", func(*Config) {}, 403, "secrets"},
		{"by the limit", clustersPath, func(cfg *Config) { cfg.Limits.Streams = 1 }, 503, "limits.streams"},
		{"by the rate", clustersPath, func(cfg *Config) { cfg.Limits.NewStreamsPerSecond = 1 }, 503, "timing.rest_wait"},
	} {
		t.Run(row.name, func(t *testing.T) {
			restTest(t, func(cfg *Config, _ *ListenerConfig) {
				row.change(cfg)
				cfg.Resolver = spiedTypes{protoregistry.GlobalTypes, func() { t.Error("the body was parsed") }}
			}, func(p *polling) {
				if row.code == 503 { // the first one is admitted
					p.later(clustersPath, pollOf())
				}
				a := p.post(row.path, pollOf(asksType)).want(t, row.name, row.code)
				if !strings.Contains(a.text, row.words) || a.took > 800*time.Millisecond {
					t.Errorf("want %q, got %q after %v", row.words, a.text, a.took)
				}
			})
		})
	}
}

// TestDrainEndsDuringPolls: a drain ends when it says, although polls are sent slowly, or read
// slowly, or never.
func TestDrainEndsDuringPolls(t *testing.T) {
	for name, secured := range map[string]bool{"http": false, "https": true} {
		t.Run(name, func(t *testing.T) {
			var clientTLS *tls.Config
			restTest(t, func(_ *Config, lc *ListenerConfig) {
				if secured {
					lc.TLS, clientTLS = certificates(t) // valid in the bubble's time
				}
			}, func(p *polling) {
				send := func(words string) {
					conn, err := p.dial(p.t.Context(), "", "")
					if err != nil {
						p.t.Fatal(err)
					}
					p.t.Cleanup(func() { _ = conn.Close() })
					if secured {
						conn = tls.Client(conn, clientTLS)
					}
					if _, err := io.WriteString(conn, words); err != nil {
						p.t.Fatal(err)
					}
				}
				head := "POST " + clustersPath + " HTTP/1.1\r\nHost: weir\r\nContent-Length: "
				for range 10 {
					send(head + "100\r\n\r\n{")
					send(head + fmt.Sprint(len(pollOf())) + "\r\n\r\n" + pollOf())
				}
				synctest.Wait()
				p.say(cds, "a="+strings.Repeat("x", 1<<20))
				synctest.Wait()
				start := time.Now()
				p.server.Drain(context.Background(), 2*time.Second)
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("a drain of 2s took %v", took)
				}
			})
		})
	}
}
