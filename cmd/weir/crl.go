package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/weir-xds/weir/downstream"
)

// mostCRL is the longest file of CRLs, in bytes: as much as the watch compares.
const mostCRL = watchRead

// revocations are what CRLs say. It never changes.
type revocations struct {
	file string
	of   map[string][]*revokedBy // by the issuer's name, as encoded
}

// revokedBy are the certificates that one authority has revoked.
type revokedBy struct {
	keyID   []byte                    // tells authorities of one name apart; empty: unknown
	serials map[string]x509ReasonCode // by the bytes of the serial number
}

// x509ReasonCode is a CRLReason (RFC 5280, 5.3.1).
type x509ReasonCode int8

// The reasons that people are told.
var reasonNames = map[x509ReasonCode]string{
	1: "key compromise", 2: "CA compromise", 3: "affiliation changed", 4: "superseded",
	5: "cessation of operation", 6: "on hold", 9: "privilege withdrawn", 10: "AA compromise",
}

// Object identifiers of RFC 5280, 5.2 and 5.3.
var (
	oidDeltaCRL          = asn1.ObjectIdentifier{2, 5, 29, 27}
	oidDistributionPoint = asn1.ObjectIdentifier{2, 5, 29, 28} // which part of the certificates a CRL is about
	oidReason            = asn1.ObjectIdentifier{2, 5, 29, 21}
)

// readCRL reads a file of CRLs: one in DER, or any number in PEM. Each has to be signed by an
// authority of caFile. What several of them say of one authority adds up.
func readCRL(file, caFile string) (*loaded, error) {
	bad := func(err error) (*loaded, error) { return nil, &fileError{"crl", err} }
	text, err := os.ReadFile(file)
	if err != nil {
		return bad(err)
	}
	if len(text) > mostCRL {
		return bad(fmt.Errorf("%s has %d bytes, at most %d are read", file, len(text), mostCRL))
	}
	caText, err := os.ReadFile(caFile)
	if err != nil {
		return bad(err)
	}
	authorities, err := parseCertificates(caFile, caText)
	if err != nil {
		return bad(err)
	}
	lists, err := parseCRLs(file, text)
	if err != nil {
		return bad(err)
	}
	l := &loaded{crl: &revocations{file: file, of: map[string][]*revokedBy{}}}
	for i, list := range lists {
		if err := l.crl.add(list, authorities); err != nil {
			return bad(fmt.Errorf("%s: CRL %d of %d, by %s: %w", file, i+1, len(lists), list.Issuer, err))
		}
		if ends := list.NextUpdate; !ends.IsZero() && (l.ends.IsZero() || ends.Before(l.ends)) {
			l.begins, l.ends = list.ThisUpdate, ends
		}
	}
	return l, nil
}

// parseCRLs returns the CRLs of a file, at least one. Unlike a bundle of authorities, the file is
// refused if one of them cannot be read: the certificates that it names would be let in.
func parseCRLs(file string, text []byte) (lists []*x509.RevocationList, err error) {
	begin := []byte("-----BEGIN ")
	if !bytes.Contains(text, begin) {
		list, err := parseCRL(text)
		if err != nil {
			return nil, fmt.Errorf("%s is no CRL, in PEM or DER: %w", file, err)
		}
		return []*x509.RevocationList{list}, nil
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(text) {
		text = rest
		if block.Type != "X509 CRL" {
			continue
		}
		list, err := parseCRL(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: CRL %d: %w", file, len(lists)+1, err)
		}
		lists = append(lists, list)
	}
	switch {
	case bytes.Contains(text, begin):
		return nil, fmt.Errorf("%s is cut off or broken after %d CRLs", file, len(lists))
	case len(lists) == 0:
		return nil, fmt.Errorf("%s holds no PEM block X509 CRL", file)
	}
	return lists, nil
}

func parseCRL(der []byte) (*x509.RevocationList, error) {
	list, err := x509.ParseRevocationList(der)
	if err == nil && len(list.Raw) != len(der) {
		err = errors.New("something follows the CRL")
	}
	return list, err
}

// add takes a CRL into the revocations, if one of the authorities has signed it.
func (r *revocations) add(list *x509.RevocationList, authorities []*x509.Certificate) error {
	for _, ext := range list.Extensions {
		switch {
		case ext.Id.Equal(oidDeltaCRL):
			return errors.New("it is a delta CRL; use the complete one")
		case ext.Critical && !ext.Id.Equal(oidDistributionPoint):
			return fmt.Errorf("it has the unknown critical extension %s", ext.Id)
		}
	}
	signer, err := signerOf(list, authorities)
	if err != nil {
		return err
	}
	by := &revokedBy{keyID: signer.SubjectKeyId, serials: make(map[string]x509ReasonCode, len(list.RevokedCertificateEntries))}
	for i := range list.RevokedCertificateEntries {
		entry := &list.RevokedCertificateEntries[i]
		for _, ext := range entry.Extensions {
			// Such as the issuer, if that is not the CRL's own.
			if ext.Critical && !ext.Id.Equal(oidReason) {
				return fmt.Errorf("serial %x has the unknown critical extension %s", entry.SerialNumber, ext.Id)
			}
		}
		by.serials[string(entry.SerialNumber.Bytes())] = x509ReasonCode(entry.ReasonCode)
	}
	name := string(list.RawIssuer)
	r.of[name] = append(r.of[name], by)
	return nil
}

// signerOf returns the authority that has signed the CRL.
func signerOf(list *x509.RevocationList, authorities []*x509.Certificate) (*x509.Certificate, error) {
	err := errors.New("that is no authority of client_ca")
	for _, ca := range authorities {
		if !bytes.Equal(ca.RawSubject, list.RawIssuer) {
			continue
		}
		if err = list.CheckSignatureFrom(ca); err == nil {
			return ca, nil
		}
		err = fmt.Errorf("the authority of client_ca did not sign it: %w", err)
		if ca.KeyUsage != 0 && ca.KeyUsage&x509.KeyUsageCRLSign == 0 {
			err = errors.New("the key usage of that authority in client_ca does not include cRLSign")
		}
	}
	return nil, err
}

// clean returns nil if one of the chains has no certificate that was revoked.
func (r *revocations) clean(chains [][]*x509.Certificate) (err error) {
	for _, chain := range chains {
		i := slices.IndexFunc(chain, func(cert *x509.Certificate) bool { _, is := r.find(cert); return is })
		if i < 0 {
			return nil
		}
		reason, _ := r.find(chain[i])
		why := ""
		if name := reasonNames[reason]; name != "" {
			why = " (" + name + ")"
		}
		err = fmt.Errorf("certificate %x of %q by %q %w%s, says %s", chain[i].SerialNumber, chain[i].Subject, chain[i].Issuer,
			downstream.ErrRevoked, why, r.file)
	}
	return err
}

// find reports whether a certificate was revoked.
func (r *revocations) find(cert *x509.Certificate) (x509ReasonCode, bool) {
	for _, by := range r.of[string(cert.RawIssuer)] {
		if len(by.keyID) > 0 && len(cert.AuthorityKeyId) > 0 && !bytes.Equal(by.keyID, cert.AuthorityKeyId) {
			continue // another authority of the same name
		}
		if reason, is := by.serials[string(cert.SerialNumber.Bytes())]; is {
			return reason, true
		}
	}
	return 0, false
}

// unrevoked refuses a handshake, also one that resumes a session, whose client shows a certificate
// that the CRLs of now name. next is asked as well; nil: nothing is.
func (r *revocations) unrevoked(next func(tls.ConnectionState) error) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		if err := r.clean(state.VerifiedChains); err != nil || next == nil {
			return err
		}
		return next(state)
	}
}

// trusts returns why the certificate of an open connection is not trusted any more; nil: it is.
// usage is what the other side used it for.
func (s *secured) trusts(state *tls.ConnectionState, usage x509.ExtKeyUsage) error {
	switch {
	case len(state.PeerCertificates) == 0:
		return nil
	case s.agent != nil:
		return s.verifySVID(state, lastGood(state))
	case s.nameless:
		return verifyChain(state, s.ca.current.Load().pool, lastGood(state))
	}
	chains, err := s.ca.current.Load().still(state, usage)
	if err == nil && s.crl != nil {
		err = s.crl.current.Load().crl.clean(chains)
	}
	return err
}

// still returns the chains to authorities of now. Those of the handshake need no second look if
// their authority is one still. Otherwise another one may have certified its key.
func (l *loaded) still(state *tls.ConnectionState, usage x509.ExtKeyUsage) (chains [][]*x509.Certificate, err error) {
	for _, chain := range state.VerifiedChains {
		if l.roots[string(chain[len(chain)-1].Raw)] {
			chains = append(chains, chain)
		}
	}
	if len(chains) > 0 {
		return chains, nil
	}
	between := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	return state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: l.pool, Intermediates: between, CurrentTime: time.Now(), KeyUsages: []x509.ExtKeyUsage{usage},
	})
}

// judge is trusts for one use; nil: no file says whom to trust.
func (s *secured) judge(usage x509.ExtKeyUsage) func(*tls.ConnectionState) error {
	if s == nil || s.ca == nil {
		return nil
	}
	return func(state *tls.ConnectionState) error { return s.trusts(state, usage) }
}

// whenTrustChanges has f called after each change of the authorities or the CRLs. It is called
// before the files are used.
func (s *secured) whenTrustChanges(f func()) {
	if s == nil {
		return
	}
	for _, m := range []*material{s.ca, s.crl} {
		if m != nil {
			m.changed.Store(&f)
		}
	}
}
