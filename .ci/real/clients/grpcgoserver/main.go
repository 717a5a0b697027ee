// Command grpcgoserver is a gRPC server that is configured over xDS, by the bootstrap that
// GRPC_XDS_BOOTSTRAP names. It serves the health service on its argument and prints where it tells
// its configuration: csds ADDRESS. It ends when its input ends.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"

	statuspb "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/xds"
	"google.golang.org/grpc/xds/csds"
)

func main() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	s, err := xds.NewGRPCServer(grpc.Creds(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	healthpb.RegisterHealthServer(s, health.NewServer())
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	serveCSDS()
	log.Fatal(s.Serve(l))
}

// serveCSDS tells what this process holds.
func serveCSDS() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	tells, err := csds.NewClientStatusDiscoveryServer()
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer()
	statuspb.RegisterClientStatusDiscoveryServiceServer(s, tells)
	fmt.Println("csds", l.Addr())
	go func() { log.Fatal(s.Serve(l)) }()
}
