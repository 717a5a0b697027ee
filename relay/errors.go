package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// gRPC status codes with a meaning of their own in resource_errors (ABS-8). Every other code is
// transient.
const (
	codeNotFound           = 5
	codePermissionDenied   = 7
	codeFailedPrecondition = 9
	codeUnavailable        = 14
)

// NameError is what an origin says of a name instead of a resource (TP3).
type NameError = xds.NameError

// notFound states an absence that the origin stated by other means (ABS-10).
func notFound(name string) *NameError {
	return absent(name, "the origin says that it does not exist")
}

// expired states that the TTL has passed (ABS-10).
func expired(name string) *NameError {
	e := absent(name, "its TTL has passed")
	e.Expired, e.HadTTL = true, true
	return e
}

func absent(name, text string) *NameError {
	e := xds.NewNameError(name, codeNotFound, text)
	e.Own = true
	return e
}

// unreachable says that nothing is known of a name, and why (RELAY-8).
func (o *Origin) unreachable(name string) *NameError {
	if o.HandshakeFails() {
		return unavailable(name, "nothing is known of it yet, and the TLS handshake with its origin fails")
	}
	return unavailable(name, "nothing is known of it yet, and its origin cannot be reached")
}

// unanswered says that the origin was asked in vain (ABS-6).
func unanswered(name string) *NameError {
	return unavailable(name, "the origin does not answer for it")
}

func unavailable(name, text string) *NameError {
	return xds.NewNameError(name, codeUnavailable, text)
}

// ends reports whether an error takes away the body that is there: not found, and what is about the
// name itself if the origin is so configured (ABS-8).
func (o *Origin) ends(e *NameError) bool {
	return e.Code == codeNotFound || e.Code == codePermissionDenied && o.config().DropOnDataError
}

// patience is how long a name may stay unanswered on a healthy stream.
func (o *Origin) patience() time.Duration {
	if o.config().SotW && o.config().AbsenceTransient {
		return transientSilence
	}
	return silence
}

// NoteFailure notes why the origin gives nothing: the TLS handshake fails, or it cannot be reached.
func (o *Origin) NoteFailure(handshake bool) { o.handshakeFails.Store(handshake) }

// HandshakeFails reports whether the last attempt to reach the origin failed in the TLS handshake,
// which an operator has to mend elsewhere than the network.
func (o *Origin) HandshakeFails() bool { return o.handshakeFails.Load() }
