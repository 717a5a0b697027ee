package redteam

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// originSieges are by an origin that speaks gRPC.
var originSieges = []siege{
	{name: "origin: any in any, shown and polled", play: (*pod).shownNested},
	{name: "origin: 6M resources of two bytes", play: says(emptyElements("resources"))},
	{name: "origin: 6M removals of two bytes", play: says(emptyElements("removed_resource_names"))},
	{name: "origin: 6M errors of two bytes", play: says(emptyElements("resource_errors"))},
	{name: "origin: bodies that a foreign page asks for", play: (*pod).foreignPages},
	{name: "origin: 1M resources", play: (*pod).million},
}

// says has the hostile origin send one response.
func says(response func(version string) []byte) func(*pod) string {
	return func(p *pod) string { return p.say(relaytest.ListenerType, response) }
}

// emptyElements are 6M of them in a field of a delta response.
func emptyElements(path string) func(version string) []byte {
	return func(version string) []byte {
		return append(deltaHead(version), many((*discovery.DeltaDiscoveryResponse)(nil).ProtoReflect().Descriptor(), path, 6_000_000, nil)...)
	}
}

// deltaHead is a response without resources.
func deltaHead(version string) []byte {
	return encode(&discovery.DeltaDiscoveryResponse{TypeUrl: relaytest.ListenerType, Nonce: version})
}

// named is a response with resources first to last, each with a body so long.
func named(version string, first, last, size int) []byte {
	b := deltaHead(version)
	for i := first; i < last; i++ {
		name := fmt.Sprintf("l%07d", i)
		body := append(text(1, name), text(9, strings.Repeat("x", size))...) // traffic_direction's neighbour: an unknown field
		r := append(text(3, name), text(1, "1")...)
		b = append(b, field(2, append(r, field(2, anyOf(relaytest.ListenerType, body))...))...)
	}
	return b
}

// million has ten responses of 100,000 resources. The good origin is beside it, and its new clients
// are served meanwhile.
func (p *pod) million() string {
	p.Helper()
	said := ""
	for n := range 10 {
		said = p.say(relaytest.ListenerType, func(version string) []byte { return named(version, n*100_000, (n+1)*100_000, 0) })
		if p.weir.Ended() {
			return said
		}
		p.newClient("127.0.2.2", "the good origin, meanwhile", time.Now())
	}
	return said
}

// shownNested has a body that is nested, and then everybody who walks or renders bodies.
func (p *pod) shownNested() string {
	p.Helper()
	body := inFilter(anyInAny(400 << 10 / (len(anyURL) + 7)))
	said := p.say(relaytest.ListenerType, func(version string) []byte { return deltaOne(relaytest.ListenerType, version, body) })
	for _, ask := range []struct{ what, method, url, body string }{
		{"CSDS", http.MethodPost, "http://" + p.weir.Admin + "/v3/discovery:client_status", "{}"},
		{"/resources", http.MethodGet, "http://" + p.weir.Admin + "/resources?bodies=1", ""},
		{"a poll", http.MethodPost, "http://" + p.address(evilPollPort) + "/v3/discovery:listeners", `{"node":{"id":"bad","cluster":"good"}}`},
	} {
		begin := time.Now()
		status, _ := request(ask.method, ask.url, ask.body)
		took := time.Since(begin)
		said += fmt.Sprintf("; %s %s in %.1f s", ask.what, status, took.Seconds())
		if took > late {
			p.Errorf("%s takes %v", ask.what, took)
		}
	}
	return said
}

// request is the status of an answer.
func request(method, url, body string) (status string, err error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err.Error(), err
	}
	client := http.Client{Timeout: 6 * late, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "not answered", err
	}
	return resp.Status, resp.Body.Close()
}

// webEvil is a hostile origin that is polled.
type webEvil struct {
	server *httptest.Server
	polls  atomic.Int64

	mu   sync.Mutex
	text []byte // compressed
}

// withWeb is a pod with such an origin beside the good one.
func withWeb(p *pod) {
	p.web = &webEvil{text: zip([]byte(`{"version_info":"0","resources":[]}`))}
	p.web.server = httptest.NewServer(p.web)
	p.T.Cleanup(p.web.server.Close)
	p.hostile(map[string]any{"rest": map[string]any{"urls": []any{p.web.server.URL}, "poll": "100ms"}})
}

func (w *webEvil) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	w.polls.Add(1)
	w.mu.Lock()
	text := w.text
	w.mu.Unlock()
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		to.Header().Set("Content-Encoding", "gzip")
		_, _ = to.Write(text) // or who polls is gone
		return
	}
	plain, _ := gzip.NewReader(bytes.NewReader(text)) // which zip made
	_, _ = io.Copy(to, plain)
}

// webBodies are answers.
var webBodies = []struct {
	name string
	text func() string
}{
	{"any in any", func() string {
		return `{"version_info":"1","resources":[` + strings.Repeat(`{"@type":"`+anyURL+`","value":`, 8_500) + `{"@type":"` + anyURL + `"}` + strings.Repeat("}", 8_500) + `]}`
	}},
	{"any in any in a listener", func() string {
		return `{"version_info":"1","resources":[{"@type":"` + relaytest.ListenerType + `","name":"nested","filter_chains":[{"filters":[{"typed_config":` +
			strings.Repeat(`{"@type":"`+anyURL+`","value":`, 8_500) + `{"@type":"` + anyURL + `"}` + strings.Repeat("}", 8_500) + `}]}]}]}`
	}},
	{"many resources", func() string {
		return `{"version_info":"1","resources":[` + strings.Repeat("{},", 20_000_000) + `{}]}`
	}},
	{"many numbers in metadata", func() string {
		return `{"version_info":"1","resources":[{"@type":"` + relaytest.ListenerType + `","name":"nested","metadata":{"filter_metadata":{"a":{"b":[` +
			strings.Repeat("0,", 30_000_000) + `0]}}}}]}`
	}},
}

// afterPause is when weir polls again at the latest, after an answer that it refuses.
const afterPause = 6 * late

func (w *webEvil) say(p *pod, text string) string {
	b := zip([]byte(text))
	begin, from := w.polls.Load(), time.Now()
	if !w.answer(p, b, 2) {
		p.Errorf("weir reads one answer for more than %v", afterPause)
	}
	said := fmt.Sprintf("%d B compressed of %d KiB, polled %d times in %.1f s", len(b), len(text)>>10, w.polls.Load()-begin, time.Since(from).Seconds())
	// Bad answers in a row are followed by ever longer pauses.
	w.answer(p, zip([]byte(fmt.Sprintf(`{"version_info":"good-%d","resources":[]}`, begin))), 2)
	return said
}

// answer has the next polls answered so, and reports whether so many more of them come in time.
func (w *webEvil) answer(p *pod, body []byte, polls int64) bool {
	begin := w.polls.Load()
	w.mu.Lock()
	w.text = body
	w.mu.Unlock()
	return weirtest.Until(afterPause, func() bool { return w.polls.Load() >= begin+polls || p.weir.Ended() })
}

func webSieges() []siege {
	var all []siege
	for _, b := range webBodies {
		all = append(all, siege{name: "polled origin: " + b.name, play: func(p *pod) string { return p.web.say(p, b.text()) }})
	}
	return all
}

// webDrainSieges end weir while it reads such an answer.
var webDrainSieges = []siege{{name: "drain during polled origin: any in any", ends: true, play: func(p *pod) string {
	text := webBodies[0].text()
	p.web.mu.Lock()
	p.web.text = zip([]byte(text))
	p.web.mu.Unlock()
	time.Sleep(min(500*time.Millisecond, p.length))
	return fmt.Sprintf("drained in %.1f s of %v", p.drain().Seconds(), podDrain)
}}}
