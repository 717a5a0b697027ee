package real

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ondemand "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// onDemand is a listener whose hosts are asked for when requests for them come, and the hosts that
// there are, which answer with their version.
func onDemand(e envoy, version string, hosts ...string) world {
	manager := e.manager(routes)
	manager.HttpFilters = append([]*hcm.HttpFilter{{
		Name:       "on-demand",
		ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: relaytest.Body(&ondemand.OnDemand{})},
	}}, manager.HttpFilters...)
	w := world{}.put(e.listener(manager, nil),
		relaytest.Body(&route.RouteConfiguration{Name: routes, Vhds: &route.Vhds{ConfigSource: e.Source()}}))
	for _, host := range hosts {
		w.put(answering(host, version))
	}
	return w
}

func answering(host, version string) *anypb.Any {
	return relaytest.Body(&route.VirtualHost{
		Name: routes + "/" + host, Domains: []string{host}, Routes: []*route.Route{{
			Match: &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: "/"}},
			Action: &route.Route_DirectResponse{DirectResponse: &route.DirectResponseAction{
				Status: 200, Body: &core.DataSource{Specifier: &core.DataSource_InlineString{InlineString: version}},
			}},
		}},
	})
}

// statusOf asks for a host, and tells what came: the status or, if that is 200, the answer.
func statusOf(c *http.Client, host string) (string, error) {
	resp, err := c.Get("http://" + host + "/")
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprint(resp.StatusCode), err
	}
	return string(body), err
}

// TestMissingHosts: a request for a virtual host that cannot be had ends with a 404: one that the
// control plane is silent about, that was removed, or that weir cannot ask for. Without an answer
// Envoy lets the request wait until the user gives up.
func TestMissingHosts(t *testing.T) {
	for _, version := range []string{pinned("ENVOY_NEWEST"), pinned("ENVOY_OLDEST")} {
		for _, ads := range []bool{true, false} {
			e := envoy{version, relaytest.Delta, ads}
			for _, o := range []origin{snapshotDelta, snapshotSotW} {
				t.Run(e.Name()+"/"+o.name, func(t *testing.T) { missingHosts(t, e, o) })
			}
		}
	}
}

func missingHosts(t *testing.T, e envoy, o origin) {
	t.Parallel()
	p := newPlane(t, o, onDemand(e, "1"))
	c := weirConfig(p, filepath.Join(t.TempDir(), "snapshot"))
	c.Set("timing.on_demand_wait", "500ms")
	w := weirtest.Start(t, c)
	seen := newTally()
	proxy := startEnvoy(t, e, e.bootstrap("client", w.Addr), seen, func(c *http.Client) (string, error) { return statusOf(c, "late") })
	seen.Reach(t, "404", "a host that there is none of")
	if o.dialect == relaytest.Delta {
		p.Publish(onDemand(e, "2", "late"))
		seen.Reach(t, "2", "the host is made")
		p.Publish(onDemand(e, "3", "late"))
		seen.Reach(t, "3", "it changes")
		p.Publish(onDemand(e, "4"))
		seen.Reach(t, "404", "it is removed")
		p.Publish(onDemand(e, "5", "late"))
		seen.Reach(t, "5", "it is there again")
	}
	if n, err := proxy.Refused(); n != 0 || err != nil {
		t.Errorf("Envoy refused %d responses; %v", n, err)
	}
	proxy.Stop()
	seen.Check(t)
}
