package relaytest

import (
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// wrapperType is the type of a SotW resource that carries name, version or TTL of its own
// (SOTW-13).
const wrapperType = "type.googleapis.com/envoy.service.discovery.v3.Resource"

// RedirectType is a payload exempt from the type check (COLL-8).
const redirectType = "type.googleapis.com/xds.core.v3.ResourceLocator"

// Resource is one resource as an Origin sends it, in whichever dialect the stream speaks. It must
// not be modified once given to an Origin.
type Resource struct {
	Name    string
	Version string     // may be empty, as some origins leave it
	Body    *anypb.Any // nil: a heartbeat (TTL-2)
	Aliases []string
	TTL     time.Duration // 0: none; negative values are sent as they are
	// DoNotCache says so in cache_control. Sent wrapped in SotW.
	DoNotCache bool

	// Constraints makes this a variant: the name is then sent as resource_name (DYN-16). Scripted
	// answers, and origins with TP2, only.
	Constraints *Constraints

	// Located sends the name as resource_name although nothing constrains it. Scripted answers
	// only.
	Located bool

	// Wrapped sends the resource as envoy.service.discovery.v3.Resource in SotW, as a heartbeat, a
	// TTL and a variant are anyway.
	Wrapped bool
}

// delta returns the resource as a delta response carries it.
func (r *Resource) delta() *discovery.Resource {
	d := &discovery.Resource{Version: r.Version, Aliases: r.Aliases, Resource: r.Body}
	if r.Constraints == nil && !r.Located {
		d.Name = r.Name
	} else {
		d.ResourceName = &discovery.ResourceName{Name: r.Name, DynamicParameterConstraints: r.Constraints}
	}
	if r.DoNotCache {
		d.CacheControl = &discovery.Resource_CacheControl{DoNotCache: true}
	}
	if r.TTL != 0 {
		d.Ttl = durationpb.New(r.TTL)
	}
	return d
}

// key is what tells the resource from other variants of its name.
func (r *Resource) key() string { return VariantKey(r.Name, r.Constraints) }

// sotw returns the resource as a SotW response carries it.
func (r *Resource) sotw() *anypb.Any {
	if !r.Wrapped && !r.DoNotCache && r.TTL == 0 && r.Body != nil && r.Constraints == nil && !r.Located {
		return r.Body
	}
	return &anypb.Any{TypeUrl: wrapperType, Value: Marshal(r.delta())}
}

// bodyName reads the name inside a payload: protobuf field 1, which is the name in every type that
// SotW can carry bare (name, cluster_name). Empty if there is none or the payload is no protobuf.
// The last occurrence counts, as in any decoder.
func bodyName(body []byte) string {
	name := ""
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return ""
		}
		body = body[n:]
		if number == 1 && kind == protowire.BytesType {
			v, n := protowire.ConsumeBytes(body)
			if n < 0 {
				return ""
			}
			name, body = string(v), body[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, body); n < 0 {
			return ""
		}
		body = body[n:]
	}
	return name
}

// Marshal encodes with a stable field order, so that equal messages have equal bytes.
func Marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("relaytest: cannot encode a message of its own: " + err.Error())
	}
	return b
}
