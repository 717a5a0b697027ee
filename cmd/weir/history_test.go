package main

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestHistoryCommand: what changed in the files of an origin is listed, and two versions compared.
func TestHistoryCommand(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("web", "db"))
	cfg, err := config.Parse("weir.yaml", []byte(freePorts+filesOrigin(dir)), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := runWeir(t, cfg, zap.NewNop(), nil, func(p *process) { p.goods.bake = func(string) time.Duration { return time.Second } })
	c := relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{Patience: patience})
	c.Open(relaytest.Node("node-7", "edge"))
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the clusters come", "web", "db")
	await(t, "the set is whole", func() bool {
		_, body := w.get("/groups")
		return strings.Contains(body, `"settled": true`)
	})
	port := w.admin.listener.Addr().String()
	if code, stdout, _ := weir(t, "history", "disk", "--admin", port); code != exitOK || strings.Count(stdout, "\n") != 1 {
		t.Errorf("a start lists\n%s", stdout)
	}
	dir.put(t, "cds.yaml", strings.Replace(clusters("web", "new"), "connect_timeout: 1s", "connect_timeout: 7s", 1))
	c.AwaitNames(relaytest.ClusterType, "db is gone", "web", "new")
	await(t, "all of it is noted", func() bool {
		_, body := w.get("/history?origin=disk")
		return strings.Count(body, `"change"`) == 3
	})
	await(t, "all clients have accepted it", func() bool {
		_, body := w.get("/history?states=1&origin=disk&limit=1")
		return strings.Contains(body, `"good"`)
	})
	for args, want := range map[string][]string{
		"":                                     {"AGO ", "cds ", "web ", "changed", "new ", "added", "db ", "removed"},
		"--name new --since 1h":                {"new ", "added"},
		"--type eds":                           {"no change matches"},
		"--name web -o json":                   {`"change": "changed"`, `"truncated": false`, `"oldest"`},
		"-o yaml --limit 1":                    {"truncated: true"},
		"--limit 1":                            {"and more; --limit"},
		"--type cds --name web --diff":         {"--- ", "+++ ", "@@ -", `+  "connect_timeout": "7s"`},
		"--diff --type cds --name web -o json": {`"path": "$.connect_timeout"`, `"to": "7s"`},
		"--states":                             {"GROUP ", "+1 ~1 -1 cds ", " now ", " yes\n"},
		"--states --limit 1":                   {"and more; --limit"},
		"--states -o json":                     {`"added": 1`, `"present": true`, `"good": "`, `"types": [`},
		"--states -o yaml":                     {"removed: 1", "id: ", "truncated: false"},
	} {
		code, stdout, stderr := weir(t, append([]string{"history", "disk", "--admin", port}, strings.Fields(args)...)...)
		for _, part := range want {
			if !strings.Contains(stdout, part) {
				t.Errorf("%s: no %q in\n%s", args, part, stdout)
			}
		}
		if code != exitOK || stderr != "" {
			t.Errorf("%s: %d, %q", args, code, stderr)
		}
	}
	for args, want := range map[string]int{
		"disk --diff --type cds": exitUsage, "disk --from 1": exitUsage, "disk -o csv": exitUsage, "disk --diff --type cds --name web --since 1h": exitUsage,
		"disk --states --type cds": exitUsage, "disk --states --diff": exitUsage, "disk --states --group none": exitFailed,
		"other": exitFailed, "": exitUsage, "disk --diff --type cds --name none": exitFailed,
	} {
		if code, _, stderr := weir(t, append([]string{"history", "--admin", port}, strings.Fields(args)...)...); code != want {
			t.Errorf("%s: %d, %q", args, code, stderr)
		}
	}
	if _, body := w.get("/metrics"); !strings.Contains(body, "weir_history_versions 3") || strings.Contains(body, "weir_history_bytes 0") {
		t.Errorf("the metrics do not have it")
	}
}
