package main

import (
	"context"
	"crypto/tls"
	"slices"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/downstream/authz"
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
