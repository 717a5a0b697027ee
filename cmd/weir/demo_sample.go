package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sampleRoute is the name of the sample's route configuration.
const sampleRoute = "main"

// sample is the demonstration's configuration, and the sequence of its changes.
type sample struct {
	dir     string
	steps   int
	host    int    // host number of web's endpoint
	search  bool   // the cluster exists
	timeout string // timeout of api
	prices  int    // host number of production's variant of the endpoints of prices
	broken  bool   // clusters.yaml is invalid
}

func newSample(dir string) *sample { return &sample{dir: dir, host: 1, timeout: "1s", prices: 1} }

// step makes the next change and returns a sentence about it.
func (s *sample) step() (string, error) {
	sentence := ""
	switch s.steps % 6 {
	case 0:
		s.host = s.host%250 + 1
		sentence = fmt.Sprintf("the endpoints of web move to 10.0.0.%d", s.host)
	case 1:
		s.prices = s.prices%250 + 1
		sentence = fmt.Sprintf("production's variant of the endpoints of prices moves to 10.1.0.%d; staging should not hear of it", s.prices)
	case 2:
		s.search = true
		sentence = "a cluster search is added, and a route to it"
	case 3:
		s.search = false
		sentence = "the route and the cluster search are removed again"
	case 4:
		s.broken = true
		sentence = "clusters.yaml is broken; the clients should notice nothing"
	case 5:
		s.broken = false
		s.timeout = fmt.Sprintf("%ds", s.steps/6%9+2)
		sentence = "clusters.yaml is mended, and api's connect timeout is " + s.timeout
	}
	s.steps++
	return sentence, s.write()
}

// write replaces the files by renaming, so that half a file is never read.
func (s *sample) write() error {
	for name, text := range map[string]string{
		"clusters.yaml":  s.clusters(),
		"endpoints.yaml": s.endpoints(),
		"listeners.yaml": sampleListener,
		"routes.yaml":    s.routes(),
		"variants.yaml":  s.variants(),
	} {
		next := filepath.Join(s.dir, ".next")
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			return err
		}
		if err := os.Rename(next, filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (s *sample) clusters() string {
	if s.broken {
		return "resources: [ this is no list of clusters"
	}
	var text strings.Builder
	text.WriteString("resources:\n")
	cluster := func(name, timeout string) {
		fmt.Fprintf(&text, `- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: %s
  type: EDS
  connect_timeout: %s
  eds_cluster_config: { eds_config: { ads: {}, resource_api_version: V3 } }
`, name, timeout)
	}
	cluster("api", s.timeout)
	cluster("web", "1s")
	if s.search {
		cluster("search", "1s")
	}
	return text.String()
}

func (s *sample) endpoints() string {
	var text strings.Builder
	text.WriteString("resources:\n")
	endpoint := func(name string, host int) {
		fmt.Fprintf(&text, `- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: %s
  endpoints:
  - lb_endpoints:
    - endpoint: { address: { socket_address: { address: 10.0.0.%d, port_value: 8080 } } }
`, name, host)
	}
	endpoint("api", 251)
	endpoint("web", s.host)
	if s.search {
		endpoint("search", 252)
	}
	return text.String()
}

// variants returns the endpoints of prices, for two kinds of clients.
func (s *sample) variants() string {
	var text strings.Builder
	text.WriteString("resources:\n")
	for _, v := range []struct{ env, address string }{{"prod", fmt.Sprintf("10.1.0.%d", s.prices)}, {"staging", "10.2.0.1"}} {
		fmt.Fprintf(&text, `- resource_name:
    name: prices
    dynamic_parameter_constraints: { constraint: { key: env, value: %s } }
  resource:
    "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
    cluster_name: prices
    endpoints:
    - lb_endpoints:
      - endpoint: { address: { socket_address: { address: %s, port_value: 8080 } } }
`, v.env, v.address)
	}
	return text.String()
}

func (s *sample) routes() string {
	routes := `{ match: { prefix: /api }, route: { cluster: api } }, { match: { prefix: / }, route: { cluster: web } }`
	if s.search {
		routes = `{ match: { prefix: /search }, route: { cluster: search } }, ` + routes
	}
	return fmt.Sprintf(`resources:
- "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: %s
  virtual_hosts:
  - name: all
    domains: ["*"]
    routes: [%s]
`, sampleRoute, routes)
}

const sampleListener = `resources:
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: ingress
  address: { socket_address: { address: 127.0.0.1, port_value: 10000 } }
  filter_chains:
  - filters:
    - name: http
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: ingress
        rds: { route_config_name: main, config_source: { ads: {}, resource_api_version: V3 } }
        http_filters:
        - name: router
          typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
`
