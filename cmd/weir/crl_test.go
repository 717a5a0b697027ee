package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

func pemCRL(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// TestReadCRL: a file of CRLs is read whole, or not at all, and the error has the file and why.
func TestReadCRL(t *testing.T) {
	b := newBench(t)
	root, other, twin := weirtest.NewAuthority(t, "root"), weirtest.NewAuthority(t, "other"), weirtest.NewAuthority(t, "root")
	middle := root.Intermediate("middle", 5)
	both := slices.Concat(b.read(root.Path("ca.pem")), b.read(middle.Path("ca.pem")))
	ca, file := filepath.Join(t.TempDir(), "ca.pem"), filepath.Join(t.TempDir(), "crl.pem")
	b.write(ca, both)
	extended := func(id asn1.ObjectIdentifier, critical bool) []byte {
		return root.CRL(x509.RevocationList{ExtraExtensions: []pkix.Extension{{Id: id, Critical: critical, Value: []byte{5, 0}}}}, 2)
	}
	one, next := root.CRL(x509.RevocationList{}, 2, 3), middle.CRL(x509.RevocationList{}, 7)
	entry := x509.RevocationList{RevokedCertificateEntries: []x509.RevocationListEntry{{
		SerialNumber: big.NewInt(9), RevocationTime: time.Now(),
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 29}, Critical: true, Value: []byte{5, 0}}},
	}}}
	for _, row := range []struct {
		name string
		text []byte
		want string // of the error; "": there is none
		n    int    // certificates that are revoked
	}{
		{"one in DER", one, "", 2},
		{"one in PEM", pemCRL(one), "", 2},
		{"two in PEM", append(pemCRL(one), pemCRL(next)...), "", 3},
		{"with other blocks", slices.Concat(both, pemCRL(one)), "", 2},
		{"two of one authority add up", append(pemCRL(one), pemCRL(root.CRL(x509.RevocationList{}, 4))...), "", 3},
		{"nobody is revoked", root.CRL(x509.RevocationList{}), "", 0},
		{"a part of the certificates", extended(asn1.ObjectIdentifier{2, 5, 29, 28}, true), "", 1},
		{"an empty file", nil, "is no CRL, in PEM or DER", 0},
		{"no CRL", both, "holds no PEM block X509 CRL", 0},
		{"DER cut off", one[:len(one)-3], "is no CRL, in PEM or DER", 0},
		{"DER with more behind it", append(slices.Clone(one), 0), "something follows", 0},
		{"PEM cut off", pemCRL(one)[:100], "is cut off or broken after 0 CRLs", 0},
		{"the second cut off", append(pemCRL(one), pemCRL(next)[:100]...), "is cut off or broken after 1 CRLs", 0},
		{"the second is no CRL", append(pemCRL(one), pemCRL([]byte("no"))...), "CRL 2", 0},
		{
			"of another authority", append(pemCRL(one), pemCRL(other.CRL(x509.RevocationList{}, 2))...),
			"CRL 2 of 2, by CN=other: that is no authority of client_ca", 0,
		},
		{"of another one with the name", twin.CRL(x509.RevocationList{}, 2), "by CN=root: the authority of client_ca did not sign it", 0},
		{"a delta CRL", extended(asn1.ObjectIdentifier{2, 5, 29, 27}, true), "delta CRL", 0},
		{"a critical extension", extended(asn1.ObjectIdentifier{1, 2, 3}, true), "critical extension 1.2.3", 0},
		{"an extension", extended(asn1.ObjectIdentifier{1, 2, 3}, false), "", 1},
		{"an entry of another issuer", root.CRL(entry), "critical extension 2.5.29.29", 0},
		{"too long", make([]byte, mostCRL+1), "at most", 0},
	} {
		b.write(file, row.text)
		l, err := readCRL(file, ca)
		switch {
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), file)):
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", row.name, err)
		case err == nil:
			n := 0
			for _, all := range l.crl.of {
				for _, by := range all {
					n += len(by.serials)
				}
			}
			if n != row.n {
				t.Errorf("%s: %d are revoked, want %d", row.name, n, row.n)
			}
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	silent := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, silent, silent, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	b.write(file, one)
	b.write(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if _, err := readCRL(file, ca); err == nil || !strings.Contains(err.Error(), "does not include cRLSign") {
		t.Errorf("by an authority that may not sign CRLs: %v", err)
	}
	if _, err := readCRL(filepath.Join(t.TempDir(), "none"), ca); err == nil {
		t.Error("there is no file, and no error")
	}
}

// revoking is a port with a CRL.
func (b *bench) revoking(ca, crl *weirtest.Authority, tickets string) (*secured, net.Addr) {
	b.t.Helper()
	s, err := b.certificates.port(&config.Config{}, "listeners[0].tls", roleListener, config.ServerTLS{
		Cert: ca.Path("server.pem"), Key: ca.Path("server.key"), ClientCA: ca.Path("ca.pem"), CRL: crl.Path("crl.pem"), Tickets: tickets,
		MinVersion: config.TLS12,
	}, "h2")
	if err != nil {
		b.t.Fatal(err)
	}
	return s, b.serveTLS(s)
}

// TestRevokedAreRefused: a client whose certificate, or an authority in its chain, a CRL names is
// refused, and those of other numbers and of other authorities with the number are not.
func TestRevokedAreRefused(t *testing.T) {
	b, root := newBench(t), weirtest.NewAuthority(t, "root")
	root.Issue("server", 1)
	left, right := root.Intermediate("left", 10), root.Intermediate("right", 11)
	visitors := map[string]visitor{}
	for name, by := range map[string]*weirtest.Authority{"root": root, "left": left, "right": right} {
		by.Issue("client", 2)
		v := newVisitor(by)
		v.RootCAs, v.ClientSessionCache = root.Pool, nil
		visitors[name] = v
	}
	root.Revoke()
	_, port := b.revoking(root, root, "")
	for _, row := range []struct {
		sentence string
		serials  []int64
		refused  string
	}{
		{"nobody is revoked", nil, ""},
		{"a leaf", []int64{2}, "root"},
		{"an intermediate", []int64{11}, "right"},
		{"both intermediates", []int64{11, 10}, "left right"},
		{"nobody any more", nil, ""},
	} {
		root.Revoke(row.serials...)
		b.look(time.Now())
		for name, v := range visitors {
			if _, err := v.talk(port); (err != nil) != strings.Contains(row.refused, name) {
				t.Errorf("%s: a client of %s: %v", row.sentence, name, err)
			}
		}
	}
	// The authority of the clients has to be one of client_ca for its CRL to count.
	left.Revoke(2)
	b.write(root.Path("ca.pem"), append(b.read(root.Path("ca.pem")), b.read(left.Path("ca.pem"))...))
	b.write(root.Path("crl.pem"), append(b.read(root.Path("crl.pem")), b.read(left.Path("crl.pem"))...))
	b.look(time.Now())
	for name, v := range visitors {
		if _, err := v.talk(port); (err != nil) != (name == "left") {
			t.Errorf("a CRL of an intermediate: a client of %s: %v", name, err)
		}
	}
}

// TestResumedSessionsAreRevoked: a session whose certificate was revoked since it began is not
// resumed, in whatever way the client comes back.
func TestResumedSessionsAreRevoked(t *testing.T) {
	for _, row := range resumed {
		t.Run(row.name, func(t *testing.T) {
			b, ca := newBench(t), weirtest.NewAuthority(t, "ca")
			ca.Issue("server", 1)
			ca.Issue("client", 2)
			ca.Revoke()
			keys := b.keys(row.own)
			_, first := b.revoking(ca, ca, keys)
			back := func() net.Addr {
				if row.name == resumed[0].name || strings.HasPrefix(row.name, "the same") {
					return first
				}
				_, port := b.revoking(ca, ca, keys)
				return port
			}
			client := newVisitor(ca)
			client.MaxVersion = row.version
			b.resumes("a new client", client, first, false)
			b.resumes("a client that comes back", client, back(), true)
			ca.Revoke(2)
			b.look(time.Now())
			for range 2 {
				if resumed, err := client.talk(back()); err == nil {
					t.Errorf("a client whose certificate is revoked is let in, resumed: %v", resumed)
				}
			}
			ca.Issue("client", 3)
			client.Certificates = []tls.Certificate{ca.Pair("client")}
			client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
			b.resumes("with a new certificate", client, back(), false)
		})
	}
}

// TestLastGoodCRLStays: a file that cannot be used leaves the last CRL in force, and is logged and
// counted as other files of TLS are. So does a change of client_ca under which it is not signed.
func TestLastGoodCRLStays(t *testing.T) {
	b, ca, other := newBench(t), weirtest.NewAuthority(t, "ca"), weirtest.NewAuthority(t, "other")
	ca.Issue("server", 1)
	ca.Revoke(2)
	errs := map[bool]int{}
	b.count = func(role string, err error) {
		if role == roleCRL {
			errs[err != nil]++
		}
	}
	s, _ := b.revoking(ca, ca, "")
	revoked := func() int64 {
		n := int64(0)
		for _, all := range s.crl.current.Load().crl.of {
			for _, by := range all {
				n += int64(len(by.serials))
			}
		}
		return n
	}
	good, authority := b.read(ca.Path("crl.pem")), b.read(ca.Path("ca.pem"))
	for sentence, text := range map[string][]byte{"cut off": good[:50], "empty": nil, "another's": pemCRL(other.CRL(x509.RevocationList{}))} {
		b.write(ca.Path("crl.pem"), text)
		b.want(sentence, notUsable)
	}
	b.write(ca.Path("crl.pem"), good)
	b.want("the CRL is back", inUse)
	b.write(ca.Path("ca.pem"), b.read(other.Path("ca.pem")))
	b.want("its authority is not trusted", inUse, notUsable)
	if revoked() != 1 || errs[true] != 4 || errs[false] != 1 {
		t.Errorf("%d are revoked; counted %v", revoked(), errs)
	}
	b.write(ca.Path("ca.pem"), append(authority, b.read(other.Path("ca.pem"))...))
	b.want("both are", inUse, inUse)
	ca.Revoke(2, 3)
	b.want("one more is revoked", inUse)
	if revoked() != 2 {
		t.Errorf("%d are revoked", revoked())
	}
}

// TestOldCRL: a CRL that is due for the next one is warned of, and used still after that.
func TestOldCRL(t *testing.T) {
	b, ca := newBench(t), weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	b.write(ca.Path("crl.pem"), ca.CRL(x509.RevocationList{NextUpdate: time.Now().Add(-time.Second)}, 2))
	_, port := b.revoking(ca, ca, "")
	const old = "a CRL is past its next update; it stays in force, without later revocations"
	b.want("it was due", old)
	if _, err := newVisitor(ca).talk(port); err == nil {
		t.Error("its word is not taken")
	}
	b.write(ca.Path("crl.pem"), ca.CRL(x509.RevocationList{NextUpdate: time.Now().Add(10 * time.Minute)}))
	b.want("it is due soon", inUse, "a CRL is due for its next update, and there is none")
	if _, err := newVisitor(ca).talk(port); err != nil {
		t.Error(err)
	}
	b.write(ca.Path("crl.pem"), ca.CRL(x509.RevocationList{}))
	b.want("a new one", inUse)
	if _, due := b.expiry(); time.Until(due) < 50*time.Minute {
		t.Errorf("the metric has %v", due)
	}
}

// TestStillTrusted: an open connection is judged as a new one would be.
func TestStillTrusted(t *testing.T) {
	b, root, other := newBench(t), weirtest.NewAuthority(t, "root"), weirtest.NewAuthority(t, "other")
	root.Issue("server", 1)
	root.Revoke()
	middle := root.Intermediate("middle", 10)
	middle.Issue("client", 2)
	s, _ := b.revoking(root, root, "")
	var state *tls.ConnectionState
	c := s.handshake()
	c.VerifyConnection = func(now tls.ConnectionState) error { state = &now; return nil }
	l, err := tls.Listen("tcp", "127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	v := newVisitor(middle)
	v.RootCAs = root.Pool
	b.resumes("a client", v, b.serve(l), false)
	ca := b.read(root.Path("ca.pem"))
	for _, row := range []struct {
		sentence string
		change   func()
		want     string
	}{
		{"nothing has changed", func() {}, ""},
		{"another authority is added", func() { b.write(root.Path("ca.pem"), append(ca, b.read(other.Path("ca.pem"))...)) }, ""},
		{"only the other one", func() { b.write(root.Path("ca.pem"), b.read(other.Path("ca.pem"))) }, "unknown authority"},
		{"only the intermediate", func() { b.write(root.Path("ca.pem"), b.read(middle.Path("ca.pem"))) }, ""},
		{"the root has another certificate", func() { root.Renew(77) }, ""},
		{"the intermediate is revoked", func() { root.Revoke(10) }, `"CN=middle" by "CN=root" is revoked (key compromise), says ` + root.Path("crl.pem")},
		{"not any more", func() { root.Revoke() }, ""},
	} {
		row.change()
		b.look(time.Now())
		switch err := s.judge(x509.ExtKeyUsageClientAuth)(state); {
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", row.sentence, err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: %v, want %s", row.sentence, err, row.want)
		}
	}
	if err := s.judge(x509.ExtKeyUsageClientAuth)(&tls.ConnectionState{}); err != nil {
		t.Errorf("without a certificate: %v", err)
	}
}

// BenchmarkTrusts judges one open connection again, by a CRL of 10,000 certificates: its authority
// is in client_ca still, or another certificate of it is, or it is gone.
func BenchmarkTrusts(b *testing.B) {
	bench, ca, other := newBench(b), weirtest.NewAuthority(b, "ca"), weirtest.NewAuthority(b, "other")
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	serials := make([]int64, 10_000)
	for i := range serials {
		serials[i] = int64(i + 1000)
	}
	ca.Revoke(serials...)
	s, _ := bench.revoking(ca, ca, "")
	leaf, err := x509.ParseCertificate(ca.Pair("client").Certificate[0])
	if err != nil {
		b.Fatal(err)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{Roots: ca.Pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		b.Fatal(err)
	}
	state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: chains}
	judge := s.judge(x509.ExtKeyUsageClientAuth)
	for _, row := range []struct {
		name    string
		change  func()
		trusted bool
	}{
		{"same", func() {}, true},
		{"renewed", func() { ca.Renew(77) }, true},
		{"gone", func() { bench.write(ca.Path("ca.pem"), bench.read(other.Path("ca.pem"))) }, false},
	} {
		row.change()
		bench.look(time.Now())
		b.Run(row.name, func(b *testing.B) {
			for b.Loop() {
				if err := judge(state); (err == nil) != row.trusted {
					b.Fatal(err)
				}
			}
		})
	}
}
