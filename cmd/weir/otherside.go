package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/downstream/identity"
)

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
