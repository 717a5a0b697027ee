package main

import (
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestNacks: what clients rejected is told together after they have gone, with the resource, its
// version, how many of how many they were, and one of them.
func TestNacks(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("web", "db"))
	w := startWeir(t, freePorts+filesOrigin(dir))
	open := func(id, says string) *relaytest.Client {
		cfg := relaytest.ClientConfig{Patience: patience}
		if says != "" {
			cfg.Reject = func(*relaytest.Response) string { return says }
		}
		c := relaytest.NewClient(t, dial(t, w.listenAddress()), cfg)
		c.Open(relaytest.Node(id, "edge"))
		c.Request(relaytest.ClusterType)
		c.Expect(relaytest.ClusterType, "the clusters come")
		return c
	}
	port := w.admin.listener.Addr().String()
	open("good-1", "")
	for _, c := range []*relaytest.Client{
		open("bad-2", "cluster web: not\x1b[2J to\nmy taste, line 17"), open("bad-3", "cluster web: not\x1b[2J to\nmy taste, line 4"),
	} {
		await(t, "both refusals are booked", func() bool {
			_, body := w.get("/nacks/book")
			return strings.Contains(body, `"count": 2`) || strings.Contains(body, "bad-3")
		})
		c.Close()
	}
	await(t, "both clients are gone, and one has it", func() bool {
		_, book := w.get("/nacks/book")
		_, open := w.get("/nacks")
		return strings.Contains(book, `"clients": 2`) && strings.Contains(book, `"have_it": 1`) && strings.Contains(open, `"clients": []`)
	})
	code, stdout, stderr := weir(t, "nacks", "--admin", port, "--type", "cds", "--origin", "disk")
	for _, part := range []string{" web ", "2        1 ", " bad-", "cluster {name}: not\\u001b[2J to my taste, line #"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("no %q in\n%s", part, stdout)
		}
	}
	if code != exitOK || stderr != "" || strings.Contains(stdout, "\x1b") || strings.Count(stdout, "\n") != 2 {
		t.Errorf("%d, %q in\n%s", code, stderr, stdout)
	}
	if _, body := w.get("/nacks/book?limit=100"); !strings.Contains(body, "line #") || !strings.Contains(body, `"have_it": 1`) {
		t.Errorf("the page does not show it:\n%s", body)
	}
	if code, stdout, _ := weir(t, "nacks", "--admin", port, "--type", "eds", "-o", "json"); code != exitOK || !strings.Contains(stdout, `"book": []`) {
		t.Errorf("of another type: %d\n%s", code, stdout)
	}
	for flags, want := range map[string]int{"--type clusters": exitUsage, "-o csv": exitUsage} {
		if code, _, stderr := weir(t, append([]string{"nacks", "--admin", port}, strings.Fields(flags)...)...); code != want {
			t.Errorf("%s: %d, %q", flags, code, stderr)
		}
	}
}

// TestNacksOfReplicas: of what weir refuses, too, each line says at which replica that is.
func TestNacksOfReplicas(t *testing.T) {
	said := func(replica string) reply[nackList] {
		all, err := decoded[nackList]([]reply[[]byte]{{replica: replica, said: []byte(`{"book": [], "origins": [{"origin": "mesh", "type": "cds", "count": 2, "reason": "bad"}]}`)}})
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	var out strings.Builder
	if err := nacksTable(&out, []reply[nackList]{said("one:1"), said("two:1")}, 10, ""); err != nil {
		t.Fatal(err)
	}
	_, own, _ := strings.Cut(strings.Join(strings.Fields(out.String()), " "), " REPLICA WEIR ")
	if own != "REJECTS OF GROUP TYPE TIMES BECAUSE one:1 mesh - cds 2 bad two:1 mesh - cds 2 bad" {
		t.Errorf("it says\n%s", out.String())
	}
}

// TestNacksOfOrigins: what weir refuses of an origin is told beside what clients refuse, with the
// reason, of that origin and type alone.
func TestNacksOfOrigins(t *testing.T) {
	o, w := explainedOrigin(t, "", "")
	c := opened(t, w, "web-1", relaytest.ClientConfig{})
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the clusters come", "web")
	o.Set(relaytest.ClusterType, "broken", "8", relaytest.Listener("broken", 80))
	await(t, "weir refuses it", func() bool {
		_, body := w.get("/nacks/book?origin=mesh&type=cds")
		return strings.Contains(body, `"reason": `)
	})
	port := w.admin.listener.Addr().String()
	code, stdout, stderr := weir(t, "nacks", "--admin", port)
	_, own, found := strings.Cut(stdout, "\nWEIR REJECTS OF ")
	if code != exitOK || !found || !strings.Contains(own, "\nmesh ") || !strings.Contains(own, " cds ") || !strings.Contains(own, "broken") {
		t.Errorf("%d, %q in\n%s", code, stderr, stdout)
	}
	if code, stdout, stderr := weir(t, "nacks", "--admin", port, "--type", "eds"); code != exitOK || strings.Contains(stdout, "WEIR REJECTS") {
		t.Errorf("of another type: %d, %q in\n%s", code, stderr, stdout)
	}
	if code, _, stderr := weir(t, "nacks", "--admin", port, "--origin", "mash"); code != exitFailed || !strings.Contains(stderr, `there is no origin "mash"; the only one is mesh`) {
		t.Errorf("of an origin that is not there: %d, %q", code, stderr)
	}
}
