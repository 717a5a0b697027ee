package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestViewsOfAllReplicas: status, clients, nacks and explain show every replica behind a name in one view,
// which says of what replica each line is. One that is down is a line, and makes the command fail.
func TestViewsOfAllReplicas(t *testing.T) {
	nameServer(t, map[string][]net.IP{
		"three.test.": {net.IPv4(127, 0, 0, 3), net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)},
		"two.test.":   {net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)},
	})
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("web"))
	port := "0"
	for _, replica := range []struct{ ip, id, says string }{
		{"127.0.0.1", "good-1", ""}, {"127.0.0.2", "bad-2", "cluster web: not\x1b[2J to\nmy taste"},
	} {
		w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"%s:%s\" }\n%s", replica.ip, port, filesOrigin(dir)))
		_, port, _ = net.SplitHostPort(w.admin.listener.Addr().String())
		ids := []string{replica.id}
		if replica.says == "" {
			ids = append(ids, "good-3")
		}
		for _, id := range ids {
			cfg := relaytest.ClientConfig{Patience: patience}
			if replica.says != "" {
				cfg.Reject = func(*relaytest.Response) string { return replica.says }
			}
			c := relaytest.NewClient(t, dial(t, w.listenAddress()), cfg)
			c.Open(relaytest.Node(id, "edge"))
			c.Request(relaytest.ClusterType)
			c.Expect(relaytest.ClusterType, "the clusters come")
		}
		await(t, "weir has what the clients said", func() bool {
			_, behind := w.get("/clients?unsynced=1")
			_, body := w.get("/nacks/book")
			_, overview := w.get("/overview")
			if replica.says == "" {
				return strings.Contains(behind, `"total": 0`) && strings.Contains(overview, `"clients": 2`)
			}
			return strings.Contains(body, "my taste") && strings.Contains(overview, `"nacking": 1`)
		})
	}
	first, second, third := "127.0.0.1:"+port, "127.0.0.2:"+port, "127.0.0.3:"+port
	code, stdout, _ := weir(t, "explain", "bad-2", "cds", "web", "--all", "dns:///two.test:"+port)
	if none, rejected, _ := strings.Cut(stdout, "\n"+second+"\n"); code != exitOK || !strings.HasPrefix(none, first+"\nunknown: ") || !strings.HasPrefix(rejected, "rejected: ") {
		t.Errorf("%d: it is not explained where the client is:\n%s", code, stdout)
	}
	if code, _, stderr := weir(t, "explain", "bad-2", "--follow", "--all", "dns:///two.test:"+port); code != exitUsage || !strings.Contains(stderr, "one replica") {
		t.Errorf("--follow of several: %d, %q", code, stderr)
	}
	for _, row := range []struct {
		line string
		want []string // begins of lines of the table, with one space between cells
	}{
		{"status", []string{"REPLICA CLIENTS NOT IN SYNC STALE IN ONE SENTENCE", first + " 2 0 0 All 2 clients", second + " 1 1 0 ", third + " - - - error: no weir answers ("}},
		{"clients", []string{"REPLICA NODE CLUSTER", second + " bad-2 edge", first + " good-", first + " good-", third + ": no weir answers ("}},
		{"clients --limit 1", []string{"REPLICA NODE CLUSTER", second + " bad-2 edge", "and 2 more", third + ": no weir answers ("}},
		{"nacks", []string{"REPLICA LAST FIRST", second + " ", third + ": no weir answers ("}},
		{"explain nobody", []string{first + " ", "unknown: no stream", " ", second + " ", "unknown: no stream", third + ": no weir answers ("}},
	} {
		args := strings.Fields(row.line)
		code, stdout, stderr := weir(t, append(args, "--all", "dns:///three.test:"+port)...)
		lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
		if code != exitFailed || stderr != fmt.Sprintf("dns:///three.test:%s: 1 of 3 replicas failed: %s\n", port, third) || strings.Contains(stdout, "\x1b") {
			t.Errorf("%s: %d, %q", row.line, code, stderr)
		}
		if !slices.EqualFunc(lines, row.want, func(line, want string) bool {
			return strings.HasPrefix(strings.Join(strings.Fields(line), " ")+" ", want)
		}) {
			t.Errorf("%s: want lines %q in\n%s", row.line, row.want, stdout)
		}
		wantCode, wantErr := exitOK, ""
		if args[0] == "explain" { // no replica has the client
			wantCode, wantErr = exitFailed, "no client with the node id \"nobody\" is connected; weir clients lists those that are\n"
		}
		if code, stdout, stderr := weir(t, append(args, "--all", "dns:///two.test:"+port)...); code != wantCode || stderr != wantErr || strings.Count(stdout, "\n") != len(row.want)-1 {
			t.Errorf("%s, all there: %d, %q\n%s", row.line, code, stderr, stdout)
		}
		for format, read := range map[string]func(string, any) error{
			"json": func(s string, v any) error { return json.Unmarshal([]byte(s), v) },
			"yaml": func(s string, v any) error { return yaml.Load([]byte(s), v) },
		} {
			code, stdout, _ := weir(t, append(args, "-o", format, "--all", "dns:///three.test:"+port)...)
			var all []map[string]any
			if err := read(stdout, &all); err != nil || code != exitFailed || len(all) != 3 {
				t.Fatalf("%s: %s: %d, %v in\n%s", row.line, format, code, err, stdout)
			}
			key := map[string]string{"status": "overview", "clients": "clients", "nacks": "book", "explain": "streams"}[args[0]]
			for i, address := range []string{first, second, third} {
				x := all[i]
				if down := i == 2; x["replica"] != address || (x["error"] != nil) != down || (x[key] == nil) != down {
					t.Errorf("%s: %s: of %s it has %v", row.line, format, address, x)
				}
			}
		}
		for flags, want := range map[string]string{"--all dns:///x:1 --admin 127.0.0.1:1": "--admin and --all exclude each other", "--all x:1": "is not dns:///NAME:PORT", "-o csv": "table, yaml, json"} {
			code, stdout, stderr := weir(t, append(slices.Clone(args), strings.Fields(flags)...)...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
				t.Errorf("%s %s: %d, %q, %q", row.line, flags, code, stdout, stderr)
			}
		}
	}
}

// TestNacksLeftOut: the command says how many lines of the book it does not show.
func TestNacksLeftOut(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"book": [{}], "left_out": 3}`)
	}))
	t.Cleanup(server.Close)
	if code, stdout, _ := weir(t, "nacks", "--admin", server.URL, "--limit", "1"); code != exitOK || !strings.Contains(stdout, "\nand 3 more\n") {
		t.Errorf("%d:\n%s", code, stdout)
	}
}
