package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/metrics"
)

// rationSay is the interval between log lines about a lack of files.
const rationSay = time.Minute

// rationed is a listener for clients that leaves some file descriptors for everything else:
// origins, the snapshot, and the ports with places of their own (ownPlaces). A client beyond that
// is closed at once, and may choose another replica. If the kernel queued it, it would wait,
// connected, for an answer that does not come; behind a load balancer for ever.
type rationed struct {
	net.Listener
	log     *zap.Logger
	metrics *metrics.Metrics
	short   *fileShortage
	files   int // a connection with a higher descriptor is closed; 0: no limit is known

	mu   sync.Mutex // guards said
	said time.Time
}

func newRationed(l net.Listener, p *process, cfg *config.Config) *rationed {
	r := &rationed{Listener: l, log: p.logger(levels.Downstream), metrics: p.metrics, short: &p.noFiles}
	if limit := fileLimit(); limit > 0 {
		r.files = clientFiles(limit, ownFiles(cfg, limit))
	}
	return r
}

// fileLimit returns how many files the process may have; 0: no limit is known.
func fileLimit() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur >= 1<<30 {
		return 0
	}
	return int(limit.Cur)
}

// clientFiles returns how many of the descriptors clients may have. The places of the other ports
// are not for them, nor an eighth, at most 64, for origins, reloads and the snapshot.
func clientFiles(limit, own int) int { return limit - own - min(limit/8, 64) }

// Accept implements net.Listener. It fails if there are no descriptors at all; servers then wait
// for up to a second and retry.
func (r *rationed) Accept() (net.Conn, error) {
	for {
		conn, err := r.Listener.Accept()
		switch {
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			r.short.note(time.Now(), false)
			r.say(bare(err))
			return nil, err
		case err != nil:
			return nil, err
		case r.files == 0 || descriptor(conn) < r.files:
			r.short.note(time.Now(), true)
			return conn, nil
		}
		_ = conn.Close() // nothing was read or written
		r.metrics.TurnedAway()
		r.short.note(time.Now(), false)
		r.say(nil)
	}
}

// descriptor returns the number of the file descriptor. The kernel assigns the lowest free one.
func descriptor(conn net.Conn) (n int) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { n = int(fd) })
	}
	if err != nil {
		return 0 // it is closed already
	}
	return n
}

func (r *rationed) say(why error) {
	r.mu.Lock()
	now := time.Now()
	speak := now.Sub(r.said) >= rationSay
	if speak {
		r.said = now
	}
	r.mu.Unlock()
	if speak {
		r.log.Warn("out of file descriptors: refusing new connections, open ones stay; raise the limit of open files",
			zap.Stringer("address", r.Addr()), zap.Int("for_clients", r.files), zap.Error(why))
	}
}

// shortageLasts is how long no client could be admitted before /readyz says so. It is longer than a
// reconnecting fleet takes. Clients are refused with the reason all the time.
const shortageLasts = time.Minute

// shortage measures for how long no client could be admitted. Origins do not matter for it.
type shortage struct {
	mu       sync.Mutex // guards what follows
	reason   string     // the current one; "": there is room
	since    time.Time
	admitted uint64
}

// note records why no client can be admitted, if so, and how many clients were ever admitted.
func (s *shortage) note(now time.Time, reason string, admitted uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason == "" || s.reason == "" || admitted != s.admitted {
		s.since = now
	}
	s.reason, s.admitted = reason, admitted
}

// why returns the reason that has lasted for shortageLasts; "": none.
func (s *shortage) why(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := now.Sub(s.since)
	if s.reason == "" || d < shortageLasts {
		return ""
	}
	return fmt.Sprintf("no client could be admitted for %s: %s", d.Round(time.Second), s.reason)
}

// fileShortage knows whether clients are refused for lack of file descriptors. The zero value has
// seen none.
type fileShortage struct {
	turned atomic.Int64 // when one was last, in Unix nanoseconds; 0: one was admitted since
}

// note records a client that was admitted, or refused for lack of a descriptor.
func (f *fileShortage) note(now time.Time, in bool) {
	at := now.UnixNano()
	if in {
		at = 0
	}
	if f.turned.Load() != at {
		f.turned.Store(at)
	}
}

// why returns the reason if a client was refused in the last minute, and none admitted since.
func (f *fileShortage) why(now time.Time) string {
	if at := f.turned.Load(); at == 0 || now.Sub(time.Unix(0, at)) >= shortageLasts {
		return ""
	}
	return "no files are left for connections: raise the limit of open files, or lower limits.connections"
}

// tcpKeepalive detects a dead client in under a minute where HTTP/2 keepalive does not run, as on
// the admin port and on a connection that was sent GOAWAY (ERR-12). The system's default would take
// two and a half minutes.
var tcpKeepalive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 4}

// listen opens host:port or unix:///path; a socket gets the given mode.
func listen(ctx context.Context, address string, mode fs.FileMode) (net.Listener, error) {
	path, isSocket := strings.CutPrefix(address, "unix://")
	if !isSocket {
		l, err := (&net.ListenConfig{KeepAliveConfig: tcpKeepalive}).Listen(ctx, "tcp", address)
		return l, bare(err)
	}
	if err := clearSocket(ctx, path); err != nil {
		return nil, err
	}
	// On Linux a socket file gets the mode of its descriptor, less the umask; elsewhere this does
	// nothing. So others cannot connect between bind and chmod.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode)) })
	}}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, bare(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// clearSocket removes the socket file that a process left behind. One that somebody listens on
// stays, and so does a file that is no socket.
func clearSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("another process listens on %s", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s exists already: %w", path, bare(err))
	}
	return os.Remove(path)
}

// bare removes the address from a network error, for messages that name it.
func bare(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}
