package csds

import (
	"errors"
	"io"
	"net/http"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

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
