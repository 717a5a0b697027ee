package redteam

import (
	"bytes"
	"strings"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-xds/weir/relay/relaytest"
)

// withEvilSotW is withSnapshot, with an origin that speaks the other dialect.
func withEvilSotW(p *pod) {
	withSnapshot(p)
	p.file["origins"].([]any)[1].(map[string]any)["grpc"].(map[string]any)["dialect"] = "sotw"
}

var (
	deltaResponse = (*discovery.DeltaDiscoveryResponse)(nil).ProtoReflect().Descriptor()
	sotwResponse  = (*discovery.DiscoveryResponse)(nil).ProtoReflect().Descriptor()
)

const wrapperURL = "type.googleapis.com/envoy.service.discovery.v3.Resource"

// odd are responses that are long or deep outside of the bodies. In delta ones a resource is
// called nested, and in those of state of the world it is a listener of that name.
var odd = []struct {
	name string
	of   protoreflect.MessageDescriptor
	body func() []byte
}{
	{"constraints in constraints", deltaResponse, func() []byte {
		return constrained(fill(20<<20, nil, cycle(&discovery.DynamicParameterConstraints{}, "not_constraints")))
	}},
	{"lists in lists of constraints", deltaResponse, func() []byte {
		return constrained(fill(20<<20, nil, cycle(&discovery.DynamicParameterConstraints{}, "or_constraints.constraints")))
	}},
	{"10M constraints", deltaResponse, func() []byte {
		return constrained(many((*discovery.DynamicParameterConstraints)(nil).ProtoReflect().Descriptor(), "or_constraints.constraints", 10_000_000, nil))
	}},
	{"constraints of what is removed", deltaResponse, func() []byte {
		deep := fill(20<<20, nil, cycle(&discovery.DynamicParameterConstraints{}, "not_constraints"))
		return within(deltaResponse, "removed_resource_names", append(text(1, "nested"), field(2, deep)...))
	}},
	{"aliases", deltaResponse, func() []byte {
		return nestedResource(bytes.Repeat(field(4, nil), 12_000_000))
	}},
	{"metadata of a resource", deltaResponse, func() []byte {
		return nestedResource(field(9, wrap([]protowire.Number{1, 2}, fill(20<<20, nil, []protowire.Number{1, 2, 5}))))
	}},
	{"any in any in an error", deltaResponse, func() []byte {
		return within(deltaResponse, "resource_errors", append(within((*discovery.ResourceError)(nil).ProtoReflect().Descriptor(), "resource_name.name", []byte("nested")),
			within((*discovery.ResourceError)(nil).ProtoReflect().Descriptor(), "error_detail.details", anyInAny(400_000))...))
	}},
	{"an identifier of 30 MB", deltaResponse, func() []byte {
		return within(deltaResponse, "control_plane.identifier", []byte(strings.Repeat("i", 30<<20)))
	}},
	{"groups in groups", deltaResponse, func() []byte { return groups(12_000_000, true) }},
	{"a resource in 10M parts", deltaResponse, func() []byte {
		return nestedResource(bytes.Repeat(field(2, nil), 10_000_000))
	}},
	{"wrappers in wrappers", sotwResponse, func() []byte {
		return within(sotwResponse, "resources", nest(300_000, text(1, wrapperURL), []protowire.Number{2, 2}, nil))
	}},
	{"any in any", sotwResponse, func() []byte {
		return within(sotwResponse, "resources", anyOf(relaytest.ListenerType, inFilter(anyInAny(400_000))))
	}},
	{"6M resources of two bytes", sotwResponse, func() []byte { return many(sotwResponse, "resources", 6_000_000, nil) }},
	{"500,000 resources of one name", sotwResponse, func() []byte {
		return bytes.Repeat(within(sotwResponse, "resources", anyOf(relaytest.ListenerType, text(1, "same"))), 500_000)
	}},
}

// nestedResource is a listener in a delta response with more beside its body.
func nestedResource(more []byte) []byte {
	r := append(text(3, "nested"), text(1, "1")...)
	r = append(r, field(2, anyOf(relaytest.ListenerType, text(1, "nested")))...)
	return within(deltaResponse, "resources", append(r, more...))
}

// constrained is one with constraints.
func constrained(constraints []byte) []byte {
	r := append(field(8, append(text(1, "nested"), field(2, constraints)...)), text(1, "1")...)
	r = append(r, field(2, anyOf(relaytest.ListenerType, text(1, "nested")))...)
	return within(deltaResponse, "resources", r)
}

func oddSieges() []siege { return oddOf(deltaResponse, "origin: ", deltaHead) }

func oddSotWSieges() []siege {
	all := oddOf(sotwResponse, "sotw origin: ", sotwHead)
	return append(all, siege{name: "sotw origin: deep rbac not_rule", play: func(p *pod) string {
		body := anyOf(relaytest.ListenerType, nestedBodies[1].body(long))
		return p.nested(func(version string) []byte {
			return append(sotwHead(version), within(sotwResponse, "resources", body)...)
		})
	}})
}

func oddOf(d protoreflect.MessageDescriptor, prefix string, head func(version string) []byte) []siege {
	var all []siege
	for _, o := range odd {
		if o.of == d {
			all = append(all, siege{name: prefix + o.name, play: says(func(version string) []byte { return append(head(version), o.body()...) })})
		}
	}
	return all
}

// sotwHead is a response without resources.
func sotwHead(version string) []byte {
	return encode(&discovery.DiscoveryResponse{TypeUrl: relaytest.ListenerType, Nonce: version, VersionInfo: version})
}
