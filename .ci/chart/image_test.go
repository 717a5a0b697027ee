package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const patience = 30 * time.Second

// store is a buildah of its own, so that nothing of the machine's images is seen or changed.
type store struct {
	t   *testing.T
	dir string
}

func newStore(t *testing.T) store {
	t.Helper()
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Skip("buildah is not here")
	}
	if os.Getuid() != 0 {
		t.Skip("buildah's chroot isolation needs root")
	}
	return store{t, t.TempDir()}
}

func (s store) command(args ...string) *exec.Cmd {
	cmd := exec.Command("buildah", append([]string{"--root", s.dir + "/root", "--runroot", s.dir + "/run", "--storage-driver", "vfs"}, args...)...)
	cmd.Dir = root
	return cmd
}

func (s store) buildah(args ...string) string {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("buildah %v: %v\n%s", args, err, errs.String())
	}
	return strings.TrimSpace(out.String())
}

func (s store) build(arch string) (id string) {
	s.t.Helper()
	out := s.buildah("bud", "--isolation", "chroot", "--timestamp", "0", "--arch", arch, "--no-cache", "-q", "-f", "deploy/image/Dockerfile.binary", "-t", "weir:"+arch, ".")
	lines := strings.Fields(out)
	return lines[len(lines)-1]
}

// TestImageIsReproducible: the same binary makes the same image, for each architecture, and it says
// what it is.
func TestImageIsReproducible(t *testing.T) {
	s := newStore(t)
	for _, arch := range []string{"amd64", "arm64"} {
		id := s.build(arch)
		if again := s.build(arch); again != id {
			t.Errorf("%s: built twice, %s and %s", arch, id, again)
		}
		var image struct {
			OCIv1 struct {
				Architecture string `json:"architecture"`
				Config       struct {
					User       string
					Entrypoint []string
					Labels     map[string]string
				} `json:"config"`
			}
		}
		if err := json.Unmarshal([]byte(s.buildah("inspect", "--type", "image", "weir:"+arch)), &image); err != nil {
			t.Fatal(err)
		}
		c := image.OCIv1.Config
		if image.OCIv1.Architecture != arch || c.User != "65532:65532" || len(c.Entrypoint) != 1 || c.Entrypoint[0] != "/weir" {
			t.Errorf("%s: %+v", arch, image.OCIv1)
		}
		for _, label := range []string{"title", "description", "licenses", "source", "documentation", "version", "revision", "created"} {
			if c.Labels["org.opencontainers.image."+label] == "" {
				t.Errorf("%s: no label for the %s: %v", arch, label, c.Labels)
			}
		}
	}
}

// TestPodRuns starts the image with the arguments, the configuration, the user and the mounts of
// the rendered pod, and nothing that can be written but the volume for the snapshot.
func TestPodRuns(t *testing.T) {
	s := newStore(t)
	s.build(runtime.GOARCH)
	dir := t.TempDir()
	plane := startPlane(t, dir)
	xds, probes, admin := free(t), free(t), free(t)
	r := render(t,
		"--set", "config.origins[0].name=mesh", "--set", fmt.Sprintf("config.origins[0].grpc.addresses={%s}", plane),
		"--set", "config.listeners[0].address="+xds, "--set", "config.probes.address="+probes, "--set", "config.admin.address="+admin,
		"--set", "config.timing.drain=1s")
	c, spec := r.weir(t), &r.template.Spec
	mounts := map[string]string{"config": filepath.Join(dir, "config"), "snapshot": filepath.Join(dir, "snapshot")}
	for _, m := range mounts {
		if err := os.MkdirAll(m, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range r.configs {
		if err := os.WriteFile(mounts["config"]+"/weir.yaml", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// As fsGroup does.
	if err := os.Chown(mounts["snapshot"], 0, int(*spec.SecurityContext.FSGroup)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(mounts["snapshot"], 0o2775); err != nil {
		t.Fatal(err)
	}
	container := s.buildah("from", "weir:"+runtime.GOARCH)
	args := []string{"run", "--isolation", "chroot", "--user", fmt.Sprintf("%d:%d", *spec.SecurityContext.RunAsUser, *spec.SecurityContext.RunAsGroup)}
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		args = append(args, "-v", mounts[m.Name]+":"+m.MountPath+":"+mode)
	}
	for _, e := range c.Env {
		args = append(args, "--env", e.Name+"="+e.Value)
	}
	run := s.command(append(append(args, container, "--", "/weir"), c.Args...)...)
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log bytes.Buffer
	run.Stdout, run.Stderr = &log, &log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	t.Cleanup(func() {
		pids, _ := exec.Command("pgrep", "-f", "^/weir run").Output()
		for pid := range strings.FieldsSeq(string(pids)) {
			_ = exec.Command("kill", "-TERM", pid).Run()
		}
		select {
		case <-ended:
		case <-time.After(patience):
			t.Errorf("the container does not end")
			_ = syscall.Kill(-run.Process.Pid, syscall.SIGKILL)
			<-ended
		}
		if t.Failed() {
			t.Logf("the container says:\n%s", log.String())
		}
	})
	probe := map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe}
	for name, p := range probe {
		await(t, name+" probe", func() error { return get("http://" + probes + p.HTTPGet.Path) })
	}
	await(t, "a client", func() error {
		out, err := exec.Command(tool(t, "WEIR", "weir"), "get", "cds", "--from", xds, "--timeout", "5s").CombinedOutput()
		if err == nil && !bytes.Contains(out, []byte("from-the-plane")) {
			err = fmt.Errorf("answered %s", out)
		}
		return err
	})
	if user := containerUser(t); user != "65532" {
		t.Errorf("it runs as uid %s", user)
	}
	await(t, "the snapshot", func() error {
		if files, _ := filepath.Glob(mounts["snapshot"] + "/snapshot/*"); len(files) == 0 {
			return fmt.Errorf("no file in it")
		}
		return nil
	})
}

// containerUser is the uid of the weir that runs in the container.
func containerUser(t *testing.T) string {
	t.Helper()
	pid, err := exec.Command("pgrep", "-f", "^/weir run").Output()
	if err != nil {
		t.Fatalf("no such process: %v", err)
	}
	status, err := os.ReadFile("/proc/" + strings.Fields(string(pid))[0] + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if uids, ok := strings.CutPrefix(line, "Uid:"); ok {
			return strings.Fields(uids)[0]
		}
	}
	return ""
}

// startPlane runs a weir with files as the control plane, outside.
func startPlane(t *testing.T, dir string) (address string) {
	t.Helper()
	address = free(t)
	files := filepath.Join(dir, "plane")
	if err := os.MkdirAll(files, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(files+"/cds.yaml", `resources:
  - "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
    name: from-the-plane
    type: STATIC
`)
	write(dir+"/plane.yaml", fmt.Sprintf(`
instance: plane
listeners: [{ address: %q }]
origins: [{ name: files, files: { path: %q } }]
admin: { address: %q }
timing: { drain: 1s }
`, address, files, free(t)))
	ctx, cancel := context.WithCancel(context.Background())
	plane := exec.CommandContext(ctx, tool(t, "WEIR", "weir"), "run", "--config", dir+"/plane.yaml")
	plane.Cancel = func() error { return plane.Process.Signal(syscall.SIGTERM) }
	plane.WaitDelay = patience
	var log bytes.Buffer
	plane.Stderr = &log
	if err := plane.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := plane.Wait(); err != nil && plane.ProcessState.ExitCode() != 0 {
			t.Errorf("the control plane: %v\n%s", err, log.String())
		}
	})
	return address
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func get(url string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", response.Status)
	}
	return nil
}

func await(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v after %v", what, err, patience)
}
