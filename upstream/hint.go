package upstream

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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
		if !p.health.everHeard() {
			err = fmt.Errorf("%w (%s)", err, p.unimplemented(err.Error()))
		}
		return err
	default:
		return err
	}
	text := err.Error()
	for _, h := range hints {
		if h.secure != (p.cfg.TLS != nil) || h.new && p.health.everHeard() {
			continue
		}
		for _, part := range h.texts {
			if strings.Contains(text, part) {
				return fmt.Errorf("%w (%s)", err, h.check)
			}
		}
	}
	return err
}
