package upstream

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/weir-xds/weir/relay/node"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	var bad *badResponse
	switch {
	case errors.As(err, &bad):
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
		for _, part := range x.texts {
			if strings.Contains(text, part) {
				return x.reason
			}
		}
	}
	return rest
}
