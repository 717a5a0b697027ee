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

// Config says how one origin is polled. It is not modified after New.
type Config struct {
	// Name is the origin's, as in the config file: in logs and metrics. Required.
	Name string
	// URLs are the servers, in order of preference: what comes before /v3/discovery:clusters. At
	// least one, at most 254.
	URLs []string
	// Poll is how often each type is asked for. Default 5 s.
	Poll time.Duration
	// TLS is asked for each connection to an https URL what to use, so that certificates and
	// authorities may be renewed; nil: the system's authorities.
	TLS func() *tls.Config
	// Headers are sent with every poll.
	Headers map[string]string
	// TokenFile, if set, holds a bearer token, read for each poll and sent as authorization. Needs
	// https.
	TokenFile string
	// MaxMessage is the longest response taken, in bytes of JSON, uncompressed. Default 64 MiB.
	MaxMessage int
	// NameBytes is the longest resource name taken (limits.name_bytes). 0: no limit.
	NameBytes int
	// NameFields say where a resource that comes bare has its name (RELAY-14).
	NameFields xds.NameFields
	// Types are the messages that resources may hold; nil: those that are linked in.
	Types *descriptors.Types
	// Reach are the types that the origin is polled for by ourselves, until it has answered once,
	// while no client asks it for anything. Empty: it is not.
	Reach []string
	// Backoff is between polls that fail (ERR-2). Default as for upstream.Config.
	Backoff upstream.Backoff
	// Batch is how long what is wanted anew is collected before it is polled for. Default 10 ms;
	// negative: not at all.
	Batch time.Duration
	// Instance is this process's name, which ends the list of relays that a poll presents
	// (RELAY-87). Empty: none is presented.
	Instance string
	// Version is weir's own, in the user agent weir/VERSION. Default "dev".
	Version string
	// Dial opens connections; nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Log may be nil: no logging.
	Log *zap.Logger
	// Metrics may be nil: nothing is counted.
	Metrics *metrics.Metrics
}

// maxURLs bounds the servers of one origin, which the table tells apart by one byte.
const maxURLs = 254

// Types are the types that can be asked for over REST (REST-8), in the order of the protocol.
func Types() (typeURLs []string) {
	for i := range xds.Services {
		if xds.Services[i].REST != "" {
			typeURLs = append(typeURLs, xds.Services[i].TypeURL)
		}
	}
	return typeURLs
}

// checked returns the config with its defaults, and everything that is wrong with it. Each error
// begins with the key.
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

// orElse puts a default in place of zero.
func orElse[T comparable](v *T, fallback T) {
	if *v == *new(T) {
		*v = fallback
	}
}

// BadURL says what is wrong with a URL; "" if nothing is. It does not repeat it: it may hold a
// password.
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

// ValidHeader says whether a header may be sent with a poll: what HTTP and the body need is not for
// use.
func ValidHeader(name, value string) bool {
	switch strings.ToLower(name) {
	case "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host",
		"keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", node.ViaKey:
		return false
	}
	return httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value)
}
