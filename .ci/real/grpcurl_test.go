package real

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// grpcurl calls a method, or lists services with no data, and returns what the tool prints.
func grpcurl(tb testing.TB, args ...string) string {
	tb.Helper()
	args = append([]string{"-plaintext", "-max-time", "20"}, args...)
	out, err := exec.Command(installed(tb, "grpcurl-"+pinned("GRPCURL")), args...).CombinedOutput()
	if err != nil {
		tb.Fatalf("grpcurl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestGRPCurl: the tool, which knows nothing of the services beforehand, finds those of the admin
// port and of a listener, and asks health, channelz (as grpcdebug does: servers, their sockets, and
// channels) and client status in both views.
func TestGRPCurl(t *testing.T) {
	t.Parallel()
	p := newPlane(t, snapshotDelta, world{}.put(relaytest.Body(&cluster.Cluster{Name: "a"})))
	weir := weirtest.Start(t, weirConfig(p, filepath.Join(t.TempDir(), "snapshot")))
	c := relaytest.NewClient(t, weirtest.Connect(t, weir.Addr), relaytest.ClientConfig{Dialect: relaytest.Delta})
	c.Open(relaytest.Node("the-client", "edge"))
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the client is served", "a")

	for address, services := range map[string][]string{
		weir.Admin: {
			"envoy.service.status.v3.ClientStatusDiscoveryService", "grpc.channelz.v1.Channelz", "grpc.health.v1.Health",
			"grpc.reflection.v1.ServerReflection",
		},
		weir.Addr: {"envoy.service.discovery.v3.AggregatedDiscoveryService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"},
	} {
		all := strings.Fields(grpcurl(t, address, "list"))
		for _, want := range services {
			if !slices.Contains(all, want) {
				t.Errorf("%s is not among %q", want, all)
			}
		}
		if out := grpcurl(t, address, "grpc.health.v1.Health/Check"); !strings.Contains(out, "SERVING") || strings.Contains(out, "NOT_SERVING") {
			t.Errorf("health of %s: %s", address, out)
		}
	}

	var status struct {
		Config []struct {
			Node              struct{ ID string }
			ClientScope       string
			GenericXdsConfigs []struct{ Name, ConfigStatus, ClientStatus string }
		}
	}
	weirtest.Until(patience, func() bool { // until the ACK is in
		status.Config = nil
		unmarshal(t, grpcurl(t, "-d", `{"exclude_resource_contents": true}`, weir.Admin,
			"envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus"), &status)
		for _, c := range status.Config {
			if c.Node.ID == "the-client" && len(c.GenericXdsConfigs) == 1 && c.GenericXdsConfigs[0].ConfigStatus == "SYNCED" {
				return true
			}
		}
		return !pause()
	})
	client, lane := false, false
	for _, c := range status.Config {
		if len(c.GenericXdsConfigs) == 0 {
			continue
		}
		x := c.GenericXdsConfigs[0]
		client = client || c.Node.ID == "the-client" && c.ClientScope == "" && x.ConfigStatus == "SYNCED" && x.Name == "a"
		lane = lane || strings.HasPrefix(c.ClientScope, "origin/mesh/") && x.ClientStatus == "ACKED" && x.Name == "a"
	}
	if !client || !lane {
		t.Errorf("client %t, lane %t: %+v", client, lane, status)
	}

	type ref struct{ ServerID, SocketID string }
	var servers struct {
		Server []struct {
			Ref  ref
			Data struct{ CallsStarted string }
		}
	}
	unmarshal(t, grpcurl(t, weir.Admin, "grpc.channelz.v1.Channelz/GetServers"), &servers)
	sockets := 0
	for _, s := range servers.Server {
		var of struct{ SocketRef []ref }
		unmarshal(t, grpcurl(t, "-d", `{"server_id": `+s.Ref.ServerID+`}`, weir.Admin, "grpc.channelz.v1.Channelz/GetServerSockets"), &of)
		for _, x := range of.SocketRef {
			var socket struct {
				Socket struct {
					Data struct{ StreamsStarted, MessagesReceived string }
				}
			}
			unmarshal(t, grpcurl(t, "-d", `{"socket_id": `+x.SocketID+`}`, weir.Admin, "grpc.channelz.v1.Channelz/GetSocket"), &socket)
			if socket.Socket.Data.StreamsStarted != "" && socket.Socket.Data.MessagesReceived != "" {
				sockets++
			}
		}
	}
	if sockets == 0 {
		t.Errorf("no socket has the client's stream: %+v", servers)
	}
	if out := grpcurl(t, weir.Admin, "grpc.channelz.v1.Channelz/GetTopChannels"); !strings.Contains(out, p.Addr()) {
		t.Errorf("the origin's channel is not among %s", out)
	}
}

func unmarshal(tb testing.TB, text string, into any) {
	tb.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		tb.Fatalf("%v: %s", err, text)
	}
}
