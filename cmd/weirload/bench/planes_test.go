package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/mtls"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// asProgram makes the test binary the program that it tests, since a comparison starts its own
// program for the planes.
const asProgram = "WEIR_BENCH_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	_ = os.Setenv(asProgram, "1") // of what is started from here
	goleak.VerifyTestMain(m)
}

// patience is how long an answer may take on a loaded machine under the race detector.
const patience = 30 * time.Second

// runPlane runs a plane in this process until the test is over.
func runPlane(t *testing.T, kind string, o world.Options) world.Ready {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := servePlane(ctx, kind, o, mtls.Files{}, in)
		_ = in.CloseWithError(err)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	})
	var r world.Ready
	if err := json.NewDecoder(out).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// reader is a client that decodes everything and ACKs it.
type reader struct {
	t      *testing.T
	typ    string
	sotw   discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient // or
	delta  discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	nonces map[string]bool
	have   map[string]proto.Message
}

func newReader(t *testing.T, addr string, dialect fleet.Dialect, typeURL string, names []string) *reader {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	r := &reader{t: t, typ: typeURL, nonces: map[string]bool{}, have: map[string]proto.Message{}}
	service := discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
	if dialect == fleet.Delta {
		r.delta, err = service.DeltaAggregatedResources(ctx)
		r.must(err)
		r.must(r.delta.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names}))
	} else {
		r.sotw, err = service.StreamAggregatedResources(ctx)
		r.must(err)
		r.must(r.sotw.Send(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: names}))
	}
	return r
}

func (r *reader) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// next reads one response, takes its resources and ACKs it.
func (r *reader) next(names []string) []string {
	r.t.Helper()
	if r.delta != nil {
		m, err := r.delta.Recv()
		r.must(err)
		var got []string
		for _, res := range m.Resources {
			got = append(got, r.take(res.Name, res.Resource))
		}
		r.head(m.TypeUrl, m.Nonce)
		r.must(r.delta.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.typ, ResponseNonce: m.Nonce}))
		return got
	}
	m, err := r.sotw.Recv()
	r.must(err)
	var got []string
	for _, body := range m.Resources {
		got = append(got, r.take("", body))
	}
	r.head(m.TypeUrl, m.Nonce)
	if m.VersionInfo == "" {
		r.t.Error("a response has no version")
	}
	r.must(r.sotw.Send(&discoveryv3.DiscoveryRequest{TypeUrl: r.typ, VersionInfo: m.VersionInfo, ResponseNonce: m.Nonce, ResourceNames: names}))
	return got
}

func (r *reader) head(typeURL, nonce string) {
	r.t.Helper()
	if typeURL != r.typ || nonce == "" || r.nonces[nonce] {
		r.t.Errorf("a response has the type %q and the nonce %q (seen before: %v)", typeURL, nonce, r.nonces[nonce])
	}
	r.nonces[nonce] = true
}

func (r *reader) take(name string, body *anypb.Any) string {
	r.t.Helper()
	m, err := body.UnmarshalNew()
	r.must(err)
	inner := ""
	switch m := m.(type) {
	case interface{ GetClusterName() string }:
		inner = m.GetClusterName()
	case interface{ GetName() string }:
		inner = m.GetName()
	}
	if name != "" && name != inner {
		r.t.Errorf("the resource %q is called %q", inner, name)
	}
	r.have[inner] = m
	return inner
}

// until reads responses until the client has exactly these resources at these stamps.
func (r *reader) until(w *world.World, names []string, stamps map[int]world.Stamp) {
	r.t.Helper()
	for !r.holds(w, stamps) {
		r.next(names)
	}
}

func (r *reader) holds(w *world.World, stamps map[int]world.Stamp) bool {
	for i, s := range stamps {
		if !proto.Equal(r.have[world.Name(i)], w.Message(i, s)) {
			return false
		}
	}
	return len(r.have) == len(stamps)
}

// TestPlanes: five clients of every plane get what they asked for, then what changes of it, and
// nothing else.
func TestPlanes(t *testing.T) {
	const clients, resources, each = 5, 20, 4
	for _, kind := range []string{snapshot, linear} {
		for _, dialect := range []fleet.Dialect{fleet.SotW, fleet.Delta} {
			for _, typ := range []world.Kind{world.Clusters, world.Endpoints} {
				if kind == "snapshot" && dialect == fleet.SotW && typ == world.Endpoints {
					continue // in ADS mode it does not answer who does not name everything
				}
				t.Run(fmt.Sprintf("%s/%s/%s", kind, dialect, typ), func(t *testing.T) {
					o := world.Options{Listen: "127.0.0.1:0", Kind: typ, Resources: resources, Bytes: 300}
					w, err := world.New(o)
					if err != nil {
						t.Fatal(err)
					}
					plane := runPlane(t, kind, o)
					readers, names, stamps := make([]*reader, clients), make([][]string, clients), make([]map[int]world.Stamp, clients)
					for c := range readers {
						stamps[c] = map[int]world.Stamp{}
						from, n := 0, resources
						if typ == world.Endpoints {
							from, n = c*each, each
						}
						for i := from; i < from+n; i++ {
							stamps[c][i] = 0
							if typ == world.Endpoints {
								names[c] = append(names[c], world.Name(i))
							}
						}
						readers[c] = newReader(t, plane.XDS, dialect, typ.TypeURL(), names[c])
						readers[c].until(w, names[c], stamps[c])
					}
					control := &world.Client{Addr: plane.Control}
					for i := range resources + 5 { // changes are in turn
						change(t, control, w, i%resources, readers, names, stamps, dialect == fleet.SotW && typ == world.Clusters)
					}
					counts, err := control.Counts(t.Context())
					if err != nil || counts.Streams != clients || counts.Requests < 2*clients {
						t.Errorf("counted were %+v: %v", counts, err)
					}
				})
			}
		}
	}
}

// change makes one, of the resource whose turn it is, and lets everybody concerned read it: as one
// response with that resource or, where the dialect wants it, with the whole set.
func change(t *testing.T, control *world.Client, w *world.World, changed int, readers []*reader, names [][]string, stamps []map[int]world.Stamp, whole bool) {
	t.Helper()
	s, _, err := control.Change(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for c, r := range readers {
		if _, concerned := stamps[c][changed]; !concerned {
			continue
		}
		stamps[c][changed] = s
		got := r.next(names[c])
		if !r.holds(w, stamps[c]) {
			t.Fatalf("client %d does not have the change of %s; the response was of %q", c, world.Name(changed), got)
		}
		if want := map[bool]int{true: w.Len(), false: 1}[whole]; len(got) != want {
			t.Errorf("client %d was sent %d resources for one change, not %d", c, len(got), want)
		}
	}
}
