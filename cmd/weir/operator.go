package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-xds/weir/cmd/weir/visible"
)

const (
	// operatorWait bounds the wait for an answer of a running weir.
	operatorWait = 10 * time.Second
	// operatorAnswer bounds what is read of an answer, in bytes.
	operatorAnswer = 256 << 20
)

// operator holds the flags of commands that talk to the admin port of a running weir.
type operator struct {
	address   string
	given     func() bool // whether the flag was given
	all       string      // dns:///NAME:PORT: every replica is asked instead (replicas.go); empty: address is
	tokenFile string
	tls       security
	body      string         // of actions, in JSON
	flags     *pflag.FlagSet // of the command; nil: the fields above are set by hand
}

// adminVariable is the environment variable for --admin, used if the flag is not given.
const adminVariable = "WEIR_ADMIN"

// get decodes the JSON of a path of the admin port. A path that answers 503 in JSON, as /readyz
// does, counts as answered.
func (o *operator) get(ctx context.Context, path string, into any) error {
	code, body, err := o.ask(ctx, http.MethodGet, path)
	if err == nil && code != http.StatusOK && (code != http.StatusServiceUnavailable || !json.Valid(body)) {
		err = o.refused(path, code, body)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return remotef(o.address, "its answer is not that of a weir's admin port (%v). %s", err, adminHint)
	}
	return nil
}

// post requests an action and returns the answer, which is one line.
func (o *operator) post(ctx context.Context, path string) (string, error) {
	code, body, err := o.ask(ctx, http.MethodPost, path)
	if err != nil {
		return "", err
	}
	if code < 200 || code > 299 {
		return "", o.refused(path, code, body)
	}
	return oneLine(body), nil
}

// ask makes one request on a connection of its own.
func (o *operator) ask(ctx context.Context, method, path string) (code int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, operatorWait)
	defer cancel()
	o.resolve()
	defer slow(ctx, "waiting for an answer from %s", o.address)()
	resp, err := o.send(ctx, method, path)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	body, err = io.ReadAll(io.LimitReader(resp.Body, operatorAnswer))
	if err != nil {
		return 0, nil, o.unanswered(err)
	}
	return resp.StatusCode, body, nil
}

// send makes one request. The caller closes the body of the response.
func (o *operator) send(ctx context.Context, method, path string) (*http.Response, error) {
	base, transport, err := o.transport()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(o.body))
	if err != nil {
		return nil, o.unusable()
	}
	if o.tokenFile != "" {
		token, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	c := http.Client{
		Transport: transport,
		// The token is for this address only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, o.unanswered(cmp.Or(errors.Unwrap(err), err)) // the outer error has the URL
	}
	return resp, nil
}

// resolve reads the flags, and the environment where they leave the address open.
func (o *operator) resolve() {
	o.read()
	if text := os.Getenv(adminVariable); text != "" && !o.given() {
		o.address = text
	}
}

// transport returns how the address is reached, and the base of its URLs. It uses no proxy: the
// address is meant as it is.
func (o *operator) transport() (base string, _ *http.Transport, _ error) {
	o.resolve()
	t := &http.Transport{DisableKeepAlives: true}
	scheme, rest, isURL := strings.Cut(o.address, "://")
	secure, host := o.tls.enabled(), o.address
	switch {
	case scheme == "unix" && isURL:
		host = "localhost"
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", rest)
		}
	case scheme == "http" && isURL && secure:
		return "", nil, usageError{fmt.Errorf("%s is http and TLS at once; write https://", o.named())}
	case isURL:
		host = strings.TrimSuffix(rest, "/")
		secure = scheme == "https"
		if u, err := url.Parse(scheme + "://" + host); err != nil || u.Host != host || host == "" || !secure && scheme != "http" {
			return "", nil, o.unusable()
		}
	default:
		if _, _, err := net.SplitHostPort(o.address); err != nil {
			return "", nil, o.unusable()
		}
	}
	if !secure {
		return "http://" + host, t, nil
	}
	var err error
	t.TLSClientConfig, err = o.tls.Load()
	return "https://" + host, t, err
}

// named returns the address and where it was given. It does not repeat what may be a password.
func (o *operator) named() string {
	source, address := "--admin", o.address
	if !o.given() {
		source = adminVariable
	}
	if i := strings.LastIndexByte(address, '@'); i >= 0 {
		address = "..." + address[i:]
	}
	return fmt.Sprintf("%s %q", source, address)
}

func (o *operator) unusable() error {
	return usageError{fmt.Errorf("%s is neither host:port, nor http://host:port, https://host:port or unix:///path", o.named())}
}

// oneLine makes one bounded line of a remote text, which may have several, with what is hidden
// shown.
func oneLine[T string | []byte](text T) string {
	fields := strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) })
	return shortened(visible.Text(strings.Join(fields, " ")))
}

// shortened bounds what a line has of a text.
func shortened(s string) string {
	const most = 500
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
