package kube

import (
	"crypto/tls"
	"fmt"
	"testing"
	"time"
)

// crowd is a release of three replicas, with the clients that it has.
type crowd struct {
	*bed
	origin *origin
	values []string
	node   int // so many clients were started
	old    []follower
}

// follower is a client of either kind.
type follower interface {
	whole() error
	lost() error
}

// How many clients of each kind a crowd begins with, and how many come later.
const (
	goClients = 60
	envoys    = 3
	later     = 12
)

// newCrowd installs a release of a kind, and waits until every client has everything. The origin
// and all clients speak TLS.
func newCrowd(t *testing.T, namespace, kind string, values ...string) *crowd {
	t.Helper()
	c := &crowd{bed: newBed(t, namespace)}
	c.secret("weir-tls", c.ca.issue(c.names("weir")...))
	c.origin = newOrigin(t, namespace, pair(t, c.ca.issue("control-plane")), "control-plane")
	type object = map[string]any
	c.values = flags(set("replicas", 3), set("workload.kind", kind),
		set("tls", object{"existingSecret": "weir-tls", "requireClientCertificate": true}),
		set("config.timing.drain", "3s"), set("config.log", object{"level": "info"}),
		// One group: what any client has been sent a replica has for all of them.
		set("config.origins", []any{object{"name": "mesh", "group_by": []string{"cluster"}, "grpc": object{
			"addresses": []string{"control-plane:18000"}, "tls": object{"ca": "/etc/weir/tls/ca.crt"},
		}}}), values)
	c.helm(flags([]string{"install", "weir", chart}, c.values, wait())...)
	c.old = c.join(goClients, envoys)
	await(t, "the first clients", all(c.old, follower.whole))
	return c
}

// join starts clients of the service.
func (c *crowd) join(goClients, envoys int) (joined []follower) {
	c.t.Helper()
	cert := c.ca.issue("client")
	for range goClients {
		c.node++
		joined = append(joined, connect(c.t, c.service("weir", 18080), fmt.Sprint("client-", c.node), &tls.Config{
			RootCAs: c.ca.pool(), ServerName: "weir." + c.namespace + ".svc", Certificates: []tls.Certificate{pair(c.t, cert)},
		}))
	}
	for range envoys {
		c.node++
		joined = append(joined, startEnvoy(c.t, fmt.Sprint("envoy-", c.node), c.service("weir", 18080), cert))
	}
	return joined
}

// spoil has the origin show the certificate of an authority that nobody knows: it accepts
// connections, and nobody gets anything from it.
func (c *crowd) spoil() {
	c.origin.show(pair(c.t, newAuthority(c.t).issue("control-plane")))
}

// keeps asserts that nobody has lost anything and that those who come now get everything.
func (c *crowd) keeps(step string) {
	c.t.Helper()
	within(c.t, 5*time.Second, step+": every old client is served", all(c.old, follower.whole))
	fresh := c.join(later, 1)
	within(c.t, 5*time.Second, step+": every new client is served", all(fresh, follower.whole))
	c.old = append(c.old, fresh...)
	if err := all(c.old, follower.lost)(); err != nil {
		c.t.Errorf("%s: %v", step, err)
	}
}
