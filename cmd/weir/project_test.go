package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const dotGithub = root + "/.github"

// workflow is what the tests look at of one.
type workflow struct {
	Permissions map[string]string
	Concurrency struct{ Group string }
	Jobs        map[string]struct {
		TimeoutMinutes int               `yaml:"timeout-minutes"`
		Permissions    map[string]string `yaml:"permissions"`
		Strategy       struct{ Matrix struct{ Stage []string } }
		Container      struct{ Image string }
		Steps          []struct {
			Uses, Run string
			With      map[string]any
		}
	}
}

// loadYAML reads a YAML file into a value.
func loadYAML(t *testing.T, name string, into any) {
	t.Helper()
	if err := yaml.Load([]byte(readText(t, name)), into); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// workflows are those of .github, by name.
func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	names, err := filepath.Glob(dotGithub + "/workflows/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("workflows: %v, %v", names, err)
	}
	all := map[string]workflow{}
	for _, name := range names {
		var w workflow
		loadYAML(t, name, &w)
		all[filepath.Base(name)] = w
	}
	return all
}

// TestWorkflowsRunTheStages: the workflows run each stage of .ci/run once, and no other. Only the programs that two stages
// build anyway are no job of their own.
func TestWorkflowsRunTheStages(t *testing.T) {
	known := regexp.MustCompile(`(?m)^known='(.*)'$`).FindStringSubmatch(readText(t, root+"/.ci/run"))
	if len(known) == 0 {
		t.Fatal("no list of stages is found in .ci/run")
	}
	stages := slices.DeleteFunc(strings.Fields(known[1]), func(name string) bool { return name == "programs" })
	if len(stages) < 15 {
		t.Fatalf("only these stages are found in .ci/run: %q", stages)
	}
	var run []string
	for _, w := range workflows(t) {
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				if _, args, is := strings.Cut(step.Run, ".ci/run "); is {
					run = append(run, strings.Fields(strings.ReplaceAll(args, "${{ matrix.stage }}", strings.Join(job.Strategy.Matrix.Stage, " ")))...)
				}
			}
		}
	}
	slices.Sort(stages)
	slices.Sort(run)
	if !slices.Equal(stages, run) {
		t.Errorf("the workflows run\n%q, and .ci/run has\n%q", run, stages)
	}
}

// TestWorkflowsAreSafe: actions are pinned by their commits, and rights, time and runs side by side
// are limited. All builds have the same Go.
func TestWorkflowsAreSafe(t *testing.T) {
	pin := regexp.MustCompile(`(?m)uses: (\S+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$`)
	image := regexp.MustCompile(`(?m)^FROM .*golang:(.+) AS build$`).FindStringSubmatch(readText(t, root+"/deploy/image/Dockerfile"))
	pins := map[string]string{}
	for name, w := range workflows(t) {
		text := readText(t, dotGithub+"/workflows/"+name)
		for _, m := range pin.FindAllStringSubmatch(text, -1) {
			if had := pins[m[1]]; had != "" && had != m[2] {
				t.Errorf("%s: %s is pinned to %s and to %s", name, m[1], m[2], had)
			}
			pins[m[1]] = m[2]
		}
		if n, pinned := strings.Count(text, "uses: "), len(pin.FindAllString(text, -1)); n != pinned {
			t.Errorf("%s: %d of %d actions are pinned by a commit, with the version behind it", name, pinned, n)
		}
		if strings.Contains(text, "pull_request_target") || strings.Contains(text, "write-all") {
			t.Errorf("%s gives rights to strangers", name)
		}
		if w.Concurrency.Group == "" || slices.Contains(slices.Collect(maps.Values(w.Permissions)), "write") || !strings.Contains(text, "\npermissions:") {
			t.Errorf("%s: concurrency %+v, permissions %v", name, w.Concurrency, w.Permissions)
		}
		for id, job := range w.Jobs {
			if job.TimeoutMinutes == 0 {
				t.Errorf("%s: %s has no timeout-minutes", name, id)
			}
			if slices.Contains(slices.Collect(maps.Values(job.Permissions)), "write") && name != "release.yml" {
				t.Errorf("%s: %s may write", name, id)
			}
			if job.Container.Image != "" && job.Container.Image != "golang:"+image[1]+"-bookworm" {
				t.Errorf("%s: %s runs in %s, and the Dockerfile has Go %s", name, id, job.Container.Image, image[1])
			}
			for _, step := range job.Steps {
				if version := step.With["go-version"]; version != nil && version != image[1] {
					t.Errorf("%s: %s has Go %v, and the Dockerfile %s", name, id, version, image[1])
				}
			}
		}
	}
	if len(pins) < 5 {
		t.Errorf("only %v are pinned", pins)
	}
}

// TestDependencyUpdates: each module of the repository is kept up to date.
func TestDependencyUpdates(t *testing.T) {
	var file struct {
		Version int
		Updates []struct {
			Ecosystem              string `yaml:"package-ecosystem"`
			Directory, Directories yaml.Node
		}
	}
	loadYAML(t, dotGithub+"/dependabot.yml", &file)
	var modules, kept, ecosystems []string
	for _, u := range file.Updates {
		ecosystems = append(ecosystems, u.Ecosystem)
		if u.Ecosystem == "gomod" {
			_ = u.Directories.Decode(&kept)
		}
	}
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata"}, d.Name()) {
			return filepath.SkipDir
		}
		if err == nil && d.Name() == "go.mod" {
			modules = append(modules, filepath.Clean("/"+strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), root)))
		}
		return err
	})
	slices.Sort(modules)
	slices.Sort(kept)
	if err != nil || !slices.Equal(modules, kept) {
		t.Errorf("modules %q, and dependabot looks after %q (%v)", modules, kept, err)
	}
	if file.Version != 2 || !slices.Equal(ecosystems, []string{"gomod", "github-actions", "docker"}) {
		t.Errorf("version %d, %q", file.Version, ecosystems)
	}
}

// TestIssueForms: each form has a name, a description, and fields with labels and ids of their own.
func TestIssueForms(t *testing.T) {
	names, _ := filepath.Glob(dotGithub + "/ISSUE_TEMPLATE/*.yml")
	forms := 0
	for _, name := range names {
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID   string
				Attributes struct{ Label, Value string }
			}
		}
		loadYAML(t, name, &form)
		if filepath.Base(name) == "config.yml" {
			continue
		}
		forms++
		ids := map[string]bool{}
		for _, f := range form.Body {
			markdown := f.Type == "markdown" && f.Attributes.Value != ""
			if !markdown && (f.Attributes.Label == "" || f.ID == "" || ids[f.ID] || !slices.Contains([]string{"textarea", "input", "dropdown"}, f.Type)) {
				t.Errorf("%s: %+v", name, f)
			}
			ids[f.ID] = true
		}
		if form.Name == "" || form.Description == "" || len(ids) < 3 {
			t.Errorf("%s: %+v", name, form)
		}
	}
	if forms != 3 {
		t.Errorf("%d forms", forms)
	}
}

// TestProjectLinks: links to files of the repository lead somewhere, also those by its address.
func TestProjectLinks(t *testing.T) {
	const address = "https://github.com/weir-xds/weir/blob/main/"
	names, _ := filepath.Glob(dotGithub + "/*.md")
	more, _ := filepath.Glob(dotGithub + "/ISSUE_TEMPLATE/*")
	links := 0
	for _, name := range append(names, more...) {
		text := readText(t, name)
		var targets []string
		for _, m := range mdLink.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(m[1], "://") {
				targets = append(targets, filepath.Join(filepath.Dir(name), m[1]))
			}
		}
		for _, m := range regexp.MustCompile(regexp.QuoteMeta(address)+`([^)\s]+)`).FindAllStringSubmatch(text, -1) {
			targets = append(targets, filepath.Join(root, m[1]))
		}
		for _, target := range targets {
			links++
			file, anchor, _ := strings.Cut(target, "#")
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: the link %s leads nowhere", name, target)
			} else if anchor != "" && !anchors(readText(t, file))[anchor] {
				t.Errorf("%s: %s has no heading %s", name, file, anchor)
			}
		}
	}
	if len(names) < 5 || links < 20 {
		t.Errorf("%d links in %q", links, names)
	}
}

// TestChangelog: each note of upgrade.md belongs to a line of the changelog, and each part of it becomes
// the notes of a release.
func TestChangelog(t *testing.T) {
	log, upgrade := readText(t, dotGithub+"/CHANGELOG.md"), readText(t, pagesDir+"/upgrade.md")
	_, notes, _ := strings.Cut(upgrade, "\n## Notes by version\n")
	rows, links := strings.Count(notes, "\n- "), strings.Count(log, "upgrade.md#notes-by-version")
	if rows < 8 || links < rows {
		t.Errorf("upgrade.md has %d notes, and the changelog links to %d", rows, links)
	}
	top := regexp.MustCompile(`(?m)^## \[([^\]]+)\]`).FindAllStringSubmatch(log, -1)
	if len(top) == 0 || top[0][1] != "Unreleased" {
		t.Fatalf("the changelog begins with %q", top)
	}
	for _, m := range top {
		if !strings.Contains(log, "\n["+m[1]+"]: https://") {
			t.Errorf("the changelog has no link for %s", m[1])
		}
		out, err := exec.Command(root+"/.ci/release/notes", m[1]).CombinedOutput()
		if text := string(out); err != nil || !strings.HasPrefix(text, "### ") || strings.Contains(text, "\n## ") || strings.Contains(text, "](..") {
			t.Errorf("the notes of %s: %v\n%s", m[1], err, text)
		}
	}
	if out, err := exec.Command(root+"/.ci/release/notes", "v99.0.0").CombinedOutput(); err == nil {
		t.Errorf("notes of no version: %s", out)
	}
}

// TestReleaseIsVerified: the commands of security.md check what the release workflow signs, and that
// this workflow did.
func TestReleaseIsVerified(t *testing.T) {
	page, release := readText(t, pagesDir+"/security.md"), readText(t, dotGithub+"/workflows/release.yml")
	for command, signs := range map[string]string{
		"cosign verify-blob --bundle SHA256SUMS.sigstore.json SHA256SUMS ": "cosign sign-blob --yes --bundle dist/SHA256SUMS.sigstore.json dist/SHA256SUMS\n",
		"`cosign verify`": "cosign sign --yes --recursive \"$REGISTRY/weir@$IMAGE\"\n",
		"gh attestation verify --repo weir-xds/weir weir-v":                    "subject-checksums: dist/SHA256SUMS\n",
		"https://github.com/weir-xds/weir/.github/workflows/release.yml@refs/": "    tags: [\"v*\"]\n",
	} {
		if !strings.Contains(page, command) || !strings.Contains(release, signs) {
			t.Errorf("security.md has no %q, or release.yml no %q", command, signs)
		}
	}
}
