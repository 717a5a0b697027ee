package csds

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// MaxAnswer bounds an answer, in bytes.
const MaxAnswer = 64 << 20

// Config says what is shown. All fields are required. It is not modified after New.
type Config struct {
	Table *relay.Table
	// Clients returns the server with the connected clients.
	Clients func() *downstream.Server
	// Blank blanks what must not be shown in a body (RELAY-76).
	Blank func(*anypb.Any)

	maxAnswer int // 0: MaxAnswer
}

// turnWait is how long a request waits while the answer to another one is made.
const turnWait = 10 * time.Second

// Server is a ClientStatusDiscoveryServiceServer, and an http.Handler for JSON.
type Server struct {
	cfg  Config
	turn chan struct{} // one slot: answers are made one at a time
}

// New makes a server.
func New(cfg Config) *Server {
	if cfg.maxAnswer == 0 {
		cfg.maxAnswer = MaxAnswer
	}
	return &Server{cfg: cfg, turn: make(chan struct{}, 1)}
}

// FetchClientStatus answers one request.
func (s *Server) FetchClientStatus(ctx context.Context, req *statusv3.ClientStatusRequest) (*statusv3.ClientStatusResponse, error) {
	return s.answer(ctx, req)
}

// StreamClientStatus answers each request once (CSDS-1).
func (s *Server) StreamClientStatus(stream statusv3.ClientStatusDiscoveryService_StreamClientStatusServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		resp, err := s.answer(stream.Context(), req)
		if err != nil {
			return err
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

// answer makes the answer to a request. The error is a gRPC status.
func (s *Server) answer(ctx context.Context, req *statusv3.ClientStatusRequest) (*statusv3.ClientStatusResponse, error) {
	match, err := compile(req.GetNodeMatchers())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	wait := time.NewTimer(turnWait)
	defer wait.Stop()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-wait.C:
		return nil, status.Error(codes.Unavailable, "another answer is being made: ask again in some seconds")
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	a := &answer{cfg: &s.cfg, ctx: ctx, match: match, bare: req.GetExcludeResourceContents(), seen: map[*xds.Variant]*anypb.Any{}}
	a.response = &statusv3.ClientStatusResponse{}
	if err = a.clients(); err == nil {
		err = a.lanes()
	}
	if err != nil {
		return nil, s.refusal(err)
	}
	return a.response, nil
}
