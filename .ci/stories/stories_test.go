package stories

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

func TestSlowOrigin(t *testing.T) {
	f := newFleet(t, nil)
	f.crowd(10)
	f.calm()
	f.link.delay.Store(int64(8 * time.Second))
	for i := range 16 {
		f.client(fmt.Sprintf("new-%02d", i), fmt.Sprintf("group-%02d", i), relaytest.ClientConfig{})
		time.Sleep(time.Second)
	}
	f.alerted("WeirOriginSlow")
	f.client("late", "late", relaytest.ClientConfig{}, cluster(0))
	time.Sleep(6 * time.Second) // from five seconds on the origin is slow with it; it answers after eight
	f.check(tells{alert: "WeirOriginSlow", may: []string{"WeirOriginPartlyAway", "WeirPropagationSlow"},
		headline: `Origin plane is connected, and has not answered for cds since .*: it was asked, and \d+ groups? waits?`, status: `has not answered for cds since (.|\n)*, cds unanswered for \d`,
		node: "late", name: cluster(0), explain: `the origin was asked, and has not answered`})
}

func TestHalfReject(t *testing.T) {
	f := newFleet(t, nil)
	var bad atomic.Bool
	for i := range 10 {
		f.client(fmt.Sprintf("strict-%02d", i), "web", relaytest.ClientConfig{Reject: func(*relaytest.Response) string {
			if bad.Load() {
				return "no such field: lb_subset"
			}
			return ""
		}})
	}
	f.crowd(10)
	f.calm()
	bad.Store(true)
	for _, word := range []string{"ba", "bad", "badd", "baddd"} {
		f.change(word)
		time.Sleep(time.Second)
	}
	f.check(tells{alert: "WeirManyClientsReject", may: []string{"WeirClientsReject"}, headline: `10 clients reject cds.*no such field: lb_subset`,
		status: `no such field: lb_subset`, node: "strict-03", name: cluster(0), explain: `no such field: lb_subset`})
}

func TestStuckClient(t *testing.T) {
	f := newFleet(t, nil)
	f.crowd(10)
	f.calm()
	f.client("stuck", "web", relaytest.ClientConfig{ManualACK: true})
	f.check(tells{alert: "WeirClientBehind", headline: `Client stuck has not had the newest cds of plane since .*: it has not acknowledged what it was sent`,
		status: `Client stuck has not had the newest cds`, node: "stuck", name: cluster(0), explain: `has not answered|has not acknowledged`})
}

func TestCertificateExpired(t *testing.T) {
	authority := weirtest.NewAuthority(t, "corp")
	ends := time.Now().Add(20 * time.Second)
	authority.IssueUntil("weir", 2, ends)
	f := newFleet(t, func(c weirtest.Config) {
		c.Listener().Set("tls", map[string]any{"cert": authority.Path("weir.pem"), "key": authority.Path("weir.key")})
	})
	f.dial = []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(authority.Pool, ""))}
	f.crowd(10)
	f.fault = ends
	f.check(tells{alert: "WeirCertificateExpired", may: []string{"WeirCertificateExpires", "WeirHandshakesFail"}, headline: `certificate \(listener\) has expired`,
		status: `certificate \(listener\) has expired`})
}

func TestGuardHolds(t *testing.T) {
	f := newFleet(t, nil)
	f.crowd(10)
	f.calm()
	f.origin.Stop()
	for i := range 18 {
		f.origin.Remove(relaytest.ClusterType, cluster(i))
	}
	f.origin.Start()
	f.check(tells{alert: "WeirGuardHolds", headline: `guard holds back 18 removals of plane`, status: `18 removals held`,
		node: "good-00", name: cluster(0), explain: `guard`})
}

func TestDiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a disk of some size needs root")
	}
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "stories", disk).CombinedOutput(); err != nil {
		t.Skipf("no disk can be mounted: %v, %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	f := newFleet(t, func(c weirtest.Config) {
		c.Set("cache.snapshot", map[string]any{"path": filepath.Join(disk, "snapshot"), "interval": "1s"})
	})
	f.crowd(10)
	f.calm()
	fill, err := os.Create(disk + "/fill")
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	_ = fill.Close()
	for _, word := range []string{"a", "ab", "abc", "abcd", "abcde", "abcdef"} {
		f.change(word)
		time.Sleep(1500 * time.Millisecond)
	}
	f.check(tells{alert: "WeirSnapshotNotWritten", headline: `snapshot is not written.*no space left`, status: `not written.*no space left`})
}

func TestWrongToken(t *testing.T) {
	f := newFleet(t, nil)
	f.crowd(10)
	f.calm()
	f.origin.Refuse(status.Error(codes.Unauthenticated, "the token is unknown"))
	f.origin.CloseConns()
	f.check(tells{alert: "WeirOriginDistrusts", may: []string{"WeirServesStale"}, headline: `plane has been away.*the token is unknown`, status: `the token is unknown`,
		node: "good-00", name: cluster(0), explain: `the token is unknown`})
}

func TestReconnectStorm(t *testing.T) {
	f := newFleet(t, nil)
	f.crowd(10)
	f.calm()
	stop := time.Now().Add(15 * time.Second)
	for time.Now().Before(stop) {
		for i, c := range f.clients {
			c.Close()
			c.Open(relaytest.Node(fmt.Sprintf("good-%02d", i), "web"))
			c.Subscribe(relaytest.ClusterType, "*")
		}
		time.Sleep(100 * time.Millisecond)
	}
	const words = `\d{3,} client streams ended within the last minute, with \d+ clients connected: they reconnect again and again`
	f.check(tells{alert: "WeirReconnectStorm", headline: words, status: words})
}

func TestColdGroup(t *testing.T) {
	f := newFleet(t, nil)
	f.crowd(10)
	f.calm()
	f.origin.Stop()
	f.client("cold", "new", relaytest.ClientConfig{})
	f.check(tells{alert: "WeirOriginAway", may: []string{"WeirServesStale", "WeirClientBehind"}, headline: `Origin plane has been away since .*; clients keep 20 resources`, status: `plane +disconnected`,
		node: "cold", name: cluster(0), explain: `the last attempt to reach the origin failed`})
}

func TestFileRefused(t *testing.T) {
	f := newFleet(t, nil)
	f.crowd(10)
	f.calm()
	if err := os.WriteFile(f.file(), []byte("origins: [{ name: plane, gprc: {} }]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.check(tells{alert: "WeirConfigRefused", headline: `configuration file was refused.*gprc`, status: `file was refused(.|\n)*gprc`})
}

func TestMemoryShort(t *testing.T) {
	f := newFleet(t, func(c weirtest.Config) { c.Set("limits.memory", 1<<30) })
	f.crowd(10)
	const size = 40 // MiB; more than the least limit that weir takes, of 32
	for i := range size {
		name := fmt.Sprintf("large-%02d", i)
		f.origin.Set(relaytest.OpaqueType, name, "1", relaytest.Opaque(name, strings.Repeat(fmt.Sprint(i%10), 1<<20)))
	}
	large := f.client("large", "web", relaytest.ClientConfig{})
	large.Subscribe(relaytest.OpaqueType, "*")
	large.Await(patience, func(s *relaytest.State) bool { return s.Count(relaytest.OpaqueType) == size }, "the client has what is large")
	curious := f.client("curious", "web", relaytest.ClientConfig{}, cluster(0))
	f.calm()
	// What is used has garbage in it as long as there is much room. What clients hold is no garbage.
	f.weir.Reload(f.config.Set("limits.memory", size<<20))
	f.alerted("WeirMemoryShort") // the limit is known before it is looked at
	curious.Subscribe(relaytest.ClusterType, "brand-new")
	curious.Await(weirtest.Patience, func(s *relaytest.State) bool { return s.Error(relaytest.ClusterType, "brand-new") != nil }, "a new name is refused")
	f.check(tells{alert: "WeirMemoryShort", may: []string{"WeirLimitReached"}, headline: `Memory is short: \d+ of 40 MiB`, status: `Memory is short: \d+ of 40 MiB`,
		node: "curious", explain: `a limit was reached.*limits\.memory`})
}

func TestForgottenFreeze(t *testing.T) {
	f := newFleet(t, nil)
	f.crowd(10)
	f.calm()
	f.run("freeze", "plane")
	f.change("second")
	f.check(tells{alert: "WeirFrozen", headline: `plane is frozen by operator`, status: `frozen for .* by operator`,
		node: "good-00", name: cluster(0), explain: `frozen`})
}

func TestCanaryStops(t *testing.T) {
	f := newFleet(t, func(c weirtest.Config) {
		c.Origin().Set("group_by", []any{})
		c.Origin().Set("canary", map[string]any{"match": map[string]any{"cluster": "canary"}, "bake": "5s"})
	})
	var bad atomic.Bool
	for i := range 2 {
		f.client(fmt.Sprintf("canary-%d", i), "canary", relaytest.ClientConfig{Reject: func(*relaytest.Response) string {
			if bad.Load() {
				return "no such field: lb_subset"
			}
			return ""
		}})
	}
	f.crowd(10)
	f.calm()
	bad.Store(true)
	f.change("second")
	f.check(tells{alert: "WeirCanaryStopped", may: []string{"WeirClientsReject", "WeirManyClientsReject"}, headline: `A candidate of plane was stopped: canary-\d rejects it: no such field: lb_subset`,
		status: `A candidate of plane was stopped: canary-\d rejects it`, node: "good-00", name: cluster(0), explain: `the candidate was stopped at the canaries \(canary-\d rejects it: no such field: lb_subset\)`})
}

func TestForgottenRollback(t *testing.T) {
	f := newFleet(t, nil)
	f.crowd(10)
	f.calm()
	good := time.Now()
	time.Sleep(time.Second)
	f.change("second")
	time.Sleep(2 * time.Second)
	f.run("rollback", "plane", "--to", good.UTC().Format(time.RFC3339Nano))
	f.check(tells{alert: "WeirRolledBack", may: []string{"WeirFrozen"}, headline: `plane is rolled back since .* by anonymous to the state .*; 20 resources wait`, status: `rolled back to .* by anonymous`,
		node: "good-00", name: cluster(0), explain: `anonymous rolled it back to the state .*; weir rollforward plane ends that`})
}
