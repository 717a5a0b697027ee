// Package release checks what `make release` makes: twice, in two directories, from a copy of this
// tree that is committed and tagged, so that neither changes here nor tags elsewhere matter.
package release

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const (
	tag = "v0.9.7-test.1"
	// targets are enough to see what differs. darwin is one architecture, since each costs a minute.
	targets = "linux/amd64 linux/arm64 darwin/arm64"
)

// command runs a program in a directory, with a git that knows nothing of the machine.
func command(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GOFLAGS=",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		"GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	if os.Getenv("TARGETS") == "" {
		cmd.Env = append(cmd.Env, "TARGETS="+targets)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func must(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := command(dir, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// newTree is a repository with what is in this tree, in one commit.
func newTree(t *testing.T) string {
	t.Helper()
	from, to := "../..", filepath.Join(t.TempDir(), "tree")
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, rel):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case rel == ".git" || !d.Type().IsRegular():
			return nil // of a worktree, or a socket of some test
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	must(t, to, "git", "init", "-q", "-b", "main")
	must(t, to, "git", "add", "-A")
	must(t, to, "git", "commit", "-q", "-m", "all")
	return to
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRefused: what is not exactly a tag is no release, and the reason is said.
func TestRefused(t *testing.T) {
	tree := newTree(t)
	refused := func(want string, args ...string) {
		t.Helper()
		out, err := command(tree, ".ci/release/run", args...)
		if err == nil || !strings.HasPrefix(out, "make release: ") || !strings.Contains(out, want) {
			t.Errorf("%v: %v, %q, want %q", args, err, out, want)
		}
		if _, err := os.Stat(tree + "/dist"); err == nil {
			t.Error("there is a dist")
		}
	}
	refused("HEAD has no tag: git tag -a v0.x.y first")
	refused("HEAD has no tag: git tag -a v0.2.0 first", "v0.2.0")
	must(t, tree, "git", "tag", "v0.1")
	refused("v0.1 is no version")
	must(t, tree, "git", "tag", "-d", "v0.1")
	must(t, tree, "git", "tag", "v0.1.0")
	refused("HEAD is v0.1.0, and not v0.2.0", "v0.2.0")
	if err := os.WriteFile(tree+"/cmd/new.txt", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("cmd/new.txt", "v0.1.0")
	if err := os.Remove(tree + "/cmd/new.txt"); err != nil {
		t.Fatal(err)
	}
	must(t, tree, "git", "tag", "v0.1.1")
	refused("more than one tag", "v0.1.0")
	if err := os.RemoveAll(tree + "/.git"); err != nil {
		t.Fatal(err)
	}
	refused("no clone", "v0.1.0")
}

// TestRelease: two releases of a tag have the same bytes, and everything that belongs to one.
func TestRelease(t *testing.T) {
	first := newTree(t)
	must(t, first, "git", "tag", "-a", "-m", "a release", tag)
	second := filepath.Join(t.TempDir(), "a", "clone")
	must(t, ".", "git", "clone", "-q", first, second)
	sums := make([]string, 2)
	for i, tree := range []string{first, second} {
		out := must(t, tree, ".ci/release/run", []string{tag, ""}[i])
		if strings.Contains(out, "NOTE: ") {
			t.Log(strings.TrimSpace(out[strings.Index(out, "NOTE: "):]))
		}
		sums[i] = string(read(t, tree+"/dist/SHA256SUMS"))
	}
	if sums[0] != sums[1] {
		t.Errorf("two releases differ:\n%s\n%s", sums[0], sums[1])
	}
	t.Logf("twice the same:\n%s", sums[0])
	dist := first + "/dist"
	must(t, dist, "sha256sum", "--check", "--strict", "SHA256SUMS")
	revision := strings.TrimSpace(must(t, first, "git", "rev-parse", "HEAD"))

	list := targets
	if asked := os.Getenv("TARGETS"); asked != "" {
		list = asked
	}
	for target := range strings.FieldsSeq(list) {
		name := "weir-" + tag + "-" + strings.ReplaceAll(target, "/", "-")
		into := t.TempDir()
		must(t, into, "tar", "xzf", dist+"/"+name+".tar.gz")
		into += "/" + name
		if string(read(t, into+"/LICENSE")) != string(read(t, "../../LICENSE")) {
			t.Errorf("%s: its licence", name)
		}
		if target == runtime.GOOS+"/"+runtime.GOARCH {
			want := fmt.Sprintf("weir %s\nrevision %s\n", tag, revision)
			if got := must(t, into, "./weir", "version"); !strings.HasPrefix(got, want) {
				t.Errorf("the binary says that it is %q, want %q", got, want)
			}
			must(t, into, "./weir", "config", "example")
		}
		info, err := buildinfo.ReadFile(into + "/weir")
		if err != nil {
			t.Fatal(err)
		}
		checkBuild(t, name, info, revision)
		checkSBOM(t, dist+"/"+name+".cdx.json", info)
		checkLicences(t, into+"/third-party", info)
		if _, err := os.Stat(into + "/systemd/weir.service"); (err == nil) != strings.HasPrefix(target, "linux/") {
			t.Errorf("%s: the unit: %v", name, err)
		}
		if strings.HasPrefix(target, "linux/") && !strings.Contains(sums[0], "-image-") {
			t.Log("NOTE: there are no images here")
		} else if arch, ok := strings.CutPrefix(target, "linux/"); ok {
			checkImage(t, dist+"/weir-"+tag+"-image-"+arch+".tar", arch, revision)
		}
	}
	chart := t.TempDir()
	must(t, chart, "tar", "xzf", dist+"/weir-"+strings.TrimPrefix(tag, "v")+".tgz")
	for _, line := range []string{"version: " + tag[1:], "appVersion: " + tag} {
		if text := string(read(t, chart+"/weir/Chart.yaml")); !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("the chart does not say %q:\n%s", line, text)
		}
	}
}

func checkBuild(t *testing.T, name string, info *buildinfo.BuildInfo, revision string) {
	t.Helper()
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if info.Main.Version != tag || settings["vcs.revision"] != revision || settings["vcs.modified"] != "false" || settings["CGO_ENABLED"] != "0" {
		t.Errorf("%s was built from %s, %v", name, info.Main.Version, settings)
	}
}

// checkSBOM: it lists what is linked, and nothing that two runs would write otherwise.
func checkSBOM(t *testing.T, name string, info *buildinfo.BuildInfo) {
	t.Helper()
	var bom struct {
		BOMFormat    string
		SerialNumber string
		Metadata     struct {
			Timestamp string
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(read(t, name), &bom); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.SerialNumber != "" || bom.Metadata.Timestamp != "" || bom.Metadata.Component.Version != tag {
		t.Errorf("%s: %s, %q, %+v", name, bom.BOMFormat, bom.SerialNumber, bom.Metadata)
	}
	listed := map[string]bool{}
	for _, c := range bom.Components {
		listed[c.Name+" "+c.Version] = true
	}
	for _, m := range info.Deps {
		if !listed[m.Path+" "+m.Version] {
			t.Errorf("%s has not %s %s", name, m.Path, m.Version)
		}
	}
}

// checkLicences: each module that is linked has a licence in the archive, and in its list. So has Go.
func checkLicences(t *testing.T, dir string, info *buildinfo.BuildInfo) {
	t.Helper()
	texts := map[string]bool{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(strings.ToUpper(d.Name()), "LICEN") {
			texts[strings.TrimPrefix(filepath.Dir(name), dir+"/")] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	list := string(read(t, dir+"/licences.csv"))
	modules := []string{"go"}
	for _, m := range info.Deps {
		modules = append(modules, m.Path)
		if !strings.Contains("\n"+list, "\n"+m.Path) {
			t.Errorf("the list of licences has not %s", m.Path)
		}
	}
	for _, path := range modules {
		found := false
		for at := range texts {
			found = found || at == path || strings.HasPrefix(at, path+"/") // at the packages that are linked
		}
		if !found {
			t.Errorf("no licence of %s", path)
		}
	}
}

// checkImage: the image says what it is, from which tag and commit, and when that was.
func checkImage(t *testing.T, name, arch, revision string) {
	t.Helper()
	dir := t.TempDir()
	must(t, dir, "tar", "xf", name)
	blobs, err := filepath.Glob(dir + "/blobs/sha256/*")
	if err != nil || len(blobs) == 0 {
		t.Fatalf("%s: %v", name, err)
	}
	for _, blob := range blobs {
		var image struct {
			Architecture, Created string
			Config                struct{ Labels map[string]string }
		}
		b := read(t, blob)
		if !bytes.Contains(b, []byte(`"architecture"`)) || json.Unmarshal(b, &image) != nil || image.Architecture == "" {
			continue
		}
		l := func(key string) string { return image.Config.Labels["org.opencontainers.image."+key] }
		if image.Architecture != arch || l("version") != tag || l("revision") != revision || l("created") != "2026-01-02T03:04:05Z" ||
			l("licenses") != "Apache-2.0" || l("title") != "weir" || !strings.HasPrefix(image.Created, "2026-01-02T03:04:05") {
			t.Errorf("%s: %+v", name, image)
		}
		return
	}
	t.Errorf("%s: it has no configuration", name)
}
