package kube

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// report tells the API server the pod's status whenever it changes, until the pod is over.
func (p *pod) report() {
	var last []byte
	since := map[corev1.PodConditionType]corev1.PodCondition{}
	for done := false; !done; {
		select {
		case <-p.wake:
		case <-p.over:
			done = true
		case <-p.killed.Done(): // it is gone, or nobody is told
			return
		}
		status := p.status(since)
		patch, err := json.Marshal(map[string]any{"status": status})
		if err != nil || string(patch) == string(last) {
			continue
		}
		_, err = p.kubelet.cluster.core.Pods(p.namespace).Patch(context.Background(), p.name, types.MergePatchType, patch,
			metav1.PatchOptions{}, "status")
		switch {
		case err == nil:
			last = patch
		case apierrors.IsNotFound(err):
			return
		default:
			p.note("its status is not taken: %v", err)
			time.AfterFunc(100*time.Millisecond, func() { nudge(p.wake) })
		}
	}
}

// status is what the pod's containers come to. since has the conditions that were told, so that
// those which stay keep their times.
func (p *pod) status(since map[corev1.PodConditionType]corev1.PodCondition) corev1.PodStatus {
	p.mu.Lock()
	waiting, initialized := p.waiting, p.initialized
	p.mu.Unlock()
	s := corev1.PodStatus{
		Phase: corev1.PodPending, StartTime: &p.began, HostIP: gateway, HostIPs: []corev1.HostIP{{IP: gateway}},
		QOSClass: p.object.Load().Status.QOSClass, Message: waiting,
	}
	if p.address.IsValid() && waiting == "" {
		s.PodIP, s.PodIPs = p.address.String(), []corev1.PodIP{{IP: p.address.String()}}
	}
	ready, running, code := initialized, false, int32(0)
	for _, c := range p.inits {
		status := c.status(!c.sidecar)
		s.InitContainerStatuses = append(s.InitContainerStatuses, status)
		ready = ready && (!c.sidecar || status.Ready)
		if ended := status.State.Terminated; ended != nil && !c.sidecar {
			code = max(code, ended.ExitCode)
		}
	}
	all := true // have ended for good
	for _, c := range p.apps {
		status := c.status(false)
		s.ContainerStatuses = append(s.ContainerStatuses, status)
		ready = ready && status.Ready
		running = running || status.State.Running != nil || status.RestartCount > 0
		if ended := status.State.Terminated; ended != nil {
			code = max(code, ended.ExitCode)
		} else {
			all = false
		}
	}
	over := isClosed(p.over)
	switch {
	case over && (code != 0 || !initialized):
		s.Phase, ready = corev1.PodFailed, false
	case over:
		s.Phase, ready = corev1.PodSucceeded, false
	case running || initialized && all:
		s.Phase = corev1.PodRunning
	}
	for _, condition := range []struct {
		kind corev1.PodConditionType
		is   bool
	}{
		{corev1.PodScheduled, true},
		{corev1.PodInitialized, initialized},
		{corev1.ContainersReady, ready},
		{corev1.PodReady, ready},
	} {
		now := corev1.PodCondition{Type: condition.kind, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}
		if condition.is {
			now.Status = corev1.ConditionTrue
		}
		if before, ok := since[condition.kind]; ok && before.Status == now.Status {
			now = before
		}
		since[condition.kind] = now
		s.Conditions = append(s.Conditions, now)
	}
	return s
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// status is the container's. An init container is ready when it has succeeded.
func (c *container) status(init bool) corev1.ContainerStatus {
	done := isClosed(c.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	started := c.started
	s := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, ImageID: c.spec.Image, RestartCount: c.restarts, Ready: c.ready, Started: &started,
	}
	switch {
	case c.process != nil:
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: c.since}
	case done && c.last != nil:
		s.State.Terminated = c.last
		s.Ready = init && c.last.ExitCode == 0
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: c.waiting}
		if c.last != nil && c.waiting == "CreateContainerError" {
			s.State.Waiting.Message = c.last.Message
		}
	}
	if c.restarts > 0 && s.State.Terminated == nil {
		s.LastTerminationState.Terminated = c.last
	}
	return s
}

// ready are the names of the pods of a namespace that are ready and not to end.
func (c *standin) ready(namespace string) (names []string) {
	for _, p := range c.kubelet.pods.list(namespace) {
		for _, condition := range p.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				names = append(names, p.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}
