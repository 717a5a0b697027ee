package downstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// handshakeFailure says why a TLS handshake with a client failed. It is a closed set
// (metrics.HandshakeFailure).
type handshakeFailure string

const (
	// The client closed the connection, as probes of load balancers do.
	handshakeClosed        handshakeFailure = "closed"
	handshakeTimeout       handshakeFailure = "timeout" // the client stopped sending
	handshakeNotTLS        handshakeFailure = "not_tls"
	handshakeNoCertificate handshakeFailure = "no_certificate"
	handshakeCertificate   handshakeFailure = "bad_certificate" // the client's
	handshakeRevoked       handshakeFailure = "revoked"         // the client's certificate
	handshakeNotAllowed    handshakeFailure = "not_allowed"     // ErrNotAllowed
	handshakeAlert         handshakeFailure = "refused_by_client"
	handshakeVersion       handshakeFailure = "no_common_version"
	handshakeProtocol      handshakeFailure = "no_http2"
	handshakeOther         handshakeFailure = "other"
)

// ErrNotAllowed is wrapped by the error of ListenerConfig.TLS if it refuses a client whose
// certificate it has verified.
var ErrNotAllowed = errors.New("who the certificate is for may not connect")

// failedBy classifies the error of a handshake by its text where the libraries have no type for it;
// net/http has none at all.
func failedBy(err error) handshakeFailure {
	var (
		header  tls.RecordHeaderError
		cert    *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		remote  *net.OpError
		netErr  net.Error
	)
	text := err.Error()
	says := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(text, w) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.As(err, &header), says("does not look like a TLS handshake", "HTTP request to an HTTPS server"):
		return handshakeNotTLS
	case errors.Is(err, ErrRevoked):
		return handshakeRevoked
	case errors.Is(err, ErrNotAllowed):
		return handshakeNotAllowed
	case errors.As(err, &cert), errors.As(err, &unknown), says("failed to verify certificate"):
		return handshakeCertificate
	case says("didn't provide a certificate"):
		return handshakeNoCertificate
	case errors.As(err, &remote) && remote.Op == "remote error", says("remote error"):
		return handshakeAlert
	case says("unsupported versions", "unsupported version", "no cipher suite supported"):
		return handshakeVersion
	case says("ALPN", "application protocol"):
		return handshakeProtocol
	case errors.As(err, &netErr) && netErr.Timeout(), says("i/o timeout"):
		return handshakeTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed), says("EOF", "reset by peer", "broken pipe"):
		return handshakeClosed
	}
	return handshakeOther
}

// handshakeFailed counts a failed handshake and logs one of each kind a minute. It does not log
// clients that merely close the connection.
func (s *Server) handshakeFailed(err error, from net.Addr) {
	why := failedBy(err)
	s.cfg.Metrics.HandshakeFailure(string(why))
	if ce := s.cfg.Log.Check(zap.DebugLevel, "a TLS handshake failed"); ce != nil {
		ce.Write(zap.String("reason", string(why)), zap.Stringer("peer", from), zap.String("error", clip(err.Error(), maxNackText)))
	}
	if why == handshakeClosed {
		return
	}
	if more, write := s.limits.rate.admit("handshake "+string(why), time.Now()); write {
		s.cfg.Log.Warn("a TLS handshake with a client failed", zap.String("reason", string(why)), zap.Stringer("peer", from),
			zap.String("error", clip(err.Error(), maxNackText)), zap.Int("not_logged", more))
	}
}
