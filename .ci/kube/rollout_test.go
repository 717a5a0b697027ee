package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kinds are the workloads that are to lose nothing, and what they need for it.
var kinds = map[string][]string{
	"StatefulSet": nil,
	"Deployment":  nil, // its pods ask each other
}

// TestNothingIsLost: the origin's certificate becomes wrong, and then weir is updated, every node
// is drained, and pods are killed without a warning: all those of a StatefulSet, all but one of a
// Deployment. Each time every client, old or new, is served what was last known good.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	for kind, values := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t, strings.ToLower(kind), kind, values...)
			c.spoil()

			before := c.uids()
			c.helm(flags([]string{"upgrade", "weir", chart}, c.values, set("podAnnotations", map[string]string{"round": "2"}), wait())...)
			await(t, "no old pod runs", func() error { return c.replaced(3, before) })
			c.keeps("after the rolling update")

			before = c.uids()
			for _, node := range nodeNames {
				c.drain(node)
			}
			await(t, "no old pod runs", func() error { return c.replaced(3, before) })
			c.keeps("after all nodes were drained")

			before = c.pods()
			if kind == "Deployment" {
				before = before[1:]
			}
			if err := cluster.kill(context.Background(), c.namespace, before...); err != nil {
				t.Fatal(err)
			}
			await(t, "three pods are ready again", func() error { return c.replaced(3, nil) })
			c.keeps(fmt.Sprintf("after %d pods were killed", len(before)))
		})
	}
}

// draining has one node of the cluster cordoned at a time, whichever tests run.
var draining sync.Mutex

// drain does what kubectl drain does: it cordons a node and evicts its pods, as their disruption
// budget allows. When no pod is left there the node is taken back.
func (c *crowd) drain(node string) {
	c.t.Helper()
	draining.Lock()
	defer draining.Unlock()
	ctx := context.Background()
	c.cordon(node, true)
	defer c.cordon(node, false)
	await(c.t, "the drain of "+node, func() error {
		pods, err := cluster.core.Pods(c.namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.DeletionTimestamp != nil {
				continue
			}
			err := cluster.policy.Evictions(c.namespace).Evict(ctx, &policyv1.Eviction{
				ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
			})
			if err != nil && !apierrors.IsTooManyRequests(err) && !apierrors.IsNotFound(err) { // the budget says: later
				return err
			}
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d pods are there", len(pods.Items))
		}
		return nil
	})
	await(c.t, "three pods without "+node, func() error { return c.replaced(3, nil) })
}

func (c *crowd) cordon(node string, on bool) {
	c.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, on)
	if _, err := cluster.core.Nodes().Patch(context.Background(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}
