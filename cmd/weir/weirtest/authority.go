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
	// above are the PEM certificates of authorities that follow those which it issues; empty: it is
	// the root.
	above []byte
}

// NewAuthority makes an Authority. Its own certificate is in ca.pem.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, dir: tb.TempDir(), key: newKey(tb)}
	a.certify(a, name, 1)
	return a
}

// Intermediate makes an Authority below it. What that one issues has its certificate behind it.
func (a *Authority) Intermediate(name string, serial int64) *Authority {
	a.tb.Helper()
	below := &Authority{tb: a.tb, dir: a.tb.TempDir(), key: newKey(a.tb)}
	below.certify(a, name, serial)
	below.above = append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: below.cert.Raw}), a.above...)
	return below
}

// Renew writes another certificate of the root, of the same key and name.
func (a *Authority) Renew(serial int64) {
	a.tb.Helper()
	a.certify(a, a.cert.Subject.CommonName, serial)
}

// certify has an authority sign its certificate.
func (a *Authority) certify(by *Authority, name string, serial int64) {
	a.tb.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	parent := by.cert
	if a == by {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &a.key.PublicKey, by.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		a.tb.Fatal(err)
	}
	a.Pool = x509.NewCertPool()
	a.Pool.AddCert(a.cert)
	a.write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// CRL returns a revocation list, in DER, that names certificates of the Authority.
func (a *Authority) CRL(template x509.RevocationList, serials ...int64) []byte {
	a.tb.Helper()
	template.Number, template.ThisUpdate = big.NewInt(1), time.Now().Add(-time.Hour)
	if template.NextUpdate.IsZero() {
		template.NextUpdate = time.Now().Add(time.Hour)
	}
	for _, serial := range serials {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber: big.NewInt(serial), RevocationTime: time.Now().Add(-time.Minute), ReasonCode: 1,
		})
	}
	der, err := x509.CreateRevocationList(rand.Reader, &template, a.cert, a.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	return der
}

// Revoke writes crl.pem, which names certificates of the Authority, and replaces an earlier one.
func (a *Authority) Revoke(serials ...int64) {
	a.tb.Helper()
	a.write("crl.pem", pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: a.CRL(x509.RevocationList{}, serials...)}))
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

// write writes a file by renaming.
func (a *Authority) write(name string, text []byte) {
	a.tb.Helper()
	next := a.Path(name + ".next")
	if err := os.WriteFile(next, text, 0o600); err != nil {
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
	a.issue(name, leaf(serial, ends, func(c *x509.Certificate) {
		c.Subject, c.IPAddresses = pkix.Name{CommonName: name}, []net.IP{net.IPv4(127, 0, 0, 1)}
	}))
}

// IssueSPIFFE is Issue of a certificate that has a SPIFFE ID, and nothing else of whose it is.
func (a *Authority) IssueSPIFFE(name string, serial int64, id string) {
	a.tb.Helper()
	a.IssueSPIFFEUntil(name, serial, id, time.Now().Add(time.Hour))
}

// IssueSPIFFEUntil is IssueSPIFFE of a certificate that ends then.
func (a *Authority) IssueSPIFFEUntil(name string, serial int64, id string, ends time.Time) {
	a.tb.Helper()
	u, err := url.Parse(id)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.issue(name, leaf(serial, ends, func(c *x509.Certificate) { c.URIs = []*url.URL{u} }))
}

// IssueDNS is Issue of a certificate that has a DNS name besides the address.
func (a *Authority) IssueDNS(name string, serial int64, dns string) {
	a.tb.Helper()
	a.issue(name, leaf(serial, time.Now().Add(time.Hour), func(c *x509.Certificate) {
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

// issue signs a certificate, and writes it and its key.
func (a *Authority) issue(name string, template *x509.Certificate) {
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
	a.write(name+".pem", append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), a.above...))
	a.write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
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
