package real

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// envoy is Envoy of one version in one way of asking.
type envoy struct {
	version string
	dialect relaytest.Dialect
	ads     bool // else a stream for each type
}

// xdsCluster is what Envoy calls its control plane.
const xdsCluster = "xds"

// Name is the version and the way of asking.
func (e envoy) Name() string {
	way := "types"
	if e.ads {
		way = "ads"
	}
	return fmt.Sprintf("envoy-%s-%s-%s", e.version, way, e.dialect)
}

// Protocol is HTTP.
func (e envoy) Protocol() protocol { return speaksHTTP }

// Source is ADS or a service of the type's own.
func (e envoy) Source() *core.ConfigSource {
	if !e.ads {
		return &core.ConfigSource{
			ResourceApiVersion:    core.ApiVersion_V3,
			ConfigSourceSpecifier: &core.ConfigSource_ApiConfigSource{ApiConfigSource: e.api()},
		}
	}
	return &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
	}
}

func (e envoy) api() *core.ApiConfigSource {
	kind := core.ApiConfigSource_GRPC
	if e.dialect == relaytest.Delta {
		kind = core.ApiConfigSource_DELTA_GRPC
	}
	return &core.ApiConfigSource{
		ApiType: kind, TransportApiVersion: core.ApiVersion_V3,
		GrpcServices: []*core.GrpcService{{TargetSpecifier: &core.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &core.GrpcService_EnvoyGrpc{ClusterName: xdsCluster},
		}}},
	}
}

// Listener is on a Unix socket in the folder that Envoy runs in.
func (e envoy) Listener(routes string) *anypb.Any {
	return e.listener(e.manager(routes), nil)
}

// manager gets its routes by name.
func (e envoy) manager(routes string) *hcm.HttpConnectionManager {
	return managerOf(e.Source(), routes)
}

func (e envoy) listener(manager *hcm.HttpConnectionManager, socket *core.TransportSocket) *anypb.Any {
	return relaytest.Body(&listener.Listener{
		Name:    "in",
		Address: pipe("in.sock"),
		FilterChains: []*listener.FilterChain{{
			Filters: []*listener.Filter{{
				Name: "hcm", ConfigType: &listener.Filter_TypedConfig{TypedConfig: relaytest.Body(manager)},
			}},
			TransportSocket: socket,
		}},
	})
}

// bootstrap is Envoy's configuration.
func (e envoy) bootstrap(id, server string) map[string]any {
	dynamic := map[string]any{"cds_config": tree(e.Source()), "lds_config": tree(e.Source())}
	if e.ads {
		dynamic["ads_config"] = tree(e.api())
	}
	const options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	endpoint := map[string]any{"address": tree(xdsAddress(server))}
	return map[string]any{
		"node":              map[string]any{"id": id, "cluster": "edge"},
		"admin":             map[string]any{"address": map[string]any{"pipe": map[string]any{"path": "admin.sock"}}},
		"dynamic_resources": dynamic,
		"static_resources": map[string]any{"clusters": []any{map[string]any{
			"name": xdsCluster, "type": "STATIC", "connect_timeout": "5s",
			"typed_extension_protocol_options": map[string]any{options: map[string]any{
				"@type":                "type.googleapis.com/" + options,
				"explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{}},
			}},
			"load_assignment": map[string]any{
				"cluster_name": xdsCluster,
				"endpoints":    []any{map[string]any{"lb_endpoints": []any{map[string]any{"endpoint": endpoint}}}},
			},
		}}},
	}
}

// xdsAddress is where a control plane is: host:port or unix:///path.
func xdsAddress(server string) *core.Address {
	if path, ok := strings.CutPrefix(server, "unix://"); ok {
		return pipe(path)
	}
	return address(server)
}

func pipe(path string) *core.Address {
	return &core.Address{Address: &core.Address_Pipe{Pipe: &core.Pipe{Path: path}}}
}

// tree is a message as plain JSON.
func tree(m proto.Message) any {
	b, err := protojson.Marshal(m)
	if err != nil {
		panic(err)
	}
	return json.RawMessage(b)
}

// Start runs Envoy in a folder of its own.
func (e envoy) Start(tb testing.TB, id, server string, t *tally) client {
	tb.Helper()
	return startEnvoy(tb, e, e.bootstrap(id, server), t, func(c *http.Client) (string, error) { return get(c, "/") })
}

// proxy is an Envoy that runs.
type proxy struct {
	*child
	admin  *http.Client
	public *http.Client
	ask    func(*http.Client) (string, error) // makes a request, and tells who answered
	stop   chan struct{}
	last   map[string]int64 // counters, when it was ended
	loop   chan struct{}    // closed when the requests have ended
}

// startEnvoy runs the program with a bootstrap and further flags, asks through its listener all the
// time, and counts.
func startEnvoy(tb testing.TB, e envoy, bootstrap any, t *tally, ask func(*http.Client) (string, error), flags ...string) *proxy {
	tb.Helper()
	dir, err := os.MkdirTemp("", "envoy-") // short enough for a socket's path
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	config, err := json.MarshalIndent(bootstrap, "", "  ")
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bootstrap.json"), config, 0o600); err != nil {
		tb.Fatal(err)
	}
	program := installed(tb, "envoy-"+e.version)
	args := append([]string{"-c", "bootstrap.json", "--concurrency", "1", "--disable-hot-restart", "--log-level", "info"}, flags...)
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	p := &proxy{
		ask: ask, child: start(tb, cmd), stop: make(chan struct{}), loop: make(chan struct{}),
		admin: over(filepath.Join(dir, "admin.sock")), public: over(filepath.Join(dir, "in.sock")),
	}
	tb.Cleanup(func() {
		p.Stop()
		if tb.Failed() {
			tb.Logf("Envoy's last counters: %v", p.last)
		}
	})
	go p.request(t)
	return p
}

// over is an HTTP client on a Unix socket, with a connection for each request.
func over(path string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true,
		// who the certificate is for is what is looked at
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
}

// request makes one request after the other. Until the listener is there nobody could make any;
// what comes after that counts.
func (p *proxy) request(t *tally) {
	defer close(p.loop)
	listens := false
	for tick := time.NewTicker(4 * time.Millisecond); ; {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		body, err := p.ask(p.public)
		switch {
		case !listens && (errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)):
			continue
		case err != nil:
			t.Failed("%v", err)
		default:
			t.Answered(body)
		}
		listens = true
	}
}

// Stop ends the requests and then Envoy.
func (p *proxy) Stop() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
		p.last, _ = p.Counters() // none of one that ended by itself
	}
	<-p.loop
	p.child.Stop()
}

// get is the body of an answer of 200.
func get(c *http.Client, path string) (string, error) { return getURL(c, "http://envoy"+path) }

// getURL is get for a host of its own.
func getURL(c *http.Client, url string) (string, error) {
	resp, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s %s", resp.Request.URL.Path, resp.Status, resp.Header.Get("x-envoy-response-flags"), body)
	}
	return string(body), err
}

// moving are the counters of what comes from a control plane.
var moving = regexp.MustCompile(`(update_(attempt|success|failure|rejected|empty)|cluster_(added|modified|removed|updated)|` +
	`listener_(added|modified|removed)|config_reload|config_fail|control_plane.*connected_state)$`)

// Counters are Envoy's, of what comes from its control plane.
func (p *proxy) Counters() (map[string]int64, error) {
	body, err := get(p.admin, "/stats")
	if err != nil {
		return nil, err
	}
	counters := map[string]int64{}
	for line := range strings.Lines(body) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || !moving.MatchString(name) || strings.HasPrefix(name, "cluster."+xdsCluster+".") {
			continue
		}
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			counters[name] = n
		}
	}
	return counters, nil
}

// Refused is how many responses Envoy refused.
func (p *proxy) Refused() (int64, error) {
	counters, err := p.Counters()
	sum := int64(0)
	for name, n := range counters {
		if strings.HasSuffix(name, "update_rejected") {
			sum += n
		}
	}
	return sum, err
}

// Dump is Envoy's configuration dump, what is static left out.
func (p *proxy) Dump() (map[string]string, error) {
	body, err := get(p.admin, "/config_dump?include_eds")
	if err != nil {
		return nil, err
	}
	var dump struct{ Configs []map[string]any }
	if err := json.Unmarshal([]byte(body), &dump); err != nil {
		return nil, err
	}
	held := map[string]string{}
	for _, config := range dump.Configs {
		for kind, list := range config {
			entries, ok := list.([]any)
			if !ok || !strings.HasPrefix(kind, "dynamic_") {
				continue
			}
			var all []string
			for _, entry := range entries {
				b, err := json.MarshalIndent(plain(entry), "", " ")
				if err != nil {
					return nil, err
				}
				all = append(all, string(b))
			}
			slices.Sort(all)
			held[kind] = strings.Join(all, "\n")
		}
	}
	return held, nil
}

// plain takes from a dump what may differ between equal contents: versions, times, listeners that
// drain, past refusals.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range []string{"version_info", "last_updated", "draining_state", "error_state"} {
			delete(v, key)
		}
		for key, inner := range v {
			v[key] = plain(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = plain(inner)
		}
	}
	return v
}
