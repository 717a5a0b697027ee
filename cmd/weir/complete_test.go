package main

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestCompletion: a shell offers types and formats, and from the running weir origins, clients, groups
// and names. Where none answers it offers nothing, soon and without an error.
func TestCompletion(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, freePorts+filesOrigin(dir))
	for _, id := range []string{"web-1", "web-2", "web-2", "api-1"} {
		c := relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{Patience: patience})
		c.Open(relaytest.Node(id, "edge"))
		c.Request(relaytest.ClusterType)
		c.Expect(relaytest.ClusterType, "the cluster")
	}
	group := ""
	for _, g := range w.table.Origin("disk").Groups() {
		group = admin.ShortKey(g.Key)
	}
	stuck, err := net.Listen("tcp", loopback) // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stuck.Close() })
	t.Setenv("WEIR_ADMIN", "http://"+w.admin.listener.Addr().String())
	for line, want := range map[string][]string{
		"get |":                                    {"cds", "eds", "lds", "leds", "rds", "rtds", "sds", "srds", "vhds", "ecds"},
		"get --from x c":                           {"cds", "eds", "lds", "leds", "rds", "rtds", "sds", "srds", "vhds", "ecds"},
		"get cds --from x -o |":                    {"table", "yaml", "json", "wide"},
		"get cds --from x --dialect |":             {"delta", "sotw"},
		"status -o |":                              {"table", "yaml", "json", "wide"},
		"snapshot inspect -o |":                    {"table", "yaml", "json", "wide"},
		"freeze |":                                 {"disk"},
		"unfreeze d":                               {"disk"},
		"freeze disk |":                            nil,
		"guard |":                                  {"release"},
		"clients --origin |":                       {"disk"},
		"clients --node w":                         {"web-1", "web-2"},
		"clients --group |":                        {group},
		"clients --identity |":                     {"anonymous"},
		"nacks --origin |":                         {"disk"},
		"authz denials --origin |":                 {"disk"},
		"authz denials --result |":                 {"denied", "ended"},
		"groups suggest --origin |":                {"disk"},
		"explain |":                                {"api-1", "web-1", "web-2"},
		"config of |":                              {"api-1", "web-1", "web-2"},
		"explain web-1 |":                          {"cds", "eds", "lds", "leds", "rds", "rtds", "sds", "srds", "vhds", "ecds"},
		"explain web-1 cds |":                      {"a"},
		"explain web-1 cds a |":                    nil,
		"history |":                                {"disk"},
		"history disk --type cds --name |":         {"a"},
		"history disk --group |":                   {group},
		"rollback disk --to |":                     {"last-good"},
		"rollback disk --group |":                  {group},
		"rollforward disk --group |":               {group},
		"clients --limit |":                        nil,
		"status |":                                 nil,
		"explain --admin " + deadAddress(t) + " |": nil,
		"guard release |":                          {"disk"},
		"guard release --type c":                   {"cds", "eds", "lds", "leds", "rds", "rtds", "sds", "srds", "vhds", "ecds"},
		"freeze --admin " + deadAddress(t) + " |":  nil,
		"freeze --admin " + stuck.Addr().String() + " |": nil,
	} {
		t.Run(line, func(t *testing.T) {
			began := time.Now()
			args := strings.Fields(line)
			if args[len(args)-1] == "|" {
				args[len(args)-1] = ""
			}
			code, stdout, _ := weir(t, append([]string{"__complete"}, args...)...)
			got := strings.Split(strings.TrimSpace(stdout), "\n")
			for i := range got {
				got[i], _, _ = strings.Cut(got[i], "\t")
			}
			directive := got[len(got)-1]
			got = got[:len(got)-1]
			slices.Sort(got)
			slices.Sort(want)
			if code != exitOK || !slices.Equal(got, want) || directive != ":4" { // no file names
				t.Errorf("got %d, %q, %s; want %q", code, got, directive, want)
			}
			// who waits for a stuck weir waits for ever
			if took := time.Since(began); took > patience {
				t.Errorf("took %s", took)
			}
		})
	}
	if code, stdout, _ := weir(t, "__complete", "run", ""); code != exitOK || stdout != "yaml\nyml\n:8\n" {
		t.Errorf("run: %d, %q, want YAML files", code, stdout)
	}
	if _, body := fetch(t, http.MethodGet, "http://"+w.admin.listener.Addr().String()+"/origins"); !strings.Contains(body, "disk") {
		t.Errorf("/origins: %s", body)
	}
}
