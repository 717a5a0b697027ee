package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

const (
	inUse      = "changed certificate files are in use"
	notUsable  = "changed certificate files are unusable; the old ones stay in force"
	soon       = "a certificate expires soon and is not renewed"
	hasExpired = "a certificate has expired; TLS handshakes with it fail"
)

// bench is certificates whose watch is looked through by hand.
type bench struct {
	*certificates
	t    testing.TB
	logs *observer.ObservedLogs
}

func newBench(t testing.TB) *bench {
	core, logs := observer.New(zap.DebugLevel)
	log := zap.New(core)
	return &bench{newCertificates(newWatch(log), log), t, logs}
}

// look has the watch look once, and gives the messages it leads to.
func (b *bench) look(now time.Time) (messages []string) {
	b.files.look(now)
	for _, e := range b.logs.TakeAll() {
		messages = append(messages, e.Message)
	}
	return messages
}

func (b *bench) want(sentence string, want ...string) {
	b.t.Helper()
	for range 2 { // the second look sees no change, and says nothing
		if got := b.look(time.Now()); fmt.Sprint(got) != fmt.Sprint(want) {
			b.t.Errorf("%s: the log says %q, want %q", sentence, got, want)
		}
		want = nil
	}
}

func (b *bench) write(path string, text []byte) {
	b.t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(path string) []byte {
	b.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	return text
}

// port is a port with a certificate and an authority of clients.
func (b *bench) port(ca *weirtest.Authority) *secured {
	b.t.Helper()
	s, err := b.certificates.port(&config.Config{}, "listeners[0].tls", roleListener, config.ServerTLS{
		Cert: ca.Path("server.pem"), Key: ca.Path("server.key"), ClientCA: ca.Path("ca.pem"),
	}, "h2")
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// serial is of the certificate that a port shows.
func (s *secured) serial() int64 { return s.pair.current.Load().pair.Leaf.SerialNumber.Int64() }

// Whatever happens to files in the middle of a renewal leaves the old content
// in force and is told once; what can be used is taken.
func TestKeepsWhatCanBeUsed(t *testing.T) {
	b, ca, other := newBench(t), weirtest.NewAuthority(t, "ca"), weirtest.NewAuthority(t, "other")
	ca.Issue("server", 1)
	s := b.port(ca)
	b.want("nothing has changed")
	cert, key, pool := ca.Path("server.pem"), ca.Path("server.key"), ca.Path("ca.pem")
	oldKey := b.read(key)

	ca.Issue("server", 2)
	b.want("a new pair", inUse)
	newCert, newKey := b.read(cert), b.read(key)
	for _, row := range []struct {
		sentence string
		cert     []byte
		key      []byte
	}{
		{"another's key", newCert, oldKey},
		{"no certificate", []byte("broken"), newKey},
		{"an empty certificate", nil, newKey},
		{"a certificate cut off", newCert[:len(newCert)/2], newKey},
		{"a chain cut off", append(append([]byte{}, newCert...), b.read(pool)[:100]...), newKey},
		{"a key cut off", newCert, newKey[:len(newKey)/2]},
		{"an empty key", newCert, nil},
	} {
		b.write(cert, row.cert)
		b.write(key, row.key)
		b.want(row.sentence, notUsable)
	}
	if s.serial() != 2 {
		t.Errorf("the certificate in force is number %d", s.serial())
	}
	for _, file := range []string{cert, key} {
		b.write(cert, newCert)
		b.write(key, newKey)
		b.want("the pair is whole", inUse)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		b.want(file+" is gone", notUsable)
	}
	ca.Issue("server", 3)
	b.want("both are there", inUse)

	old := s.ca.current.Load()
	bundle := append(b.read(other.Path("ca.pem")), b.read(pool)...)
	for _, text := range [][]byte{nil, []byte("broken"), bundle[:len(bundle)-100]} {
		b.write(pool, text)
		b.want("no authorities, or not all", notUsable)
	}
	if s.serial() != 3 || s.ca.current.Load() != old {
		t.Error("what could be used is not in force any more")
	}
	b.write(pool, bundle)
	b.want("two authorities", inUse)
	if s.ca.current.Load() == old {
		t.Error("the new authorities are not in force")
	}
	s.close()
	b.write(pool, nil)
	b.write(key, nil)
	b.want("nobody uses them")
	if all, _ := b.expiry(); len(all) != 0 {
		t.Errorf("%d roles are left", len(all))
	}
}

// Nothing of a key is in an error or in the log, whatever is wrong with it.
func TestKeyNeverShows(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	key := ca.Path("server.key")
	var out bytes.Buffer
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&out), zap.DebugLevel))
	c := newCertificates(newWatch(log), log)
	if _, err := c.port(&config.Config{}, "tls", roleListener, config.ServerTLS{Cert: ca.Path("server.pem"), Key: key}); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(good)
	lines := strings.Split(strings.TrimSpace(string(good)), "\n")
	lines = lines[1 : len(lines)-1]
	ca.Issue("server", 2) // so that the old key matches nothing
	mangled := bytes.Replace(good, []byte(lines[1][:8]), []byte("!!!!!!!!"), 1)
	for _, text := range [][]byte{
		good, good[:len(good)/2], mangled, block.Bytes, []byte(strings.Join(lines, "\n")),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: block.Bytes[:50]}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}),
	} {
		if err := os.WriteFile(key, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c.files.look(time.Now())
		if !strings.Contains(out.String(), notUsable) {
			t.Errorf("not told: %s", out.String())
		}
		for _, line := range lines {
			for i := 0; i+8 <= len(line); i++ {
				if strings.Contains(out.String(), line[i:i+8]) {
					t.Fatalf("the log shows a piece of the key:\n%s", out.String())
				}
			}
		}
		if strings.Contains(out.String(), string(block.Bytes[10:18])) {
			t.Fatal("the log shows bytes of the key")
		}
		out.Reset()
	}
}

// What should have been renewed is told once, and once more when it has ended;
// a renewal ends it.
func TestExpiryIsTold(t *testing.T) {
	b, ca := newBench(t), weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1) // for an hour
	ca.Issue("client", 1)
	s := b.port(ca)
	origin, err := b.certificates.origin(&config.Config{}, "origins[0].grpc.tls", &config.ClientTLS{
		Cert: ca.Path("client.pem"), Key: ca.Path("client.key"), CA: ca.Path("ca.pem"),
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	all, _ := b.expiry()
	for role, ends := range all {
		if d := ends.Sub(now); d < 59*time.Minute || d > time.Hour {
			t.Errorf("%s ends in %v", role, d)
		}
	}
	if n := len(all); n != 4 {
		t.Errorf("%d roles are told of, want listener, client_ca, origin, origin_ca", n)
	}
	s.certificates.close(s.ca)
	origin.close()
	for _, row := range []struct {
		in   time.Duration
		want []string
	}{
		{40 * time.Minute, nil},
		{50 * time.Minute, []string{soon}},
		{55 * time.Minute, nil},
		{61 * time.Minute, []string{hasExpired}},
		{2 * time.Hour, nil},
	} {
		if got := b.look(now.Add(row.in)); fmt.Sprint(got) != fmt.Sprint(row.want) {
			t.Errorf("after %v: %q, want %q", row.in, got, row.want)
		}
	}
	ca.Issue("server", 2)
	if got := b.look(now); fmt.Sprint(got) != fmt.Sprint([]string{inUse}) {
		t.Errorf("renewed: %q", got)
	}
	if got := b.look(now.Add(55 * time.Minute)); fmt.Sprint(got) != fmt.Sprint([]string{soon}) {
		t.Errorf("the new one: %q", got)
	}
}
