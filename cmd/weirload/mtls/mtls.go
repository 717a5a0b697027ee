// Package mtls secures what is measured as deployments do: TLS 1.3 with certificates on both sides.
//
// It is for load tools alone: one authority, one key for both sides, made for one run.
//
// # Who imports it
//
// Packages cmd/weirload and cmd/weirload/fleet, and the comparison in cmd/weirload/bench.
package mtls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Files are PEM files of an authority, and of a certificate under it that serves both sides. The
// zero Files stand for plain text.
type Files struct{ CA, Cert, Key string }

// AddFlags adds a flag for each file.
func (f *Files) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&f.CA, "tls-ca", "", "PEM file of the authority of the other side's certificate; with --tls-cert and --tls-key: TLS 1.3 with certificates on both sides")
	fs.StringVar(&f.Cert, "tls-cert", "", "PEM file of the own certificate")
	fs.StringVar(&f.Key, "tls-key", "", "PEM file of its key")
}

// Arguments are the flags again, for another process.
func (f Files) Arguments() []string {
	if f == (Files{}) {
		return nil
	}
	return []string{"--tls-ca", f.CA, "--tls-cert", f.Cert, "--tls-key", f.Key}
}

// Clients makes credentials for connections to 127.0.0.1, each with a session of its own that it
// keeps. The error names the file.
func (f Files) Clients() (func() credentials.TransportCredentials, error) {
	c, pool, err := f.config()
	if c == nil {
		return insecure.NewCredentials, err
	}
	c.RootCAs, c.ServerName = pool, "127.0.0.1"
	return func() credentials.TransportCredentials {
		c := c.Clone()
		c.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		return credentials.NewTLS(c)
	}, nil
}

// Server requires client certificates. The error names the file.
func (f Files) Server() (credentials.TransportCredentials, error) {
	c, pool, err := f.config()
	if c == nil {
		return insecure.NewCredentials(), err
	}
	c.ClientCAs, c.ClientAuth = pool, tls.RequireAndVerifyClientCert
	return credentials.NewTLS(c), nil
}

func (f Files) config() (*tls.Config, *x509.CertPool, error) {
	if f == (Files{}) {
		return nil, nil, nil
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("tls-cert, tls-key: %w", err)
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, nil, fmt.Errorf("tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, nil, fmt.Errorf("tls-ca: %s holds no PEM certificate", f.CA)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}, pool, nil
}

// Make writes an authority and a certificate for 127.0.0.1 to a folder. They last a day.
func Make(dir string) (Files, error) {
	f := Files{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "both.pem"), Key: filepath.Join(dir, "both.key")}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "weirload"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	both := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "both sides"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Files{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Files{}, err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return Files{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, both, ca, &key.PublicKey, caKey)
	if err != nil {
		return Files{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Files{}, err
	}
	write := func(path, kind string, der []byte) error {
		return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	}
	return f, errors.Join(write(f.CA, "CERTIFICATE", caDER), write(f.Cert, "CERTIFICATE", der), write(f.Key, "PRIVATE KEY", keyDER))
}
