package e2e

import (
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// source is where weir has its configuration from.
type source interface {
	// publish makes the world all that the source has.
	publish(world)
	// die has it answer nobody any more.
	die()
	// revive has it answer again, with another world.
	revive(world)
	// states reports whether it states that there is no more of a name. Where it does not, nobody
	// who asks for it hears of that.
	states() bool
}

// start starts a source that has a world, and says how weir is to be configured for it.
type start func(*testing.T, world) (source, weirtest.Config)

// sources are those of each kind.
var sources = map[string]start{
	"aggregated sotw":  streaming(relaytest.SotW, nil),
	"aggregated delta": streaming(relaytest.Delta, nil),
	"per-type sotw":    streaming(relaytest.SotW, map[string]any{"aggregated": false}),
	"per-type delta":   streaming(relaytest.Delta, map[string]any{"aggregated": false}),
	"v2 sotw":          streaming(relaytest.SotW, map[string]any{"v2": true}),
	"v2 delta":         streaming(relaytest.Delta, map[string]any{"v2": true}),
	"REST": func(t *testing.T, w world) (source, weirtest.Config) {
		g := newGateway(t, w)
		return &restSource{g}, polling(g.net.Addr())
	},
	"files": func(t *testing.T, w world) (source, weirtest.Config) {
		d := &fileSource{t, t.TempDir()}
		d.publish(w)
		c := config("", relaytest.Delta)
		delete(c.Origin(), "grpc")
		c.Origin().Set("files", map[string]any{"path": d.dir})
		return d, c
	},
	"last resort": func(t *testing.T, w world) (source, weirtest.Config) {
		d := &fileSource{t, t.TempDir()}
		d.publish(w)
		p := newStreamSource(t, relaytest.Delta)
		p.origin.Stop()
		c := config(p.origin.Net().Addr(), relaytest.Delta)
		c.Origin().Set("fallback", map[string]any{"files": map[string]any{"path": d.dir}})
		return &lastResort{files: d, plane: p}, c
	},
}

// streamSource is a control plane.
type streamSource struct {
	origin  *relaytest.Origin
	dialect relaytest.Dialect
}

func newStreamSource(t *testing.T, dialect relaytest.Dialect) *streamSource {
	cfg := relaytest.OriginConfig{Serving: true, Patience: patience}
	return &streamSource{relaytest.NewOrigin(t, relaytest.TCP(), cfg), dialect}
}

func streaming(dialect relaytest.Dialect, keys map[string]any) start {
	return func(t *testing.T, w world) (source, weirtest.Config) {
		s := newStreamSource(t, dialect)
		s.publish(w)
		c := config(s.origin.Net().Addr(), dialect)
		for key, value := range keys {
			c.Origin().Set("grpc."+key, value)
		}
		return s, c
	}
}

func (s *streamSource) publish(w world) {
	s.origin.Batch(func() {
		for _, typeURL := range roadTypes {
			var all []relaytest.Resource
			for _, name := range slices.Sorted(maps.Keys(w[typeURL])) {
				body := w[typeURL][name]
				version := fmt.Sprintf("%08x", crc32.ChecksumIEEE(body.Value))
				all = append(all, relaytest.Resource{Name: name, Version: version, Body: body})
			}
			s.origin.Replace(typeURL, all...)
		}
	})
}

func (s *streamSource) die() { s.origin.Stop() }

// states: SotW can state it of clusters and listeners only, whose lists are whole (DEL-3).
func (s *streamSource) states() bool { return s.dialect == relaytest.Delta }

func (s *streamSource) revive(w world) {
	s.publish(w)
	s.origin.Start()
}

// restSource is a REST gateway.
type restSource struct{ gateway *gateway }

func (s *restSource) publish(w world) { s.gateway.Publish(w) }

func (s *restSource) die() { s.gateway.end() }

func (s *restSource) states() bool { return false } // DEL-3

func (s *restSource) revive(w world) { s.gateway.begin(w) }

// fileSource is a directory of files, one of each type.
type fileSource struct {
	t   *testing.T
	dir string
}

var sourceFiles = map[string]string{
	relaytest.ClusterType: "cds.json", relaytest.EndpointType: "eds.json",
	relaytest.ListenerType: "lds.json", relaytest.RouteType: "rds.json",
}

func (s *fileSource) publish(w world) {
	s.t.Helper()
	for _, typeURL := range roadTypes {
		m := &discovery.DiscoveryResponse{TypeUrl: typeURL}
		for _, name := range slices.Sorted(maps.Keys(w[typeURL])) {
			m.Resources = append(m.Resources, w[typeURL][name])
		}
		text, err := protojson.Marshal(m)
		if err != nil {
			s.t.Fatal(err)
		}
		s.put(sourceFiles[typeURL], text)
	}
}

func (s *fileSource) put(name string, text []byte) {
	s.t.Helper()
	beside := filepath.Join(s.dir, "."+name)
	if err := os.WriteFile(beside, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(beside, filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

// die leaves files that cannot be read, as a program does that ends while it writes.
func (s *fileSource) die() {
	for _, name := range sourceFiles {
		s.put(name, []byte(`{"resources": [`))
	}
}

func (s *fileSource) revive(w world) { s.publish(w) }

func (s *fileSource) states() bool { return true } // FILE-6

// lastResort stands in for a control plane that was never there.
type lastResort struct {
	files *fileSource
	plane *streamSource
	alive bool // the control plane, at last
}

func (s *lastResort) publish(w world) {
	if s.alive {
		s.plane.publish(w)
		return
	}
	s.files.publish(w)
}

// die does nothing: the control plane is dead already, and files are read again after a restart.
func (s *lastResort) die() {}

func (s *lastResort) revive(w world) {
	s.plane.revive(w)
	s.alive = true
}

// states: what a last resort lacks is not known.
func (s *lastResort) states() bool { return false }
