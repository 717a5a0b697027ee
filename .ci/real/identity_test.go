package real

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// whoKey is the key of the metadata that the control plane finds identities under.
const whoKey = "WHO"

// byWho makes nodes of one identity share a snapshot.
type byWho struct{}

// ID is the identity that weir has written into the node.
func (byWho) ID(n *core.Node) string { return n.GetMetadata().GetFields()[whoKey].GetStringValue() }

// byIdentity is a snapshot cache with a world for each identity. What is published counts for
// nothing.
func byIdentity(worlds func() map[string]world) func(*plane) (cache.Cache, func(world) error) {
	version := 0
	return func(p *plane) (cache.Cache, func(world) error) {
		c := cache.NewSnapshotCache(false, byWho{}, p)
		return c, func(world) error {
			version++
			for who, w := range worlds() {
				all := map[string][]types.Resource{}
				for typeURL, set := range w {
					for _, name := range slices.Sorted(maps.Keys(set)) {
						all[typeURL] = append(all[typeURL], open(set[name]))
					}
				}
				s, err := cache.NewSnapshot(strconv.Itoa(version), all)
				if err == nil {
					err = c.SetSnapshot(context.Background(), who, s)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
}

// TestSecretsByIdentity: two Envoys of one node with a client certificate each are given the
// certificate of their own that one Secret name stands for, and what replaces it. Then the control
// plane dies, weir is killed, and others start with nothing: each opens its listener with what is
// its own, from the encrypted snapshot. An Envoy of a third identity is given none. No key is in a
// file of weir, in its log or on a page.
func TestSecretsByIdentity(t *testing.T) {
	for _, e := range []envoy{
		{pinned("ENVOY_NEWEST"), relaytest.Delta, true}, {pinned("ENVOY_NEWEST"), relaytest.SotW, true}, {pinned("ENVOY_OLDEST"), relaytest.Delta, false},
	} {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			secretsByIdentity(t, e)
		})
	}
}

func secretsByIdentity(t *testing.T, e envoy) {
	ca := weirtest.NewAuthority(t, "ca")
	who := []string{"web", "bill"}
	for i, name := range append([]string{"server", "stranger"}, who...) {
		ca.Issue(name, int64(i+1))
	}
	shift := 0
	var b *bed
	o := origin{name: "snapshots by identity", dialect: e.dialect, caches: byIdentity(func() map[string]world {
		all := map[string]world{"": {}}
		if b != nil {
			for i, name := range who {
				all["subject:CN="+name] = secrets(e, b, i+shift)
			}
		}
		return all
	})}
	b = newBed(t, row{program: e, origin: o})
	b.authority = weirtest.NewAuthority(t, "certificates")
	for n := range 2 {
		b.authority.Issue(certificateOf(n), int64(n+1))
	}
	b.plane.Publish(nil)

	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte(strings.Repeat("A", 43)+"=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func() {
		t.Helper()
		c := weirConfig(b.plane, b.disk)
		c.Listener()["tls"] = map[string]any{"cert": ca.Path("server.pem"), "key": ca.Path("server.key"), "client_ca": ca.Path("ca.pem"), "min_version": "1.2"}
		c.Set("cache.snapshot.key_file", keys)
		c.Set("cache.snapshot.interval", "100ms")
		maps.Copy(c.Origin(), map[string]any{"group_by": []any{"identity", "cluster"}, "identity_to": "metadata." + whoKey, "secrets": "by_identity"})
		c["authorization"] = []any{map[string]any{"who": []any{"subject:CN={name}"}}}
		b.weir = weirtest.Start(t, c)
		b.front.To(b.weir.Addr)
	}
	start()
	open := func(name string) (*proxy, *tally) {
		t.Helper()
		tally := newTally()
		return startEnvoy(t, e, securedBootstrap(e, ca, name, b.front.Addr()), tally, askTLS), tally
	}
	var proxies []*proxy
	var tallies []*tally
	all := func(sentence string) {
		t.Helper()
		for i, name := range who {
			p, counted := open(name)
			proxies, tallies = append(proxies, p), append(tallies, counted)
			counted.Reach(t, certificateOf(i+shift), fmt.Sprintf("%s: the Envoy of %s has its own certificate", sentence, name))
		}
	}
	all("at first")
	shift = 1
	b.plane.Publish(nil)
	for i, name := range who {
		tallies[i].Reach(t, certificateOf(i+shift), "the certificate of "+name+" is replaced")
	}
	b.awaitDisk()
	b.plane.Stop()
	b.weir.Kill()
	start()
	all("the control plane is dead, and weir was killed")

	stranger, served := open("stranger")
	b.hasAsked(stranger)
	for i, p := range proxies {
		p.Stop()
		tallies[i].Check(t)
	}
	stranger.Stop()
	if n := served.total(); n > 0 {
		t.Errorf("the Envoy of an identity that nothing is known for has answered %d requests", n)
	}
	for i := range who {
		// The first two lived through the change, and the others began after it.
		if had := tallies[len(who)+i].By(certificateOf(i)); had > 0 {
			t.Errorf("the Envoy of %s had another's certificate in %d requests", who[i], had)
		}
	}
	b.findNoKeys()
}

// awaitDisk waits until the snapshot has been the same for ten intervals.
func (b *bed) awaitDisk() {
	b.Helper()
	last, same := "", 0
	if !weirtest.Until(patience, func() bool {
		now := ""
		for path, text := range b.written() {
			now += fmt.Sprint(path, len(text), crc32.ChecksumIEEE([]byte(text)), " ")
		}
		if same++; now == "" || now != last {
			last, same = now, 0
		}
		return same > 10 || !pause()
	}) {
		b.Fatal("the snapshot does not come to rest")
	}
}

// written are weir's files, by their paths.
func (b *bed) written() iter.Seq2[string, string] {
	return func(yield func(path, text string) bool) {
		err := filepath.WalkDir(b.disk, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err == nil && !yield(path, string(text)) {
				return fs.SkipAll
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // one that was replaced meanwhile
			b.Error(err)
		}
	}
}

// hasAsked waits until an Envoy has asked for something, and was told that it cannot have it yet.
func (b *bed) hasAsked(p *proxy) {
	b.Helper()
	if !weirtest.Until(patience, func() bool {
		counters, err := p.Counters()
		return err == nil && counters["cluster_manager.cds.update_attempt"] > 1 || !pause()
	}) {
		b.Fatal("an Envoy asks for nothing")
	}
}

// findNoKeys looks for private keys in weir's files, its log and on its pages.
func (b *bed) findNoKeys() {
	b.Helper()
	written, places := false, map[string]string{"the log": b.weir.Output()}
	for _, page := range []string{"/", "/config", "/origins", "/clients", "/groups", "/resources?type=" + relaytest.SecretType, "/nacks", "/authz", "/metrics"} {
		body, err := weirtest.Fetch("http://" + b.weir.Admin + page)
		if err != nil {
			b.Errorf("%s: %v", page, err)
		}
		places[page] = body
	}
	for path, text := range b.written() {
		places[path] = text
		written = true
	}
	if !written {
		b.Error("weir has no files")
	}
	for n := range 2 {
		text, err := os.ReadFile(b.authority.Path(certificateOf(n) + ".key"))
		if err != nil {
			b.Fatal(err)
		}
		block, _ := pem.Decode(text)
		line := strings.Split(string(text), "\n")[1]
		for place, text := range places {
			if strings.Contains(text, line) || strings.Contains(text, string(block.Bytes)) {
				b.Errorf("%s has the key of %s", place, certificateOf(n))
			}
		}
	}
}
