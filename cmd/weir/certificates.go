package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// certificateCheck is how often, at most, a handshake looks whether the files
// have changed.
const certificateCheck = time.Second

// certificates is what a port shows and asks for. The files are looked at when
// somebody connects, so that a renewal needs neither a signal nor a goroutine.
type certificates struct {
	// Set once by serverTLS.
	path      string // in the config file
	files     config.ServerTLS
	protocols []string
	log       *zap.Logger

	current atomic.Pointer[tls.Config]

	// Owned by whoever holds checking, for which nobody waits: who finds it
	// taken goes on with current.
	checking sync.Mutex
	checked  time.Time
	stamps   [3]stamp
}

// stamp tells one content of a file from the next. A renewal usually renames a
// new file into place, which shows in the time.
type stamp struct {
	changed time.Time
	size    int64
}

// serverTLS reads a port's certificate; nil is plain text. The protocols are
// those of ALPN.
func serverTLS(cfg *config.Config, path string, files config.ServerTLS, log *zap.Logger, protocols ...string) (*tls.Config, error) {
	if !files.Enabled() {
		return nil, nil
	}
	c := &certificates{path: path, files: files, protocols: protocols, log: log, checked: time.Now()}
	c.stamps = c.stampsNow()
	first, key, err := c.load()
	if err != nil {
		return nil, cfg.Problemf(path+"."+key, "%v", err)
	}
	c.current.Store(first)
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c.renew(time.Now())
			return c.current.Load(), nil
		},
	}, nil
}

// load reads the files; on failure it names the key at fault.
func (c *certificates) load() (t *tls.Config, key string, err error) {
	certPEM, err := os.ReadFile(c.files.Cert)
	if err != nil {
		return nil, "cert", err
	}
	keyPEM, err := os.ReadFile(c.files.Key)
	if err != nil {
		return nil, "key", err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, "cert", fmt.Errorf("%s with %s: %w", c.files.Cert, c.files.Key, err)
	}
	t = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: c.protocols, Certificates: []tls.Certificate{pair}}
	if c.files.ClientCA != "" {
		if t.ClientCAs, err = readPool(c.files.ClientCA); err != nil {
			return nil, "client_ca", err
		}
		t.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return t, "", nil
}

// renew takes changed files into use. Files that cannot be used, such as half
// of a new pair, leave the old ones in force and are tried again at the next
// change.
func (c *certificates) renew(now time.Time) {
	if !c.checking.TryLock() {
		return
	}
	defer c.checking.Unlock()
	if now.Sub(c.checked) < certificateCheck {
		return
	}
	c.checked = now
	stamps := c.stampsNow()
	if stamps == c.stamps {
		return
	}
	c.stamps = stamps
	next, key, err := c.load()
	if err != nil {
		c.log.Warn("changed certificate files cannot be used; the old ones stay in force",
			zap.String("key", c.path+"."+key), zap.Error(err))
		return
	}
	c.current.Store(next)
	c.log.Info("changed certificate files are in use", zap.String("key", c.path))
}

func (c *certificates) stampsNow() (s [3]stamp) {
	for i, name := range []string{c.files.Cert, c.files.Key, c.files.ClientCA} {
		if name == "" {
			continue
		}
		if info, err := os.Stat(name); err == nil {
			s[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return s
}

func readPool(name string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", name)
	}
	return pool, nil
}

// clientTLS reads what secures the connection to an origin; nil is plain text.
func clientTLS(cfg *config.Config, path string, files *config.ClientTLS) (*tls.Config, error) {
	if files == nil {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: files.ServerName}
	if files.CA != "" {
		pool, err := readPool(files.CA)
		if err != nil {
			return nil, cfg.Problemf(path+".ca", "%v", err)
		}
		t.RootCAs = pool
	}
	if files.Cert != "" {
		if _, err := tls.LoadX509KeyPair(files.Cert, files.Key); err != nil {
			return nil, cfg.Problemf(path+".cert", "%v", err)
		}
		// Read for each connection, which is seldom, so that a renewal is seen.
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
			return &pair, err
		}
	}
	return t, nil
}
