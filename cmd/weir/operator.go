package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/client"
)

const (
	// operatorWait is how long a running weir may take to answer.
	operatorWait = 10 * time.Second
	// operatorAnswer bounds what is read of an answer.
	operatorAnswer = 256 << 20
)

// operator holds the flags of commands that talk to a running weir, by its
// admin port.
type operator struct {
	address   string
	tokenFile string
	tls       client.TLS
}

// register adds the flags to a command.
func (o *operator) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.address, "admin", "127.0.0.1:19080", "the `address` of its admin port, host:port or unix:///path")
	f.StringVar(&o.tokenFile, "token-file", "", "the `file` that holds the token of admin.token_file")
	registerTLS(f, &o.tls)
}

// get decodes what the admin port has on a path. A path that answers 503 in
// JSON, as /readyz does, has answered.
func (o *operator) get(ctx context.Context, path string, into any) error {
	code, body, err := o.ask(ctx, http.MethodGet, path)
	if err == nil && code != http.StatusOK && (code != http.StatusServiceUnavailable || !json.Valid(body)) {
		err = o.refused(http.MethodGet, path, code, body)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s: GET %s: is this the admin port of a weir? %w", o.address, path, err)
	}
	return nil
}

// post asks for an action and gives what the answer says, one line.
func (o *operator) post(ctx context.Context, path string) (string, error) {
	code, body, err := o.ask(ctx, http.MethodPost, path)
	if err != nil {
		return "", err
	}
	if code < 200 || code > 299 {
		return "", o.refused(http.MethodPost, path, code, body)
	}
	return oneLine(body), nil
}

func (o *operator) refused(method, path string, code int, body []byte) error {
	return fmt.Errorf("%s: %s %s: %d %s: %s", o.address, method, path, code, http.StatusText(code), oneLine(body))
}

// ask makes one request on a connection of its own.
func (o *operator) ask(ctx context.Context, method, path string) (code int, body []byte, err error) {
	scheme, host, transport, err := o.transport()
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, operatorWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, scheme+"://"+host+path, http.NoBody)
	if err != nil {
		return 0, nil, usageError{fmt.Errorf("--admin %q is neither host:port nor unix:///path", o.address)}
	}
	if o.tokenFile != "" {
		token, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return 0, nil, fmt.Errorf("--token-file: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	c := http.Client{
		Transport: transport,
		// The token is for this address and no other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := c.Do(req)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil { // what is outside says the URL, with the scheme
			err = inner
		}
		return 0, nil, fmt.Errorf("%s: %w", o.address, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	body, err = io.ReadAll(io.LimitReader(resp.Body, operatorAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %s %s: %w", o.address, method, path, err)
	}
	return resp.StatusCode, body, nil
}

// transport is how the address is reached. There is no proxy: who asks for the
// port of this host means it.
func (o *operator) transport() (scheme, host string, _ *http.Transport, _ error) {
	t := &http.Transport{DisableKeepAlives: true}
	scheme, host = "http", o.address
	if socket, ok := strings.CutPrefix(o.address, "unix://"); ok {
		host = "localhost"
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}
	} else if _, _, err := net.SplitHostPort(o.address); err != nil {
		return "", "", nil, usageError{fmt.Errorf("--admin %q is neither host:port nor unix:///path", o.address)}
	}
	if o.tls != (client.TLS{}) {
		files, err := o.tls.Load()
		if err != nil {
			return "", "", nil, err
		}
		scheme, t.TLSClientConfig = "https", files
	}
	return scheme, host, t, nil
}

// oneLine makes text from afar fit for a terminal: no control characters, not
// without end.
func oneLine[T string | []byte](text T) string {
	const most = 500
	s := strings.Join(strings.Fields(string(text)), " ")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
