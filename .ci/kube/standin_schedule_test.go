package kube

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bind gives pods their nodes, until ctx ends.
func (k *kubelet) bind(ctx context.Context) {
	bound := map[string]string{} // by namespace/name: the node of a pod that the store may not know yet
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.schedule:
		}
		for _, p := range k.pods.list("") {
			key := p.Namespace + "/" + p.Name + "/" + string(p.UID)
			if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || bound[key] != "" {
				continue
			}
			node := k.choose(p, bound)
			if node == "" || !k.provision(ctx, p) {
				continue // a change of nodes, pods or claims brings it up again
			}
			err := k.cluster.core.Pods(p.Namespace).Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
				Target:     corev1.ObjectReference{Kind: "Node", Name: node},
			}, metav1.CreateOptions{})
			if err == nil {
				bound[key] = node
			}
		}
	}
}

// choose is the node that may have the pod and has the fewest of its kind; empty if none may.
func (k *kubelet) choose(p *corev1.Pod, bound map[string]string) (best string) {
	fewest := 0
	for _, name := range nodeNames {
		node := k.nodes.get("", name)
		if node == nil || !allowed(p, node) || k.claimed(p, name) {
			continue
		}
		if n := k.siblings(p, name, bound); best == "" || n < fewest {
			best, fewest = name, n
		}
	}
	return best
}

// allowed looks at what a pod says of nodes.
func allowed(p *corev1.Pod, node *corev1.Node) bool {
	daemon := p.Spec.Affinity != nil && p.Spec.Affinity.NodeAffinity != nil &&
		p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
	if node.Spec.Unschedulable && !daemon { // a DaemonSet's pods tolerate it
		return false
	}
	for key, value := range p.Spec.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}
	if !daemon {
		return true
	}
	for _, term := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		matches := true
		for _, field := range term.MatchFields {
			matches = matches && field.Key == "metadata.name" && slices.Contains(field.Values, node.Name)
		}
		for _, label := range term.MatchExpressions {
			_, has := node.Labels[label.Key]
			switch label.Operator {
			case corev1.NodeSelectorOpIn:
				matches = matches && slices.Contains(label.Values, node.Labels[label.Key])
			case corev1.NodeSelectorOpExists:
				matches = matches && has
			default:
				matches = false // not known here
			}
		}
		if matches {
			return true
		}
	}
	return false
}

// siblings counts the pods of the same labels' controller on a node. Successive generations count
// together: the controller is told by what the pods' names begin with.
func (k *kubelet) siblings(p *corev1.Pod, node string, bound map[string]string) (n int) {
	app := func(p *corev1.Pod) string {
		return p.Labels["app.kubernetes.io/instance"] + "/" + p.Labels["app"] + "/" + p.Labels["app.kubernetes.io/name"]
	}
	for _, other := range k.pods.list(p.Namespace) {
		at := other.Spec.NodeName
		if at == "" {
			at = bound[other.Namespace+"/"+other.Name+"/"+string(other.UID)]
		}
		if other.UID != p.UID && at == node && app(other) == app(p) {
			n++
		}
	}
	return n
}
