package e2e

import (
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

const patience = weirtest.Patience

// config is a file with one origin and one group. All clients share the node id "e2e" upstream,
// since go-control-plane's snapshots are kept by node id.
func config(origin string, dialect relaytest.Dialect) weirtest.Config {
	c := weirtest.NewConfig(origin, dialect)
	c.Origin().Set("node", map[string]any{"id": nodeID, "cluster": "e2e"})
	return c
}

// process is one running weir.
type process struct{ *weirtest.Process }

func startWeir(tb testing.TB, c weirtest.Config) *process {
	tb.Helper()
	return &process{weirtest.Start(tb, c)}
}

// show logs admin pages, for the report of a failure.
func (p *process) show(tb testing.TB, pages ...string) {
	tb.Helper()
	const most = 200_000
	for _, page := range pages {
		body, err := weirtest.Fetch("http://" + p.Admin + page)
		tb.Logf("weir's %s (%v):\n%s", page, err, body[:min(len(body), most)])
	}
}

// freePort is a loopback address where nobody listens, and that no other test takes meanwhile.
func freePort(tb testing.TB) string {
	tb.Helper()
	n := relaytest.TCP()
	l, err := n.Listen()
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return n.Addr()
}
