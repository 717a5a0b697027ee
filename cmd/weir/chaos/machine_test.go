package chaos

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// machine are the schedules that need something of their own of the machine or the configuration.
var machine = []schedule{
	{name: "two servers, one stale", setup: setup{prepare: staleServer, real: true}, run: twoServers},
	{name: "descriptors exhausted", needs: needsShell, setup: setup{launch: weirtest.Launch{
		Under: []string{"sh", "-c", `ulimit -n 80; exec "$0" "$@"`},
	}}, run: descriptors},
	{name: "certificates rotated and mismatched", setup: setup{prepare: certified}, run: certificates},
	{name: "memory capped, names of 2 KB", needs: weirtest.NeedsMemoryGroup, setup: setup{dialect: relaytest.Delta, prepare: capped, patience: roomAgain}, run: memoryCapped(2_000)},
	{name: "memory capped, names of 20 KB", needs: weirtest.NeedsMemoryGroup, setup: setup{dialect: relaytest.Delta, prepare: capped, patience: roomAgain}, run: memoryCapped(20_000)},
	{name: "2,000 clients reconnect at once", setup: setup{prepare: unraced, patience: weirtest.Patience}, run: storm},
	{name: "partition by the kernel", needs: needsNamespace, alone: inNamespace},
}

func needsShell() string {
	if _, err := exec.LookPath("sh"); err != nil {
		return "there is no shell to set a limit with"
	}
	return ""
}

// coldWait is how long an origin's first server has to be unreachable before the second is asked by
// a weir that holds everything.
const coldWait = 2 * time.Second

// staleServer is a second server of the origin, which states what the first one did at the
// beginning, for ever.
func staleServer(b *bed) {
	b.second = newOrigin(b.T, newTruth())
	b.second.truth.restate(b.truth.state())
	b.config.Origin().Set("grpc.addresses", []any{b.up.addr, b.second.start()})
	b.config.Set("timing.cold_wait", coldWait.String())
}

// twoServers: a short absence of the first server makes nobody look at the second; in a long one
// clients get what the second has, and when the first is back, what that has.
func twoServers(b *bed) {
	b.wait(b.between(300*time.Millisecond, time.Second))
	// who waits for something that is not cached is answered by the second server at once (FED-6)
	b.churn.pause()
	b.converge("before the first server goes", patience)
	b.up.refuse()
	b.wait(b.between(0, coldWait/2)) // whatever the second states now is content that goes back
	b.up.heal()
	b.churn.resume()
	b.wait(b.between(300*time.Millisecond, time.Second))
	b.churn.pause()
	b.converge("after a short absence", patience)
	present := b.truth.state()
	b.up.refuse()
	b.wait(coldWait / 2)
	b.restate(b.second.truth.state()) // from here on that is what the origin states
	took := b.converge("on the second server", coldWait+patience)
	b.note("%v on the second server after %v", took.Round(time.Millisecond), coldWait/2)
	b.restate(present)
	b.up.heal()
	took = b.converge("back on the first server", patience)
	b.note("back on the first after %v", took.Round(time.Millisecond))
	b.churn.resume()
	b.wait(b.between(0, time.Second))
}

// descriptors opens so many connections that weir can accept no more: who is connected notices
// nothing, weir does not spin, and accepts again when there is room.
func descriptors(b *bed) {
	b.wait(b.between(300*time.Millisecond, time.Second))
	streams := 0
	for _, r := range b.all {
		n, _ := r.counts()
		streams += n
	}
	var idle []net.Conn
	for range 120 {
		if c, err := net.DialTimeout("tcp", b.weir.Addr, time.Second); err == nil {
			idle = append(idle, c)
		}
	}
	lines, used, begin := strings.Count(b.weir.Output(), "\n"), cpu(b.T, b.weir.PID()), time.Now()
	b.wait(b.between(2*time.Second, 4*time.Second))
	share := float64(cpu(b.T, b.weir.PID())-used) / float64(time.Since(begin))
	lines = strings.Count(b.weir.Output(), "\n") - lines
	b.note("%d connections opened, %.0f %% of a core, %d log lines", len(idle), 100*share, lines)
	if lines > 20 {
		b.Errorf("weir logged %d lines while it could accept nobody", lines)
	}
	if share > 0.9 {
		b.Errorf("weir used %.0f %% of a core while it could accept nobody", 100*share)
	}
	for _, r := range b.all {
		n, _ := r.counts()
		streams -= n
	}
	if streams != 0 {
		b.Errorf("%d streams were opened anew while nobody could be accepted", -streams)
	}
	for _, c := range idle {
		_ = c.Close()
	}
	b.late = append(b.late, record(b.T, connect(b.T, b.weir.Addr, nil), "sotw fresh", relaytest.SotW, wants{typeURL: cds, wild: true}))
	state := b.truth.state
	if !weirtest.Until(patience, func() bool { return b.late[0].differs(state()) == "" }) {
		b.Error("a new client is not served after there is room again")
	}
}

// certified makes weir and its clients speak TLS.
func certified(b *bed) {
	b.authority = weirtest.NewAuthority(b.T, "chaos")
	b.authority.Issue("weir", 1)
	b.config.Listener().Set("tls", map[string]any{"cert": b.authority.Path("weir.pem"), "key": b.authority.Path("weir.key")})
	pem, err := os.ReadFile(b.authority.Path("ca.pem"))
	if err != nil {
		b.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	b.creds = credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
}

// certificates are rotated, while clients come and go, by way of pairs that do not match and files
// that are cut short: every client that comes is served.
func certificates(b *bed) {
	for serial := int64(2); serial < 6; serial++ {
		cert, err := os.ReadFile(b.authority.Path("weir.pem"))
		if err != nil {
			b.Fatal(err)
		}
		b.authority.Issue("weir", serial)
		fresh, err := os.ReadFile(b.authority.Path("weir.pem"))
		if err != nil {
			b.Fatal(err)
		}
		wrong := pick(b.rng, cert, fresh[:b.rng.IntN(len(fresh))], []byte{})
		// an old certificate, or half a one, with the new key
		if err := os.WriteFile(b.authority.Path("weir.pem"), wrong, 0o600); err != nil {
			b.Fatal(err)
		}
		b.wait(b.between(0, 500*time.Millisecond))
		pick(b.rng, b.down...).reset() // who comes back does so while the pair is wrong
		b.wait(b.between(300*time.Millisecond, time.Second))
		b.meet("while the pair does not match")
		if err := os.WriteFile(b.authority.Path("weir.pem"), fresh, 0o600); err != nil {
			b.Fatal(err)
		}
		pick(b.rng, b.down...).reset()
		b.wait(b.between(0, 500*time.Millisecond))
	}
}

// meet is converge in the middle of a schedule: it rests the churn.
func (b *bed) meet(when string) {
	b.Helper()
	b.churn.pause()
	b.converge(when, patience)
	b.churn.resume()
}

// unraced is for so many clients that the race detector is in the way.
func unraced(b *bed) { b.setup.launch.Program = plainWeir(b.T) }

// storm is two thousand clients that lose their connections at one moment, twice, and a weir that
// dies under them.
func storm(b *bed) {
	b.churn.pause()
	all := crowd(b.T, b.down[0], 2000)
	awaitAll(b.T, all, b.truth.state(), 1, 4*weirtest.Patience)
	b.since = time.Now()
	b.all = append(b.all, all...)
	b.churn.resume()
	for range 2 {
		b.wait(b.between(300*time.Millisecond, time.Second))
		b.down[0].reset()
	}
	b.wait(b.between(300*time.Millisecond, 2*time.Second))
	b.weir.Kill()
	begin := time.Now()
	b.start()
	b.churn.pause()
	back := 0
	if !weirtest.Until(2*weirtest.Patience, func() bool {
		for back < len(all) && all[back].openedSince(begin) {
			back++
		}
		return back == len(all)
	}) {
		b.Fatalf("%d of %d clients are back %v after a restart", back, len(all), time.Since(begin))
	}
	b.note("all back %v after a restart", time.Since(begin).Round(time.Millisecond))
	b.churn.resume()
}
