package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
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
		"--type clusters": {exitUsage, `--type "clusters"`},
		"--origin mash":   {exitFailed, `there is no origin "mash"; the only one is disk`},
		"--older 30":      {exitUsage, "older"},
		"-o csv":          {exitUsage, "table, yaml, json"},
	} {
		code, _, stderr := weir(t, append([]string{"clients", "--admin", port}, strings.Fields(flags)...)...)
		if code != want.code || !strings.Contains(stderr, want.text) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %d, %q", flags, code, stderr)
		}
	}
}

// pagedAdmin is an admin port that has so many clients, the first of each page but the first being
// one that was listed before. It returns its address, and what it was asked.
func pagedAdmin(t *testing.T, clients int) (address string, asked *[]string) {
	asked = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.RawQuery)
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		from, _ := strconv.Atoi(r.URL.Query().Get("after"))
		if err != nil || limit < 1 {
			http.Error(w, "limit", http.StatusBadRequest)
			return
		}
		page := map[string]any{"total": clients}
		var all []map[string]any
		for i := from; i < clients && len(all) < limit; i++ {
			stream := i
			if from > 0 && i == from {
				stream = 0
			}
			all = append(all, map[string]any{"stream": stream, "node_id": fmt.Sprint("web-", stream)})
		}
		if from += len(all); from < clients {
			page["next"] = strconv.Itoa(from)
		}
		page["clients"], page["truncated"] = all, from < clients
		if err := json.NewEncoder(w).Encode(page); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// TestClientsPages: the command asks for one page after the other until it has as many clients as its
// limit allows, with its filters, and lists none twice.
func TestClientsPages(t *testing.T) {
	for _, row := range []struct {
		limit  string
		listed int // the table has a line less for each one that is there twice
		more   string
		asked  []string
	}{
		{"2500", 2498, "", []string{"limit=1000&node=%2A", "after=1000&limit=1000&node=%2A", "after=2000&limit=500&node=%2A"}},
		{"1500", 1499, "and 1001 more; --limit says how many are listed", []string{"limit=1000&node=%2A", "after=1000&limit=500&node=%2A"}},
		{"7", 7, "and 2493 more", []string{"limit=7&node=%2A"}},
	} {
		address, asked := pagedAdmin(t, 2500)
		code, stdout, stderr := weir(t, "clients", "--admin", address, "--node", "*", "--limit", row.limit)
		if code != exitOK || stderr != "" || strings.Count(stdout, "\nweb-") != row.listed || !strings.Contains(stdout, row.more) {
			t.Errorf("%s: %d, %q, %d clients, want %d", row.limit, code, stderr, strings.Count(stdout, "\nweb-"), row.listed)
		}
		if strings.Join(*asked, " ") != strings.Join(row.asked, " ") {
			t.Errorf("%s: asked %q, want %q", row.limit, *asked, row.asked)
		}
	}
	address, _ := pagedAdmin(t, 2500)
	_, stdout, _ := weir(t, "clients", "--admin", address, "--limit", "3000", "-o", "json")
	var all struct {
		Clients []any `json:"clients"`
		Total   int   `json:"total"`
		Next    any   `json:"next"`
	}
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || len(all.Clients) != 2498 || all.Total != 2500 || all.Next != nil {
		t.Errorf("JSON: %v, %d clients of %d, next %v", err, len(all.Clients), all.Total, all.Next)
	}
	if code, _, stderr := weir(t, "clients", "--admin", address, "--limit", "0"); code != exitFailed || !strings.Contains(stderr, "limit") {
		t.Errorf("a limit of nothing: %d, %q", code, stderr)
	}
}
