package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/node"

	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream"
	"github.com/weir-xds/weir/upstream/descriptors"
)

// Config configures how one origin is polled. It is not modified after New.
type Config struct {
	// Name is the origin's name in the config file, for logs and metrics. Required.
	Name string
	// URLs are the servers, in order of preference: the part before /v3/discovery:clusters. At
	// least one, at most 254.
	URLs []string
	// Poll is the interval between polls of a type. Default 5 s.
	Poll time.Duration
	// TLS returns the configuration for the next connection to an https URL, so that certificates
	// and authorities may be renewed. Nil: the system's authorities.
	TLS func() *tls.Config
	// Trusts is that of upstream.Config.
	Trusts func(*tls.ConnectionState) error
	// Headers are sent with every poll.
	Headers map[string]string
	// TokenFile is a file with a bearer token, or "". It is read for each poll, and the token is
	// sent as authorization. It requires https.
	TokenFile string
	// MaxMessage is the longest response accepted, in bytes of uncompressed JSON. Default 64 MiB.
	MaxMessage int
	// NameBytes is the longest resource name accepted, in bytes (limits.name_bytes). 0: no limit.
	NameBytes int
	// NameFields say where an unwrapped resource has its name (RELAY-14).
	NameFields xds.NameFields
	// Types are the messages that resources may contain. Nil: those that are linked in.
	Types *descriptors.Types
	// Reach are the types that the origin is polled for by ourselves, until it has answered once,
	// while no client asks it for anything. Empty: it is not.
	Reach []string
	// Backoff is between polls that fail (ERR-2). Default as for upstream.Config.
	Backoff upstream.Backoff
	// Batch is how long new subscriptions are collected before a poll. Default 10 ms; negative: not
	// at all.
	Batch time.Duration
	// Instance is this process's name. It is appended to the relays that a poll presents
	// (RELAY-87). Empty: none are presented.
	Instance string
	// Version is weir's version, for the user agent weir/VERSION. Default "dev".
	Version string
	// Dial opens connections. Nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Log gets changes of state. Nil: no log.
	Log *zap.Logger
	// Metrics counts events. Nil: nothing is counted.
	Metrics *metrics.Metrics
}

// maxURLs bounds the servers of one origin: one byte tells them apart in the table.
const maxURLs = 254

// Types returns the types that can be asked for over REST (REST-8), in the order of the protocol.
func Types() (typeURLs []string) {
	for i := range xds.Services {
		if xds.Services[i].REST != "" {
			typeURLs = append(typeURLs, xds.Services[i].TypeURL)
		}
	}
	return typeURLs
}

// checked returns the config with its defaults, and all its problems. Each error begins with the
// config key.
func (c Config) checked() (Config, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		bad("name: is empty")
	}
	if len(c.URLs) == 0 || len(c.URLs) > maxURLs {
		bad("urls: there must be 1 to %d", maxURLs)
	}
	for i, u := range c.URLs {
		if why := BadURL(u); why != "" {
			bad("urls[%d]: %s", i, why)
		} else if c.TokenFile != "" && !strings.HasPrefix(u, "https:") {
			bad("token_file: is only sent over TLS, and urls[%d] is not https", i)
		}
		if slices.Index(c.URLs, u) < i {
			bad("urls[%d]: is listed twice", i)
		}
	}
	for key, value := range c.Headers {
		if !ValidHeader(key, value) {
			bad("headers: %q is not a header that can be sent", key)
		}
		if strings.EqualFold(key, "authorization") && c.TokenFile != "" {
			bad("headers: authorization is given here and by token_file")
		}
	}
	if c.Poll < 0 || c.MaxMessage < 0 || c.NameBytes < 0 {
		bad("poll: poll, max_message and name_bytes must not be negative")
	}
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	return c.withDefaults(), nil
}

func (c Config) withDefaults() Config {
	orElse(&c.Poll, 5*time.Second)
	orElse(&c.MaxMessage, 64<<20)
	orElse(&c.Backoff, upstream.Backoff{Base: time.Second, Factor: 1.6, Jitter: 0.2, Max: 5 * time.Second})
	orElse(&c.Batch, 10*time.Millisecond)
	orElse(&c.Version, "dev")
	orElse(&c.Log, zap.NewNop())
	c.Batch, c.Backoff.Jitter = max(c.Batch, 0), max(c.Backoff.Jitter, 0)
	return c
}

// orElse replaces a zero value by a default.
func orElse[T comparable](v *T, fallback T) {
	if *v == *new(T) {
		*v = fallback
	}
}

// BadURL says what is wrong with a URL; "" if nothing is. It does not quote the URL, which may have
// a password.
func BadURL(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "is no URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "begins with neither http:// nor https://"
	case u.Hostname() == "":
		return "names no host"
	case u.User != nil:
		return "holds a name or password; use headers or token_file"
	case u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(s, "?") || strings.HasSuffix(s, "#"):
		return "holds more than a host and a path"
	}
	return ""
}

// ValidHeader reports whether a header may be configured: not one that HTTP or the body needs.
func ValidHeader(name, value string) bool {
	switch strings.ToLower(name) {
	case "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host",
		"keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", node.ViaKey:
		return false
	}
	return httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value)
}
