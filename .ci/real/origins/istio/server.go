package main

import (
	"fmt"
	"net"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	"istio.io/istio/pilot/test/xds"
	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/host"
	"istio.io/istio/pkg/config/schema/gvk"
)

// server is istio's discovery server, and what it was given.
type server struct {
	*xds.FakeDiscoveryServer
	held map[key]config.Config
}

// key is what a resource of istio's is known by.
type key struct {
	kind            config.GroupVersionKind
	namespace, name string
}

func byKey(all []config.Config) map[key]config.Config {
	m := map[key]config.Config{}
	for _, c := range all {
		m[key{c.GroupVersionKind, c.Namespace, c.Name}] = c
	}
	return m
}

const (
	// debounce is for how long istio collects events for one push: its own default. The one of its
	// tests is 0, a push for each event.
	debounce = 100 * time.Millisecond

	// patience is how long istio may take to know what it was given. It is no figure.
	patience = time.Minute
)

// serve starts a server that has the given resources.
func serve(port string, first []config.Config) *server {
	return &server{held: byKey(first), FakeDiscoveryServer: xds.NewFakeDiscoveryServer(process{}, xds.FakeOptions{
		Configs:      first,
		DebounceTime: debounce,
		ListenerBuilder: func() (net.Listener, error) {
			return net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		},
	})}
}

// publish makes the given resources all that the server has. Events that come within debounce are
// one push. On a busy machine they may be more, so each is given only when istio knows those that
// it needs: services before the routes to them, and they go after these. Else istio itself would
// send routes to clusters that are not there.
func (s *server) publish(all []config.Config) error {
	wanted := byKey(all)
	for _, routes := range []bool{false, true} {
		for k, c := range wanted {
			if (k.kind == gvk.VirtualService) != routes {
				continue
			}
			if err := s.put(k, c); err != nil {
				return err
			}
		}
	}
	for _, routes := range []bool{true, false} {
		for k := range s.held {
			if _, stays := wanted[k]; stays || (k.kind == gvk.VirtualService) != routes {
				continue
			}
			if err := s.Store().Delete(k.kind, k.name, k.namespace, nil); err != nil {
				return err
			}
		}
	}
	s.held = wanted
	return nil
}

// put adds or replaces a resource, and waits until istio knows.
func (s *server) put(k key, c config.Config) error {
	old, there := s.held[k]
	if there && old.Equals(&c) {
		return nil
	}
	write := s.Store().Create
	if there {
		write = s.Store().Update
	}
	revision, err := write(c)
	if err != nil {
		return fmt.Errorf("%v: %w", k, err)
	}
	for end := time.Now().Add(patience); !s.knows(k, c, revision); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%v: istio does not take it up", k)
		}
	}
	return nil
}

// knows reports whether what pushes are made of has a resource.
func (s *server) knows(k key, c config.Config, revision string) bool {
	switch k.kind {
	case gvk.ServiceEntry:
		entry := c.Spec.(*networking.ServiceEntry)
		for _, name := range entry.Hosts {
			if s.Env().GetService(host.Name(name)) == nil || s.endpoints(name, k.namespace) != len(entry.Endpoints) {
				return false
			}
		}
	case gvk.VirtualService:
		for _, v := range s.Env().VirtualServiceController.MergedVirtualServices() {
			if v.Namespace == k.namespace && v.Name == k.name {
				return v.ResourceVersion == revision
			}
		}
		return false
	}
	return true
}

// endpoints is how many endpoints istio knows of a service.
func (s *server) endpoints(name, namespace string) int {
	shards, ok := s.Env().EndpointIndex.ShardsForService(name, namespace)
	if !ok {
		return 0
	}
	shards.RLock()
	defer shards.RUnlock()
	n := 0
	for _, all := range shards.Shards {
		n += len(all)
	}
	return n
}
