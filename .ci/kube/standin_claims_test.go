package kube

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claimsOf are the names of the claims that a pod mounts.
func claimsOf(p *corev1.Pod) (claims []string) {
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			claims = append(claims, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			claims = append(claims, p.Name+"-"+v.Name)
		}
	}
	return claims
}

// claimed reports whether another node has one of the pod's claims mounted: they are of one node at
// a time, as ReadWriteOnce says.
func (k *kubelet) claimed(p *corev1.Pod, node string) bool {
	for _, claim := range claimsOf(p) {
		for _, other := range k.pods.list(p.Namespace) {
			if other.UID == p.UID || other.Spec.NodeName == "" || other.Spec.NodeName == node {
				continue
			}
			for _, theirs := range claimsOf(other) {
				if theirs == claim {
					return true
				}
			}
		}
	}
	return false
}

// provision binds the claims of a pod that are not bound. It reports whether all are.
func (k *kubelet) provision(ctx context.Context, p *corev1.Pod) bool {
	for _, name := range claimsOf(p) {
		claim := k.claims.get(p.Namespace, name)
		if claim == nil || claim.DeletionTimestamp != nil {
			return false
		}
		if claim.Spec.VolumeName == "" && k.provide(ctx, claim) != nil {
			return false
		}
	}
	return true
}

// volumeDir is where the content of a bound claim is.
func (k *kubelet) volumeDir(claim types.UID) string {
	return filepath.Join(k.cluster.dir, "volumes", "pvc-"+string(claim))
}

// provide makes a volume for a claim, and binds the two.
func (k *kubelet) provide(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	dir := k.volumeDir(claim.UID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	core := k.cluster.core
	volume, err := core.PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: filepath.Base(dir)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               claim.Spec.Resources.Requests,
			AccessModes:            claim.Spec.AccessModes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}},
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	status := func(phase any) []byte {
		b, _ := json.Marshal(map[string]any{"status": map[string]any{"phase": phase}}) // of strings
		return b
	}
	_, err = core.PersistentVolumes().Patch(ctx, volume.Name, types.MergePatchType, status(corev1.VolumeBound), metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	claims := core.PersistentVolumeClaims(claim.Namespace)
	bind, _ := json.Marshal(map[string]any{"spec": map[string]any{"volumeName": volume.Name}}) // of strings
	if _, err := claims.Patch(ctx, claim.Name, types.MergePatchType, bind, metav1.PatchOptions{}); err != nil {
		return err
	}
	_, err = claims.Patch(ctx, claim.Name, types.MergePatchType, status(corev1.ClaimBound), metav1.PatchOptions{}, "status")
	return err
}
