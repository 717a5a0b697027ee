package kube

import (
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// proxies stand in for kube-proxy: the machine has every service's address, and accepts for it.
type proxies struct {
	endpoints atomic.Pointer[store[*discoveryv1.EndpointSlice]]

	mu    sync.Mutex // guards all below
	open  map[string]*servicePort
	ended bool
}

// servicePort is one port of a service that has an address.
type servicePort struct {
	service  *corev1.Service
	port     corev1.ServicePort
	listener net.Listener
}

func newProxies() *proxies { return &proxies{open: map[string]*servicePort{}} }

// changed opens the ports of a service, and closes those that it no longer has.
func (p *proxies) changed(service *corev1.Service, gone bool) {
	address, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil || !netip.MustParsePrefix(servicesCIDR).Contains(address) {
		return // headless
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := map[string]bool{}
	for _, port := range service.Spec.Ports {
		key := net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(port.Port)))
		if gone || port.Protocol == corev1.ProtocolUDP || p.ended {
			continue
		}
		wanted[key] = true
		if p.open[key] != nil {
			continue
		}
		_ = ip("addr", "add", service.Spec.ClusterIP+"/32", "dev", bridge) // another port may have it
		listener, err := net.Listen("tcp", key)
		if err != nil {
			continue // whoever connects is refused, and the test says so
		}
		s := &servicePort{service: service, port: port, listener: listener}
		p.open[key] = s
		go s.serve(p)
	}
	for key, s := range p.open {
		if s.service.UID == service.UID && !wanted[key] {
			_ = s.listener.Close()
			delete(p.open, key)
		}
	}
}

// close ends what listens. Connections end with their pods.
func (p *proxies) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for _, s := range p.open {
		_ = s.listener.Close()
	}
}

// serve ends when the listener is closed.
func (s *servicePort) serve(p *proxies) {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.pass(conn.(*net.TCPConn), s.choose(p.endpoints.Load()))
	}
}

// choose draws one of the endpoints that kube-proxy would draw from: the ready ones, and if there
// is none those that serve although they end.
func (s *servicePort) choose(all *store[*discoveryv1.EndpointSlice]) string {
	var ready, ending []string
	for _, slice := range all.list(s.service.Namespace) {
		if slice.Labels[discoveryv1.LabelServiceName] != s.service.Name {
			continue
		}
		port := ""
		for _, candidate := range slice.Ports {
			if candidate.Name != nil && *candidate.Name == s.port.Name && candidate.Port != nil {
				port = strconv.Itoa(int(*candidate.Port))
			}
		}
		if port == "" {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			is := func(condition *bool) bool { return condition != nil && *condition }
			target := net.JoinHostPort(endpoint.Addresses[0], port)
			switch c := endpoint.Conditions; {
			case c.Ready == nil || *c.Ready:
				ready = append(ready, target)
			case is(c.Serving) && is(c.Terminating):
				ending = append(ending, target)
			}
		}
	}
	if len(ready) == 0 {
		ready = ending
	}
	if len(ready) == 0 {
		return ""
	}
	return ready[rand.IntN(len(ready))]
}

// pass connects a client with an endpoint, or resets its connection if there is none.
func (s *servicePort) pass(client *net.TCPConn, target string) {
	endpoint, err := net.DialTimeout("tcp", target, 2*time.Second)
	if err != nil {
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		flow(endpoint.(*net.TCPConn), client)
	}()
	flow(client, endpoint.(*net.TCPConn))
	<-done
	_ = client.Close()
	_ = endpoint.Close()
}

// flow passes one direction until it ends, and its end, in the way it came.
func flow(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = to.SetLinger(0) // a reset is passed as one
		_ = to.Close()
		_ = from.Close()
		return
	}
	_ = to.CloseWrite() // the other end may have gone
}
