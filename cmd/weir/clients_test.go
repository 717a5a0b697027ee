package main

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestClients: the command lists who is behind, and why, and leaves out who its flags leave out.
func TestClients(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a", "b"))
	w := startWeir(t, freePorts+filesOrigin(dir))
	open := func(id string, cfg relaytest.ClientConfig) {
		cfg.Patience = patience
		c := relaytest.NewClient(t, dial(t, w.listenAddress()), cfg)
		c.Open(relaytest.Node(id, "edge"))
		c.Request(relaytest.ClusterType)
		c.Expect(relaytest.ClusterType, "the clusters come")
	}
	open("good-1", relaytest.ClientConfig{})
	open("bad-2", relaytest.ClientConfig{Reject: func(*relaytest.Response) string { return "not\x1b[2J to\nmy taste" }})
	port := w.admin.listener.Addr().String()
	await(t, "the refusal is known, and the acceptance", func() bool {
		_, body := w.get("/clients?nacking=1")
		_, behind := w.get("/clients?unsynced=1")
		return strings.Contains(body, "my taste") && strings.Contains(behind, `"total": 1`)
	})

	for _, row := range []struct {
		flags string
		nodes string
	}{
		{"", "bad-2 good-1"},
		{"--nacking", "bad-2"},
		{"--unsynced --node *-2 --type cds --origin disk", "bad-2"},
		{"--node good-*", "good-1"},
		{"--older 1h", ""},
		{"--group nobody", ""},
		{"--identity nobody", ""},
		{"--identity anonymous --node bad-2", "bad-2"},
		{"--limit 1", "bad-2"},
	} {
		code, stdout, stderr := weir(t, append([]string{"clients", "--admin", port}, strings.Fields(row.flags)...)...)
		var nodes []string
		for line := range strings.Lines(stdout) {
			if word := strings.Fields(line)[0]; strings.Contains(word, "-") {
				nodes = append(nodes, word)
			}
		}
		if code != exitOK || stderr != "" || strings.Join(nodes, " ") != row.nodes {
			t.Errorf("%q: %d, %q, nodes %q, want %q:\n%s", row.flags, code, stderr, nodes, row.nodes, stdout)
		}
		if strings.Contains(stdout, "\x1b") {
			t.Errorf("%q: what a client says reaches the terminal: %q", row.flags, stdout)
		}
		for _, part := range []string{"NODE", "IDENTITY", "  anonymous  ", "my taste"} {
			if strings.HasPrefix(row.nodes, "bad") && !strings.Contains(stdout, part) {
				t.Errorf("%q: no %q in\n%s", row.flags, part, stdout)
			}
		}
		if more := strings.Contains(stdout, "1 more"); more != (row.flags == "--limit 1") {
			t.Errorf("%q: says that there are more: %t\n%s", row.flags, more, stdout)
		}
	}
	for format, read := range map[string]func(string, any) error{
		"json": func(s string, v any) error { return json.Unmarshal([]byte(s), v) },
		"yaml": func(s string, v any) error { return yaml.Load([]byte(s), v) },
	} {
		code, stdout, stderr := weir(t, "clients", "--admin", port, "--node", "bad-*", "-o", format)
		var all struct {
			Clients []struct {
				Node string `json:"node_id" yaml:"node_id"`
			} `json:"clients" yaml:"clients"`
		}
		if err := read(stdout, &all); err != nil || code != exitOK || len(all.Clients) != 1 || all.Clients[0].Node != "bad-2" {
			t.Errorf("%s: %d, %v, %q in\n%s", format, code, err, stderr, stdout)
		}
	}
	for flags, want := range map[string]struct {
		code int
		text string
	}{
		"--type clusters": {exitFailed, `type="clusters"`},
		"--origin mash":   {exitFailed, "the origins are disk"},
		"--older 30":      {exitUsage, "older"},
		"-o csv":          {exitUsage, "table, yaml, json"},
	} {
		code, _, stderr := weir(t, append([]string{"clients", "--admin", port}, strings.Fields(flags)...)...)
		if code != want.code || !strings.Contains(stderr, want.text) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %d, %q", flags, code, stderr)
		}
	}
}
