package kube

import (
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// clusterDomain ends the full name of every service.
const clusterDomain = ".svc.cluster.local"

// names is the cluster's DNS: A records of services and of the pods that a headless one names.
type names struct {
	conn     net.PacketConn
	services *store[*corev1.Service]
	slices   *store[*discoveryv1.EndpointSlice]

	mu      sync.Mutex // guards outside
	outside map[string]string
}

func newNames(services *store[*corev1.Service], endpoints *store[*discoveryv1.EndpointSlice]) (*names, error) {
	conn, err := net.ListenPacket("udp", net.JoinHostPort(gateway, "53"))
	if err != nil {
		return nil, err
	}
	n := &names{conn: conn, services: services, slices: endpoints, outside: map[string]string{}}
	go n.serve()
	return n, nil
}

// serve ends when conn is closed.
func (n *names) serve() {
	buffer := make([]byte, 4096)
	for {
		size, from, err := n.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if reply := n.reply(buffer[:size]); reply != nil {
			_, _ = n.conn.WriteTo(reply, from) // who asked asks again
		}
	}
}

// reply is nil for what is no question.
func (n *names) reply(query []byte) []byte {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil
	}
	question, err := parser.Question()
	if err != nil {
		return nil
	}
	addresses, known := n.lookup(strings.ToLower(strings.TrimSuffix(question.Name.String(), ".")))
	message := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
		},
		Questions: []dnsmessage.Question{question},
	}
	if !known {
		message.RCode = dnsmessage.RCodeNameError
	}
	if question.Type == dnsmessage.TypeA {
		for _, address := range addresses {
			body := &dnsmessage.AResource{}
			copy(body.A[:], net.ParseIP(address).To4())
			message.Answers = append(message.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 1}, Body: body,
			})
		}
	}
	packed, err := message.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// lookup is what a full name stands for: [pod.]service.namespace.svc.cluster.local, or a name
// outside of the cluster.
func (n *names) lookup(name string) (addresses []string, known bool) {
	n.mu.Lock()
	outside := n.outside[name]
	n.mu.Unlock()
	if outside != "" {
		return []string{outside}, true
	}
	rest, inside := strings.CutSuffix(name, clusterDomain)
	if !inside {
		return nil, false
	}
	labels := strings.Split(rest, ".")
	if len(labels) < 2 || len(labels) > 3 {
		return nil, false
	}
	host := strings.Join(labels[:len(labels)-2], ".")
	service := n.services.get(labels[len(labels)-1], labels[len(labels)-2])
	switch {
	case service == nil:
		return nil, false
	case service.Spec.ClusterIP != corev1.ClusterIPNone:
		return []string{service.Spec.ClusterIP}, host == ""
	}
	found := map[string]bool{}
	for _, endpoint := range endpointsOf(n.slices, service) {
		ready := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
		// The controller says ready of every endpoint if the service publishes those that are not.
		if ready && (host == "" || endpoint.Hostname != nil && *endpoint.Hostname == host) {
			for _, address := range endpoint.Addresses {
				found[address] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), host == "" || len(found) > 0
}

// endpointsOf are all of a service, ready or not.
func endpointsOf(all *store[*discoveryv1.EndpointSlice], service *corev1.Service) (endpoints []discoveryv1.Endpoint) {
	for _, slice := range all.list(service.Namespace) {
		if slice.Labels[discoveryv1.LabelServiceName] == service.Name {
			endpoints = append(endpoints, slice.Endpoints...)
		}
	}
	return endpoints
}
