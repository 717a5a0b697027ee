package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// projected are the files of a volume that the API server has.
type projected map[string]projectedFile

type projectedFile struct {
	text []byte
	mode fs.FileMode
}

// writeVolumes makes the pod's volumes, and renews those whose files have changed.
func (p *pod) writeVolumes() error {
	o := p.object.Load()
	for i := range o.Spec.Volumes {
		v := &o.Spec.Volumes[i]
		if err := p.writeVolume(v); err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
	}
	return nil
}

func (p *pod) writeVolume(v *corev1.Volume) error {
	at := filepath.Join(p.root(), volumesDir, v.Name)
	switch {
	case v.EmptyDir != nil:
		return p.directory(at, 0o777)
	case v.PersistentVolumeClaim != nil:
		return p.claim(at, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		return p.claim(at, p.name+"-"+v.Name)
	}
	files := projected{}
	var sources []corev1.VolumeProjection
	var mode *int32
	switch {
	case v.ConfigMap != nil:
		mode = v.ConfigMap.DefaultMode
		sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items, Optional: v.ConfigMap.Optional,
		}})
	case v.Secret != nil:
		mode = v.Secret.DefaultMode
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName}, Items: v.Secret.Items, Optional: v.Secret.Optional,
		}})
	case v.DownwardAPI != nil:
		mode = v.DownwardAPI.DefaultMode
		sources = append(sources, corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: v.DownwardAPI.Items}})
	case v.Projected != nil:
		mode, sources = v.Projected.DefaultMode, v.Projected.Sources
	default:
		return errors.New("the stand-in does not know its kind")
	}
	for i := range sources {
		if err := p.source(files, &sources[i], fs.FileMode(*mode)); err != nil {
			return err
		}
	}
	return p.project(at, files)
}

// directory is the pod's own.
func (p *pod) directory(at string, mode fs.FileMode) error {
	if err := os.Mkdir(at, mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	if group, ok := p.group(); ok {
		if err := os.Chown(at, -1, group); err != nil {
			return err
		}
		mode |= fs.ModeSetgid | 0o770
	}
	return os.Chmod(at, mode) // whatever the umask
}

// group is the one that owns volumes.
func (p *pod) group() (int, bool) {
	if s := p.object.Load().Spec.SecurityContext; s != nil && s.FSGroup != nil {
		return int(*s.FSGroup), true
	}
	return 0, false
}

// claim is a directory that outlives pods. It is moved into the pod's root, where the pod has it
// and nobody else, and moved back when the pod has ended (giveBack).
func (p *pod) claim(at, name string) error {
	if _, err := os.Lstat(at); err == nil {
		return nil
	}
	claim := p.kubelet.claims.get(p.namespace, name)
	if claim == nil || claim.Status.Phase != corev1.ClaimBound {
		return fmt.Errorf("the claim %s is not bound", name)
	}
	dir := p.kubelet.volumeDir(claim.UID)
	if err := os.Rename(dir, at); err != nil {
		return fmt.Errorf("the claim %s is another pod's: %w", name, err)
	}
	p.borrowed[at] = dir
	group, ok := p.group()
	if !ok {
		return nil
	}
	if err := os.Chown(at, -1, group); err != nil {
		return err
	}
	return os.Chmod(at, fs.ModeSetgid|0o775)
}

// giveBack returns the claims when no process of the pod runs any more.
func (p *pod) giveBack() {
	for at, dir := range p.borrowed {
		if err := os.Rename(at, dir); err != nil {
			p.note("a claim is lost: %v", err)
		}
	}
}

// source adds the files of one source.
func (p *pod) source(files projected, s *corev1.VolumeProjection, mode fs.FileMode) error {
	k := p.kubelet
	switch {
	case s.ConfigMap != nil:
		m := k.configMaps.get(p.namespace, s.ConfigMap.Name)
		if m == nil {
			if optional(s.ConfigMap.Optional) {
				return nil
			}
			return fmt.Errorf("configmap %q not found", s.ConfigMap.Name)
		}
		data := map[string][]byte{}
		for key, text := range m.Data {
			data[key] = []byte(text)
		}
		for key, text := range m.BinaryData {
			data[key] = text
		}
		return files.add(data, s.ConfigMap.Items, mode)
	case s.Secret != nil:
		secret := k.secrets.get(p.namespace, s.Secret.Name)
		if secret == nil {
			if optional(s.Secret.Optional) {
				return nil
			}
			return fmt.Errorf("secret %q not found", s.Secret.Name)
		}
		return files.add(secret.Data, s.Secret.Items, mode)
	case s.DownwardAPI != nil:
		for _, item := range s.DownwardAPI.Items {
			if item.FieldRef == nil {
				return errors.New("the stand-in does not know resources as files")
			}
			text, err := p.field(item.FieldRef.FieldPath)
			if err != nil {
				return err
			}
			files[item.Path] = projectedFile{[]byte(text), mode}
		}
		return nil
	}
	return errors.New("the stand-in does not know this source")
}

// add takes all keys, or those that items name.
func (f projected) add(data map[string][]byte, items []corev1.KeyToPath, mode fs.FileMode) error {
	for key, text := range data {
		if len(items) == 0 {
			f[key] = projectedFile{text, mode}
		}
	}
	for _, item := range items {
		text, ok := data[item.Key]
		if !ok {
			return fmt.Errorf("references non-existent key %q", item.Key)
		}
		if item.Mode != nil {
			mode = fs.FileMode(*item.Mode)
		}
		f[item.Path] = projectedFile{text, mode}
	}
	return nil
}

// same reports whether a directory has exactly these files.
func (f projected) same(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	tops := map[string]bool{}
	for name, file := range f {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(text, file.text) {
			return false
		}
		top, _, _ := strings.Cut(name, "/")
		tops[top] = true
	}
	return len(tops) == len(entries)
}

// project writes files as a kubelet does: into a directory of their own, to which the link ..data
// is swapped, and to which every visible name leads.
func (p *pod) project(at string, files projected) error {
	if err := p.directory(at, 0o777); err != nil {
		return err
	}
	if files.same(filepath.Join(at, "..data")) {
		return nil
	}
	old, _ := os.Readlink(filepath.Join(at, "..data")) // none at first
	fresh := time.Now().Format("..2006_01_02_15_04_05.000000000")
	for name, file := range files {
		to := filepath.Join(at, fresh, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, file.text, 0o600); err != nil {
			return err
		}
		mode := file.mode
		if group, ok := p.group(); ok {
			if err := os.Chown(to, -1, group); err != nil {
				return err
			}
			mode |= 0o440
		}
		if err := os.Chmod(to, mode); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(at, fresh), 0o755); err != nil { // of no files
		return err
	}
	swap := filepath.Join(at, "..data_tmp")
	if err := os.Symlink(fresh, swap); err != nil {
		return err
	}
	if err := os.Rename(swap, filepath.Join(at, "..data")); err != nil {
		return err
	}
	if err := links(at, files); err != nil {
		return err
	}
	if old != "" {
		return os.RemoveAll(filepath.Join(at, old))
	}
	return nil
}

// links makes the visible names, one for each file or directory of the top, and removes those that
// are no more.
func links(at string, files projected) error {
	tops := map[string]bool{}
	for name := range files {
		top, _, _ := strings.Cut(name, "/")
		tops[top] = true
		if err := os.Symlink(filepath.Join("..data", top), filepath.Join(at, top)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !tops[e.Name()] && !strings.HasPrefix(e.Name(), "..") {
			if err := os.Remove(filepath.Join(at, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
