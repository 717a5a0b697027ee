package sink

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

const suffix = ".pb"

// maxFileName is the longest file name, in bytes.
const maxFileName = 255

// fileOf returns the name of the file of one resource.
func (k *kind) fileOf(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' || c == '/' || c == '%' {
			_, _ = fmt.Fprintf(&b, "%%%02X", c) // a strings.Builder returns no error
		} else {
			b.WriteByte(c)
		}
	}
	escaped, room := b.String(), maxFileName-len(k.short)-1-len(suffix)
	if len(escaped) > room {
		sum := sha256.Sum256([]byte(name))
		escaped = escaped[:room-17] + "~" + hex.EncodeToString(sum[:8])
	}
	return k.short + "." + escaped + suffix
}

// file returns the name of the file with all resources.
func (k *kind) file() string { return k.short + suffix }

// owns reports whether a file is of the type.
func (k *kind) owns(file string) bool {
	if k.list {
		return file == k.file()
	}
	rest, is := strings.CutPrefix(file, k.short+".")
	return is && strings.HasSuffix(rest, suffix) && rest != suffix
}

// references returns the names that a resource of a list refers to: the endpoints of a cluster, or
// the route configurations of a listener or a scoped route. What does not decode refers to nothing.
func references(typeURL string, v *xds.Variant) []string {
	switch typeURL {
	case xds.ClusterType:
		if name := v.Endpoints(); name != "" && name != xds.Wildcard {
			return []string{name}
		}
	case xds.ScopedRouteType:
		m := &routev3.ScopedRouteConfiguration{}
		if unpack(v, m) && m.GetRouteConfigurationName() != "" {
			return []string{xds.NameKey(m.GetRouteConfigurationName())}
		}
	case xds.ListenerType:
		m := &listenerv3.Listener{}
		if unpack(v, m) {
			return routesOf(m)
		}
	}
	return nil
}

// maxUnpacked bounds what a resource may need in memory, in bytes, to be looked into.
const maxUnpacked = 128 << 20

func unpack(v *xds.Variant, m proto.Message) bool {
	a := &anypb.Any{}
	return proto.Unmarshal(v.Any(), a) == nil && xds.Unmarshal(a.GetValue(), m, maxUnpacked) == nil
}

// routesOf returns the names of a listener's route configurations.
func routesOf(l *listenerv3.Listener) (names []string) {
	add := func(a *anypb.Any) {
		m := &hcmv3.HttpConnectionManager{}
		if a == nil || !a.MessageIs(m) || a.UnmarshalTo(m) != nil {
			return
		}
		if name := m.GetRds().GetRouteConfigName(); name != "" {
			names = append(names, xds.NameKey(name))
		}
		inline := m.GetScopedRoutes().GetScopedRouteConfigurationsList()
		for _, scope := range inline.GetScopedRouteConfigurations() {
			if name := scope.GetRouteConfigurationName(); name != "" {
				names = append(names, xds.NameKey(name))
			}
		}
	}
	for _, chain := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
		for _, filter := range chain.GetFilters() {
			add(filter.GetTypedConfig())
		}
	}
	add(l.GetApiListener().GetApiListener())
	return names
}
