package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// The roles of what is read, as in metrics.
const (
	roleListener = "listener"
	roleAdmin    = "admin"
	roleOrigin   = "origin"
	roleClientCA = "client_ca"
	roleOriginCA = "origin_ca"
	// Of replicas among themselves.
	roleSibling   = "sibling"
	roleSiblingCA = "sibling_ca"
	roleTickets   = "tickets" // which have no end
	roleCRL       = "crl"
	roleSVID      = "svid" // of an agent, as the next
	roleBundle    = "trust_bundle"
)

// renewalDue is the longest before its end that a certificate's renewal counts
// as overdue; for one that lives shortly it is a fifth of its life.
const renewalDue = 7 * 24 * time.Hour

// certificates is all that the process reads of certificates, keys and
// authorities. What is in force is what was read last and could be used:
// half of a new pair, a file that is cut off or gone, leave the old in force
// (TestKeepsWhatCanBeUsed). Connections that are open are left alone; the next
// handshake goes by what is new (TestRotation). Only those are ended whose
// certificate the new authorities do not verify, or the new CRLs name
// (whenTrustChanges).
//
// It is our own and not grpc's provider of the same kind, which logs the bytes
// of a key that does not match (TestKeyNeverShows).
type certificates struct {
	// Set once by newCertificates.
	files *watch
	log   *zap.Logger
	count func(role string, err error) // of changes; err != nil: what was before stays
	taken func(role string)            // of what is read first
	// svidWait is how long a port waits for its first certificate of an agent.
	svidWait time.Duration

	mu     sync.Mutex // guards what follows; held for list work only
	all    []*material
	agents map[string]*agent // by socket
}

// material is what one place of the config file names: a pair, authorities, or keys for tickets.
type material struct {
	// Set once.
	path  string // in the config file
	role  string
	agent *agent                  // nil: there are files
	read  func() (*loaded, error) // of files
	drop  func()                  // ends the watch

	current atomic.Pointer[loaded]
	changed atomic.Pointer[func()] // called after each change; nil: nobody is told

	told   told    // owned by the watch: what was told of toldOf
	toldOf *loaded // owned by the watch
}

// told is what was told of the end of a certificate.
type told int

const (
	nothing told = iota
	endsSoon
	ended
)

// loaded is one content of the files. It never changes.
type loaded struct {
	pair *tls.Certificate
	pool *x509.CertPool
	// roots are those of pool, as encoded.
	roots map[string]bool
	crl   *revocations
	// bundles are those of pool by their trust domains, if an agent gave them.
	bundles *x509bundle.Set
	// tickets are keys for session tickets: the first seals, all open.
	tickets [][32]byte
	// From the one of a chain that ends first; of authorities, from the one that
	// ends last, since a bundle holds old ones besides the new. Keys for tickets have no end.
	begins, ends time.Time
}

// fileError is an error of the file that the key below a place names.
type fileError struct {
	key string
	error
}

// newCertificates has files told of, which does not run yet, tell of their end
// too.
func newCertificates(files *watch, log *zap.Logger) *certificates {
	c := &certificates{files: files, log: log, count: func(string, error) {}, taken: func(string) {}, svidWait: svidWait, agents: make(map[string]*agent)}
	files.each = c.warn
	return c
}

// open reads files and has them watched.
func (c *certificates) open(cfg *config.Config, path, role string, read func() (*loaded, error), files ...string) (*material, error) {
	m := &material{path: path, role: role, read: read}
	first, err := read()
	if err != nil {
		return nil, cfg.Problemf(m.at(err), "%v", err)
	}
	m.current.Store(first)
	m.drop = c.files.add(func(time.Time) { c.renew(m) }, files...)
	// What changed before the watch saw the files is found by reading again;
	// what the watch has read since is newer.
	if again, err := read(); err == nil {
		m.current.CompareAndSwap(first, again)
	}
	c.taken(role)
	c.mu.Lock()
	c.all = append(c.all, m)
	c.mu.Unlock()
	return m, nil
}

// close forgets material that nothing uses any more; nil is none.
func (c *certificates) close(m *material) {
	if m == nil {
		return
	}
	m.drop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(x *material) bool { return x == m })
}

// renew takes what the files hold now into use, if it can be used. The watch
// calls it, once for each change.
func (c *certificates) renew(m *material) {
	next, err := m.read()
	c.count(m.role, err)
	if err != nil {
		c.log.Warn("changed certificate files are unusable; the old ones stay in force",
			zap.String("key", m.at(err)), zap.Time("expire", m.current.Load().ends), zap.Error(err))
		return
	}
	m.current.Store(next)
	c.log.Info("changed certificate files are in use", zap.String("key", m.path), zap.Time("expire", next.ends))
	if changed := m.changed.Load(); changed != nil {
		(*changed)()
	}
}

// at is the place in the config file of an error.
func (m *material) at(err error) string {
	if f := (*fileError)(nil); errors.As(err, &f) {
		return m.path + "." + f.key
	}
	return m.path
}

// warn tells, once each, of what should have been renewed and of what has
// expired. The watch calls it at each look.
func (c *certificates) warn(now time.Time) {
	for _, m := range c.list() {
		l := m.current.Load()
		if m.toldOf != l {
			m.told, m.toldOf = nothing, l
		}
		if l.ends.IsZero() {
			continue
		}
		left, due := l.ends.Sub(now), min(l.ends.Sub(l.begins)/5, renewalDue)
		switch {
		case left <= 0 && m.told != ended:
			m.told = ended
			if m.role == roleCRL {
				c.log.Error("a CRL is past its next update; it stays in force, without later revocations",
					zap.String("key", m.path), zap.Time("next_update", l.ends))
				continue
			}
			c.log.Error("a certificate has expired; TLS handshakes with it fail",
				zap.String("key", m.path), zap.Time("expired", l.ends))
		case left > 0 && left < due && m.told == nothing:
			m.told = endsSoon
			what := "a certificate expires soon and is not renewed"
			if m.role == roleCRL {
				what = "a CRL is due for its next update, and there is none"
			}
			c.log.Warn(what, zap.String("key", m.path), zap.Time("expires", l.ends), zap.Duration("left", left.Round(time.Second)))
		}
	}
}

func (c *certificates) list() []*material {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// expiry is when the first of each role ends. due is when the first CRL is due for its next update;
// zero: there is none.
func (c *certificates) expiry() (first map[string]time.Time, due time.Time) {
	first = make(map[string]time.Time)
	for _, m := range c.list() {
		ends := m.current.Load().ends
		if ends.IsZero() {
			continue
		}
		if at, ok := first[m.role]; !ok || ends.Before(at) {
			first[m.role] = ends
		}
	}
	due = first[roleCRL]
	delete(first, roleCRL)
	return first, due
}

// readPair reads a certificate and its key. No error says anything of what is
// in the key's file.
func readPair(certFile, keyFile string) (*loaded, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return nil, &fileError{"cert", err}
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, &fileError{"key", err}
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, &fileError{"cert", fmt.Errorf("%s with %s: %w", certFile, keyFile, err)}
	}
	// The library takes a chain that is cut off for a shorter one.
	chain, err := parseCertificates(certFile, certPEM)
	if err != nil {
		return nil, &fileError{"cert", err}
	}
	l := &loaded{pair: &pair}
	for i, cert := range chain {
		if i == 0 || cert.NotAfter.Before(l.ends) {
			l.begins, l.ends = cert.NotBefore, cert.NotAfter
		}
	}
	return l, nil
}

// readPool reads authorities; key is where the file is named.
func readPool(file, key string) (*loaded, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &fileError{key, err}
	}
	certs, err := parseCertificates(file, text)
	if err != nil {
		return nil, &fileError{key, err}
	}
	l := &loaded{pool: x509.NewCertPool(), roots: make(map[string]bool, len(certs))}
	for _, cert := range certs {
		l.pool.AddCert(cert)
		l.roots[string(cert.Raw)] = true
		if cert.NotAfter.After(l.ends) {
			l.begins, l.ends = cert.NotBefore, cert.NotAfter
		}
	}
	return l, nil
}

// parseCertificates are those of a PEM file that can be read, at least one. A
// file that stops in the middle of one is refused: it is being written.
func parseCertificates(file string, text []byte) (certs []*x509.Certificate, err error) {
	var bad error
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(text) {
		text = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			certs = append(certs, cert)
		} else {
			bad = err // bundles may hold what this library does not read
		}
	}
	switch {
	case bytes.Contains(text, []byte("-----BEGIN ")):
		return nil, fmt.Errorf("%s is cut off or broken after %d certificates", file, len(certs))
	case len(certs) == 0 && bad != nil:
		return nil, fmt.Errorf("%s: %w", file, bad)
	case len(certs) == 0:
		return nil, fmt.Errorf("%s holds no PEM certificate", file)
	}
	return certs, nil
}
