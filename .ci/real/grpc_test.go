package real

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	statuspb "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// grpcClient is a gRPC client program: it takes a bootstrap from GRPC_XDS_BOOTSTRAP and a target as
// its last argument, and prints what clients/grpcgo does.
type grpcClient struct {
	name    string
	command func(tb testing.TB) []string
	// own is how calls fail by a fault of the program's own, in the same way straight at a control
	// plane; empty: it has none.
	own string
}

// grpcGo is grpc-go, of the version in go.mod.
var grpcGo = grpcClient{
	"grpc-go-" + grpc.Version,
	func(testing.TB) []string { return []string{filepath.Join(clients, "grpcgo")} },
	// A call that is made just when a route to a new cluster arrives, for that cluster, before the
	// balancer has heard of it.
	`Unavailable unknown cluster selected for RPC: "cluster:`,
}

// grpcService is what clients dial as xds:///; it is the listener's name too.
const grpcService = "greeter"

// Name is the program and its version.
func (g grpcClient) Name() string { return g.name }

// Protocol is gRPC.
func (g grpcClient) Protocol() protocol { return speaksGRPC }

// Source is ADS, the only one that gRPC knows.
func (g grpcClient) Source() *core.ConfigSource { return ads() }

func ads() *core.ConfigSource {
	return &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
	}
}

// Listener is one that calls are made by.
func (g grpcClient) Listener(routes string) *anypb.Any {
	return relaytest.Body(&listener.Listener{
		Name: grpcService, ApiListener: &listener.ApiListener{ApiListener: relaytest.Body(managerOf(ads(), routes))},
	})
}

// managerOf gets its routes by name from source.
func managerOf(source *core.ConfigSource, routes string) *hcm.HttpConnectionManager {
	return &hcm.HttpConnectionManager{
		StatPrefix:     "in", // Envoy wants one
		RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{RouteConfigName: routes, ConfigSource: source}},
		HttpFilters: []*hcm.HttpFilter{{
			Name: "router", ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: relaytest.Body(&router.Router{})},
		}},
	}
}

// Start runs the program.
func (g grpcClient) Start(tb testing.TB, id, server string, t *tally) client {
	tb.Helper()
	return startGRPC(tb, append(g.command(tb), "xds:///"+grpcService), id, server, &grpcRun{tally: t, own: g.own})
}

// serverTemplate is what a gRPC server makes the name of its listener of.
const serverTemplate = "grpc/server?xds.resource.listening_address=%s"

// startGRPC runs a program with a gRPC bootstrap, and waits until it tells where its CSDS is.
func startGRPC(tb testing.TB, args []string, id, server string, c *grpcRun) *grpcRun {
	tb.Helper()
	bootstrap, err := json.Marshal(map[string]any{
		"xds_servers": []any{map[string]any{
			"server_uri":      server,
			"channel_creds":   []any{map[string]any{"type": "insecure"}},
			"server_features": []any{"xds_v3"},
		}},
		"node": map[string]any{
			// grpc-js wants one
			"id": id, "cluster": "apps", "locality": map[string]any{"region": "here"},
		},
		"server_listener_resource_name_template": serverTemplate,
	})
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "bootstrap.json")
	if err := os.WriteFile(file, bootstrap, 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{"GRPC_XDS_BOOTSTRAP=" + file, "GRPC_GO_LOG_SEVERITY_LEVEL=warning", "no_grpc_proxy=127.0.0.1"}
	cmd.Stdout = c
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	c.child = start(tb, cmd)
	tb.Cleanup(func() { _ = stdin.Close() })
	if !weirtest.Until(patience, func() bool { return c.csds() != "" || c.ended() }) || c.ended() {
		tb.Fatalf("%s did not start", args[0])
	}
	return c
}

// grpcRun is a gRPC program that runs.
type grpcRun struct {
	*child
	tally *tally
	own   string
	told  map[string]int64 // the counters before

	mu      sync.Mutex // guards all below
	part    []byte     // of a line
	addr    string     // of CSDS
	metrics map[string]int64
}

// noCSDS is the address of a program that has metrics in place of CSDS.
const noCSDS = "none"

// Write takes what the program prints.
func (c *grpcRun) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.part = append(c.part, p...)
	for {
		line, rest, whole := bytes.Cut(c.part, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		c.part = rest
		c.line(string(line))
	}
}

func (c *grpcRun) line(line string) {
	kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch kind {
	case "csds":
		c.addr = rest
	case "counter", "gauge":
		c.metric(kind, rest)
	case "answered":
		c.tally.Answered(rest)
	case "failed":
		if c.own != "" && strings.HasPrefix(rest, c.own) {
			c.tally.Own()
			return
		}
		c.tally.Failed("%s", rest)
	default:
		c.tally.Failed("the program printed %q", line)
	}
}

// metric notes a value, in place of the one before.
func (c *grpcRun) metric(kind, line string) {
	name, value, _ := strings.Cut(line, " ")
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		c.tally.Failed("the program printed %q", line)
		return
	}
	if c.metrics == nil {
		c.metrics = map[string]int64{}
	}
	c.metrics[kind+" "+name] = n
}

// measured are the metrics whose names begin so, without those that are 0.
func (c *grpcRun) measured(prefix string) map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	some := maps.Clone(c.metrics)
	maps.DeleteFunc(some, func(name string, n int64) bool { return n == 0 || !strings.HasPrefix(name, prefix) })
	return some
}

func (c *grpcRun) csds() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addr
}

// status asks the program what it holds.
func (c *grpcRun) status() ([]*statuspb.ClientConfig_GenericXdsConfig, error) {
	conn, err := grpc.NewClient("passthrough:///"+c.csds(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := statuspb.NewClientStatusDiscoveryServiceClient(conn).FetchClientStatus(ctx, &statuspb.ClientStatusRequest{})
	if err != nil {
		return nil, err
	}
	var all []*statuspb.ClientConfig_GenericXdsConfig
	for _, config := range resp.GetConfig() {
		all = append(all, config.GetGenericXdsConfigs()...)
	}
	return all, nil
}

// Dump is each resource with its body and whether it is accepted, refused, absent or awaited;
// without CSDS how many there are of each type and state. Clusters and endpoints are left out of
// that: the program counts those that it once had too.
func (c *grpcRun) Dump() (map[string]string, error) {
	held := map[string]string{}
	if c.csds() == noCSDS {
		for name, n := range c.measured("gauge ") {
			if strings.Contains(name, "config.listener.") || strings.Contains(name, "config.route.") {
				held[name] = fmt.Sprint(n)
			}
		}
		return held, nil
	}
	all, err := c.status()
	for _, r := range all {
		held[r.GetTypeUrl()+" "+r.GetName()] = fmt.Sprintf("%s %q", r.GetClientStatus(), r.GetXdsConfig().GetValue())
	}
	return held, err
}

// wander is by how much a program's time of one event differs between two dumps: gRPC core computes
// it anew for each from a clock of its own.
const wander = 50 * time.Millisecond

// Counters are the times at which each resource was last told; without CSDS how many were, by type.
func (c *grpcRun) Counters() (map[string]int64, error) {
	if c.csds() == noCSDS {
		return c.measured("counter "), nil
	}
	all, err := c.status()
	counters := map[string]int64{}
	for _, r := range all {
		key, at := r.GetTypeUrl()+" "+r.GetName(), r.GetLastUpdated().AsTime().UnixNano()
		if before, ok := c.told[key]; ok && max(at-before, before-at) < int64(wander) {
			at = before
		}
		counters[key] = at
	}
	c.told = counters
	return counters, err
}

// Refused is how many resources are refused at present; the program does not say how often. Without
// CSDS it is how many were.
func (c *grpcRun) Refused() (int64, error) {
	if c.csds() == noCSDS {
		n := int64(0)
		for _, invalid := range c.measured("counter grpc.xds_client.resource_updates_invalid") {
			n += invalid
		}
		return n, nil
	}
	all, err := c.status()
	n := int64(0)
	for _, r := range all {
		if r.GetClientStatus() == adminv3.ClientResourceStatus_NACKED {
			n++
		}
	}
	return n, err
}
