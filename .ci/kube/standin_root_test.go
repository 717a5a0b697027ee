package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// volumesDir is where a pod's root has its volumes. A mount is a link to one: the containers of a
// pod share the root, and no mount of the kernel's is ever left behind.
const volumesDir = "/.volumes"

func (p *pod) root() string { return filepath.Join(p.dir, "root") }

// makeRoot makes what the containers see besides their volumes. It may be called again.
func (p *pod) makeRoot() error {
	root := p.root()
	for _, dir := range []string{"etc", "dev", volumesDir} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"etc/resolv.conf": fmt.Sprintf("nameserver %s\nsearch %s%s svc.cluster.local cluster.local\noptions ndots:5\n",
			gateway, p.namespace, clusterDomain),
		"etc/hosts":    fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", p.address, p.name),
		"etc/hostname": p.name + "\n",
		"etc/passwd":   "root:x:0:0::/:/none\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	shm := filepath.Join(root, "dev", "shm")
	if err := os.MkdirAll(shm, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(shm, fs.ModeSticky|0o777); err != nil { // whatever the umask
		return err
	}
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "random": 8, "urandom": 9} {
		node := filepath.Join(root, "dev", name)
		if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Chmod(node, 0o666); err != nil {
			return err
		}
	}
	for _, c := range p.containers() {
		if err := c.install(root); err != nil {
			return err
		}
	}
	return nil
}

// install links the files of the container's image and its mounts into the root. A pod with an
// image that nobody has goes on without it: the container says so.
func (c *container) install(root string) error {
	dir, image, err := c.image()
	if err != nil {
		return nil
	}
	for inside := range image.files {
		to := filepath.Join(root, inside)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Link(filepath.Join(dir, inside), to); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for _, mount := range c.spec.VolumeMounts {
		target := filepath.Join(volumesDir, mount.Name, mount.SubPath)
		at := filepath.Join(root, mount.MountPath)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if old, err := os.Readlink(at); err == nil {
			if old != target {
				return fmt.Errorf("two containers mount different volumes at %s, which the stand-in cannot", mount.MountPath)
			}
			continue
		}
		if err := os.Symlink(target, at); err != nil {
			return fmt.Errorf("mount %s: %w", strings.TrimPrefix(at, root), err)
		}
	}
	return nil
}
