package client

import (
	"time"
	"unicode/utf8"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Response is a server's response, in either dialect.
type Response struct {
	TypeURL string
	// Version is version_info or system_version_info.
	Version string
	Nonce   string
	// ControlPlane is the server's identifier; may be empty.
	ControlPlane string

	// Set are the resources that are new or changed; in SotW also those that are repeated.
	Set []Resource
	// Removed are the names that are gone: stated in delta, concluded for the full-state types in
	// SotW.
	Removed []string
	// Errors are about single names.
	Errors []ResourceError
}

// Resource is one named piece of configuration.
type Resource struct {
	Name    string
	Version string        // its own in delta, the response's in SotW
	TTL     time.Duration // zero: none
	Body    *anypb.Any    // nil: a heartbeat; the last body stays valid

	// Located: it has the form for subscriptions with parameters (DYN-16).
	Located bool
	// Constraints say for which parameters it is; nil: all.
	Constraints *discoveryv3.DynamicParameterConstraints
}

// ResourceError is a server's error about one resource.
type ResourceError struct {
	Name    string
	Code    codes.Code
	Message string
}

// NotFound reports whether the error means that the resource does not exist.
func (e ResourceError) NotFound() bool { return e.Code == codes.NotFound }

const wrapperURL = "type.googleapis.com/envoy.service.discovery.v3.Resource"

func readResource(r *discoveryv3.Resource) Resource {
	name := r.GetName()
	if name == "" {
		name = r.GetResourceName().GetName()
	}
	if name == "" {
		name = nameIn(r.GetResource())
	}
	return Resource{
		Name: name, Version: r.GetVersion(), TTL: r.GetTtl().AsDuration(), Body: r.GetResource(),
		Located: r.GetResourceName() != nil, Constraints: r.GetResourceName().GetDynamicParameterConstraints(),
	}
}

// readAny decodes an entry of a SotW response, which may be wrapped (SOTW-13).
func readAny(body *anypb.Any, version string) Resource {
	if body.GetTypeUrl() != wrapperURL {
		return Resource{Name: nameIn(body), Version: version, Body: body}
	}
	var wrapped discoveryv3.Resource
	if err := proto.Unmarshal(body.GetValue(), &wrapped); err != nil {
		return Resource{Version: version, Body: body}
	}
	r := readResource(&wrapped)
	if r.Version == "" {
		r.Version = version
	}
	return r
}

func readErrors(errs []*discoveryv3.ResourceError) []ResourceError {
	var out []ResourceError
	for _, e := range errs {
		out = append(out, ResourceError{
			Name:    e.GetResourceName().GetName(),
			Code:    codes.Code(e.GetErrorDetail().GetCode()),
			Message: e.GetErrorDetail().GetMessage(),
		})
	}
	return out
}

// nameIn finds the name in a body. Every xDS type has it in field 1, so this needs no descriptor
// and works for vendor types.
func nameIn(body *anypb.Any) string {
	b, name := body.GetValue(), ""
	for len(b) > 0 {
		num, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return name
		}
		b = b[n:]
		if num == 1 && wire == protowire.BytesType {
			v, n := protowire.ConsumeBytes(b)
			if n < 0 || !utf8.Valid(v) {
				return name
			}
			name = string(v) // the last one counts, as in any parser
		}
		n = protowire.ConsumeFieldValue(num, wire, b)
		if n < 0 {
			return name
		}
		b = b[n:]
	}
	return name
}
