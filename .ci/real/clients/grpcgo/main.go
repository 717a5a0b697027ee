// Command grpcgo is a gRPC client that is configured over xDS, by the bootstrap that
// GRPC_XDS_BOOTSTRAP names. It makes calls to its target one after the other and prints a line for
// each, as every client program in this folder does:
//
//	csds ADDRESS            first: where it tells its configuration (the CSDS service)
//	answered BACKEND        a call was answered; the backend is in the header "backend"
//	failed CODE MESSAGE     a call failed
//
// The first call waits until the channel is ready. It ends when its input ends.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds" // the resolver of xds:///

	"github.com/weir-xds/weir/.ci/real/clients/grpcgo/begin"
)

func main() {
	begin.WithInput()
	begin.CSDS()
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		log.Fatal(err)
	}
	for first := true; ; first = false {
		call(conn, first)
		time.Sleep(4 * time.Millisecond)
	}
}

func call(conn *grpc.ClientConn, patient bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var header metadata.MD
	_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(patient), grpc.Header(&header))
	if err != nil {
		fmt.Println("failed", status.Code(err), strings.ReplaceAll(status.Convert(err).Message(), "\n", " "))
		return
	}
	fmt.Println("answered", strings.Join(header.Get("backend"), ","))
}
