package main

import (
	"errors"
	"net"
	"sync"
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
		r.log.Warn("files run out: new connections are turned away, those that are open go on; raise the limit of open files",
			zap.Stringer("address", r.Addr()), zap.Int("for_clients", r.files), zap.Error(why))
	}
}
