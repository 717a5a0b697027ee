package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	body      string // of actions, in JSON
}

// adminVariable is the environment variable for --admin, used if the flag is not given.
const adminVariable = "WEIR_ADMIN"

// register adds the flags to a command.
func (o *operator) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.address, "admin", "127.0.0.1:19080",
		"the `address` of its admin port: host:port, http://, https:// or unix:///path; "+adminVariable+" in the environment is the same")
	o.given = func() bool { return f.Changed("admin") }
	f.StringVar(&o.tokenFile, "token-file", "", "the `file` that holds the token of admin.token_file")
	o.tls.register(f)
}

// get decodes the JSON of a path of the admin port. A path that answers 503 in JSON, as /readyz
// does, counts as answered.
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

// post requests an action and returns the answer, which is one line.
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
	ctx, cancel := context.WithTimeout(ctx, operatorWait)
	defer cancel()
	resp, err := o.send(ctx, method, path)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	body, err = io.ReadAll(io.LimitReader(resp.Body, operatorAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %s %s: %w", o.address, method, path, err)
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
		// the outer error has the URL, with the scheme
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return nil, fmt.Errorf("%s: %w", o.address, err)
	}
	return resp, nil
}

// transport returns how the address is reached, and the base of its URLs. It uses no proxy: the
// address is meant as it is.
func (o *operator) transport() (base string, _ *http.Transport, _ error) {
	if text := os.Getenv(adminVariable); text != "" && !o.given() {
		o.address = text
	}
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

// completionWait bounds the wait of shell completion for a running weir that is not there.
const completionWait = time.Second

// completeOrigin completes an origin of the running weir.
func (o *operator) completeOrigin(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionWait)
	defer cancel()
	var known struct {
		Origins []struct {
			Name string `json:"name"`
		} `json:"origins"`
	}
	asked := []*operator{o}
	if o.all != "" {
		asked, _ = o.replicas(ctx) // of none nothing is known
	}
	if len(args) > 0 || !slices.ContainsFunc(asked, func(o *operator) bool { return o.get(ctx, "/origins", &known) == nil }) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, x := range known.Origins {
		names = append(names, oneLine(x.Name))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
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
