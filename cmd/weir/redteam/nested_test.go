package redteam

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	matcher "github.com/cncf/xds/go/xds/type/matcher/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacconfig "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	rbac "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

const (
	anyURL  = "type.googleapis.com/google.protobuf.Any"
	rbacURL = "type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC"
	long    = 24 << 20 // bytes of a resource with as much nesting as there is room for
)

// anyOf is a google.protobuf.Any on the wire.
func anyOf(typeURL string, value []byte) []byte { return append(text(1, typeURL), field(2, value)...) }

// anyInAny are so many of them, each in the one before.
func anyInAny(levels int) []byte {
	return anyOf(anyURL, nest(levels, text(1, anyURL), []protowire.Number{2}, nil))
}

// inFilter is a listener with a filter that has this Any as its settings.
func inFilter(settings []byte) []byte {
	d := (*listener.Listener)(nil).ProtoReflect().Descriptor()
	return append(text(1, "nested"), within(d, "filter_chains.filters.typed_config", settings)...)
}

// inRBAC is one with this at a path of its network RBAC filter.
func inRBAC(path string, inner []byte) []byte {
	return inFilter(anyOf(rbacURL, within((*rbac.RBAC)(nil).ProtoReflect().Descriptor(), path, inner)))
}

// cycle are the numbers of a path that leads back to its own type.
func cycle(m proto.Message, path string) []protowire.Number {
	return numbersOf(m.ProtoReflect().Descriptor(), path)
}

// fill nests along a cycle for so many bytes.
func fill(size int, prefix []byte, numbers []protowire.Number) []byte {
	return nest(size/(len(prefix)+5), prefix, numbers, nil)
}

// nestedBodies are listeners by what is nested in them. A size is that of all the nesting.
var nestedBodies = []struct {
	name string
	body func(size int) []byte
}{
	{"any in any", func(size int) []byte { return inFilter(anyInAny(size / (len(anyURL) + 7))) }},
	{"rbac not_rule", func(size int) []byte {
		return inRBAC("rules.policies.value.permissions", fill(size, nil, cycle(&rbacconfig.Permission{}, "not_rule")))
	}},
	{"rbac not_id", func(size int) []byte {
		return inRBAC("rules.policies.value.principals", fill(size, nil, cycle(&rbacconfig.Principal{}, "not_id")))
	}},
	{"struct in metadata", func(size int) []byte {
		d := (*listener.Listener)(nil).ProtoReflect().Descriptor()
		deep := fill(size, nil, cycle(&structpb.Struct{}, "fields.value.struct_value"))
		return append(text(1, "nested"), within(d, "metadata.filter_metadata", append(text(1, "k"), field(2, deep)...))...)
	}},
	{"lists in metadata", func(size int) []byte {
		d := (*listener.Listener)(nil).ProtoReflect().Descriptor()
		deep := fill(size, nil, cycle(&structpb.Value{}, "list_value.values"))
		return append(text(1, "nested"), within(d, "metadata.filter_metadata.value.fields.value", deep)...)
	}},
	{"matchers", func(size int) []byte {
		return inRBAC("matcher", fill(size, nil, cycle(&matcher.Matcher{}, "on_no_match.matcher")))
	}},
	{"matchers in map entries", func(size int) []byte {
		return inRBAC("matcher", fill(size, nil, cycle(&matcher.Matcher{}, "matcher_tree.exact_match_map.map.value.matcher")))
	}},
}

// delta is a response with one resource of a body.
func deltaOne(typeURL, version string, body []byte) []byte {
	r := append(text(3, "nested"), text(1, version)...)
	r = append(r, field(2, anyOf(typeURL, body))...)
	return append(encode(&discovery.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: version}), field(2, r)...)
}

// nestedSieges are the bodies, from an origin whose resources are written to disk.
func nestedSieges() []siege {
	var all []siege
	for i, n := range nestedBodies {
		all = append(all, siege{name: "origin: deep " + n.name, always: i == 0, play: func(p *pod) string {
			body := n.body(long)
			return p.nested(func(version string) []byte { return deltaOne(relaytest.ListenerType, version, body) })
		}})
	}
	return all
}

// nested has the hostile origin send what is deep, which weir should refuse, and not die of when it
// writes or reads the snapshot.
func (p *pod) nested(response func(version string) []byte) string {
	p.Helper()
	said := p.say(relaytest.ListenerType, response)
	begin := time.Now()
	if !strings.Contains(said, "NACK") {
		p.Error("weir does not refuse it")
	}
	written := func() bool {
		info, err := os.Stat(filepath.Join(p.snapshot(), "weir.snapshot"))
		return err == nil && info.ModTime().After(begin.Add(2*snapshotEvery)) || p.weir.Ended()
	}
	if !weirtest.Until(2*late, written) {
		p.Errorf("no snapshot is written for %v", time.Since(begin))
	}
	if p.weir.Ended() {
		return said
	}
	p.restart()
	return said + "; started again"
}
