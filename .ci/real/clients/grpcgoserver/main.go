// Command grpcgoserver is a gRPC server that is configured over xDS, by the bootstrap that
// GRPC_XDS_BOOTSTRAP names. It serves the health service on its argument and prints where it tells
// its configuration: csds ADDRESS. It ends when its input ends.
package main

import (
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/xds"

	"github.com/weir-xds/weir/.ci/real/clients/grpcgo/begin"
)

func main() {
	begin.WithInput()
	s, err := xds.NewGRPCServer(grpc.Creds(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	healthpb.RegisterHealthServer(s, health.NewServer())
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	begin.CSDS()
	log.Fatal(s.Serve(l))
}
