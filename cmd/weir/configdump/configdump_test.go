package configdump

import (
	"slices"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/xds"
)

// TestEachTypeHasItsPlace: every type is in the message in which Envoy dumps it, and the others are
// at the end.
func TestEachTypeHasItsPlace(t *testing.T) {
	c := &statusv3.ClientConfig{}
	for _, typeURL := range []string{
		xds.RuntimeType, xds.ListenerType, xds.ClusterType, xds.RouteType, xds.ScopedRouteType, xds.EndpointType, xds.SecretType, xds.ExtensionConfigType,
		xds.VirtualHostType,
	} {
		it := &Item{TypeUrl: typeURL, Name: "a", VersionInfo: "7", ConfigStatus: statusv3.ConfigStatus_SYNCED}
		if typeURL != xds.SecretType {
			it.XdsConfig = &anypb.Any{TypeUrl: typeURL}
		}
		c.GenericXdsConfigs = append(c.GenericXdsConfigs, it)
	}
	dump, err := Of(c)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, body := range dump.Configs {
		m, err := body.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(m.ProtoReflect().Descriptor().Name()))
		switch x := m.(type) {
		case *adminv3.ListenersConfigDump:
			l := x.DynamicListeners[0]
			if l.Name != "a" || l.ActiveState.VersionInfo != "7" || l.ActiveState.Listener.TypeUrl != xds.ListenerType || l.ClientStatus != adminv3.ClientResourceStatus_ACKED {
				t.Errorf("a listener is %v", l)
			}
		case *adminv3.SecretsConfigDump:
			if s := x.DynamicActiveSecrets[0]; s.Name != "a" || s.Secret != nil || s.ClientStatus != adminv3.ClientResourceStatus_ACKED {
				t.Errorf("a secret is %v", s)
			}
		case *statusv3.ClientConfig:
			if len(x.GenericXdsConfigs) != 2 || x.GenericXdsConfigs[0].TypeUrl != xds.RuntimeType {
				t.Errorf("the rest is %v", x)
			}
		}
	}
	want := []string{
		"ClustersConfigDump", "EndpointsConfigDump", "ListenersConfigDump", "ScopedRoutesConfigDump", "RoutesConfigDump", "SecretsConfigDump", "EcdsConfigDump", "ClientConfig",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWithoutABody: a cluster without contents has no place, and a listener has its name and state.
func TestWithoutABody(t *testing.T) {
	dump, err := Of(&statusv3.ClientConfig{GenericXdsConfigs: []*Item{
		{TypeUrl: xds.ClusterType, Name: "a", ConfigStatus: statusv3.ConfigStatus_NOT_SENT},
		{TypeUrl: xds.ListenerType, Name: "b", ConfigStatus: statusv3.ConfigStatus_SYNCED},
	}})
	if err != nil || len(dump.Configs) != 1 {
		t.Fatalf("%v, %v", err, dump)
	}
	var got adminv3.ListenersConfigDump
	if err := dump.Configs[0].UnmarshalTo(&got); err != nil {
		t.Fatal(err)
	}
	want := &adminv3.ListenersConfigDump{DynamicListeners: []*adminv3.ListenersConfigDump_DynamicListener{
		{Name: "b", ClientStatus: adminv3.ClientResourceStatus_DOES_NOT_EXIST},
	}}
	if !proto.Equal(&got, want) {
		t.Errorf("%v", &got)
	}
}
