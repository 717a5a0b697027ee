package csds

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
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
	cfg.maxAnswer = cmp.Or(cfg.maxAnswer, MaxAnswer)
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

// Path is the path of requests in JSON.
const Path = "/v3/discovery:client_status"

// maxRequest bounds a request, in bytes, and maxMemory what it takes decoded.
const maxRequest, maxMemory = 1 << 20, 8 << 20

// ServeHTTP answers a request in JSON.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		code := http.StatusBadRequest
		if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
			code = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), code)
		return
	}
	var req statusv3.ClientStatusRequest
	if len(text) > 0 {
		if _, err := (xds.JSONBound{Depth: xds.MaxJSONDepth, Memory: maxMemory}).Check(text); err != nil {
			http.Error(w, "the request is refused: "+err.Error(), http.StatusBadRequest)
			return
		}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, &req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	resp, err := s.answer(r.Context(), &req)
	if err != nil {
		http.Error(w, status.Convert(err).Message(), httpCode(err))
		return
	}
	if text, err = encode(r.Context(), resp, s.cfg.maxAnswer); err != nil {
		err = s.refusal(err)
		http.Error(w, status.Convert(err).Message(), httpCode(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the client has left
}

func httpCode(err error) int {
	switch status.Code(err) {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.ResourceExhausted:
		return http.StatusInsufficientStorage
	}
	return http.StatusServiceUnavailable
}

// encode returns an answer as JSON of at most so many bytes. It is made piece by piece, since a
// body may be far longer in JSON, and is the body of many items. Left out is what has no JSON:
// bodies of unknown types, whose items have the type anyway, and nodes with NaN or infinite numbers
// but for their names.
func encode(ctx context.Context, resp *statusv3.ClientStatusResponse, most int) ([]byte, error) {
	if len(resp.Config) == 0 {
		return []byte("{}"), nil
	}
	e := &encoder{most: most, bare: map[*anypb.Any]bool{}}
	e.out.WriteString(`{"config":[`)
	for i, c := range resp.Config {
		if i > 0 {
			e.out.WriteByte(',')
		}
		if err := e.config(ctx, c); err != nil {
			return nil, err
		}
	}
	e.out.WriteString("]}")
	return e.out.Bytes(), nil
}

// encoder is an answer while it is encoded.
type encoder struct {
	out  bytes.Buffer
	most int
	bare map[*anypb.Any]bool // bodies without JSON
}

// config adds a ClientConfig: what it has besides its items, and then these.
func (e *encoder) config(ctx context.Context, c *statusv3.ClientConfig) error {
	head, err := protojson.Marshal(&statusv3.ClientConfig{Node: c.Node, ClientScope: c.ClientScope})
	if err != nil {
		head, err = protojson.Marshal(&statusv3.ClientConfig{
			Node: &corev3.Node{Id: c.Node.GetId(), Cluster: c.Node.GetCluster()}, ClientScope: c.ClientScope,
		})
	}
	if err != nil || len(c.GenericXdsConfigs) == 0 {
		return e.add(head, err)
	}
	head = head[:len(head)-1] // its brace
	if len(head) > 1 {
		head = append(head, ',')
	}
	if err := e.add(append(head, `"genericXdsConfigs":[`...), nil); err != nil {
		return err
	}
	for i, it := range c.GenericXdsConfigs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i > 0 {
			e.out.WriteByte(',')
		}
		if err := e.add(e.item(it)); err != nil {
			return err
		}
	}
	return e.add([]byte("]}"), nil)
}

// item returns an item, without its body if that has no JSON.
func (e *encoder) item(it *item) ([]byte, error) {
	if body := it.XdsConfig; body != nil && !e.bare[body] {
		text, err := protojson.Marshal(it)
		if err == nil {
			return text, nil
		}
		e.bare[body] = true
	}
	it.XdsConfig = nil // the answer is this request's alone
	return protojson.Marshal(it)
}

// add adds a piece, if it fits.
func (e *encoder) add(text []byte, err error) error {
	if err != nil {
		return err
	}
	if e.out.Len()+len(text) > e.most {
		return errTooLong
	}
	e.out.Write(text)
	return nil
}
