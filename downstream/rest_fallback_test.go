package downstream

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// standIn has the last resort be these, while the origin is out of reach.
func (p *polling) standIn(typeURL string, words ...string) {
	now := time.Now()
	p.lanes = append(p.lanes, p.origin.TakeLanes()...)
	for _, l := range p.lanes {
		l.Missed()
	}
	m := &discoveryv3.DiscoveryResponse{TypeUrl: typeURL}
	for _, w := range words {
		name, body, _ := strings.Cut(w, "=")
		m.Resources = append(m.Resources, payload(typeURL, name, body))
	}
	parsed, err := xds.ParseResponse(encoded(p.t, m), false)
	if err != nil {
		p.t.Fatal(err)
	}
	u, reject := xds.NameFields{}.Accept(parsed, 0)
	if reject != nil {
		p.t.Fatal(reject)
	}
	p.origin.SetFallback(now, p.origin.NewFallback("files", func(yield func(string, *xds.Resource) bool) {
		for i := range u.Resources {
			if !yield(typeURL, &u.Resources[i]) {
				return
			}
		}
	}))
}

// reached opens the streams that could not be opened.
func (p *polling) reached() {
	for _, l := range p.lanes {
		l.Open(time.Now(), 0)
	}
}

// TestPollOfTheLastResort: who polls and was told what stands in is told so again, and what becomes
// of it, though it presents a version; who presents another holds something of the origin, and
// keeps it.
func TestPollOfTheLastResort(t *testing.T) {
	restTest(t, nil, func(p *polling) {
		p.standIn(cds, "a=1", "b=1")
		p.post(clustersPath, pollOf()).want(t, "nobody knows yet that the origin is out of reach", http.StatusServiceUnavailable)
		p.standIn(cds, "a=1", "b=1")
		first := p.post(clustersPath, pollOf()).want(t, "what stands in", http.StatusOK, "a", "b")
		same := pollOf(`"versionInfo": "` + first.version() + `"`)
		p.post(clustersPath, same).want(t, "it is unchanged", http.StatusNotModified)
		p.post(clustersPath, pollOf(`"versionInfo": "x"`)).want(t, "it may be newer", http.StatusServiceUnavailable)
		p.post(clustersPath, same).want(t, "that one was told to nobody", http.StatusNotModified)

		p.standIn(cds, "b=2", "c=1")
		next := p.post(clustersPath, same).want(t, "it changed", http.StatusOK, "b", "c")
		same = pollOf(`"versionInfo": "` + next.version() + `"`)
		p.post(clustersPath, same).want(t, "it is unchanged", http.StatusNotModified)

		p.reached()
		p.say(cds, "b=3", "d=1")
		p.post(clustersPath, same).want(t, "the origin has begun to answer", http.StatusServiceUnavailable)
		time.Sleep(5 * time.Second)
		p.post(clustersPath, same).want(t, "the origin's word", http.StatusOK, "b", "d")
	})
}

// TestPollOfNamesOfTheLastResort is the same for names.
func TestPollOfNamesOfTheLastResort(t *testing.T) {
	restTest(t, nil, func(p *polling) {
		const path = "/v3/discovery:endpoints"
		names := `"resourceNames": ["a", "b"]`
		p.standIn(eds, "a=", "b=")
		p.post(path, pollOf(names)).want(t, "nobody knows yet", http.StatusServiceUnavailable)
		p.standIn(eds, "a=", "b=")
		first := p.post(path, pollOf(names))
		same := pollOf(names, `"versionInfo": "`+first.version()+`"`)
		p.post(path, same).want(t, "it is unchanged", http.StatusNotModified)
		p.post(path, pollOf(names, `"versionInfo": "x"`)).want(t, "it may be newer", http.StatusServiceUnavailable)

		p.standIn(eds, "a=\x12\x00", "b=")
		next := p.post(path, same)
		if next.code != http.StatusOK || next.version() == first.version() || strings.Count(next.text, `"clusterName"`) != 2 {
			t.Fatalf("it changed: %d %s", next.code, next.text)
		}
		same = pollOf(names, `"versionInfo": "`+next.version()+`"`)
		p.post(path, same).want(t, "it is unchanged", http.StatusNotModified)
		p.reached()
		p.say(eds, "a=", "b=\x12\x00")
		last := p.post(path, same)
		if last.code != http.StatusOK || last.version() == next.version() || strings.Count(last.text, `"clusterName"`) != 2 {
			t.Fatalf("the origin's word: %d %s", last.code, last.text)
		}
	})
}
