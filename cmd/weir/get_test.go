package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.yaml.in/yaml/v4"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/cmd/weir/client/clienttest"
)

const (
	clusterURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	loopback   = "127.0.0.1:0"
)

// plane is a control plane with clusters a and b, a name it refuses to give,
// and one it never says anything about.
type plane struct {
	t     *testing.T
	nodes chan *corev3.Node // of the streams, in order
}

const (
	refused = "refused"
	silent  = "silent"
)

func startPlane(t *testing.T) (*plane, string) { return startPlaneAt(t, loopback) }

func startPlaneAt(t *testing.T, address string) (*plane, string) {
	p := &plane{t: t, nodes: make(chan *corev3.Node, 8)}
	return p, clienttest.Serve(t, &clienttest.Server{Delta: p.delta, SotW: p.sotw}, address)
}

func (p *plane) clusters() map[string]*anypb.Any {
	return map[string]*anypb.Any{
		"a": clienttest.Any(p.t, &clusterv3.Cluster{Name: "a", AltStatName: "1", ConnectTimeout: durationpb.New(5 * time.Second)}),
		"b": clienttest.Any(p.t, &clusterv3.Cluster{Name: "b"}),
		"v": {TypeUrl: "type.googleapis.com/vendor.Thing", Value: []byte("\x0a\x01v")},
	}
}

// wanted is what a subscription to names selects; none or * is everything.
func (p *plane) wanted(names []string) []string {
	all := slices.Sorted(maps.Keys(p.clusters()))
	if len(names) == 0 || slices.Contains(names, "*") {
		return all
	}
	return slices.DeleteFunc(all, func(n string) bool { return !slices.Contains(names, n) })
}

func (p *plane) delta(s clienttest.DeltaStream) error {
	m, err := s.Recv()
	if err != nil {
		return err
	}
	p.nodes <- m.GetNode()
	r := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: m.GetTypeUrl(), Nonce: "1", SystemVersionInfo: "v1",
		ControlPlane: &corev3.ControlPlane{Identifier: "plane"},
	}
	for _, name := range p.wanted(m.GetResourceNamesSubscribe()) {
		r.Resources = append(r.Resources, &discoveryv3.Resource{Name: name, Version: "r1", Resource: p.clusters()[name]})
	}
	for _, name := range m.GetResourceNamesSubscribe() {
		switch {
		case name == refused:
			r.ResourceErrors = append(r.ResourceErrors, refusal())
		case name != silent && name != "*" && p.clusters()[name] == nil:
			r.RemovedResources = append(r.RemovedResources, name)
		}
	}
	if err := s.Send(r); err != nil {
		return err
	}
	return drain(s)
}

func (p *plane) sotw(s clienttest.SotWStream) error {
	m, err := s.Recv()
	if err != nil {
		return err
	}
	p.nodes <- m.GetNode()
	r := &discoveryv3.DiscoveryResponse{
		TypeUrl: m.GetTypeUrl(), Nonce: "1", VersionInfo: "v1",
		ControlPlane: &corev3.ControlPlane{Identifier: "plane"},
	}
	for _, name := range p.wanted(m.GetResourceNames()) {
		r.Resources = append(r.Resources, p.clusters()[name])
	}
	if slices.Contains(m.GetResourceNames(), refused) {
		r.ResourceErrors = append(r.ResourceErrors, refusal())
	}
	if err := s.Send(r); err != nil {
		return err
	}
	return drain(s)
}

func refusal() *discoveryv3.ResourceError {
	return &discoveryv3.ResourceError{
		ResourceName: &discoveryv3.ResourceName{Name: refused},
		ErrorDetail:  &statuspb.Status{Code: int32(codes.PermissionDenied), Message: "not for you"},
	}
}

// drain reads ACKs until the client leaves.
func drain[M any](s interface{ Recv() (M, error) }) error {
	for {
		if _, err := s.Recv(); err != nil {
			return nil
		}
	}
}

func TestGetTable(t *testing.T) {
	_, address := startPlane(t)
	for dialect, version := range map[string]string{"delta": "r1", "sotw": "v1"} {
		code, stdout, stderr := weir(t, "get", "cds", "b", "a", "--from", address, "--dialect", dialect)
		want := "NAME  VERSION  TTL  BYTES  CONTROL PLANE\n" +
			"a     " + version + "       -    11     plane\n" +
			"b     " + version + "       -    3      plane\n"
		if code != exitOK || stderr != "" || stdout != want {
			t.Errorf("%s: got %d, %q and\n%swant\n%s", dialect, code, stderr, stdout, want)
		}
	}
}

// A wildcard ends by itself, once the answer pauses.
func TestGetWildcard(t *testing.T) {
	_, address := startPlane(t)
	for _, args := range [][]string{{}, {"*"}, {"*", "a"}, {"--dialect=sotw"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := weir(t, append([]string{"get", "cds", "--from", address}, args...)...)
			if code != exitOK || stderr != "" || strings.Count(stdout, "\n") != 4 {
				t.Errorf("got %d, %q and\n%s", code, stderr, stdout)
			}
		})
	}
}

// Every name that is not there is named, with the reason; what is there is
// printed all the same.
func TestGetMissing(t *testing.T) {
	_, address := startPlane(t)
	code, stdout, stderr := weir(t, "get", "cds", "a", "x", refused, silent, "--from", address, "--timeout", "300ms", "-o", "json")
	want := "x: does not exist\nrefused: PermissionDenied: not for you\nsilent: not answered within 300ms\n"
	if code != exitFailed || stderr != want {
		t.Errorf("got %d and\n%swant\n%s", code, stderr, want)
	}
	var d document
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Resources) != 1 || !slices.Equal(d.Removed, []string{"x"}) || len(d.Errors) != 1 {
		t.Errorf("got %+v", d)
	}

	// SotW cannot say that a name does not exist (ABS-1).
	code, _, stderr = weir(t, "get", "cds", "a", "x", "--from", address, "--timeout", "300ms", "--dialect", "sotw")
	if want := "x: not answered within 300ms\n"; code != exitFailed || stderr != want {
		t.Errorf("sotw: got %d, %q", code, stderr)
	}
}

func TestGetServerGone(t *testing.T) {
	address := clienttest.Serve(t, &clienttest.Server{Delta: func(clienttest.DeltaStream) error { return nil }}, loopback)
	code, stdout, stderr := weir(t, "get", "cds", "a", "--from", address)
	if code != exitFailed || stdout != "" || stderr != address+": the server ended the stream\na: not answered\n" {
		t.Errorf("got %d, %q, %q", code, stdout, stderr)
	}
}

// A server that says nothing to a wildcard is named.
func TestGetSilence(t *testing.T) {
	address := clienttest.Serve(t, &clienttest.Server{Delta: func(s clienttest.DeltaStream) error { return drain(s) }}, loopback)
	code, stdout, stderr := weir(t, "get", "cds", "--from", address, "--timeout", "50ms")
	if code != exitFailed || stdout != "" || stderr != address+": no answer within 50ms for node id \"\"; try --node-id\n" {
		t.Errorf("got %d, %q, %q", code, stdout, stderr)
	}
}

// Known types are readable, others are their bytes; yaml and json agree.
func TestGetReadable(t *testing.T) {
	_, address := startPlane(t)
	var fromJSON, fromYAML document
	code, stdout, stderr := weir(t, "get", "cds", "a", "v", "--from", address, "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &fromJSON); err != nil || code != exitOK {
		t.Fatalf("json: %d, %q, %v", code, stderr, err)
	}
	for i, want := range []string{`"connect_timeout":"5s"`, `"value":"CgF2"`} {
		if got := string(fromJSON.Resources[i].Resource); !strings.Contains(strings.ReplaceAll(got, " ", ""), want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	}

	if got := string(fromJSON.Resources[1].Resource); !strings.Contains(got, "--descriptors") {
		t.Errorf("what is printed as bytes should say why: %s", got)
	}
	code, stdout, stderr = weir(t, "get", "cds", "a", "v", "--from", address, "-o", "yaml")
	if code != exitOK || !strings.Contains(stdout, "alt_stat_name: '1'\n") || strings.Contains(stdout, "{") {
		t.Errorf("yaml: %d, %q and\n%s", code, stderr, stdout)
	}
	var tree any
	if err := yaml.Load([]byte(stdout), &tree); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &fromYAML); err != nil {
		t.Fatal(err)
	}
	if a, b := normal(t, fromJSON), normal(t, fromYAML); a != b {
		t.Errorf("json says\n%s\nyaml\n%s", a, b)
	}
}

// normal spells a document with sorted keys and no spaces.
func normal(t *testing.T, d document) string {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(tree); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestGetNode(t *testing.T) {
	p, address := startPlane(t)
	code, _, stderr := weir(t, "get", "cds", "a", "--from", address, "--node-id", "me", "--node-cluster", "mine",
		"--metadata", "zone=a,b=c", "--metadata", "app=x")
	node := <-p.nodes
	if code != exitOK || node.GetId() != "me" || node.GetCluster() != "mine" ||
		node.GetMetadata().GetFields()["zone"].GetStringValue() != "a,b=c" || len(node.GetMetadata().GetFields()) != 2 {
		t.Errorf("got %d, %q, %v", code, stderr, node)
	}
}

// A watch prints each response as it comes, and its end is no failure.
func TestGetWatch(t *testing.T) {
	for format, want := range map[string]string{
		"table": "# version \"1\" nonce \"1\" control plane \"\"\nset  b  1  -  3\n" +
			"# version \"2\" nonce \"2\" control plane \"\"\nremoved  b\nerror    refused  PermissionDenied  not for you\n",
		"json": `{"type_url":"` + clusterURL + `","version":"1","nonce":"1","resources":[{"name":"b","version":"1",` +
			`"resource":{"@type":"` + clusterURL + `","name":"b"}}]}` + "\n" +
			`{"type_url":"` + clusterURL + `","version":"2","nonce":"2","resources":[],"removed":["b"],` +
			`"errors":[{"name":"refused","code":"PermissionDenied","message":"not for you"}]}` + "\n",
	} {
		t.Run(format, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			address := clienttest.Serve(t, twoResponses(t, cancel), loopback)
			var out, errs strings.Builder
			code := run(ctx, []string{"get", "cds", "--from", address, "--watch", "-o", format}, &out, &errs)
			if code != exitOK || errs.Len() != 0 || out.String() != want {
				t.Errorf("got %d, %q and\n%swant\n%s", code, errs.String(), out.String(), want)
			}
		})
	}
}

// twoResponses sends a cluster, takes it away, and interrupts the client once
// that was acknowledged; a watch prints what it acknowledged before it ends.
func twoResponses(t *testing.T, interrupt func()) *clienttest.Server {
	b := clienttest.Any(t, &clusterv3.Cluster{Name: "b"})
	return &clienttest.Server{Delta: func(s clienttest.DeltaStream) error {
		for i, r := range []*discoveryv3.DeltaDiscoveryResponse{
			{Resources: []*discoveryv3.Resource{{Name: "b", Version: "1", Resource: b}}},
			{RemovedResources: []string{"b"}, ResourceErrors: []*discoveryv3.ResourceError{refusal()}},
		} {
			if _, err := s.Recv(); err != nil {
				return err
			}
			r.TypeUrl, r.Nonce = clusterURL, strconv.Itoa(i+1)
			r.SystemVersionInfo = r.Nonce
			if err := s.Send(r); err != nil {
				return err
			}
		}
		if _, err := s.Recv(); err != nil {
			return err
		}
		interrupt()
		if _, err := s.Recv(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("after the interrupt: got %v, want the stream cancelled", err)
		}
		return nil
	}}
}

// TestPlaneThroughWeirs: tables name the weirs that an answer came through in words.
func TestPlaneThroughWeirs(t *testing.T) {
	for identifier, want := range map[string]string{
		"cp":                   "cp",
		"cp;weir=east":         "cp, through weir east",
		"cp;weir=east;weir=vm": "cp, through weir east and weir vm",
		";weir=vm":             "through weir vm",
		"":                     "-",
	} {
		var out strings.Builder
		d := document{ControlPlane: identifier, Resources: []printed{{Name: "a"}}}
		if err := (table{&out}).final(d); err != nil || !strings.HasSuffix(out.String(), "  "+want+"  -\n") && !strings.HasSuffix(out.String(), "  "+want+"\n") {
			t.Errorf("%q, %v:\n%s", identifier, err, out.String())
		}
	}
}
