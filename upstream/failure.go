package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/relay/node"
)

// Why an attempt to reach an origin failed, for metrics. It is a closed set (metrics.Failure):
// what an operator does about a wrong token is not what he does about a server that is down.
const (
	FailedRefused      = "refused"           // nobody listens there
	FailedDNS          = "dns"               // the name is not known
	FailedUnreachable  = "unreachable"       // another error of the network, or the connection was lost
	FailedTLS          = "tls"               // the handshake, or a certificate
	FailedCredentials  = "credentials"       // our own token cannot be read
	FailedIdentity     = "unauthenticated"   // the origin does not take our credentials
	FailedPermission   = "permission_denied" // it does, and does not let us
	FailedUnavailable  = "unavailable"       // the server says so of itself
	FailedTimeout      = "timeout"           // no connection, stream or answer in time
	FailedEnded        = "ended"             // the stream ended without an answer or a reason
	FailedNoService    = "unimplemented"     // the server does not have the service
	FailedLimited      = "limited"           // a limit of the server
	FailedLoop         = "loop"              // relays in a circle (RELAY-88)
	FailedBadResponse  = "bad_response"      // it does not decode, or is too long
	failedByOtherMeans = "other"
)

var (
	// errEnded is the end of a stream without a reason.
	errEnded = errors.New("the origin ended the stream")
	// ErrToken wraps the error of a token that cannot be read.
	ErrToken = errors.New("token_file")
)

// badResponse is an error of what the origin sent.
type badResponse struct{ error }

func (e *badResponse) Unwrap() error { return e.error }

// BadResponse marks an error as one of what an origin sent.
func BadResponse(err error) error { return &badResponse{err} }

// failureTexts map error texts of the system and of grpc, which keeps nothing but the text of an
// attempt to connect. The first match is used.
var failureTexts = []struct {
	reason string
	texts  []string
}{
	{FailedDNS, []string{"no such host", "server misbehaving", "no addresses", "name resolution", "dial tcp: lookup "}},
	{FailedRefused, []string{"connection refused", "connect: no such file or directory"}},
	{FailedTLS, []string{"authentication handshake failed", "tls: ", "x509: "}},
	{FailedTimeout, []string{"i/o timeout", "connection timed out", "deadline exceeded", "no answer within", "no response within", "no stream within"}},
	{FailedUnreachable, []string{
		"connection error", "no route to host", "network is unreachable", "connection reset", "broken pipe", "error reading from server", "EOF",
		"transport is closing", "use of closed network connection", "closed the connection", "connection failed",
	}},
}

// FailureOf says why an attempt failed.
func FailureOf(err error) string {
	switch {
	case errors.As(err, new(*badResponse)):
		return FailedBadResponse
	case errors.Is(err, ErrToken):
		return FailedCredentials
	case errors.Is(err, errEnded):
		return FailedEnded
	case errors.Is(err, errSilent), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return FailedTimeout
	}
	rest := failedByOtherMeans
	if said, is := status.FromError(err); is {
		switch said.Code() {
		case codes.Unauthenticated:
			return FailedIdentity
		case codes.PermissionDenied:
			return FailedPermission
		case codes.Unimplemented, codes.NotFound:
			return FailedNoService
		case codes.ResourceExhausted:
			return FailedLimited
		case codes.DeadlineExceeded:
			return FailedTimeout
		case codes.FailedPrecondition:
			if node.LoopRefused(said.Message()) {
				return FailedLoop
			}
			return rest
		case codes.Unavailable:
			rest = FailedUnavailable
		case codes.Canceled: // by us, after some time
		default:
			return rest
		}
	}
	text := err.Error()
	for _, x := range failureTexts {
		if hasAny(text, x.texts) {
			return x.reason
		}
	}
	return rest
}

// hasAny reports whether a text has one of some parts.
func hasAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// hints map error texts of crypto/tls, the system and grpc to what an operator should check. The
// first match is used.
var hints = []struct {
	secure bool // for origins with grpc.tls; false: without
	// Only while the origin has never answered: later, a cut connection has other reasons than TLS.
	new   bool
	texts []string
	check string
}{
	{true, false, []string{"first record does not look like a TLS handshake"}, "does the server speak TLS? see origins[].grpc.tls"},
	{true, false, []string{"signed by unknown authority", "certificate is not trusted"}, "see origins[].grpc.tls.ca"},
	{
		true, false,
		[]string{"x509: certificate is valid for", "not valid for any names", "doesn't contain any IP SANs", "relies on legacy Common Name"},
		"see origins[].grpc.tls.server_name",
	},
	{true, false, []string{"missing selected ALPN property"}, "the server negotiates no ALPN: set origins[].grpc.tls.alpn: optional"},
	{true, false, []string{"certificate has expired or is not yet valid"}, "check the server's certificate, and the clock"},
	{
		true, false,
		[]string{"remote error: tls:"},
		"the server refuses the TLS handshake: does it demand a client certificate, or another one? see origins[].grpc.tls.cert and .key",
	},
	{
		true, true,
		[]string{"broken pipe", "connection reset", "server preface", "EOF"},
		"the server cut the connection: does it demand a client certificate, or another one? see origins[].grpc.tls.cert and .key",
	},
	{
		false, true,
		[]string{"broken pipe", "connection reset", "server preface", "EOF"},
		"the server cut the connection: does it speak TLS? see origins[].grpc.tls",
	},
}

// Hints for a server that does not know what was called. grpc servers that lack one dialect know
// the service, and not its method; those without the service are no xDS servers.
const (
	checkService = "does the server serve xDS there? see origins[].grpc.addresses and .aggregated"
	checkDelta   = "the server may speak delta alone: try dialect: delta"
	checkSotW    = "the server may speak state of the world alone: try dialect: sotw"
)

// unimplemented is the hint for a server that does not know what was called.
func (p *pool) unimplemented(text string) string {
	switch {
	case strings.Contains(text, "unknown service"):
		return checkService
	case p.cfg.SotW:
		return checkDelta
	}
	return checkSotW
}

// hinted adds a hint to a transport error, or to that of a server that lacks what was called.
func (p *pool) hinted(err error) error {
	switch status.Code(err) {
	case codes.Unavailable:
	case codes.Unimplemented:
		if !p.health.EverHeard() {
			err = fmt.Errorf("%w (%s)", err, p.unimplemented(err.Error()))
		}
		return err
	default:
		return err
	}
	text := err.Error()
	for _, h := range hints {
		if h.secure == (p.cfg.TLS != nil) && !(h.new && p.health.EverHeard()) && hasAny(text, h.texts) {
			return fmt.Errorf("%w (%s)", err, h.check)
		}
	}
	return err
}
