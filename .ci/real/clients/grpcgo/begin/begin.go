// Package begin is what the programs of grpc-go have in common: they tell what they hold, and end
// with their input.
package begin

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"

	statuspb "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/xds/csds"
)

// WithInput ends the process when its input ends.
func WithInput() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
}

// CSDS tells what this process holds, and prints where: csds ADDRESS.
func CSDS() {
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
