package main

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/metrics"
)

// rationSay is the interval between log lines about a lack of files.
const rationSay = time.Minute

// rationed is a listener for clients that leaves some file descriptors for everything else:
// origins, the snapshot, the ports for operators and probes. A client beyond that is closed at
// once, and may choose another replica. If the kernel queued it, it would wait, connected, for an
// answer that does not come; behind a load balancer for ever.
type rationed struct {
	net.Listener
	log     *zap.Logger
	metrics *metrics.Metrics
	short   *fileShortage
	files   int // a connection with a higher descriptor is closed; 0: no limit is known

	mu   sync.Mutex // guards said
	said time.Time
}

func newRationed(l net.Listener, p *process) *rationed {
	r := &rationed{Listener: l, log: p.logger(levels.Downstream), metrics: p.metrics, short: &p.noFiles}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && limit.Cur < 1<<30 {
		r.files = clientFiles(int(limit.Cur))
	}
	return r
}

// clientFiles returns how many of the descriptors clients may have: all but an eighth, and that is
// at most 64.
func clientFiles(limit int) int { return limit - min(limit/8, 64) }

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
