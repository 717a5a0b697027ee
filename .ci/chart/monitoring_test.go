package chart

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// rulesOf are the alerts of the chart's file.
func rulesOf(t *testing.T) (text string, alerts []monitoring.Rule) {
	t.Helper()
	b, err := os.ReadFile(chart + "/files/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var spec monitoring.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict(b, &spec); err != nil || len(spec.Groups) != 1 {
		t.Fatalf("%v, %+v", err, spec)
	}
	return string(b), spec.Groups[0].Rules
}

// panelsOf are the queries of the dashboard, by panel.
func panelsOf(t *testing.T) (text string, queries map[string][]string) {
	t.Helper()
	b, err := os.ReadFile(chart + "/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &dashboard); err != nil {
		t.Fatal(err)
	}
	queries = map[string][]string{}
	for _, p := range dashboard.Panels {
		if p.Type != "row" && len(p.Targets) == 0 || queries[p.Title] != nil {
			t.Errorf("panel %q has no query, or is there twice", p.Title)
		}
		for _, target := range p.Targets {
			queries[p.Title] = append(queries[p.Title], target.Expr)
		}
	}
	return string(b), queries
}

func metricsPage(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(root + "/deploy/docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestMetricsExist: alerts and panels ask for metrics and labels that metrics.md has, which a test
// of cmd/weir holds against the code.
func TestMetricsExist(t *testing.T) {
	known := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(weir_\\w+)` \\|([^|]*)\\|").FindAllStringSubmatch(metricsPage(t), -1) {
		known[m[1]] = m[2] + "`job``instance``le`"
	}
	if len(known) < 50 {
		t.Fatalf("metrics.md has %d metrics", len(known))
	}
	_, alerts := rulesOf(t)
	_, panels := panelsOf(t)
	exprs := slices.Concat(slices.Collect(maps.Values(panels))...)
	for i := range alerts {
		exprs = append(exprs, alerts[i].Expr.String())
	}
	metric := regexp.MustCompile(`\b(weir_[a-z_]+[a-z])(\{[^}]*\})?`)
	n := 0
	for _, expr := range exprs {
		for _, m := range metric.FindAllStringSubmatch(expr, -1) {
			has, ok := known[strings.TrimSuffix(m[1], "_bucket")]
			if n++; !ok {
				t.Errorf("there is no metric %s: %s", m[1], expr)
			}
			for _, label := range regexp.MustCompile(`(\w+)(=|!)`).FindAllStringSubmatch(m[2], -1) {
				if !strings.Contains(has, "`"+label[1]+"`") {
					t.Errorf("%s has no label %s", m[1], label[1])
				}
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d uses of metrics are found", n)
	}
}

// TestAlertsAreExplained: each alert has its row in metrics.md, and no other has one.
func TestAlertsAreExplained(t *testing.T) {
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(Weir\\w+)` \\| [^|]{10,} \\| [^|]{10,} \\|$").FindAllStringSubmatch(metricsPage(t), -1) {
		rows[m[1]] = true
	}
	_, alerts := rulesOf(t)
	for _, a := range alerts {
		if !rows[a.Alert] {
			t.Errorf("metrics.md has no row for %s", a.Alert)
		}
		delete(rows, a.Alert)
		if a.Labels["severity"] == "" || len(a.Annotations["summary"]) < 10 {
			t.Errorf("%s has labels %v and says %v", a.Alert, a.Labels, a.Annotations)
		}
	}
	for name := range rows {
		t.Errorf("there is no alert %s", name)
	}
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not here")
	}
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

// TestPromtool: Prometheus takes the alerts, and the queries of the dashboard as well.
func TestPromtool(t *testing.T) {
	promtool(t, "check", "rules", chart+"/files/rules.yaml")
	promtool(t, "test", "rules", "testdata/alerts.yaml")
	_, queries := panelsOf(t)
	var rules []map[string]string
	for _, q := range queries {
		for _, expr := range q {
			rules = append(rules, map[string]string{"record": "panel", "expr": strings.ReplaceAll(expr, "$", "")})
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "panels.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", "--lint=none", file)
}

// TestMonitors: Prometheus finds each pod once, by the service for it alone or by itself.
func TestMonitors(t *testing.T) {
	r := render(t, with("metrics.serviceMonitor.enabled=true", "metrics.serviceMonitor.labels.team=edge",
		"metrics.serviceMonitor.relabelings[0].action=labeldrop", "metrics.serviceMonitor.relabelings[0].regex=x")...)
	r.check(t)
	m := object[*monitoring.ServiceMonitor](t, r)
	if m == nil || m.Labels["team"] != "edge" || m.Spec.Endpoints[0].Port != "metrics" || m.Spec.Endpoints[0].Interval != "30s" {
		t.Fatalf("the monitor is %+v", m)
	}
	found := 0
	for name, s := range r.services {
		if selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector); err != nil || selector.Matches(labels.Set(s.Labels)) {
			if found++; name != "weir-metrics" {
				t.Errorf("it takes the service %s: %v", name, err)
			}
		}
	}
	if found != 1 {
		t.Errorf("it takes %d services", found)
	}
	r = render(t, with("metrics.podMonitor.enabled=true")...)
	p := object[*monitoring.PodMonitor](t, r)
	if p == nil || *p.Spec.PodMetricsEndpoints[0].Port != "probes" {
		t.Fatalf("the monitor is %+v", p)
	}
	if selector, err := metav1.LabelSelectorAsSelector(&p.Spec.Selector); err != nil || !selector.Matches(labels.Set(r.template.Labels)) {
		t.Errorf("it does not take the pods: %v", err)
	}
	for want, values := range map[string][]string{
		"scraped twice":               {"metrics.podMonitor.enabled=true", "metrics.serviceMonitor.enabled=true"},
		"needs metricsService":        {"metrics.serviceMonitor.enabled=true", "metricsService.enabled=false"},
		"needs config.probes.address": {"metrics.podMonitor.enabled=true", "config.probes.address="},
	} {
		if said := refused(t, with(values...)...); !strings.Contains(said, want) {
			t.Errorf("%v: %s", values, said)
		}
	}
}

// TestMonitorsAtTheTop: the values of monitors are accepted where charts before had them.
func TestMonitorsAtTheTop(t *testing.T) {
	m := object[*monitoring.ServiceMonitor](t, render(t, with("serviceMonitor.enabled=true", "serviceMonitor.labels.team=edge", "metrics.serviceMonitor.interval=7s")...))
	if m == nil || m.Labels["team"] != "edge" || m.Spec.Endpoints[0].Interval != "7s" {
		t.Errorf("the monitor is %+v", m)
	}
	p := object[*monitoring.PodMonitor](t, render(t, with("podMonitor.enabled=true", "podMonitor.interval=5s")...))
	if p == nil || p.Spec.PodMetricsEndpoints[0].Interval != "5s" {
		t.Errorf("the monitor is %+v", p)
	}
	if said := refused(t, with("serviceMonitor.enabled=true", "metrics.podMonitor.enabled=true")...); !strings.Contains(said, "scraped twice") {
		t.Error(said)
	}
}

// TestRulesAndDashboard: the chart hands on its files, and the values change what they say they do.
func TestRulesAndDashboard(t *testing.T) {
	r := render(t, with("prometheusRule.enabled=true", "prometheusRule.labels.team=edge", "prometheusRule.ruleLabels.severity=page",
		"prometheusRule.without={WeirDenies}", "prometheusRule.groups[0].name=own",
		"prometheusRule.runbookURL=https://wiki.example/weir", "dashboard.enabled=true")...)
	r.check(t)
	_, alerts := rulesOf(t)
	p := object[*monitoring.PrometheusRule](t, r)
	if p == nil || p.Labels["team"] != "edge" || len(p.Spec.Groups) != 2 || len(p.Spec.Groups[0].Rules) != len(alerts)-1 {
		t.Fatalf("the rules are %+v", p)
	}
	for _, a := range p.Spec.Groups[0].Rules {
		if a.Annotations["runbook_url"] != "https://wiki.example/weir#"+strings.ToLower(a.Alert) {
			t.Errorf("the runbook of %s is at %s", a.Alert, a.Annotations["runbook_url"])
		}
		if a.Alert == "WeirDenies" || a.Labels["severity"] != "page" || !strings.Contains(a.Annotations["summary"], "{{ $labels.") && a.Alert != "WeirAbsent" {
			t.Errorf("%+v", a)
		}
	}
	want, _ := panelsOf(t)
	for _, o := range r.objects {
		if m, ok := o.(*corev1.ConfigMap); ok && m.Name == "weir-dashboard" {
			if m.Labels["grafana_dashboard"] != "1" || strings.TrimSpace(m.Data["weir.json"]) != strings.TrimSpace(want) {
				t.Errorf("the dashboard is another one: %v", m.Labels)
			}
			return
		}
	}
	t.Error("there is no dashboard")
}
