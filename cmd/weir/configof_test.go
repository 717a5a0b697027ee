package main

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/configdump"
	"github.com/weir-xds/weir/relay/relaytest"
)

// configClient opens a client that asks for all clusters and a listener.
func configClient(t *testing.T, w *running, node *corev3.Node, cfg relaytest.ClientConfig) *relaytest.Client {
	cfg.Patience = patience
	c := relaytest.NewClient(t, dial(t, w.listenAddress()), cfg)
	c.Open(node)
	c.Request(relaytest.ClusterType)
	c.Expect(relaytest.ClusterType, "the clusters come")
	return c
}

// TestConfigOf: the command prints what a client has as Envoy's config dump does, with what is
// sensitive blanked.
func TestConfigOf(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", `resources:
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: web
  connect_timeout: 1s
  transport_socket:
    name: tls
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
      common_tls_context: { tls_certificates: [{ private_key: { inline_string: hush } }] }
`)
	w := startWeir(t, freePorts+filesOrigin(dir))
	port := w.admin.listener.Addr().String()
	configClient(t, w, relaytest.Node("web-1", "edge"), relaytest.ClientConfig{})
	await(t, "the client has the cluster", func() bool {
		_, stdout, _ := weir(t, "config", "of", "web-1", "--diff", "--admin", port)
		return stdout == "the client has what its origin has\n"
	})

	code, stdout, stderr := weir(t, "config", "of", "web-1", "--admin", port)
	if code != exitOK || stderr != "" || strings.Contains(stdout, "hush") || !strings.Contains(stdout, "blanked") {
		t.Fatalf("%d, %q,\n%s", code, stderr, stdout)
	}
	var dump adminv3.ConfigDump
	if err := protojson.Unmarshal([]byte(stdout), &dump); err != nil || len(dump.Configs) != 1 {
		t.Fatalf("%v, %s", err, stdout)
	}
	var all adminv3.ClustersConfigDump
	if err := dump.Configs[0].UnmarshalTo(&all); err != nil || len(all.DynamicActiveClusters) != 1 {
		t.Fatalf("%v, %s", err, stdout)
	}
	var is clusterv3.Cluster
	got := all.DynamicActiveClusters[0]
	if err := got.Cluster.UnmarshalTo(&is); err != nil || is.Name != "web" || is.ConnectTimeout.AsDuration().Seconds() != 1 ||
		got.VersionInfo == "" || got.LastUpdated == nil || got.ClientStatus != adminv3.ClientResourceStatus_ACKED {
		t.Errorf("%v, %+v", err, got)
	}

	code, stdout, stderr = weir(t, "config", "of", "web-1", "--admin", port, "-o", "yaml")
	var read map[string]any
	if err := yaml.Load([]byte(stdout), &read); err != nil || code != exitOK || stderr != "" || read["configs"] == nil {
		t.Errorf("YAML: %d, %v, %q,\n%s", code, err, stderr, stdout)
	}
	code, stdout, _ = weir(t, "config", "of", "web-1", "--admin", port, "-o", "table")
	if code != exitOK || !strings.HasPrefix(stdout, "TYPE  NAME  STATUS  VERSION ") || !strings.Contains(stdout, "\ncds   web   SYNCED  ") {
		t.Errorf("table: %d,\n%s", code, stdout)
	}
}

// TestConfigOfDiffers: each resource that the client has otherwise than its origin has a line that
// says why.
func TestConfigOfDiffers(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a", "b"))
	w := startWeir(t, freePorts+filesOrigin(dir))
	port := w.admin.listener.Addr().String()
	configClient(t, w, relaytest.Node("bad-1", "edge"), relaytest.ClientConfig{Reject: func(*relaytest.Response) string { return "not to\nmy taste" }})
	configClient(t, w, relaytest.Node("good-1", "edge"), relaytest.ClientConfig{})
	diff := func(node string) string {
		t.Helper()
		code, stdout, stderr := weir(t, "config", "of", node, "--diff", "--admin", port)
		if code != exitOK || stderr != "" {
			t.Fatalf("%s: %d, %q", node, code, stderr)
		}
		return stdout
	}
	await(t, "a rejection is said", func() bool {
		said := diff("bad-1")
		return strings.Contains(said, `cds "a": the client rejected version `) && strings.Contains(said, ": not to my taste\n") && strings.Contains(said, `cds "b": `)
	})
	await(t, "and nothing of the client that accepts", func() bool { return diff("good-1") == "the client has what its origin has\n" })

	if code, _, stderr := weir(t, "freeze", "disk", "--admin", port); code != exitOK {
		t.Fatalf("freeze: %d, %q", code, stderr)
	}
	dir.put(t, "cds.yaml", clusters("a", "c"))
	await(t, "what a freeze holds back is said", func() bool { return strings.Contains(diff("good-1"), "cds waits (freeze): ") })
	code, stdout, stderr := weir(t, "config", "of", "good-1", "--admin", port)
	if code != exitOK || !json.Valid([]byte(stdout)) || !strings.Contains(stderr, "cds waits (freeze): ") {
		t.Errorf("%d, %q beside\n%s", code, stderr, stdout)
	}
}

// TestConfigOfChoices: a node id that no client has, or several have, is an error that says what to
// do.
func TestConfigOfChoices(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, freePorts+filesOrigin(dir))
	port := w.admin.listener.Addr().String()
	refused := func(want string, args ...string) {
		t.Helper()
		code, stdout, stderr := weir(t, append([]string{"config", "of", "--admin", port}, args...)...)
		if code != exitFailed || stdout != "" || stderr != want+"\n" {
			t.Errorf("%q: %d, %q, %q, want %q", args, code, stdout, stderr, want)
		}
	}
	refused("no client is connected", "web-1")
	for _, node := range [][2]string{{"web-1", "edge"}, {"web-1", "core"}, {"web-2", "edge"}, {"web-2", "edge"}, {"batch", "edge"}} {
		configClient(t, w, relaytest.Node(node[0], node[1]), relaytest.ClientConfig{})
	}
	refused(`no client with the node id "web1" is connected; did you mean web-1?`, "web1")
	refused(`no client with the node id "nothing-like-it" is connected; weir clients lists those that are`, "nothing-like-it")
	refused(`no client with the node id "web-*" is connected; the nearest are web-1, web-2`, "web-*")
	refused(`clients of 2 clusters have the node id "web-1"; choose one: --cluster core, --cluster edge`, "web-1")
	refused(`no client with the node id "web-1" has the cluster "west"; those with this id have core, edge`, "web-1", "--cluster", "west")
	if code, stdout, stderr := weir(t, "config", "of", "web-1", "--cluster", "core", "--admin", port); code != exitOK || !strings.Contains(stdout, `"a"`) {
		t.Errorf("--cluster core: %d, %q, %s", code, stderr, stdout)
	}
	if code, _, stderr := weir(t, "config", "of", "web-2", "--admin", port); code != exitOK || !strings.Contains(stderr, `note: 2 connections have the node id "web-2", from 127.0.0.1:`) {
		t.Errorf("two with one id: %d, %q", code, stderr)
	}
}

// TestConfigOfReplicas: with --all the client is found at the replica that has it.
func TestConfigOfReplicas(t *testing.T) {
	nameServer(t, map[string][]net.IP{"two.test.": {net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)}})
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	port := "0"
	for _, ip := range []string{"127.0.0.1", "127.0.0.2"} {
		w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"%s:%s\" }\n%s", ip, port, filesOrigin(dir)))
		_, port, _ = net.SplitHostPort(w.admin.listener.Addr().String())
		configClient(t, w, relaytest.Node("at-"+ip, "edge"), relaytest.ClientConfig{})
		configClient(t, w, relaytest.Node("at-both", "edge"), relaytest.ClientConfig{})
	}
	for node, want := range map[string]string{
		"at-127.0.0.1": "",
		"at-127.0.0.2": "",
		"elsewhere":    `no client with the node id "elsewhere" is connected; weir clients lists those that are` + "\n",
		"at-both":      fmt.Sprintf("clients of 2 replicas have the node id \"at-both\"; choose one: --admin 127.0.0.1:%s, --admin 127.0.0.2:%s\n", port, port),
	} {
		code, stdout, stderr := weir(t, "config", "of", node, "--all", "dns:///two.test:"+port)
		if stderr != want || (code == exitOK) != (want == "") || (want == "") != strings.Contains(stdout, `"a"`) {
			t.Errorf("%s: %d, %q, want %q;\n%s", node, code, stderr, want, stdout)
		}
	}
}

// TestConfigDifferences: a sentence for each way in which a client and its origin may differ.
func TestConfigDifferences(t *testing.T) {
	body := func(name, timeout string) *anypb.Any {
		c := &clusterv3.Cluster{}
		if err := protojson.Unmarshal([]byte(`{"name": "`+name+`", "connectTimeout": "`+timeout+`"}`), c); err != nil {
			t.Fatal(err)
		}
		a, err := anypb.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	type item = configdump.Item
	wrong := &adminv3.UpdateFailureState{Details: "a bad\nthing"}
	for want, row := range map[string]struct{ client, origin *item }{
		"": {&item{ConfigStatus: statusv3.ConfigStatus_SYNCED, XdsConfig: body("a", "1s")}, &item{XdsConfig: body("a", "1s")}},
		`connect_timeout is "1s" at the client and "5s" at the origin`:                    {&item{ConfigStatus: statusv3.ConfigStatus_SYNCED, XdsConfig: body("a", "1s")}, &item{XdsConfig: body("a", "5s")}},
		`connect_timeout is "1s" at the client and "5s" at the origin, and 1 other field`: {&item{ConfigStatus: statusv3.ConfigStatus_SYNCED, XdsConfig: body("a", "1s")}, &item{XdsConfig: body("b", "5s")}},
		"the client has it, and the origin does not":                                      {&item{ConfigStatus: statusv3.ConfigStatus_SYNCED, XdsConfig: body("a", "1s")}, &item{ClientStatus: adminv3.ClientResourceStatus_DOES_NOT_EXIST}},
		"the origin has it, and the client does not":                                      {&item{ConfigStatus: statusv3.ConfigStatus_SYNCED}, &item{XdsConfig: body("a", "1s")}},
		"the client has not been sent it":                                                 {&item{ConfigStatus: statusv3.ConfigStatus_NOT_SENT}, nil},
		"the client has not answered version 7":                                           {&item{ConfigStatus: statusv3.ConfigStatus_STALE, VersionInfo: "7"}, nil},
		"it has changed, and the client has not been sent the change":                     {&item{ConfigStatus: statusv3.ConfigStatus_STALE}, nil},
		"the client rejected version 7: a bad thing":                                      {&item{ConfigStatus: statusv3.ConfigStatus_ERROR, VersionInfo: "7", ErrorState: wrong}, nil},
		"weir rejects what the origin sent last: a bad thing":                             {&item{ConfigStatus: statusv3.ConfigStatus_SYNCED}, &item{ClientStatus: adminv3.ClientResourceStatus_NACKED, ErrorState: wrong}},
		"the origin reports an error: a bad thing":                                        {&item{ConfigStatus: statusv3.ConfigStatus_SYNCED}, &item{ClientStatus: adminv3.ClientResourceStatus_RECEIVED_ERROR, ErrorState: wrong}},
	} {
		x := &configOf{origin: map[resourceKey]*item{}, types: map[string]bool{relaytest.ClusterType: true}}
		row.client.TypeUrl, row.client.Name = relaytest.ClusterType, "a"
		if row.origin != nil {
			x.origin[resourceKey{relaytest.ClusterType, "a"}] = row.origin
		}
		if got := x.difference(row.client); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
