package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/downstream/identity"
)

// secured is the TLS of one port, or of the connections to one origin. Each
// handshake goes by the files as they are in force then.
type secured struct {
	// Set once.
	certificates *certificates
	agent        *agent    // gives pair and ca; nil: they are of files
	pair, ca     *material // nil: there is none
	crl          *material // of a port; nil: nothing is revoked
	tickets      *material // of a port; nil: the process has keys of its own, new ones each day
	serverName   string    // of an origin
	// who are patterns of who the other side has to be; none: whoever the authorities have signed.
	who       []authz.Who
	whoKey    string   // where they are in the config file
	nameless  bool     // an origin is verified by ca and who alone, and not by its host name
	oldest    uint16   // version of TLS, of a port
	protocols []string // of a port, for ALPN
}

// port reads a port's files; nil is plain text.
func (c *certificates) port(cfg *config.Config, path, role string, files config.ServerTLS, protocols ...string) (*secured, error) {
	if !files.Enabled() {
		return nil, nil
	}
	s := &secured{certificates: c, protocols: protocols, oldest: tls.VersionTLS13}
	if files.MinVersion == config.TLS12 {
		s.oldest = tls.VersionTLS12
	}
	var err error
	s.whoKey = path + ".allowed"
	if s.who, err = patterns(cfg, s.whoKey, files.Allowed...); err != nil {
		return nil, err
	}
	if files.SPIFFE != "" {
		s.agent, s.pair, s.ca = c.join(path, files.SPIFFE)
	} else {
		err = s.open(cfg, path, [2]string{role, roleClientCA}, files.Cert, files.Key, files.ClientCA, "client_ca")
	}
	if err == nil && files.CRL != "" {
		read := func() (*loaded, error) { return readCRL(files.CRL, files.ClientCA) }
		s.crl, err = c.open(cfg, path, roleCRL, read, files.CRL, files.ClientCA)
	}
	if err == nil && files.Tickets != "" {
		s.tickets, err = c.open(cfg, path, roleTickets, func() (*loaded, error) { return readTickets(files.Tickets) }, files.Tickets)
	}
	if err != nil {
		s.close()
	}
	return s, err
}

// origin reads what secures the connections to an origin; nil is plain text.
func (c *certificates) origin(cfg *config.Config, path string, files *config.ClientTLS) (*secured, error) {
	if files == nil {
		return nil, nil
	}
	s := &secured{certificates: c, serverName: files.ServerName, whoKey: path + ".server_identity"}
	if text := files.ServerIdentity; text != "" {
		var err error
		if s.who, err = patterns(cfg, s.whoKey, text); err != nil {
			return nil, err
		}
		s.nameless = config.IsSPIFFE(text) && (files.CA != "" || files.SPIFFE != "")
	}
	if files.SPIFFE != "" {
		s.agent, s.pair, s.ca = c.join(path, files.SPIFFE)
		return s, nil
	}
	return s, s.open(cfg, path, [2]string{roleOrigin, roleOriginCA}, files.Cert, files.Key, files.CA, "ca")
}

// siblings reads what replicas know each other by, on both sides; nil is plain text. Host names are
// not verified: replicas are asked by their addresses.
func (c *certificates) siblings(cfg *config.Config) (*secured, error) {
	const path = "cache.seed.tls"
	seed := &cfg.Cache.Seed
	files := seed.TLS
	if !files.Enabled() {
		return nil, nil
	}
	s := &secured{certificates: c, protocols: []string{"http/1.1"}, oldest: tls.VersionTLS13, nameless: true, whoKey: "cache.seed.peers_allowed"}
	var err error
	if s.who, err = patterns(cfg, s.whoKey, seed.PeersAllowed...); err != nil {
		return nil, err
	}
	if files.SPIFFE != "" {
		s.agent, s.pair, s.ca = c.join(path, files.SPIFFE)
		return s, nil
	}
	return s, s.open(cfg, path, [2]string{roleSibling, roleSiblingCA}, files.Cert, files.Key, files.CA, "ca")
}

// open reads the files there are; if that fails it leaves nothing behind.
func (s *secured) open(cfg *config.Config, path string, roles [2]string, cert, key, ca, caKey string) (err error) {
	if cert != "" {
		read := func() (*loaded, error) { return readPair(cert, key) }
		if s.pair, err = s.certificates.open(cfg, path, roles[0], read, cert, key); err != nil {
			return err
		}
	}
	if ca != "" {
		read := func() (*loaded, error) { return readPool(ca, caKey) }
		if s.ca, err = s.certificates.open(cfg, path, roles[1], read, ca); err != nil {
			s.close()
			return err
		}
	}
	return nil
}

// close forgets the files; nil has none.
func (s *secured) close() {
	if s == nil {
		return
	}
	s.certificates.close(s.pair)
	s.certificates.close(s.ca)
	s.certificates.close(s.crl)
	s.certificates.close(s.tickets)
}

// ready waits until a port has a certificate to show.
func (s *secured) ready(ctx context.Context) error {
	if s == nil || s.agent == nil || s.agent.given(ctx, s.certificates.svidWait) {
		return nil
	}
	return s.certificates.none(s.agent)
}

// server is what a port hands to whoever speaks TLS; nil is plain text. It
// stays the same and is asked at each handshake.
func (s *secured) server() *tls.Config {
	if s == nil {
		return nil
	}
	t := s.handshake()
	t.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.handshake(), nil }
	return t
}

// handshake is what one connection to a port goes by.
func (s *secured) handshake() *tls.Config {
	t := &tls.Config{
		MinVersion: s.oldest, NextProtos: slices.Clone(s.protocols),
		Certificates: []tls.Certificate{*s.pair.current.Load().pair},
		// A client can do nothing with the beginning of a message, so records are whole from the
		// first on: package downstream writes them together.
		DynamicRecordSizingDisabled: true,
	}
	if s.ca != nil {
		t.ClientAuth, t.ClientCAs = tls.RequireAndVerifyClientCert, s.ca.current.Load().pool
		t.VerifyConnection = s.admit
	}
	if s.crl != nil {
		t.VerifyConnection = s.crl.current.Load().crl.unrevoked(t.VerifyConnection)
	}
	if s.tickets != nil {
		t.SetSessionTicketKeys(s.tickets.current.Load().tickets)
	}
	return t
}

// client is what one connection to an origin goes by.
func (s *secured) client() *tls.Config {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.serverName, VerifyConnection: s.confirm, InsecureSkipVerify: s.nameless}
	if s.agent != nil && !s.agent.given(context.Background(), svidMoment) {
		t.InsecureSkipVerify, t.VerifyConnection = true, func(tls.ConnectionState) error { return s.certificates.none(s.agent) }
		return t
	}
	if s.ca != nil {
		t.RootCAs = s.ca.current.Load().pool
	}
	if s.pair != nil {
		pair := s.pair.current.Load().pair
		// Shown whatever the origin asks for: an authority it does not name may be
		// above one that it does.
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return t
}

// mostTickets is how many keys a file may have: a ticket of a client that comes back is tried with
// each of them.
const mostTickets = 16

// readTickets reads the keys that session tickets are sealed with: a line for each, 32 bytes in
// base64, as `openssl rand -base64 32` writes them. Empty lines and those that begin with # are
// skipped. No error says anything of what is in the file.
func readTickets(file string) (*loaded, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &fileError{"tickets", err}
	}
	l := &loaded{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(string(line))
		if err != nil || len(key) != 32 {
			return nil, &fileError{"tickets", fmt.Errorf("%s:%d is not 32 bytes in base64", file, n)}
		}
		l.tickets = append(l.tickets, [32]byte(key))
	}
	switch {
	case lines.Err() != nil:
		return nil, &fileError{"tickets", fmt.Errorf("%s has a line that is too long", file)}
	case len(l.tickets) == 0:
		return nil, &fileError{"tickets", fmt.Errorf("%s holds no key", file)}
	case len(l.tickets) > mostTickets:
		return nil, &fileError{"tickets", fmt.Errorf("%s holds %d keys, at most %d are of use", file, len(l.tickets), mostTickets)}
	}
	return l, nil
}

// patterns are those of a list that the configuration's checks have accepted.
func patterns(cfg *config.Config, path string, texts ...string) (out []authz.Who, err error) {
	for _, text := range texts {
		w, err := authz.ParseWho(text)
		if err != nil {
			return nil, cfg.Problemf(path, "%q %v", text, err)
		}
		out = append(out, w)
	}
	return out, nil
}

// permits reports whether the owner of a verified certificate is one of those who may be the other
// side.
func (s *secured) permits(cert *x509.Certificate) (who string, ok bool) {
	who = identity.Of(cert)
	return who, len(s.who) == 0 || slices.ContainsFunc(s.who, func(w authz.Who) bool { return w.Matches(who) })
}

// admit ends a handshake with a client that may not connect. It is asked for resumed sessions too.
func (s *secured) admit(state tls.ConnectionState) error {
	if s.agent != nil {
		if err := s.verifySVID(&state, time.Now()); err != nil {
			return err
		}
	}
	if who, ok := s.permits(state.PeerCertificates[0]); !ok {
		return fmt.Errorf("%w: %q fits no pattern of %s", downstream.ErrNotAllowed, who, s.whoKey)
	}
	return nil
}

// confirm ends a handshake with an origin that is not who it has to be.
func (s *secured) confirm(state tls.ConnectionState) error {
	err := error(nil)
	switch {
	case s.agent != nil:
		err = s.verifySVID(&state, time.Now())
	case s.nameless:
		err = verifyChain(&state, s.ca.current.Load().pool, time.Now())
	}
	if err != nil {
		return err
	}
	if who, ok := s.permits(state.PeerCertificates[0]); !ok {
		return fmt.Errorf("the server is %q, and does not fit %s", who, s.whoKey)
	}
	return nil
}

// verifySVID is verifyChain by the authorities of the certificate's own trust domain: those of
// another one cannot vouch for it.
func (s *secured) verifySVID(state *tls.ConnectionState, at time.Time) error {
	if _, _, err := x509svid.Verify(state.PeerCertificates, s.ca.current.Load().bundles, x509svid.WithTime(at)); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return nil
}

// verifyChain is what crypto/tls does by itself, but for the host name.
func verifyChain(state *tls.ConnectionState, roots *x509.CertPool, at time.Time) error {
	options := x509.VerifyOptions{CurrentTime: at, Roots: roots, Intermediates: x509.NewCertPool()}
	for _, cert := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(cert)
	}
	if _, err := state.PeerCertificates[0].Verify(options); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return nil
}

// lastGood is now, or when the certificate ended. Connections to origins outlive certificates: what
// is asked of one that is open is whether the authority is trusted still.
func lastGood(state *tls.ConnectionState) time.Time {
	now, ends := time.Now(), state.PeerCertificates[0].NotAfter
	if ends.Before(now) {
		return ends
	}
	return now
}
