package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// pathOf is the path that a polled origin answers a type on.
var pathOf = map[string]string{
	cds: clustersPath, eds: endpointsPath, lds: "/v3/discovery:listeners", rds: "/v3/discovery:routes",
}

// restOrigin is a REST server. It gives each type what the test says, and 304 to who presents its
// version. It records all polls. Safe for concurrent use.
type restOrigin struct {
	t    *testing.T
	net  *relaytest.Net
	http *http.Server
	done chan struct{} // closed when the server has ended

	mu      sync.Mutex          // guards what follows
	sets    map[string]*restSet // by path; without one the answer is 404
	instead http.HandlerFunc    // of every answer; nil: none
	polls   []*pollOf           // all of them, in the order of their coming
	taken   int                 // of polls, by await
}

// restSet is what the server has of a type.
type restSet struct {
	version, text string // the whole answer
	unchanged     int    // answers of 304
}

// pollOf is one request.
type pollOf struct {
	at   time.Time
	path string
	*discovery.DiscoveryRequest
}

func newRESTOrigin(t *testing.T) *restOrigin {
	t.Helper()
	o := &restOrigin{t: t, net: relaytest.TCP(), sets: map[string]*restSet{}}
	o.begin()
	t.Cleanup(o.end)
	return o
}

// begin listens, at the same port each time.
func (o *restOrigin) begin() {
	o.t.Helper()
	l, err := o.net.Listen()
	if err != nil {
		o.t.Fatal(err)
	}
	s, done := &http.Server{Handler: o, ReadHeaderTimeout: time.Minute}, make(chan struct{})
	o.http, o.done = s, done
	go func() {
		defer close(done)
		_ = s.Serve(l) // until it is closed
	}()
}

// end is the end of a process: its connections are cut.
func (o *restOrigin) end() {
	_ = o.http.Close() // nothing is to be said to anybody
	<-o.done
}

// start starts weir before the server, or a row of weirs of which the first polls it.
func (o *restOrigin) start(config func(weirtest.Config)) *world {
	o.t.Helper()
	w := &world{t: o.t}
	for hop := range hops(o.t) {
		if hop == 0 {
			w.config = weirtest.NewConfig("", relaytest.SotW)
			delete(w.config.Origin(), "grpc")
			w.config.Origin()["rest"] = map[string]any{"urls": []any{"http://" + o.net.Addr()}, "poll": "100ms"}
			w.config.Origin()["node"] = map[string]any{"cluster": "edge"}
		} else {
			w.config = weirtest.NewConfig(w.weir.Addr, relaytest.Delta)
		}
		w.config.Set("instance", instanceOf(hop))
		if config != nil {
			config(w.config)
		}
		w.weir = weirtest.Start(o.t, w.config)
		if w.first == nil {
			w.first = w.weir
		}
	}
	return w
}

// give makes these all that there is of a type, in canonical JSON.
func (o *restOrigin) give(typeURL, version string, bodies ...*anypb.Any) {
	o.t.Helper()
	var all []string
	for _, body := range bodies {
		all = append(all, inJSON(o.t, body))
	}
	o.write(typeURL, version, all...)
}

// write is give with resources that are written by hand.
func (o *restOrigin) write(typeURL, version string, resources ...string) {
	const form = `{"versionInfo":%q,"nonce":%q,"typeUrl":%q,"resources":[%s]}`
	o.say(typeURL, version, fmt.Sprintf(form, version, nonceOf(version), typeURL, strings.Join(resources, ",")))
}

// say is write with an answer that is written by hand.
func (o *restOrigin) say(typeURL, version, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sets[pathOf[typeURL]] = &restSet{version: version, text: text}
}

func nonceOf(version string) string { return "nonce of " + version }

func inJSON(t *testing.T, m proto.Message) string {
	t.Helper()
	text, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// answer has every poll answered by f, or again as usual where it is nil.
func (o *restOrigin) answer(f http.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.instead, o.taken = f, len(o.polls)
}

// code answers with a status, and a text.
func code(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// ServeHTTP is part of http.Handler. A poll that is not one is an error of the test (REST-1,
// REST-4).
func (o *restOrigin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := &pollOf{at: time.Now(), path: r.URL.Path, DiscoveryRequest: &discovery.DiscoveryRequest{}}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return // it was broken off
	}
	if err := protojson.Unmarshal(text, p.DiscoveryRequest); err != nil {
		o.t.Errorf("%s is no request: %v", text, err)
	}
	var is, canonical any
	asEnvoy, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(p.DiscoveryRequest)
	if err != nil {
		o.t.Error(err)
	}
	_, _ = json.Unmarshal(text, &is), json.Unmarshal(asEnvoy, &canonical)
	switch {
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json":
		o.t.Errorf("a poll is a %s of %q", r.Method, r.Header.Get("Content-Type"))
	case !reflect.DeepEqual(is, canonical):
		o.t.Errorf("%s is not written as Envoy writes it", text)
	case pathOf[p.GetTypeUrl()] != p.path:
		o.t.Errorf("%s is polled for at %s", p.GetTypeUrl(), p.path)
	case p.GetNode().GetCluster() != "edge":
		o.t.Errorf("a poll comes from %v", p.GetNode())
	}
	o.mu.Lock()
	o.polls = append(o.polls, p)
	instead, set := o.instead, o.sets[p.path]
	unchanged := instead == nil && set != nil && p.GetVersionInfo() == set.version
	if unchanged {
		set.unchanged++
	}
	o.mu.Unlock()
	switch {
	case instead != nil:
		instead(w, r)
	case set == nil:
		w.WriteHeader(http.StatusNotFound)
	case unchanged:
		w.WriteHeader(http.StatusNotModified)
	default:
		_, _ = io.WriteString(w, set.text)
	}
}

// await waits for a poll for a type that is as wanted. Polls up to the one of the last call do not
// count.
func (o *restOrigin) await(typeURL, sentence string, wanted func(*pollOf) bool) *pollOf {
	o.t.Helper()
	var found *pollOf
	look := func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		for i := o.taken; i < len(o.polls); i++ {
			if p := o.polls[i]; p.path == pathOf[typeURL] && wanted(p) {
				found, o.taken = p, i+1
				return true
			}
		}
		return false
	}
	if !weirtest.Until(weirtest.Patience, look) {
		o.t.Fatalf("%s: no such poll; the last are %v", sentence, o.last(5))
	}
	return found
}

// last are the last polls.
func (o *restOrigin) last(n int) (all []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.polls[max(0, len(o.polls)-n):] {
		all = append(all, p.path+" "+p.DiscoveryRequest.String())
	}
	return all
}

// count is how many polls there were for a type, and how many of what it has now were answered with
// 304.
func (o *restOrigin) count(typeURL string) (polls, unchanged int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.polls {
		if p.path == pathOf[typeURL] {
			polls++
		}
	}
	if s := o.sets[pathOf[typeURL]]; s != nil {
		unchanged = s.unchanged
	}
	return polls, unchanged
}

// awaitUnchanged waits until the type has been answered with 304 some times more.
func (o *restOrigin) awaitUnchanged(typeURL, sentence string, more int) {
	o.t.Helper()
	_, before := o.count(typeURL)
	if !weirtest.Until(weirtest.Patience, func() bool { _, n := o.count(typeURL); return n >= before+more }) {
		o.t.Fatalf("%s: the last polls are %v", sentence, o.last(5))
	}
}

// presents says that a poll presents a version, and refuses nothing.
func presents(version string) func(*pollOf) bool {
	return func(p *pollOf) bool { return p.GetVersionInfo() == version && p.GetErrorDetail() == nil }
}

// polledFor says that a poll names these, or nothing.
func polledFor(names ...string) func(*pollOf) bool {
	return func(p *pollOf) bool {
		return slices.Equal(slices.Sorted(slices.Values(p.GetResourceNames())), names)
	}
}

// anyPoll is one of whatever content.
func anyPoll(*pollOf) bool { return true }
