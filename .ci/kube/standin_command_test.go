package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"strings"
	"syscall"
)

// image is that of the container.
func (c *container) image() (dir string, image image, err error) {
	name, _, _ := strings.Cut(c.spec.Image, "@")
	name, _, _ = strings.Cut(path.Base(name), ":")
	image, ok := c.pod.kubelet.cluster.cfg.images[name]
	if !ok {
		return "", image, fmt.Errorf("ErrImagePull: the stand-in has no image %q", c.spec.Image)
	}
	return c.pod.kubelet.images[name], image, nil
}

// command is the container's own, or another one in its place.
func (c *container) command(other []string) (*exec.Cmd, error) {
	_, image, err := c.image()
	if err != nil {
		return nil, err
	}
	env, err := c.environment()
	if err != nil {
		return nil, err
	}
	line := append([]string(nil), c.spec.Command...)
	if len(line) == 0 {
		line = []string{image.entrypoint}
	}
	switch {
	case len(c.spec.Args) > 0:
		line = append(line, c.spec.Args...)
	case len(c.spec.Command) == 0:
		line = append(line, image.args...)
	}
	for i := range line {
		line[i] = expand(line[i], env)
	}
	if other != nil {
		line = other
	}
	credential, err := c.credential(image)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: line[0], Args: line, Env: list(env), Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{Chroot: c.pod.root(), Credential: credential, Setpgid: true},
	}
	if c.spec.WorkingDir != "" {
		cmd.Dir = c.spec.WorkingDir
	}
	return cmd, nil
}

// credential is the user of the security contexts.
func (c *container) credential(image image) (*syscall.Credential, error) {
	user, group, nonRoot := image.user, int64(0), false
	var groups []uint32
	if s := c.pod.object.Load().Spec.SecurityContext; s != nil {
		user, group = value(s.RunAsUser, user), value(s.RunAsGroup, group)
		nonRoot = s.RunAsNonRoot != nil && *s.RunAsNonRoot
		if s.FSGroup != nil {
			groups = append(groups, uint32(*s.FSGroup))
		}
		for _, g := range s.SupplementalGroups {
			groups = append(groups, uint32(g))
		}
	}
	if s := c.spec.SecurityContext; s != nil {
		user, group = value(s.RunAsUser, user), value(s.RunAsGroup, group)
		if s.RunAsNonRoot != nil {
			nonRoot = *s.RunAsNonRoot
		}
	}
	if nonRoot && user == 0 {
		return nil, fmt.Errorf("container has runAsNonRoot and image will run as root")
	}
	return &syscall.Credential{Uid: uint32(user), Gid: uint32(group), Groups: groups}, nil
}

func value(p *int64, otherwise int64) int64 {
	if p != nil {
		return *p
	}
	return otherwise
}

// exec runs another program in the container, and returns its standard output. What it writes
// elsewhere is part of the error.
func (c *container) exec(ctx context.Context, line []string) (string, error) {
	cmd, err := c.command(line)
	if err != nil {
		return "", err
	}
	var out, errs bytes.Buffer // read when the process has ended
	cmd.Stdout, cmd.Stderr = &out, &errs
	p, err := c.pod.kubelet.cluster.launcher.start(cmd, c.pod.own)
	if err != nil {
		return "", err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return out.String(), errors.Join(ctx.Err(), fmt.Errorf("%v ended with %d: %s", line, code, &errs))
	}
	return out.String(), nil
}
