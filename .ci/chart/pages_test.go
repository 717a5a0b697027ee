package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestHelmOfThePages: each helm command of the pages is one that helm takes, and what it installs is
// in order. The files of values that they name are the pages' own.
func TestHelmOfThePages(t *testing.T) {
	pages, err := filepath.Glob(root + "/deploy/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	readmes, err := filepath.Glob(root + "/deploy/helm/weir/*.md")
	if err != nil {
		t.Fatal(err)
	}
	chartDir, err := filepath.Abs(chart)
	if err != nil {
		t.Fatal(err)
	}
	dir, found := t.TempDir(), 0
	block := regexp.MustCompile("(?ms)^```yaml\n# ([\\w.-]+\\.yaml)\n(.*?)^```$")
	command := regexp.MustCompile(`(?m)^(?:    |        )?helm ((?:.*\\\n)*.*)$`)
	for _, page := range slices.Concat(pages, readmes, []string{root + "/README.md"}) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var values []string
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			if err := os.WriteFile(filepath.Join(dir, m[1]), []byte(m[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(m[2], "config:") {
				values = append(values, filepath.Join(dir, m[1]))
			}
		}
		if filepath.Base(page) == "kubernetes.md" {
			for _, file := range values {
				render(t, "--values", file).check(t)
			}
		}
		for _, m := range command.FindAllStringSubmatch(string(text), -1) {
			found++
			args := words(m[1])
			if why := helmTakes(t, args); why != "" {
				t.Errorf("%s: helm %s: %s", page, m[1], why)
				continue
			}
			args = templated(args)
			for i, arg := range args {
				switch {
				case arg == "deploy/helm/weir":
					args[i] = chartDir
				case strings.HasSuffix(arg, ".yaml") && !strings.Contains(arg, "/"):
					args[i] = filepath.Join(dir, arg)
				case strings.HasPrefix(arg, "deploy/"):
					args[i] = filepath.Join(root, arg)
				}
			}
			switch args[0] {
			case "template":
				out, stderr, err := helm(t, args...)
				if err != nil {
					t.Errorf("%s: helm %s: %v\n%s", page, m[1], err, stderr)
					continue
				}
				read(t, out).check(t)
			case "lint", "show":
				if out, stderr, err := helm(t, args...); err != nil {
					t.Errorf("%s: helm %s: %v\n%s%s", page, m[1], err, out, stderr)
				}
			}
		}
	}
	if found < 8 {
		t.Errorf("only %d commands are found", found)
	}
}

// words splits a command as a shell would.
func words(text string) (all []string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, m := range regexp.MustCompile(`#.*|'([^']*)'|[^\s#']+`).FindAllStringSubmatch(text, -1) {
		switch {
		case strings.HasPrefix(m[0], "#"):
			return all
		case m[1] != "":
			all = append(all, m[1])
		default:
			all = append(all, m[0])
		}
	}
	return all
}

// helmTakes says why helm does not take a command or a flag of it; "": it does.
func helmTakes(t *testing.T, args []string) string {
	t.Helper()
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return "no command"
	}
	help, _, err := helm(t, args[0], "--help")
	if err != nil || !strings.Contains(help, "\n  helm "+args[0]) {
		return "there is no such command"
	}
	for _, arg := range args[1:] {
		if name, _, _ := strings.Cut(arg, "="); strings.HasPrefix(name, "--") && !strings.Contains(help, name) {
			return "there is no " + name
		}
	}
	return ""
}

// templated is the command that renders what another one installs.
func templated(args []string) (all []string) {
	if args[0] != "install" && args[0] != "upgrade" {
		return args
	}
	all = []string{"template"}
	skip := false
	for _, arg := range args[1:] {
		switch {
		case skip:
			skip = false
		case slices.Contains([]string{"--install", "--create-namespace", "--wait", "--rollback-on-failure", "--reset-then-reuse-values"}, arg):
		case arg == "--timeout" || arg == "--version":
			skip = true
		default:
			all = append(all, arg)
		}
	}
	return all
}
