package chart

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const runbookPage = "https://github.com/weir-xds/weir/blob/main/deploy/docs/runbooks.md"

// runbooks are the sections of the page, by alert.
func runbooks(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile(root + "/deploy/docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, section := range strings.Split(string(b), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		if found[name] != "" {
			t.Errorf("%s has two sections", name)
		}
		found[name] = strings.Join(strings.Fields(text), " ")
	}
	return found
}

// TestRunbooks: each alert leads to a section of its own, which has what somebody on call needs, and
// argues the time after which the alert begins. Each section belongs to an alert.
func TestRunbooks(t *testing.T) {
	pages := runbooks(t)
	_, alerts := rulesOf(t)
	for i := range alerts {
		a := &alerts[i]
		if got, want := a.Annotations["runbook_url"], runbookPage+"#"+strings.ToLower(a.Alert); got != want {
			t.Errorf("the runbook of %s is at %q, want %q", a.Alert, got, want)
		}
		text, ok := pages[a.Alert]
		if !ok {
			t.Errorf("runbooks.md has no section %s", a.Alert)
		}
		delete(pages, a.Alert)
		begins := "**Begins** at once"
		if a.For != nil {
			begins = "**Begins** after " + string(*a.For)
		}
		for _, part := range []string{"**It means**", "**Meanwhile**", "**Look:**", "**Do:**", "**Escalate", "**False alarm:**", begins} {
			if !strings.Contains(text, "- "+part) {
				t.Errorf("the runbook of %s has no %q", a.Alert, part)
			}
		}
	}
	for name := range pages {
		t.Errorf("runbooks.md has a section %s, and there is no such alert", name)
	}
}

// TestRunbookCommands: the commands that the runbooks name exist, with their flags.
func TestRunbookCommands(t *testing.T) {
	program := os.Getenv("WEIR")
	if program == "" {
		t.Skip("WEIR names no binary")
	}
	command := regexp.MustCompile("`weir ([a-z]+(?: [a-z]+)*)([^`]*)`")
	seen := map[string]string{}
	for name, text := range runbooks(t) {
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(m[1])
			if words[0] == "get" {
				words = words[:1] // what follows is a type
			}
			help := seen[m[1]]
			if help == "" {
				out, err := exec.Command(program, append(words, "--help")...).CombinedOutput()
				if help = string(out); err != nil || !strings.Contains(help, "weir "+strings.Join(words, " ")) {
					t.Errorf("%s: there is no weir %s: %v", name, m[1], err)
				}
				seen[m[1]] = help
			}
			for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(m[2], -1) {
				if !strings.Contains(help, flag) {
					t.Errorf("%s: weir %s has no %s", name, m[1], flag)
				}
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d commands are found", len(seen))
	}
}

// TestAlertsHaveBoth: testdata/alerts.yaml sees each alert begin, and sees it not begin.
func TestAlertsHaveBoth(t *testing.T) {
	b, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Series []struct{ Series string } `json:"input_series"`
			Alerts []struct {
				Name   string `json:"alertname"`
				Expect []struct {
					Labels map[string]string `json:"exp_labels"`
				} `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	begins, silent, others := map[string]bool{}, map[string]bool{}, map[string]bool{}
	instance := regexp.MustCompile(`instance="(\w+)"`)
	for _, test := range file.Tests {
		instances := map[string]bool{}
		for _, s := range test.Series {
			instances[instance.FindStringSubmatch(s.Series)[1]] = true
		}
		for _, a := range test.Alerts {
			begins[a.Name] = begins[a.Name] || len(a.Expect) > 0
			silent[a.Name] = silent[a.Name] || len(a.Expect) == 0
			others[a.Name] = others[a.Name] || len(a.Expect) > 0 && len(instances) > len(a.Expect)
		}
	}
	_, alerts := rulesOf(t)
	for i := range alerts {
		name := alerts[i].Alert
		if !begins[name] || !silent[name] {
			t.Errorf("testdata/alerts.yaml: %s begins %v, does not begin %v", name, begins[name], silent[name])
		}
		if !others[name] && name != "WeirAbsent" {
			t.Errorf("testdata/alerts.yaml: nobody is without %s while another has it", name)
		}
	}
}
