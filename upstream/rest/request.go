package rest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream"
)

const (
	// headersWithin bounds the time to the headers of a response. It is below the 15 s after which
	// silence means absence (ABS-5), so a server that hangs is not taken for a silent one.
	headersWithin = 10 * time.Second
	// bodyWithin bounds the time for the body.
	bodyWithin = 50 * time.Second
	// idleConnection is how long a connection is kept between polls.
	idleConnection = 90 * time.Second
	idleAtServer   = 100
	// errorBytes is how much of the body of an error response is logged.
	errorBytes = 1000
)

// answer is the result of a poll: a body, or "not modified".
type answer struct {
	body      []byte
	unchanged bool
}

// failure is a failed poll.
type failure struct {
	fault  fault
	code   int // of HTTP; 0: there was no answer
	err    error
	looped string // error text of a relay that refuses the path of the poll (RELAY-87)
	reason string // for metrics; "": err says it
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// why is the failure's reason, for metrics.
func (f *failure) why() string {
	if f.reason != "" {
		return f.reason
	}
	return upstream.FailureOf(f.err)
}

// whyStatus is the reason of a failure by the status of the response.
func whyStatus(code int) string {
	switch {
	case code == http.StatusUnauthorized:
		return upstream.FailedIdentity
	case code == http.StatusForbidden:
		return upstream.FailedPermission
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed, code == http.StatusNotImplemented:
		return upstream.FailedNoService
	case code == http.StatusTooManyRequests:
		return upstream.FailedLimited
	case code >= http.StatusInternalServerError:
		return upstream.FailedUnavailable
	}
	return "other"
}

// newClient makes the HTTP client of an origin.
func newClient(cfg *Config, trust *upstream.Trust) *http.Client {
	dial := cfg.Dial
	if dial == nil {
		d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 4,
		}}
		dial = d.DialContext
	}
	t := &http.Transport{
		DialContext: dial, ForceAttemptHTTP2: true, IdleConnTimeout: idleConnection, MaxIdleConnsPerHost: idleAtServer,
		ResponseHeaderTimeout: headersWithin, MaxResponseHeaderBytes: 64 << 10,
	}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		below, settings := trust.Secure(conn), cfg.clientTLS(address)
		settings.VerifyConnection = trust.Shown(func() *upstream.Secured { return below }, settings.VerifyConnection)
		secured := tls.Client(below, settings)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = below.Close() // the connection is given up
			return nil, err
		}
		return secured, nil
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// clientTLS returns the TLS configuration of one connection.
func (c *Config) clientTLS(address string) *tls.Config {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		t = c.TLS().Clone()
	}
	t.NextProtos = []string{"h2", "http/1.1"}
	if host, _, err := net.SplitHostPort(address); err == nil && t.ServerName == "" {
		t.ServerName = host
	}
	return t
}

// ask polls a server once for a type, in the spelling of Envoy: some servers read the names of the
// proto and no others (REST-1). The error is a *failure.
func (o *Origin) ask(ctx context.Context, s *server, typeURL string, via []string, m *discoveryv3.DiscoveryRequest) (*answer, error) {
	body, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, &failure{fault: ownFault, err: fmt.Errorf("the request cannot be written as JSON: %w", err)}
	}
	o.counts.Attempt()
	ctx, cancel := context.WithTimeout(ctx, headersWithin+bodyWithin)
	defer cancel()
	// includes connecting, unlike ResponseHeaderTimeout
	slow := time.AfterFunc(headersWithin, cancel)
	req, err := o.request(ctx, strings.TrimSuffix(s.url, "/")+xds.ServiceOf(typeURL, false).REST, body, via)
	if err != nil {
		return nil, &failure{fault: unclear, err: err}
	}
	o.metrics.Message(metrics.ToOrigin, len(body))
	o.counts.Bytes(metrics.ToOrigin, len(body))
	resp, err := o.client.Do(req)
	if !slow.Stop() && err != nil {
		err = fmt.Errorf("no answer within %v: %w", headersWithin, err)
	}
	if err != nil {
		f := &failure{fault: unclear, err: err}
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			f.fault = unreachable
		}
		return nil, f
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is given up
	switch {
	case resp.StatusCode == http.StatusNotModified:
		return &answer{unchanged: true}, nil
	case resp.StatusCode != http.StatusOK:
		return nil, refusal(s.url, resp)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, int64(o.cfg.MaxMessage)+1))
	o.metrics.Message(metrics.FromOrigin, len(data))
	o.counts.Bytes(metrics.FromOrigin, len(data))
	switch {
	case err != nil:
		return nil, &failure{fault: unclear, err: fmt.Errorf("reading a response of %s: %w", s.url, err)}
	case len(data) > o.cfg.MaxMessage:
		o.metrics.LimitRejection("max_message")
		return nil, &failure{fault: ownFault, reason: upstream.FailedBadResponse, err: fmt.Errorf("%s: a response is longer than max_message, %d bytes", s.url, o.cfg.MaxMessage)}
	}
	return &answer{body: data}, nil
}

// request makes the HTTP request of a poll.
func (o *Origin) request(ctx context.Context, url string, body []byte, via []string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range o.cfg.Headers {
		req.Header.Set(name, value)
	}
	if o.cfg.TokenFile != "" {
		token, err := os.ReadFile(o.cfg.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", upstream.ErrToken, err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "weir/"+o.cfg.Version)
	if o.cfg.Instance != "" {
		for _, name := range append(via, node.ViaName(o.cfg.Instance)) {
			req.Header.Add(node.ViaKey, name)
		}
	}
	return req, nil
}

// refusal makes the failure of a status other than 200 and 304. Below 500 the server works, and
// refuses the question.
func refusal(url string, resp *http.Response) *failure {
	f := &failure{fault: unclear, code: resp.StatusCode, reason: whyStatus(resp.StatusCode)}
	if resp.StatusCode < http.StatusInternalServerError {
		f.fault = ownFault
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, errorBytes)) // as much as there is
	text := strings.TrimSpace(strings.ToValidUTF8(string(said), "?"))
	if node.LoopRefused(text) {
		f.fault, f.looped, f.reason = unreachable, text, upstream.FailedLoop
	}
	if resp.StatusCode/100 == 3 {
		text = "redirects are not followed"
	}
	f.err = fmt.Errorf("%s answers %s: %q", url, resp.Status, text)
	return f
}
