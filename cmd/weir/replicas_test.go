package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// nameServer has names resolved by a server of the test until it ends. What is not among them does
// not exist.
func nameServer(t *testing.T, names map[string][]net.IP) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for buf := make([]byte, 4<<10); ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := resolve(buf[:n], names); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Resolver: before}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = conn.Close()
		<-done
	})
}

func resolve(query []byte, names map[string][]net.IP) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	ips, exists := names[q.Name.String()]
	if !exists {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, ip := range ips {
		head := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}
		if v4 := ip.To4(); v4 != nil && q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: [4]byte(v4)}})
		} else if v4 == nil && q.Type == dnsmessage.TypeAAAA {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: [16]byte(ip)}})
		}
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}

// TestAllReplicas: a command with --all reaches every replica behind a name, with TLS as well, and
// says of each what came of it. One that is down makes it fail, after all others were asked.
func TestAllReplicas(t *testing.T) {
	const name = "weir-headless.test"
	ips := []net.IP{net.IPv4(127, 0, 0, 3), net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)}
	nameServer(t, map[string][]net.IP{
		name + ".": ips, "both.test.": append(slices.Clone(ips[2:]), net.ParseIP("2001:db8::1"), ips[2]), "nobody.test.": nil,
	})
	ca := weirtest.NewAuthority(t, "ca")
	ca.IssueDNS("server", 1, name)
	ca.Issue("client", 2)
	shown := []string{"--ca", ca.Path("ca.pem"), "--cert", ca.Path("client.pem"), "--key", ca.Path("client.key")}
	for security, row := range map[string]struct {
		admin string
		flags []string
	}{
		"plain": {"", nil},
		"TLS":   {", " + tlsOf(ca, fmt.Sprintf(", client_ca: %q", ca.Path("ca.pem"))), shown},
	} {
		t.Run(security, func(t *testing.T) {
			dir := newFiles(t)
			dir.put(t, "cds.yaml", clusters("a"))
			replicas, port := map[string]*running{}, "0"
			for _, ip := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
				w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"%s:%s\"%s }\n%s", ip, port, row.admin, filesOrigin(dir)))
				_, port, _ = net.SplitHostPort(w.admin.listener.Addr().String())
				replicas[ip] = w
			}
			all := append([]string{"--all", "dns:///" + name + ":" + port}, row.flags...)
			wantEach := func(args []string, wantCode int, said map[string]string) {
				t.Helper()
				code, stdout, stderr := weir(t, append(args, all...)...)
				lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
				if code != wantCode || len(lines) != 3 {
					t.Fatalf("%v: %d\n%s%s", args, code, stdout, stderr)
				}
				for i, ip := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
					if !strings.HasPrefix(lines[i], ip+":"+port+": "+said[ip]) {
						t.Errorf("%v: line %d is %q, want of %s %q", args, i, lines[i], ip, said[ip])
					}
				}
				want := ""
				if wantCode != exitOK {
					want = fmt.Sprintf("dns:///%s:%s: 1 of 3 replicas failed: 127.0.0.3:%s\n", name, port, port)
				}
				if stderr != want {
					t.Errorf("%v: %q, want %q", args, stderr, want)
				}
			}
			each := func(text string) map[string]string {
				return map[string]string{"127.0.0.1": text, "127.0.0.2": text, "127.0.0.3": text}
			}
			wantEach([]string{"freeze", "disk"}, exitOK, each("disk is frozen"+notOnDisk))
			for ip, w := range replicas {
				if _, frozen := w.table.Origin("disk").Frozen(); !frozen {
					t.Errorf("%s is not frozen", ip)
				}
			}
			wantEach([]string{"guard", "release", "disk", "--type", "cds"}, exitOK, each("no removals are held; disk is frozen"))
			replicas["127.0.0.3"].end()
			some := each("unfroze disk")
			some["127.0.0.3"] = "no weir answers (connection refused)"
			wantEach([]string{"unfreeze", "disk"}, exitFailed, some)
			for _, ip := range []string{"127.0.0.1", "127.0.0.2"} {
				if _, frozen := replicas[ip].table.Origin("disk").Frozen(); frozen {
					t.Errorf("%s is frozen still", ip)
				}
			}
			if code, stdout, _ := weir(t, append([]string{"__complete", "freeze"}, append(all, "")...)...); code != exitOK || !strings.HasPrefix(stdout, "disk\n") {
				t.Errorf("completion: %d, %q", code, stdout)
			}
			if security == "TLS" {
				code, stdout, _ := weir(t, append([]string{"freeze", "disk", "--server-name", "another.test"}, all...)...)
				if code != exitFailed || strings.Count(stdout, "not another.test") != 2 {
					t.Errorf("of another name: %d\n%s", code, stdout)
				}
				return
			}
			code, stdout, _ := weir(t, "freeze", "disk", "--all", "dns:///both.test:"+port)
			if code != exitFailed || strings.Count(stdout, "\n") != 2 || !strings.Contains(stdout, "127.0.0.2:"+port+": disk is frozen"+notOnDisk+"\n") || !strings.Contains(stdout, "[2001:db8::1]:"+port+": ") {
				t.Errorf("both kinds of addresses: %d\n%s", code, stdout)
			}
		})
	}
	for name, row := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no such name":   {[]string{"--all", "dns:///other.test:1"}, exitFailed, "dns:///other.test:1: no such host; does the name exist?"},
		"no address":     {[]string{"--all", "dns:///nobody.test:1"}, exitFailed, "dns:///nobody.test:1: lame referral; does the name exist?"},
		"both":           {[]string{"--all", "dns:///x:1", "--admin", "127.0.0.1:1"}, exitUsage, "--admin and --all exclude each other"},
		"plain":          {[]string{"--all", "x:1"}, exitUsage, `--all "x:1" is not dns:///NAME:PORT`},
		"without a port": {[]string{"--all", "dns:///x"}, exitUsage, `--all "dns:///x" is not`},
		"another port":   {[]string{"--all", "dns:///x:http"}, exitUsage, `--all "dns:///x:http" is not`},
		"another server": {[]string{"--all", "dns://1.1.1.1/x:1"}, exitUsage, `--all "dns://1.1.1.1/x:1" is not`},
	} {
		code, stdout, stderr := weir(t, append([]string{"unfreeze", "disk"}, row.args...)...)
		if code != row.code || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, row.want) {
			t.Errorf("%s: %d, %q, %q", name, code, stdout, stderr)
		}
	}
}

// TestSlowReplica: replicas are asked side by side, so one that says nothing keeps no other one
// waiting. The command waits for all.
func TestSlowReplica(t *testing.T) {
	nameServer(t, map[string][]net.IP{"two.test.": {net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)}})
	stuck, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stuck.Close() })
	_, port, _ := net.SplitHostPort(stuck.Addr().String())
	w := startWeir(t, "listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"127.0.0.2:"+port+"\" }\n"+filesOrigin(newFiles(t)))
	ended := make(chan string, 1)
	go func() {
		code, stdout, _ := weir(t, "freeze", "disk", "--all", "dns:///two.test:"+port)
		ended <- fmt.Sprint(code, " ", stdout)
	}()
	held, err := stuck.Accept()
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the other one is frozen", func() bool { _, frozen := w.table.Origin("disk").Frozen(); return frozen })
	select {
	case <-ended:
		t.Error("the command did not wait for both")
	default:
	}
	_ = held.Close() // before the command gives up
	got := <-ended
	if !strings.HasPrefix(got, "1 127.0.0.1:"+port+": ") || strings.Contains(got, "deadline exceeded") || !strings.Contains(got, "\n127.0.0.2:"+port+": disk is frozen"+notOnDisk+"\n") {
		t.Errorf("got %s", got)
	}
}

// TestGuardRelease: the command lets removals go of one origin and type, or of all.
func TestGuardRelease(t *testing.T) {
	const cds = relaytest.ClusterType
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	names := []string{"a", "b", "c", "d"}
	w := startWeir(t, freePorts+strings.Replace(controlPlane(origin.Net().Addr()), "grpc: {", "guard: { min: 3, hold: 10m }, grpc: {", 1))
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"mesh", "--type", "cds"}, "removed 4 held resources"},
		{nil, "removed 4 held resources"},
	} {
		for _, name := range names {
			origin.Set(cds, name, "1", relaytest.Cluster(name, time.Second))
		}
		c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
		c.Request(cds)
		c.AwaitNames(cds, "the clusters come", names...)
		origin.Stop()
		origin.Replace(cds)
		origin.Start()
		await(t, "the removals are held", func() bool { return w.mesh().HeldRemovals == 4 })
		say := func(want string, args ...string) {
			t.Helper()
			code, stdout, stderr := weir(t, append([]string{"guard", "release", "--admin", w.admin.listener.Addr().String()}, args...)...)
			if code != exitOK || stdout != want+"\n" {
				t.Errorf("guard release %v: %d, %q, %q", args, code, stdout, stderr)
			}
		}
		say("no removals are held", "--type", "eds")
		say(row.want, row.args...)
		c.AwaitNames(cds, "they go")
		c.CheckClean()
		c.Close()
	}
	code, _, stderr := weir(t, "guard", "release", "nobody", "--admin", w.admin.listener.Addr().String())
	if code != exitFailed || !strings.Contains(stderr, `there is no origin "nobody"; the only one is `) {
		t.Errorf("an origin that is not there: %d, %q", code, stderr)
	}
	if code, _, _ := weir(t, "guard", "release", "a", "b"); code != exitUsage {
		t.Errorf("two origins: %d", code)
	}
}
