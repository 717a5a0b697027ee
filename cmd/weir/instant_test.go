package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestLoneChangeWaitsForNothing: from the origin's change to the client no timer is waited for, no
// batch and no poll: it arrives at the same instant of virtual time, whatever the dialects, by `*`
// and by name.
func TestLoneChangeWaitsForNothing(t *testing.T) {
	dialects := []relaytest.Dialect{relaytest.Delta, relaytest.SotW}
	for _, up := range dialects {
		for _, down := range dialects {
			t.Run(fmt.Sprintf("%v to %v", up, down), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { loneChange(t, up, down) })
			})
		}
	}
}

func loneChange(t *testing.T, up, down relaytest.Dialect) {
	origin := relaytest.NewOrigin(t, relaytest.Memory(), relaytest.OriginConfig{Serving: true, Options: []grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second}),
	}})
	put := func(typeURL string, n int) {
		r := relaytest.Resource{Name: "x", Version: fmt.Sprint(n), Body: relaytest.Cluster("x", time.Duration(n)*time.Second)}
		if typeURL == eds {
			r.Body = relaytest.Endpoints("x", fmt.Sprint("10.0.0.1:", n))
		}
		origin.Put(typeURL, r)
	}
	put(relaytest.ClusterType, 1)
	put(eds, 1)
	c := relaytest.NewClient(t, newHop(t, origin.Net(), up).net.Connect(t), relaytest.ClientConfig{Dialect: down})
	c.Open(relaytest.Node("n", "edge"))
	c.Subscribe(relaytest.ClusterType, "*")
	c.Subscribe(eds, "x")
	for n := 2; n < 6; n++ {
		time.Sleep(time.Minute) // quiet
		synctest.Wait()
		for _, typeURL := range []string{relaytest.ClusterType, eds} {
			before := len(c.Responses(typeURL))
			put(typeURL, n)
			synctest.Wait()
			if got := c.Responses(typeURL)[before:]; len(got) != 1 || got[0].At != time.Now() {
				t.Errorf("of change %d of %s there were %d responses at the instant of the change, want one", n, typeURL, len(got))
			}
		}
	}
	c.CheckClean()
}
