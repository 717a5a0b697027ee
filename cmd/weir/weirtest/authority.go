package weirtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates for 127.0.0.1, as files.
type Authority struct {
	Pool *x509.CertPool // only itself

	tb   testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an Authority. Its own certificate is in ca.pem.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, dir: tb.TempDir(), Pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key = template, newKey(tb)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		tb.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	a.Pool.AddCert(a.cert)
	a.file("ca.pem", "CERTIFICATE", der)
	return a
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// Path returns the path of a file of the Authority.
func (a *Authority) Path(name string) string { return filepath.Join(a.dir, name) }

// DER returns the Authority's own certificate.
func (a *Authority) DER() []byte { return a.cert.Raw }

// file writes a PEM file by renaming.
func (a *Authority) file(name, kind string, der []byte) {
	a.tb.Helper()
	next := a.Path(name + ".next")
	if err := os.WriteFile(next, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.tb.Fatal(err)
	}
	if err := os.Rename(next, a.Path(name)); err != nil {
		a.tb.Fatal(err)
	}
}

// Issue writes NAME.pem and NAME.key, and replaces earlier ones.
func (a *Authority) Issue(name string, serial int64) {
	a.tb.Helper()
	a.IssueUntil(name, serial, time.Now().Add(time.Hour))
}

// IssueUntil is Issue of a certificate that ends then.
func (a *Authority) IssueUntil(name string, serial int64, ends time.Time) {
	a.tb.Helper()
	a.write(name, leaf(serial, ends, func(c *x509.Certificate) {
		c.Subject, c.IPAddresses = pkix.Name{CommonName: name}, []net.IP{net.IPv4(127, 0, 0, 1)}
	}))
}

// IssueSPIFFE is Issue of a certificate that has a SPIFFE ID, and nothing else of whose it is.
func (a *Authority) IssueSPIFFE(name string, serial int64, id string) {
	a.tb.Helper()
	u, err := url.Parse(id)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.write(name, leaf(serial, time.Now().Add(time.Hour), func(c *x509.Certificate) { c.URIs = []*url.URL{u} }))
}

// IssueDNS is Issue of a certificate that has a DNS name besides the address.
func (a *Authority) IssueDNS(name string, serial int64, dns string) {
	a.tb.Helper()
	a.write(name, leaf(serial, time.Now().Add(time.Hour), func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses = []string{dns}, []net.IP{net.IPv4(127, 0, 0, 1)}
	}))
}

func leaf(serial int64, ends time.Time, whose func(*x509.Certificate)) *x509.Certificate {
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Minute), NotAfter: ends,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	whose(c)
	return c
}

// write signs a certificate, and writes it and its key.
func (a *Authority) write(name string, template *x509.Certificate) {
	a.tb.Helper()
	key := newKey(a.tb)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.file(name+".pem", "CERTIFICATE", der)
	a.file(name+".key", "EC PRIVATE KEY", keyDER)
}

// Pair returns what Issue wrote.
func (a *Authority) Pair(name string) tls.Certificate {
	a.tb.Helper()
	pair, err := tls.LoadX509KeyPair(a.Path(name+".pem"), a.Path(name+".key"))
	if err != nil {
		a.tb.Fatal(err)
	}
	return pair
}
