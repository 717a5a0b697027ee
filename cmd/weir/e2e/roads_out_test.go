package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// methods are how a type is asked for, or all of them are.
type methods struct{ name, sotw, delta, fetch, rest string }

const aggregated = "AggregatedDiscoveryService"

var (
	ads = methods{
		name: "envoy.service.discovery.v3." + aggregated,
		sotw: "StreamAggregatedResources", delta: "DeltaAggregatedResources",
	}
	adsV2 = methods{name: "envoy.service.discovery.v2." + aggregated, sotw: ads.sotw, delta: ads.delta}

	services = map[string]*methods{
		relaytest.ClusterType: {
			"envoy.service.cluster.v3.ClusterDiscoveryService",
			"StreamClusters", "DeltaClusters", "FetchClusters", "/v3/discovery:clusters",
		},
		relaytest.EndpointType: {
			"envoy.service.endpoint.v3.EndpointDiscoveryService",
			"StreamEndpoints", "DeltaEndpoints", "FetchEndpoints", "/v3/discovery:endpoints",
		},
		relaytest.ListenerType: {
			"envoy.service.listener.v3.ListenerDiscoveryService",
			"StreamListeners", "DeltaListeners", "FetchListeners", "/v3/discovery:listeners",
		},
		relaytest.RouteType: {
			"envoy.service.route.v3.RouteDiscoveryService",
			"StreamRoutes", "DeltaRoutes", "FetchRoutes", "/v3/discovery:routes",
		},
	}
)

// waysOut are a client of each way out, which go to the weir that the journey has at the time.
func waysOut(t *testing.T, j *journey) map[string]way {
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", j.weir.Addr)
	}
	conn := weirtest.Connect(t, "weir", grpc.WithContextDialer(dial))
	fetch := func(s *methods, m *discovery.DiscoveryRequest) (*discovery.DiscoveryResponse, error) {
		out := &discovery.DiscoveryResponse{}
		m.VersionInfo = "" // it is answered in full in any case
		return out, conn.Invoke(t.Context(), "/"+s.name+"/"+s.fetch, m, out)
	}
	rest := func(s *methods, m *discovery.DiscoveryRequest) (*discovery.DiscoveryResponse, error) {
		return post("http://"+j.weir.Addrs[1]+s.rest, m)
	}
	ways := map[string]way{"Fetch": newPoller(t, fetch), "REST": newPoller(t, rest)}
	for _, d := range []relaytest.Dialect{relaytest.SotW, relaytest.Delta} {
		of := func(s *methods) *relaytest.Client {
			method := s.delta
			if d == relaytest.SotW {
				method = s.sotw
			}
			return relaytest.NewClient(t, conn, relaytest.ClientConfig{
				Dialect: d, Method: "/" + s.name + "/" + method, Patience: patience,
			})
		}
		ways["aggregated "+string(d)] = newStreams(d, of(&ads))
		ways["aggregated v2 "+string(d)] = newStreams(d, of(&adsV2))
		var apart []*relaytest.Client
		for _, typeURL := range roadTypes {
			apart = append(apart, of(services[typeURL]))
		}
		ways["per-type "+string(d)] = newStreams(d, apart...)
	}
	return ways
}

// streams is a client with a stream for all types, or one for each.
type streams struct {
	dialect relaytest.Dialect
	clients map[string]*relaytest.Client // by type URL
	all     []*relaytest.Client
}

// newStreams opens the streams.
func newStreams(d relaytest.Dialect, clients ...*relaytest.Client) *streams {
	s := &streams{dialect: d, clients: map[string]*relaytest.Client{}, all: clients}
	for i, typeURL := range roadTypes {
		s.clients[typeURL] = clients[min(i, len(clients)-1)]
	}
	s.open()
	return s
}

func (s *streams) open() {
	for _, c := range s.all {
		c.Open(relaytest.Node("client", "e2e"))
	}
}

// comeAgain opens the streams that have ended: who holds something that nothing is known of is sent
// away after cold_wait (RELAY-8).
func (s *streams) comeAgain() {
	for _, c := range s.all {
		if c.Err() == nil {
			continue
		}
		c.Open(relaytest.Node("client", "e2e"))
		for typeURL, of := range s.clients {
			if of == c {
				c.Resume(typeURL)
			}
		}
	}
}

func (s *streams) ask(names []string) {
	for _, typeURL := range roadTypes {
		s.clients[typeURL].Request(typeURL, wanted(typeURL, names)...)
	}
}

func (s *streams) again() {
	s.open()
	for _, typeURL := range roadTypes {
		s.clients[typeURL].Resume(typeURL)
	}
}

func (s *streams) held() map[string]map[string]string {
	s.comeAgain()
	all := map[string]map[string]string{}
	for typeURL, c := range s.clients {
		all[typeURL] = map[string]string{}
		for _, name := range c.Names(typeURL) {
			all[typeURL][name] = c.Body(typeURL, name)
		}
	}
	return all
}

// keeps: nothing in SotW says that endpoints or routes are no more.
func (s *streams) keeps(stated bool) bool { return !stated || s.dialect == relaytest.SotW }

func (s *streams) check(string) {
	for _, c := range s.all {
		c.CheckClean()
	}
}

// poll asks once; nil: what is held is what there is.
type poll func(*methods, *discovery.DiscoveryRequest) (*discovery.DiscoveryResponse, error)

// poller is a client that asks each time it is looked at, and presents the version that it holds.
type poller struct {
	t     *testing.T
	names []string
	kept  map[string]*discovery.DiscoveryResponse // by type URL
	poll  poll
	err   error // of the last poll
}

func newPoller(t *testing.T, poll poll) *poller {
	return &poller{t: t, poll: poll, kept: map[string]*discovery.DiscoveryResponse{}}
}

func (p *poller) ask(names []string) { p.names = names }

func (p *poller) again() {}

// keeps: an answer has all that there is of what is asked for (REST-5).
func (p *poller) keeps(stated bool) bool { return !stated }

func (p *poller) held() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, typeURL := range roadTypes {
		m := &discovery.DiscoveryRequest{
			Node: relaytest.Node("client", "e2e"), VersionInfo: p.kept[typeURL].GetVersionInfo(),
		}
		if byName[typeURL] {
			m.ResourceNames = p.names
		}
		r, err := p.poll(services[typeURL], m)
		if p.err = err; err == nil && r != nil {
			p.kept[typeURL] = r
		}
		all[typeURL] = bodiesOf(p.kept[typeURL])
	}
	return all
}

func (p *poller) check(name string) {
	if p.err != nil {
		p.t.Errorf("%s: the last poll: %v", name, p.err)
	}
}

// post polls over REST-JSON; nil: what is held is what there is.
func post(url string, m *discovery.DiscoveryRequest) (*discovery.DiscoveryResponse, error) {
	body, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil || resp.StatusCode == http.StatusNotModified:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, errors.New(resp.Status + ": " + string(text))
	}
	out := &discovery.DiscoveryResponse{}
	return out, protojson.Unmarshal(text, out)
}

// bodiesOf are the resources of a response by name.
func bodiesOf(r *discovery.DiscoveryResponse) map[string]string {
	all := map[string]string{}
	for _, body := range r.GetResources() {
		all[cache.GetResourceName(open(body))] = string(body.Value)
	}
	return all
}

// files is who reads what a sink writes.
type files struct {
	t   *testing.T
	dir string
}

func (f *files) ask([]string) {}

func (f *files) again() {}

// keeps: what nothing refers to is asked for no more.
func (f *files) keeps(bool) bool { return false }

func (f *files) check(string) {}

// held reads the lists, and a file for each name that one of them refers to. Others go later.
func (f *files) held() map[string]map[string]string {
	all := map[string]map[string]string{}
	for typeURL, name := range sourceFiles {
		short := strings.TrimSuffix(name, ".json")
		if !byName[typeURL] {
			all[typeURL] = bodiesOf(f.read(short + ".pb"))
			continue
		}
		all[typeURL] = map[string]string{}
		paths, err := filepath.Glob(filepath.Join(f.dir, short+".*.pb"))
		if err != nil {
			f.t.Fatal(err)
		}
		for _, path := range paths {
			maps.Copy(all[typeURL], bodiesOf(f.read(filepath.Base(path))))
		}
	}
	return all
}

func (f *files) read(name string) *discovery.DiscoveryResponse {
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	out := &discovery.DiscoveryResponse{}
	if err == nil {
		err = proto.Unmarshal(text, out)
	}
	if err != nil {
		f.t.Fatalf("%s: %v", name, err)
	}
	return out
}
