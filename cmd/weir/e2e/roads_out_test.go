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
		ways["aggregated "+string(d)] = newStreams(of(&ads))
		ways["aggregated v2 "+string(d)] = newStreams(of(&adsV2))
		ways["per-type "+string(d)] = newStreams(of(services[roadTypes[0]]), of(services[roadTypes[1]]))
	}
	return ways
}

// streams is a client with a stream for all types, or one for each.
type streams struct {
	clients map[string]*relaytest.Client // by type URL
	all     []*relaytest.Client
}

// newStreams opens the streams.
func newStreams(clients ...*relaytest.Client) *streams {
	s := &streams{clients: map[string]*relaytest.Client{}, all: clients}
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

func (s *streams) ask(endpoints []string) {
	s.clients[relaytest.ClusterType].Request(relaytest.ClusterType, "*")
	s.clients[relaytest.EndpointType].Request(relaytest.EndpointType, endpoints...)
}

func (s *streams) again([]string) {
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

func (p *poller) ask(endpoints []string) { p.names = endpoints }

func (p *poller) again([]string) {}

func (p *poller) held() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, typeURL := range roadTypes {
		m := &discovery.DiscoveryRequest{
			Node: relaytest.Node("client", "e2e"), VersionInfo: p.kept[typeURL].GetVersionInfo(),
		}
		if typeURL == relaytest.EndpointType {
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

func (f *files) again([]string) {}

func (f *files) check(string) {}

// held reads the clusters, and of endpoints the files that the clusters need: others go later.
func (f *files) held() map[string]map[string]string {
	all := map[string]map[string]string{relaytest.EndpointType: {}}
	all[relaytest.ClusterType] = bodiesOf(f.read("cds.pb"))
	endpoints, err := filepath.Glob(filepath.Join(f.dir, "eds.*.pb"))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, path := range endpoints {
		maps.Copy(all[relaytest.EndpointType], bodiesOf(f.read(filepath.Base(path))))
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
