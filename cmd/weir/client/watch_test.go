package client

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/cmd/weir/client/clienttest"
)

const clusterURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

func cluster(t *testing.T, name string) *anypb.Any {
	return clienttest.Any(t, &clusterv3.Cluster{Name: name})
}

func deltaResponse(nonce, version string) *discoveryv3.DeltaDiscoveryResponse {
	return &discoveryv3.DeltaDiscoveryResponse{TypeUrl: clusterURL, Nonce: nonce, SystemVersionInfo: version}
}

func notFound(name string, code codes.Code) *discoveryv3.ResourceError {
	return &discoveryv3.ResourceError{
		ResourceName: &discoveryv3.ResourceName{Name: name},
		ErrorDetail:  &statuspb.Status{Code: int32(code), Message: "why"},
	}
}

// brief is a response in one line, for comparing.
func brief(r *Response) string {
	var set []string
	for _, res := range r.Set {
		one := res.Name + "@" + res.Version
		if res.TTL != 0 {
			one += fmt.Sprintf("(%s)", res.TTL)
		}
		if res.Body == nil {
			one += "(heartbeat)"
		}
		set = append(set, one)
	}
	var failed []string
	for _, e := range r.Errors {
		failed = append(failed, fmt.Sprintf("%s:%s:%s", e.Name, e.Code, e.Message))
	}
	return fmt.Sprintf("%s/%s/%s set%v removed%v errors%v", r.Version, r.Nonce, r.ControlPlane, set, r.Removed, failed)
}

func wantResponses(ctx context.Context, t *testing.T, c *Client, sub Subscription, want ...string) {
	t.Helper()
	var got []string
	for r, err := range c.Watch(ctx, sub) {
		if err != nil {
			t.Fatalf("the stream ended: %v; so far %q", err, got)
		}
		if got = append(got, brief(r)); len(got) == len(want) {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The client subscribes with its node; each response is acknowledged, and only
// the first request carries the node.
func TestDelta(t *testing.T) {
	done := make(chan struct{})
	first := deltaResponse("n1", "v1")
	first.ControlPlane = &corev3.ControlPlane{Identifier: "cp-7"}
	first.Resources = []*discoveryv3.Resource{
		{Name: "a", Version: "1", Resource: cluster(t, "a"), Ttl: durationpb.New(time.Minute)},
		{ResourceName: &discoveryv3.ResourceName{Name: "b"}, Version: "2", Resource: cluster(t, "b")},
	}
	second := deltaResponse("n2", "v2")
	second.Resources = []*discoveryv3.Resource{{Name: "a", Version: "1", Ttl: durationpb.New(time.Minute)}}
	second.RemovedResources = []string{"b"}
	second.RemovedResourceNames = []*discoveryv3.ResourceName{{Name: "c"}}
	second.ResourceErrors = []*discoveryv3.ResourceError{notFound("d", codes.PermissionDenied)}

	address := clienttest.Serve(t, &clienttest.Server{Delta: func(s clienttest.DeltaStream) error {
		defer close(done)
		m, err := s.Recv()
		if err != nil {
			return err
		}
		if m.GetNode().GetId() != "me" || !slices.Equal(m.GetResourceNamesSubscribe(), []string{"a", "*"}) {
			t.Errorf("the first request: %v", m)
		}
		for _, r := range []*discoveryv3.DeltaDiscoveryResponse{first, second} {
			if err := s.Send(r); err != nil {
				return err
			}
			ack, err := s.Recv()
			if err != nil {
				return err
			}
			if ack.GetResponseNonce() != r.GetNonce() || ack.GetNode() != nil || ack.GetErrorDetail() != nil ||
				len(ack.GetResourceNamesSubscribe()) != 0 {
				t.Errorf("the ACK of %s: %v", r.GetNonce(), ack)
			}
		}
		return nil
	}}, loopback)

	c, ctx := dial(t, Config{Address: address, Node: &corev3.Node{Id: "me"}})
	wantResponses(ctx, t, c, Subscription{TypeURL: clusterURL, Names: []string{"a", "*"}},
		"v1/n1/cp-7 set[a@1(1m0s) b@2] removed[] errors[]",
		"v2/n2/ set[a@1(1m0s)(heartbeat)] removed[b c] errors[d:PermissionDenied:why]")
	<-done
}

// Names are found inside bodies and wrappers; a cluster that is missing from
// the next response is removed, unless an error says that it only failed.
func TestSotW(t *testing.T) {
	done := make(chan struct{})
	wrapped := clienttest.Any(t, &discoveryv3.Resource{Name: "b", Resource: cluster(t, "b"), Ttl: durationpb.New(time.Second)})
	address := clienttest.Serve(t, &clienttest.Server{SotW: func(s clienttest.SotWStream) error {
		defer close(done)
		var version, nonce string
		for _, r := range []*discoveryv3.DiscoveryResponse{
			{VersionInfo: "1", Nonce: "n1", Resources: []*anypb.Any{cluster(t, "a"), wrapped, cluster(t, "c")}},
			{
				VersionInfo: "2", Nonce: "n2", Resources: []*anypb.Any{cluster(t, "a")},
				ResourceErrors: []*discoveryv3.ResourceError{notFound("c", codes.Unavailable)},
			},
			{VersionInfo: "3", Nonce: "n3", ResourceErrors: []*discoveryv3.ResourceError{notFound("c", codes.NotFound)}},
		} {
			m, err := s.Recv()
			if err != nil {
				return err
			}
			if m.GetVersionInfo() != version || m.GetResponseNonce() != nonce || (m.GetNode() != nil) != (nonce == "") ||
				!slices.Equal(m.GetResourceNames(), []string{"a", "b", "c"}) {
				t.Errorf("after version %q: %v", version, m)
			}
			version, nonce = r.GetVersionInfo(), r.GetNonce()
			r.TypeUrl = clusterURL
			if err := s.Send(r); err != nil {
				return err
			}
		}
		<-s.Context().Done()
		return nil
	}}, loopback)

	c, ctx := dial(t, Config{Address: address, Dialect: SotW})
	wantResponses(ctx, t, c, Subscription{TypeURL: clusterURL, Names: []string{"a", "b", "c"}},
		"1/n1/ set[a@1 b@1(1s) c@1] removed[] errors[]",
		"2/n2/ set[a@2] removed[b] errors[c:Unavailable:why]",
		"3/n3/ set[] removed[a c] errors[c:NotFound:why]")
	<-done
}

// Several types share one stream.
func TestTwoTypes(t *testing.T) {
	const vendor = "type.googleapis.com/vendor.Thing"
	address := clienttest.Serve(t, &clienttest.Server{Delta: func(s clienttest.DeltaStream) error {
		for {
			m, err := s.Recv()
			if err != nil {
				return nil
			}
			if m.GetResponseNonce() == "" {
				if err := s.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: m.GetTypeUrl(), Nonce: "1"}); err != nil {
					return err
				}
			}
		}
	}}, loopback)
	c, ctx := dial(t, Config{Address: address})
	var got []string
	for r, err := range c.Watch(ctx, Subscription{TypeURL: clusterURL}, Subscription{TypeURL: vendor}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, r.TypeURL); len(got) == 2 {
			break
		}
	}
	if want := []string{clusterURL, vendor}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestServerEnds(t *testing.T) {
	address := clienttest.Serve(t, &clienttest.Server{Delta: func(clienttest.DeltaStream) error { return nil }}, loopback)
	for dialect, want := range map[Dialect]string{Delta: "the server ended the stream", SotW: "Unimplemented"} {
		c, ctx := dial(t, Config{Address: address, Dialect: dialect})
		var got error
		for _, err := range c.Watch(ctx, Subscription{TypeURL: clusterURL}) {
			got = err
		}
		if got == nil || !strings.Contains(got.Error(), want) || !strings.Contains(got.Error(), address) {
			t.Errorf("%s: got %v, want the address and %q", dialect, got, want)
		}
	}
}

// The end of the context is the end of the loop, and no error.
func TestContextEnds(t *testing.T) {
	address := clienttest.Serve(t, sayPeer(func(context.Context) string { return "1" }), loopback)
	c, ctx := dial(t, Config{Address: address})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := 0
	for _, err := range c.Watch(ctx, Subscription{TypeURL: clusterURL}) {
		if err != nil {
			t.Fatalf("got %v after %d responses", err, n)
		}
		n++
		cancel()
	}
	if n != 1 {
		t.Errorf("got %d responses, want 1", n)
	}
}

// Our deadline is not sent to the server, which would race to end the stream.
func TestDeadlineStaysHere(t *testing.T) {
	address := clienttest.Serve(t, sayPeer(func(ctx context.Context) string {
		_, has := ctx.Deadline()
		return fmt.Sprint(has)
	}), loopback)
	c, ctx := dial(t, Config{Address: address})
	if r := once(ctx, t, c); r.Version != "false" {
		t.Error("the server was given a deadline")
	}
}

func FuzzNameIn(f *testing.F) {
	f.Add([]byte("\x0a\x01a"))
	f.Add([]byte("\x0a\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		nameIn(&anypb.Any{Value: b})
		readAny(&anypb.Any{TypeUrl: wrapperURL, Value: b}, "")
	})
}
