package chart

import (
	"encoding/json"
	"go/version"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// baseImage finds the image that Dockerfile builds in, and its version.
var baseImage = regexp.MustCompile(`(?m)^FROM \S+ (golang:(.+)) AS build$`)

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(root + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDockerfiles: the image of the source and the image of a binary are the same but for where the
// binary is from, and the Go that builds the first is no older than go.mod asks for.
func TestDockerfiles(t *testing.T) {
	last := func(name string) (stage string) {
		_, stage, _ = strings.Cut(text(t, name), "\nFROM scratch\n")
		return regexp.MustCompile(`(?m)^(ARG TARGETARCH\n)?COPY (--from=build )?--chmod=0555 (bin/linux-\$\{TARGETARCH\})?/weir /weir\n`).ReplaceAllString(stage, "COPY\n")
	}
	a, b := last("deploy/image/Dockerfile"), last("deploy/image/Dockerfile.binary")
	if a != b || !strings.HasPrefix(a, "COPY\nARG VERSION") {
		t.Errorf("the last stages differ:\n%s\n%s", a, b)
	}
	builds := baseImage.FindStringSubmatch(text(t, "deploy/image/Dockerfile"))
	needs := regexp.MustCompile(`(?m)^go (.+)$`).FindStringSubmatch(text(t, "go.mod"))
	if builds == nil || strings.Count(builds[2], ".") != 2 || version.Compare("go"+builds[2], "go"+needs[1]) < 0 {
		t.Errorf("the Dockerfile builds with %v, and go.mod needs %v", builds, needs)
	}
}

// TestBuildContext: .dockerignore lets every file pass that weir is built of.
func TestBuildContext(t *testing.T) {
	out, err := exec.Command("go", "list", "-C", root, "-deps", "-json=ImportPath,Module,GoFiles,EmbedFiles", "./cmd/weir").Output()
	if err != nil {
		t.Fatal(err)
	}
	passes := map[string]bool{}
	for line := range strings.Lines(text(t, ".dockerignore")) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "!"); is {
			passes[name] = true
		}
	}
	files := []string{"go.mod", "go.sum", "bin/linux-*/weir"}
	for packages := json.NewDecoder(strings.NewReader(string(out))); packages.More(); {
		var p struct {
			ImportPath          string
			Module              struct{ Main bool }
			GoFiles, EmbedFiles []string
		}
		if err := packages.Decode(&p); err != nil {
			t.Fatal(err)
		}
		for _, file := range append(p.GoFiles, p.EmbedFiles...) {
			if p.Module.Main {
				files = append(files, path.Join(strings.TrimPrefix(p.ImportPath, "github.com/weir-xds/weir/"), file))
			}
		}
	}
	if len(files) < 100 {
		t.Errorf("weir is built of %d files", len(files))
	}
	for _, file := range files {
		dir := file
		for dir != "." && !passes[dir] {
			dir = path.Dir(dir)
		}
		if dir == "." || strings.HasSuffix(file, "_test.go") {
			t.Errorf(".dockerignore keeps %s out", file)
		}
	}
}

// TestImageOfSource builds deploy/image/Dockerfile. Its base image stands here for golang: the Go that
// runs the tests, a shell, and no more.
func TestImageOfSource(t *testing.T) {
	s := newStore(t)
	env := func(name string) string {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	base := s.buildah("from", "scratch")
	s.buildah("copy", "-q", base, env("GOROOT"), "/usr/local/go")
	libraries, err := exec.Command("ldd", "/bin/sh").Output()
	if err != nil {
		t.Skipf("no shell to put into an image: %v", err)
	}
	for _, file := range append(regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1), "/bin/sh", "/etc/passwd") {
		s.buildah("copy", "-q", base, file, file)
	}
	config := []string{"config", "--env", "PATH=/usr/local/go/bin:/bin", "--env", "HOME=/root", "--env", "GOTOOLCHAIN=local"}
	for _, name := range []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE"} {
		config = append(config, "--env", name+"="+env(name))
	}
	s.buildah(append(config, base)...)
	image := baseImage.FindStringSubmatch(text(t, "deploy/image/Dockerfile"))[1]
	s.buildah("commit", "-q", "--rm", base, image)
	// What was downloaded and compiled before is there, so that this takes a minute and not ten.
	s.buildah("bud", "--isolation", "chroot", "--pull-never", "-q", "-f", "deploy/image/Dockerfile", "--build-arg", "VERSION=v1.2.3",
		"-v", env("GOMODCACHE")+":/root/go/pkg/mod:rw", "-v", env("GOCACHE")+":/root/.cache/go-build:rw",
		"-v", "/etc/ssl:/etc/ssl:ro", "-v", t.TempDir()+":/tmp:rw", "--platform", "linux/"+runtime.GOARCH, "-t", "weir:source", ".")
	container := s.buildah("from", "--pull-never", "weir:source")
	if said := s.buildah("run", "--isolation", "chroot", container, "--", "/weir", "version"); !strings.HasPrefix(said, "weir v1.2.3\n") {
		t.Errorf("it says %s", said)
	}
}
