package real

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	mutation "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	headermutation "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	ondemand "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	runtimeservice "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// feature is a type beside the four of every mesh. Each generation of its world differs in
// resources of that type, and requests show which generation is in force.
type feature struct {
	name  string
	world func(e envoy, b *bed, n int) world
	shows func(b *bed, n int) string
	// What is not as with every Envoy; nil: nothing.
	bootstrap func(e envoy, b map[string]any)
	ask       func(*http.Client) (string, error)
	sotw      bool // it can be had by SotW
}

// both are two clusters that stay, with a backend each.
func both(e envoy, b *bed) world {
	m := mesh{client: e, live: "c-0", clusters: map[string]*service{
		"c-0": {backends: b.backs(0)}, "c-1": {backends: b.backs(1)},
	}}
	return m.world()
}

// generation is the one of both that generation n uses.
func generation(n int) string { return fmt.Sprint("c-", n%2) }

func byBackend(b *bed, n int) string { return b.backend(n % 2).name }

func askPlain(c *http.Client) (string, error) { return get(c, "/") }

var features = []feature{
	{name: "secrets", world: secrets, shows: func(_ *bed, n int) string { return certificateOf(n) }, ask: askTLS, sotw: true},
	{name: "extensions", world: extensions, shows: func(_ *bed, n int) string { return fmt.Sprint("gen-", n) }, ask: askHeader, sotw: true},
	{name: "runtime", world: runtimes, shows: byBackend, bootstrap: runtimeLayer, ask: askPlain, sotw: true},
	{name: "scoped-routes", world: scopedRoutes, shows: byBackend, ask: askPlain, sotw: true},
	{name: "virtual-hosts-on-demand", world: virtualHosts, shows: byBackend, ask: askPlain},
}

// certificateOf is who the certificate of a generation is for: two take turns.
func certificateOf(n int) string { return fmt.Sprint("certificate-", n%2) }

// secrets: a TLS listener whose certificate is told by SDS.
func secrets(e envoy, b *bed, n int) world {
	w := both(e, b)
	context := &tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: "certificate", SdsConfig: e.Source()}},
	}}
	w.put(e.listener(e.manager(routes), &core.TransportSocket{
		Name: "tls", ConfigType: &core.TransportSocket_TypedConfig{TypedConfig: relaytest.Body(context)},
	}))
	a := b.authority
	return w.put(relaytest.Body(&tlsv3.Secret{Name: "certificate", Type: &tlsv3.Secret_TlsCertificate{
		TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: b.inline(a.Path(certificateOf(n) + ".pem")),
			PrivateKey:       b.inline(a.Path(certificateOf(n) + ".key")),
		},
	}}))
}

func (b *bed) inline(path string) *core.DataSource {
	b.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	return &core.DataSource{Specifier: &core.DataSource_InlineBytes{InlineBytes: text}}
}

// askTLS tells who the certificate is for.
func askTLS(c *http.Client) (string, error) {
	resp, err := c.Get("https://envoy/")
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s", resp.Status)
	}
	return resp.TLS.PeerCertificates[0].Subject.CommonName, nil
}

// extensions: a filter whose configuration is told by ECDS.
func extensions(e envoy, b *bed, n int) world {
	const name = "generation"
	manager := e.manager(routes)
	manager.HttpFilters = append([]*hcm.HttpFilter{{
		Name: name,
		ConfigType: &hcm.HttpFilter_ConfigDiscovery{ConfigDiscovery: &core.ExtensionConfigSource{
			ConfigSource: e.Source(),
			TypeUrls:     []string{relaytest.Body(&headermutation.HeaderMutation{}).TypeUrl},
		}},
	}}, manager.HttpFilters...)
	filter := &headermutation.HeaderMutation{Mutations: &headermutation.Mutations{
		ResponseMutations: []*mutation.HeaderMutation{{Action: &mutation.HeaderMutation_Append{
			Append: &core.HeaderValueOption{Header: &core.HeaderValue{Key: name, Value: fmt.Sprint("gen-", n)}},
		}}},
	}}
	return both(e, b).put(e.listener(manager, nil),
		relaytest.Body(&core.TypedExtensionConfig{Name: name, TypedConfig: relaytest.Body(filter)}))
}

// askHeader tells what the filter adds.
func askHeader(c *http.Client) (string, error) {
	resp, err := c.Get("http://envoy/")
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s", resp.Status)
	}
	return resp.Header.Get("generation"), nil
}

// runtimes: which of two routes is taken hangs on a key of the runtime, told by RTDS.
func runtimes(e envoy, b *bed, n int) world {
	first := routeTo("/", "c-1")
	first.Match.RuntimeFraction = &core.RuntimeFractionalPercent{
		RuntimeKey: "second", DefaultValue: &typev3.FractionalPercent{Numerator: 0},
	}
	host := &route.VirtualHost{Name: "all", Domains: []string{"*"}, Routes: []*route.Route{first, routeTo("/", "c-0")}}
	layer, err := structpb.NewStruct(map[string]any{"second": float64(n % 2 * 100)})
	if err != nil {
		b.Fatal(err)
	}
	return both(e, b).put(
		relaytest.Body(&route.RouteConfiguration{Name: routes, VirtualHosts: []*route.VirtualHost{host}}),
		relaytest.Body(&runtimeservice.Runtime{Name: "layer", Layer: layer}),
	)
}

func runtimeLayer(e envoy, b map[string]any) {
	b["layered_runtime"] = map[string]any{"layers": []any{map[string]any{
		"name": "told", "rtds_layer": map[string]any{"name": "layer", "rtds_config": tree(e.Source())},
	}}}
}

// scopedRoutes: the scope of the request's host names one of two route configurations.
func scopedRoutes(e envoy, b *bed, n int) world {
	w := both(e, b)
	manager := e.manager(routes)
	manager.RouteSpecifier = &hcm.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcm.ScopedRoutes{
		Name: "scopes",
		ScopeKeyBuilder: &hcm.ScopedRoutes_ScopeKeyBuilder{Fragments: []*hcm.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder{{
			Type: &hcm.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_{
				HeaderValueExtractor: &hcm.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor{
					Name:        ":authority",
					ExtractType: &hcm.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Index{Index: 0},
				},
			},
		}}},
		RdsConfigSource: e.Source(),
		ConfigSpecifier: &hcm.ScopedRoutes_ScopedRds{ScopedRds: &hcm.ScopedRds{ScopedRdsConfigSource: e.Source()}},
	}}
	delete(w, relaytest.RouteType)
	w.put(e.listener(manager, nil), scope("scope", "envoy", n%2))
	// a scope for each keeps Envoy from having neither while it asks for the other
	for i := range 2 {
		host := &route.VirtualHost{Name: "all", Domains: []string{"*"}, Routes: []*route.Route{routeTo("/", generation(i))}}
		w.put(scope(fmt.Sprint("other-", i), fmt.Sprint("other-", i), i),
			relaytest.Body(&route.RouteConfiguration{Name: fmt.Sprint("routes-", i), VirtualHosts: []*route.VirtualHost{host}}))
	}
	return w
}

// scope gives requests for a host one of the two route configurations.
func scope(name, host string, n int) *anypb.Any {
	return relaytest.Body(&route.ScopedRouteConfiguration{
		Name: name, RouteConfigurationName: fmt.Sprint("routes-", n),
		Key: &route.ScopedRouteConfiguration_Key{Fragments: []*route.ScopedRouteConfiguration_Key_Fragment{{
			Type: &route.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: host},
		}}},
	})
}

// virtualHosts: the host of the request is asked for when the first request for it comes.
func virtualHosts(e envoy, b *bed, n int) world {
	manager := e.manager(routes)
	manager.HttpFilters = append([]*hcm.HttpFilter{{
		Name:       "on-demand",
		ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: relaytest.Body(&ondemand.OnDemand{})},
	}}, manager.HttpFilters...)
	return both(e, b).put(e.listener(manager, nil),
		relaytest.Body(&route.RouteConfiguration{Name: routes, Vhds: &route.Vhds{ConfigSource: e.Source()}}),
		relaytest.Body(&route.VirtualHost{
			Name: routes + "/envoy", Domains: []string{"envoy"}, Routes: []*route.Route{routeTo("/", generation(n))},
		}))
}

// TestEnvoyFeatures: Envoy has each type over a Unix socket, as it changes, while the control plane
// is dead, and from a weir that was restarted.
func TestEnvoyFeatures(t *testing.T) {
	for _, version := range []string{pinned("ENVOY_NEWEST"), pinned("ENVOY_OLDEST")} {
		for _, f := range features {
			for _, o := range []origin{snapshotDelta, snapshotSotW} {
				e := envoy{version, o.dialect, true}
				if o.dialect == relaytest.SotW && !f.sotw {
					continue
				}
				t.Run(f.name+"/"+e.Name(), func(t *testing.T) { f.live(t, e, o) })
			}
		}
	}
}

// live is the life of an Envoy with the feature.
func (f feature) live(t *testing.T, e envoy, o origin) {
	t.Parallel()
	b := &bed{T: t, row: row{program: e, origin: o}, backends: []*backend{startBackend(t, "backend-0"), startBackend(t, "backend-1")}, tally: newTally()}
	b.authority = weirtest.NewAuthority(t, "real")
	b.authority.Issue(certificateOf(0), 2)
	b.authority.Issue(certificateOf(1), 3)
	b.plane = newPlane(t, o, f.world(e, b, 0))
	dir, err := os.MkdirTemp("", "weir-") // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := "unix://" + filepath.Join(dir, "xds.sock")
	c := weirConfig(b.plane, filepath.Join(dir, "snapshot"))
	c.Listener()["address"] = socket
	c.Origin().Set("secrets", "dedicated")
	b.weir = weirtest.Start(t, c)
	run := func(server string, to *tally) *proxy {
		boot := e.bootstrap("client", server)
		if f.bootstrap != nil {
			f.bootstrap(e, boot)
		}
		return startEnvoy(t, e, boot, to, f.ask)
	}
	b.client = run(socket, b.tally)
	reach := func(n int, sentence string) { b.tally.Reach(t, f.shows(b, n), sentence) }
	reach(0, "the first generation")
	n := 0
	next := func(sentence string) {
		n++
		b.plane.Publish(f.world(e, b, n))
		reach(n, sentence)
	}
	for range 6 {
		next("it changes")
	}
	b.plane.Stop()
	b.tally.More(t, 50, "requests go on without the control plane")
	b.plane.Start(f.world(e, b, n))
	next("it changes after the control plane is back")
	b.weir.Stop()
	b.tally.More(t, 50, "requests go on without weir")
	b.weir = weirtest.Start(t, c)
	next("it changes after weir was restarted")

	other := newTally()
	straight := run(b.plane.Addr(), other)
	other.Reach(t, f.shows(b, n), "an Envoy straight at the control plane")
	equal(t, straight, b.client)
	straight.Stop()
	b.client.Stop()
	other.Check(t)
	b.tally.Check(t)
}
