package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	sotwserver "github.com/envoyproxy/go-control-plane/pkg/server/sotw/v3"
	xdsserver "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/cmd/weirload/mtls"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// window is the static flow-control window of the yardstick, with which grpc sends no pings to
// estimate the bandwidth.
const window = 64 << 10

// kinds are the planes of this module.
var kinds = map[string]string{
	"snapshot": "go-control-plane's snapshot cache, one snapshot for all nodes",
	"linear":   "go-control-plane's linear cache",
	"bare":     "the yardstick: grpc-go with one shared body for all clients, and no more",
}

// newPlane makes a plane and its server. The yardstick asks for load reports in the given interval.
// None has keepalive, interceptors or a stats handler.
func newPlane(
	ctx context.Context, kind string, w *world.World, reports time.Duration, security credentials.TransportCredentials,
) (world.Plane, *grpc.Server, error) {
	switch kind {
	case "bare":
		b := newBare(w)
		s := grpc.NewServer(grpc.Creds(security), grpc.ForceServerCodecV2(codec{&b.Counter}), grpc.MaxConcurrentStreams(math.MaxUint32),
			grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window))
		discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, b)
		loadstats.RegisterLoadReportingServiceServer(s, loadSink{interval: reports})
		return b, s, nil
	case "linear":
		l := newLinears(w)
		return l, controlPlane(ctx, l.mux(), &l.Counter, security), nil
	case "snapshot":
		s, err := newSnapshots(ctx, w)
		if err != nil {
			return nil, nil, err
		}
		return s, controlPlane(ctx, s.cache, &s.Counter, security), nil
	}
	return nil, nil, fmt.Errorf("there is no plane %q", kind)
}

// controlPlane serves a cache of go-control-plane as its documentation recommends: with ADS in
// order.
func controlPlane(ctx context.Context, c cache.Cache, counter *world.Counter, security credentials.TransportCredentials) *grpc.Server {
	opened := xdsserver.CallbackFuncs{
		StreamOpenFunc:      func(context.Context, int64, string) error { counter.Streams.Add(1); return nil },
		DeltaStreamOpenFunc: func(context.Context, int64, string) error { counter.Streams.Add(1); return nil },
	}
	s := grpc.NewServer(grpc.Creds(security), grpc.ForceServerCodecV2(codec{counter}), grpc.MaxConcurrentStreams(math.MaxUint32))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, xdsserver.NewServer(ctx, c, opened, sotwserver.WithOrderedADS()))
	return s
}

// servePlane serves until the context ends, and prints its addresses as one line.
func servePlane(ctx context.Context, kind string, o world.Options, reports time.Duration, files mtls.Files, out io.Writer) error {
	security, err := files.Server()
	if err != nil {
		return err
	}
	w, err := world.New(o)
	if err != nil {
		return err
	}
	plane, xds, err := newPlane(ctx, kind, w, reports, security)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	aside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/", world.Control(w, plane))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	control := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 2)
	go func() { ended <- xds.Serve(listener) }()
	go func() { ended <- control.Serve(aside) }()
	if err = json.NewEncoder(out).Encode(world.NewReady(listener.Addr().String(), aside.Addr().String())); err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended: // if one port fails the other is closed
			ended <- nil
		}
	}
	xds.Stop()
	err = errors.Join(err, control.Close())
	_, _ = <-ended, <-ended // errors do not matter any more
	return err
}
