package kube

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFreezeAll: a freeze that goes to every replica behind the headless service holds for all of
// them, and for one that comes later. Its end, too, is of all.
func TestFreezeAll(t *testing.T) {
	t.Parallel()
	secret := map[string]string{"cert": "/etc/weir/tls/tls.crt", "key": "/etc/weir/tls/tls.key", "client_ca": "/etc/weir/tls/ca.crt"}
	c := newCrowd(t, "freeze", "Deployment", flags(
		set("config.admin", map[string]any{"address": "0.0.0.0:19080", "tls": secret}))...)
	order := func(verb string, replicas int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		out, err := cluster.exec(ctx, c.namespace, c.pods()[0], "weir", "/weir", verb, "mesh",
			"--all", "dns:///weir-headless."+c.namespace+".svc:19080", "--ca", secret["client_ca"], "--cert", secret["cert"], "--key", secret["key"])
		if err != nil || strings.Count(out, "\n") != replicas {
			t.Fatalf("weir %s --all: %v\n%s", verb, err, out)
		}
	}

	order("freeze", 3)
	c.origin.fill("second")
	fourth := append(c.values[:len(c.values):len(c.values)], set("replicas", 4)...)
	before := c.pods()
	c.helm(flags([]string{"upgrade", "weir", chart}, fourth, wait())...)
	joined := c.at(before)
	time.Sleep(2 * time.Second) // an origin's change reaches clients in milliseconds
	for _, e := range append(c.envoys(), joined) {
		if err := e.says("first"); err != nil {
			t.Errorf("frozen: %v", err)
		}
	}

	order("unfreeze", 4)
	within(t, 2*time.Second, "the end of the freeze reaches every client",
		all(append(c.envoys(), joined), func(e *envoy) error { return e.says("second") }))
	if err := all(c.old, follower.lost)(); err != nil {
		t.Error(err)
	}
}

// envoys are those of the crowd.
func (c *crowd) envoys() (all []*envoy) {
	for _, f := range c.old {
		if e, ok := f.(*envoy); ok {
			all = append(all, e)
		}
	}
	return all
}

// at is an Envoy at the pod that came after the others, and has what that has.
func (c *crowd) at(before []string) *envoy {
	c.t.Helper()
	pods, err := cluster.core.Pods(c.namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	old := strings.Join(before, " ")
	for i := range pods.Items {
		if p := &pods.Items[i]; !strings.Contains(old, p.Name) {
			e := startEnvoy(c.t, "envoy-at-"+p.Name, p.Status.PodIP+":18080", c.ca.issue("client"))
			await(c.t, "an Envoy at the new pod", func() error { _, err := e.answer(); return err })
			return e
		}
	}
	c.t.Fatal("there is no new pod")
	return nil
}
