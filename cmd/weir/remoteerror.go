package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors of a running weir, or of another xDS server, as sentences: what is wrong, and what to do.

// remoteError is the error of a server. Error names the address once.
type remoteError struct {
	sentence string
	// brief is the sentence for a line that begins with the address.
	brief string
}

func (e *remoteError) Error() string { return e.sentence }

// remotef makes an error that begins with the address.
func remotef(address, format string, args ...any) *remoteError {
	brief := fmt.Sprintf(format, args...)
	return &remoteError{sentence: address + ": " + brief, brief: brief}
}

// unreached is the error of a server to which no connection can be made.
func unreached(kind, address, why, hint string) *remoteError {
	return &remoteError{
		sentence: strings.TrimSpace(fmt.Sprintf("no %s answers at %s (%s); is it running? %s", kind, address, why, hint)),
		brief:    fmt.Sprintf("no %s answers (%s)", kind, why),
	}
}

// unanswered is why an admin port did not answer a request.
func (o *operator) unanswered(err error) error {
	notTLS, dns, dial := tls.RecordHeaderError{}, (*net.DNSError)(nil), (*net.OpError)(nil)
	text := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return remotef(o.address, "did not answer within %s", operatorWait)
	case errors.Is(err, context.Canceled):
		return remotef(o.address, "interrupted before it answered")
	case errors.As(err, &dns):
		return unreached("weir", o.address, dns.Err, adminHint)
	case errors.As(err, &dial) && dial.Op == "dial":
		return unreached("weir", o.address, reasonOf(dial), adminHint)
	case errors.As(err, &notTLS), strings.Contains(text, "HTTP response to HTTPS client"):
		return remotef(o.address, "does not speak TLS; write http://, and leave out --tls and --ca")
	case strings.Contains(text, "certificate required"):
		return remotef(o.address, "requires a client certificate; give --cert and --key")
	case strings.Contains(text, "x509: "):
		return remotef(o.address, "its certificate is not accepted: %s; --ca names the authority, --server-name the host", innermost(text, "x509: "))
	// The second text is that of a server which speaks before it was asked, as gRPC servers do.
	case strings.Contains(text, "malformed HTTP"), strings.Contains(text, "readLoopPeekFailLocked"):
		return remotef(o.address, "does not speak HTTP; is it a listener? %s", adminHint)
	case strings.HasSuffix(text, "EOF"), strings.Contains(text, "server closed idle connection"), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return remotef(o.address, "closed the connection without an answer; if it speaks TLS, give --tls or --ca")
	}
	return remotef(o.address, "%s", oneLine(text))
}

// adminHint says where the address of an admin port comes from.
const adminHint = "Set --admin or " + adminVariable + " to its admin.address"

// refused is why an admin port did not do what it was asked.
func (o *operator) refused(path string, code int, body []byte) error {
	text := cmp.Or(oneLine(body), http.StatusText(code))
	path, _, _ = strings.Cut(path, "?")
	switch {
	case code == http.StatusBadRequest && strings.Contains(text, "HTTP request to an HTTPS server"):
		return remotef(o.address, "speaks TLS; give --tls or --ca")
	case code == http.StatusNotFound && text == "404 page not found":
		return remotef(o.address, "has no %s: this is not an admin port, or weir there is older. %s", path, adminHint)
	case strings.HasPrefix(text, "<"): // the HTML page of a proxy in between
		text = fmt.Sprintf("answered %d %s: a proxy answers, not weir", code, http.StatusText(code))
	case code == http.StatusUnauthorized:
		text += "; give it with --token-file"
	}
	return remotef(o.address, "%s", text)
}

// reasonOf is why a connection cannot be made, in the words of the system.
func reasonOf(dial *net.OpError) string {
	errno := syscall.Errno(0)
	switch {
	case dial.Timeout():
		return "timeout"
	case errors.As(dial, &errno):
		return errno.Error()
	}
	return oneLine(dial.Err.Error())
}

// innermost is a text from a mark on.
func innermost(text, mark string) string { return oneLine(text[strings.Index(text, mark):]) }

// streamError is why a stream to an xDS server ended. secure: it was over TLS. hint follows the
// sentence of a server that is not there. An error that is none of gRPC stays as it is.
func (p *peer) streamError(address string, secure bool, hint string, err error) error {
	var of interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &of) {
		return err
	}
	code, text := of.GRPCStatus().Code(), of.GRPCStatus().Message()
	if i := strings.LastIndex(text, "desc = "); code == codes.Unavailable && i >= 0 {
		text = text[i+len("desc = "):]
		if plain, err := strconv.Unquote(text); err == nil {
			text = plain
		}
	}
	text = oneLine(text)
	if code == codes.Unavailable {
		if e := connectionError(address, secure, hint, text); e != nil {
			return e
		}
	}
	switch {
	case code == codes.Unimplemented && strings.Contains(text, "unknown service"):
		return remotef(address, "speaks gRPC, and does not serve ADS; an admin port does not either: name a listener")
	case code == codes.Unimplemented && p.dialect == dialects[0]:
		return remotef(address, "does not serve the %s dialect; try --dialect %s", dialects[0], dialects[1])
	case code == codes.Unimplemented:
		return remotef(address, "does not serve the %s dialect; try --dialect %s", dialects[1], dialects[0])
	}
	return remotef(address, "ended the stream: %s (%s)", cmp.Or(text, "without a reason"), code)
}

// connectionError is the error of a connection that was not made; nil: it is another one.
func connectionError(address string, secure bool, hint, text string) error {
	_, why, dialing := strings.Cut(text, "Error while dialing: ")
	_, preface, early := strings.Cut(text, "error reading server preface: ")
	_, handshake, insecure := strings.Cut(text, "authentication handshake failed: ")
	switch {
	case dialing:
		return unreached("xDS server", address, strings.TrimSpace(why[strings.LastIndexByte(why, ':')+1:]), hint)
	case strings.Contains(text, "name resolver error"), strings.Contains(text, "produced zero addresses"), strings.Contains(text, "no such host"):
		return unreached("xDS server", address, "no such host", hint)
	case strings.Contains(text, "certificate required"):
		return remotef(address, "requires a client certificate; give --cert and --key")
	case early && strings.Contains(preface, "HTTP/1.1"):
		return remotef(address, "speaks HTTP and not gRPC; is it an admin port? Name a listener")
	case early && !secure:
		return remotef(address, "closed the connection at once; if it speaks TLS, give --tls or --ca")
	case early:
		return remotef(address, "closed the connection after the TLS handshake: %s", preface)
	case insecure && strings.Contains(handshake, "does not look like a TLS handshake"):
		return remotef(address, "does not speak TLS; leave out --tls and --ca")
	case insecure && strings.Contains(handshake, "x509: "):
		return remotef(address, "its certificate is not accepted: %s; --ca names the authority, --server-name the host", innermost(handshake, "x509: "))
	case insecure:
		return remotef(address, "the TLS handshake failed: %s", handshake)
	}
	return nil
}
