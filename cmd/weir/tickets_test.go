package main

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// serveTLS shakes hands with all who come, at an address.
func (b *bench) serveTLS(s *secured) net.Addr {
	b.t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", s.server())
	if err != nil {
		b.t.Fatal(err)
	}
	return b.serve(l)
}

// serve shakes hands with all who come to a port.
func (b *bench) serve(l net.Listener) net.Addr {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			// The handshake is part of it. Who is refused shows at the client.
			_, _ = conn.Write([]byte("x"))
			_ = conn.Close()
		}
	}()
	b.t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr()
}

// visitor is a client that keeps its session tickets.
type visitor struct{ *tls.Config }

func newVisitor(ca *weirtest.Authority) visitor {
	return visitor{&tls.Config{
		RootCAs: ca.Pool, Certificates: []tls.Certificate{ca.Pair("client")}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
		// The session is kept by this name, whichever replica it is of.
		ServerName: "127.0.0.1", ClientSessionCache: tls.NewLRUClientSessionCache(4),
	}}
}

func (v visitor) talk(to net.Addr) (resumed bool, err error) {
	conn, err := tls.Dial("tcp", to.String(), v.Config)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	_, err = io.ReadFull(conn, make([]byte, 1))
	return conn.ConnectionState().DidResume, err
}

// want has the visitor come, and says which handshake it has to be.
func (b *bench) resumes(sentence string, v visitor, to net.Addr, want bool) {
	b.t.Helper()
	if resumed, err := v.talk(to); err != nil || resumed != want {
		b.t.Errorf("%s: resumed %v, %v; want %v", sentence, resumed, err, want)
	}
}

// ticketKey is a line of a file of keys.
func ticketKey(fill byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32)) + "\n"
}

// replica is a port as another process with the same files has it.
func (b *bench) replica(ca *weirtest.Authority, tickets string) net.Addr {
	b.t.Helper()
	s, err := b.certificates.port(&config.Config{}, "listeners[0].tls", roleListener, config.ServerTLS{
		Cert: ca.Path("server.pem"), Key: ca.Path("server.key"), ClientCA: ca.Path("ca.pem"), Tickets: tickets,
		MinVersion: config.TLS12,
	}, "h2")
	if err != nil {
		b.t.Fatal(err)
	}
	return b.serveTLS(s)
}

// resumed are the ways in which a client comes back with a session.
var resumed = []struct {
	name string
	// back is the port to which it comes back: first, or another one with the same files.
	back    func(b *bench, ca *weirtest.Authority, keys string, first net.Addr) net.Addr
	version uint16
	own     bool // the process has keys of its own
}{
	{"a process with keys of its own", same, tls.VersionTLS13, true},
	{"the same process, TLS 1.3", same, tls.VersionTLS13, false},
	{"the same process, TLS 1.2", same, tls.VersionTLS12, false},
	{"another replica, TLS 1.3", another, tls.VersionTLS13, false},
	{"another replica, TLS 1.2", another, tls.VersionTLS12, false},
}

func same(_ *bench, _ *weirtest.Authority, _ string, first net.Addr) net.Addr { return first }

// keys is a file of them for a row; "": there is none.
func (b *bench) keys(own bool) string {
	if own {
		return ""
	}
	file := filepath.Join(b.t.TempDir(), "tickets")
	b.write(file, []byte(ticketKey(1)))
	return file
}

// another is a replica that was there before, or a process that was started again: neither knows
// more of the client than its ticket and the files.
func another(b *bench, ca *weirtest.Authority, keys string, _ net.Addr) net.Addr {
	return b.replica(ca, keys)
}

// A handshake that resumes a session is judged by the authorities of now.
func TestResumedSessionsKnowTheAuthority(t *testing.T) {
	for _, row := range resumed {
		t.Run(row.name, func(t *testing.T) {
			b, ca, other := newBench(t), weirtest.NewAuthority(t, "ca"), weirtest.NewAuthority(t, "other")
			ca.Issue("server", 1)
			ca.Issue("client", 2)
			keys := b.keys(row.own)
			first, client := b.replica(ca, keys), newVisitor(ca)
			client.MaxVersion = row.version
			b.resumes("a new client", client, first, false)
			b.resumes("a client that comes back", client, row.back(b, ca, keys, first), true)

			both := append(b.read(other.Path("ca.pem")), b.read(ca.Path("ca.pem"))...)
			b.write(ca.Path("ca.pem"), both)
			back := row.back(b, ca, keys, first)
			b.look(time.Now())
			b.resumes("another authority is added", client, back, true)
			b.write(ca.Path("ca.pem"), b.read(other.Path("ca.pem")))
			back = row.back(b, ca, keys, first)
			b.look(time.Now())
			for range 2 { // a ticket that was refused is of no use later
				if resumed, err := client.talk(back); err == nil {
					t.Errorf("a client of an authority that was removed is let in, resumed: %v", resumed)
				}
			}
			b.write(ca.Path("ca.pem"), both)
			back = row.back(b, ca, keys, first)
			b.look(time.Now())
			if _, err := client.talk(back); err != nil {
				t.Errorf("the authority is back: %v", err)
			}
		})
	}
}

// A session ends with the certificate that it began with, whatever its ticket's age.
func TestResumedSessionsEndWithTheCertificate(t *testing.T) {
	for _, row := range resumed {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b, ca := newBench(t), weirtest.NewAuthority(t, "ca")
			ca.Issue("server", 1)
			const life = 3 * time.Second
			ends := time.Now().Add(life).Truncate(time.Second) // as certificates have it
			ca.IssueUntil("client", 2, ends)
			keys := b.keys(row.own)
			first, client := b.replica(ca, keys), newVisitor(ca)
			client.MaxVersion = row.version
			b.resumes("a new client", client, first, false)
			b.resumes("a client that comes back", client, row.back(b, ca, keys, first), true)
			time.Sleep(time.Until(ends.Add(time.Second + 100*time.Millisecond)))
			if resumed, err := client.talk(row.back(b, ca, keys, first)); err == nil {
				t.Errorf("a client whose certificate has expired is let in, resumed: %v", resumed)
			}
			// It renews its certificate, as its owner does.
			ca.Issue("client", 3)
			client.Certificates = []tls.Certificate{ca.Pair("client")}
			b.resumes("with a new certificate", client, row.back(b, ca, keys, first), false)
		})
	}
}

// Who a client is, is read from the same certificate whether it resumes or not: what it may have and
// how many streams it is counted for go by that (downstream: caller.go).
func TestResumedSessionsHaveTheCertificate(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		b, ca := newBench(t), weirtest.NewAuthority(t, "ca")
		ca.Issue("server", 1)
		ca.Issue("client", 2)
		keys := b.keys(false)
		client := newVisitor(ca)
		client.MaxVersion = version
		for _, resumed := range []bool{false, true} {
			s, err := b.certificates.port(&config.Config{}, "listeners[0].tls", roleListener, config.ServerTLS{
				Cert: ca.Path("server.pem"), Key: ca.Path("server.key"), ClientCA: ca.Path("ca.pem"), Tickets: keys, MinVersion: config.TLS12,
			}, "h2")
			if err != nil {
				t.Fatal(err)
			}
			c := s.server()
			var seen []string
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
				c := s.handshake()
				c.VerifyConnection = func(state tls.ConnectionState) error { // for resumed ones, too
					for _, chain := range state.VerifiedChains {
						seen = append(seen, chain[0].Subject.CommonName)
					}
					return nil
				}
				return c, nil
			}
			l, err := tls.Listen("tcp", "127.0.0.1:0", c)
			if err != nil {
				t.Fatal(err)
			}
			b.resumes("a client", client, b.serve(l), resumed)
			if !slices.Equal(seen, []string{"client"}) {
				t.Errorf("%s, resumed %v: it is known as %q", tls.VersionName(version), resumed, seen)
			}
		}
	}
}

// A ticket of a port is of no use at one that wants more: a certificate, one of another authority,
// or a newer version of TLS. They have the same keys.
func TestTicketsOfAnotherPort(t *testing.T) {
	b, ca, other := newBench(t), weirtest.NewAuthority(t, "ca"), weirtest.NewAuthority(t, "other")
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	keys := filepath.Join(t.TempDir(), "tickets")
	b.write(keys, []byte(ticketKey(1)))
	port := func(clientCA, oldest string) net.Addr {
		s, err := b.certificates.port(&config.Config{}, "listeners[0].tls", roleListener, config.ServerTLS{
			Cert: ca.Path("server.pem"), Key: ca.Path("server.key"), ClientCA: clientCA, Tickets: keys, MinVersion: oldest,
		}, "h2")
		if err != nil {
			t.Fatal(err)
		}
		return b.serveTLS(s)
	}
	open, strict := port("", config.TLS13), port(ca.Path("ca.pem"), config.TLS13)
	client := newVisitor(ca)
	client.Certificates = nil
	b.resumes("a client without a certificate", client, open, false)
	b.resumes("it comes back", client, open, true)
	if resumed, err := client.talk(strict); err == nil {
		t.Errorf("it is let in where a certificate is wanted, resumed: %v", resumed)
	}
	client = newVisitor(ca)
	b.resumes("a client with a certificate", client, strict, false)
	if resumed, err := client.talk(port(other.Path("ca.pem"), config.TLS13)); err == nil {
		t.Errorf("it is let in where one of another authority is wanted, resumed: %v", resumed)
	}
	client = newVisitor(ca)
	client.MaxVersion = tls.VersionTLS12
	b.resumes("a client of TLS 1.2", client, port(ca.Path("ca.pem"), config.TLS12), false)
	client.MaxVersion = tls.VersionTLS13
	b.resumes("the same with TLS 1.3", client, strict, false)
}

// Replicas with one file of keys resume each other's sessions, as a process does after a restart.
// Keys are rotated without a full handshake: the new one comes first, the old one stays behind it
// for as long as tickets live.
func TestReplicasShareTickets(t *testing.T) {
	b, ca := newBench(t), weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	keys := filepath.Join(t.TempDir(), "tickets")
	b.write(keys, []byte("# of today\n"+ticketKey(1)))
	first, second, alone := b.replica(ca, keys), b.replica(ca, keys), b.replica(ca, "")

	client := newVisitor(ca)
	b.resumes("a new client", client, first, false)
	b.resumes("at the other replica", client, second, true)
	b.resumes("at one with keys of its own", client, alone, false)

	b.resumes("back", client, first, false) // its ticket is of the last one
	b.write(keys, []byte(ticketKey(2)+"\n"+ticketKey(1)))
	b.want("a new key before the old one", inUse, inUse)
	b.resumes("with a ticket of the old key", client, second, true)
	b.write(keys, []byte(ticketKey(2)))
	b.want("the old key is gone", inUse, inUse)
	b.resumes("with a ticket of the new key", client, first, true)
	b.write(keys, []byte(ticketKey(3)))
	b.want("all keys are others", inUse, inUse)
	b.resumes("with a ticket that no key opens", client, first, false)

	for _, text := range []string{"", "# none\n", ticketKey(4)[:20], ticketKey(4) + "short\n", strings.Repeat(ticketKey(4), mostTickets+1), strings.Repeat("x", 100<<10)} {
		b.write(keys, []byte(text))
		b.want("a file that is no list of keys", notUsable, notUsable)
	}
	b.resumes("the keys from before are in force", client, first, true)
}

// TestRotateTicketKeys: the commands of running.md make the first keys, and rotate them
// so that nobody shakes hands in full, though a replica reads the new file later than another.
func TestRotateTicketKeys(t *testing.T) {
	fenced, _ := blocksOf(t)
	i := slices.IndexFunc(fenced, func(b block) bool { return b.first == "# rotate-ticket-keys" })
	if i < 0 {
		t.Fatal("no page has the commands")
	}
	b, ca, dir := newBench(t), weirtest.NewAuthority(t, "ca"), t.TempDir()
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	keys, later := filepath.Join(dir, "keys"), filepath.Join(dir, "later")
	rotate := func() {
		t.Helper()
		cmd := exec.Command("sh", "-e", "-c", fenced[i].text)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v: %s", err, out)
		}
		b.look(time.Now())
	}
	rotate()
	if l, err := readTickets(keys); err != nil || len(l.tickets) != 3 {
		t.Fatalf("the first time: %+v, %v", l, err)
	}
	if info, err := os.Stat(keys); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the keys: %v, %v", info.Mode(), err)
	}
	b.write(later, b.read(keys))
	first, slow := b.replica(ca, keys), b.replica(ca, later)
	old, fresh := newVisitor(ca), newVisitor(ca)
	b.resumes("before the rotation", old, first, false)
	rotate()
	b.resumes("after it", fresh, first, false)
	b.resumes("at a replica that has not read the new file", fresh, slow, true)
	b.resumes("with a ticket from before", old, first, true)

	b.resumes("back", fresh, slow, true) // its ticket is of the old key
	rotate()
	b.resumes("with the ticket of a key that is gone", fresh, first, false)
}

// TestTicketErrorsShowNoKey: an error has the file and the line, and nothing of what is in it.
func TestTicketErrorsShowNoKey(t *testing.T) {
	b, file := newBench(t), filepath.Join(t.TempDir(), "tickets")
	secret := strings.Repeat("c2VjcmV0", 3)
	b.write(file, []byte(ticketKey(1)+secret+"\n"))
	_, err := readTickets(file)
	if err == nil || !strings.Contains(err.Error(), file+":2 ") || strings.Contains(err.Error(), secret) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkHandshake is one connection with certificates on both sides, the client's part of the
// work included.
func BenchmarkHandshake(b *testing.B) {
	for name, keep := range map[string]bool{"full": false, "resumed": true} {
		b.Run(name, func(b *testing.B) {
			bench, ca := newBench(b), weirtest.NewAuthority(b, "ca")
			ca.Issue("server", 1)
			ca.Issue("client", 2)
			keys := filepath.Join(b.TempDir(), "tickets")
			bench.write(keys, []byte(ticketKey(1)))
			port, client := bench.replica(ca, keys), newVisitor(ca)
			if !keep {
				client.ClientSessionCache = nil
			}
			if _, err := client.talk(port); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if resumed, err := client.talk(port); err != nil || resumed != keep {
					b.Fatalf("resumed %v, %v", resumed, err)
				}
			}
		})
	}
}
