package e2e

import (
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// cell is one way for weir to meet go-control-plane.
type cell struct {
	kind    cacheKind
	dialect relaytest.Dialect // upstream
}

// matrix runs test against every combination of cache and upstream dialect.
func matrix(t *testing.T, test func(*testing.T, cell)) {
	for _, kind := range []cacheKind{snapshot, linear} {
		for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			t.Run(string(kind)+"/"+string(dialect), func(t *testing.T) { test(t, cell{kind, dialect}) })
		}
	}
}

// relay starts the plane of the cell with w in it, and weir before it.
func (c cell) relay(t *testing.T, w world) (*plane, *process) {
	t.Helper()
	p := newPlane(t, c.kind, w)
	return p, startWeir(t, config(p.net.Addr(), c.dialect))
}

// open is a recording client on a connection of its own, with its stream open.
func (p *process) open(t *testing.T, id string, cfg relaytest.ClientConfig) *relaytest.Client {
	t.Helper()
	if cfg.Patience == 0 {
		cfg.Patience = patience
	}
	c := relaytest.NewClient(t, weirtest.Connect(t, p.Addr), cfg)
	c.Open(relaytest.Node(id, "e2e"))
	return c
}

// pair is one recording client of each dialect.
func (p *process) pair(t *testing.T) map[relaytest.Dialect]*relaytest.Client {
	t.Helper()
	return map[relaytest.Dialect]*relaytest.Client{
		relaytest.Delta: p.open(t, "delta-client", relaytest.ClientConfig{Dialect: relaytest.Delta}),
		relaytest.SotW:  p.open(t, "sotw-client", relaytest.ClientConfig{Dialect: relaytest.SotW}),
	}
}

// awaitSet waits until the client holds exactly this set of a type, body by body.
func awaitSet(c *relaytest.Client, typeURL string, w world, sentence string) {
	c.Await(0, func(s *relaytest.State) bool {
		if s.Count(typeURL) != len(w[typeURL]) {
			return false
		}
		for name, body := range w[typeURL] {
			if s.Body(typeURL, name) != string(body.Value) {
				return false
			}
		}
		return true
	}, sentence)
}
