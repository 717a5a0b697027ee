package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

const (
	// serviceLook is the interval between two looks at the readiness until the process is ready.
	serviceLook = 500 * time.Millisecond
	// serviceSay is the same afterwards, when only the text of the status may change.
	serviceSay = 5 * time.Second
	// serviceSpare is what the start and the end may take beyond timing.ready_wait and
	// timing.drain: reading the snapshot, and closing what is open.
	serviceSpare = 30 * time.Second
)

// service tells systemd how the process stands (sd_notify(3)). Its methods may be called if there
// is nobody to tell.
//
// READY=1 is sent when /readyz is 200 for the first time. It is also sent if the process can admit
// nobody more, since a restart would not help that. The listeners are open long before.
//
// WATCHDOG=1 is sent after each look. A look goes through the locks of the server and of the table,
// and through all origins. If one of them is held for good, nothing is sent any more. systemd then
// ends the process with SIGABRT, and the Go runtime prints what each goroutine waits for.
type service struct { // nil: NOTIFY_SOCKET is not set
	// Set once by newService.
	process  *process
	watchdog time.Duration // after which a silent process is ended; 0: it is not

	ready  atomic.Bool // READY=1 was sent, or is about to be
	failed atomic.Bool // the last message was not sent, which was logged

	// Owned by run.
	said string // the status
}

// newService returns what tells systemd, as the environment says.
func newService(p *process) *service {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		p.log.Warn("the time of systemd's watchdog is not understood: it is not answered", zap.Error(err))
	}
	return &service{process: p, watchdog: watchdog}
}

// starting says that the process has what it needs, and how long it may take to be ready.
func (s *service) starting() {
	if s != nil {
		s.tell("STATUS=starting", extend(s.process.config().Timing.ReadyWait))
	}
}

// stopping says that the process drains, and how long that may take.
func (s *service) stopping(why string, atMost time.Duration) {
	if s != nil {
		s.tell(daemon.SdNotifyStopping, "STATUS=draining, because of "+why, extend(atMost))
	}
}

// reloading says that the config file is read again. Before READY=1 it is part of the start.
func (s *service) reloading() {
	if s != nil && s.ready.Load() {
		s.tell(daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
	}
}

// reloaded says that it was read, whatever the result.
func (s *service) reloaded() {
	if s != nil && s.ready.Load() {
		s.tell(daemon.SdNotifyReady, "STATUS="+s.status())
	}
}

// run tells how the process stands until ctx ends.
func (s *service) run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		s.look()
		next := serviceLook
		if s.ready.Load() {
			next = serviceSay
		}
		if half := s.watchdog / 2; half > 0 {
			next = min(next, half)
		}
		timer.Reset(next)
	}
}

// look says what has changed, and that the process is alive.
func (s *service) look() {
	s.process.server.Full() // locks the server
	var lines []string
	status := s.status() // locks the table
	if !s.ready.Load() && !strings.HasPrefix(status, "starting") && !s.process.draining.Load() {
		s.ready.Store(true) // first: systemd may ask for a reload at once
		lines = append(lines, daemon.SdNotifyReady)
	}
	if status != s.said && !s.process.draining.Load() {
		s.said = status
		lines = append(lines, "STATUS="+status)
	}
	if s.watchdog > 0 {
		lines = append(lines, daemon.SdNotifyWatchdog)
	}
	if len(lines) > 0 {
		s.tell(lines...)
	}
}

// status is one line for people, as `systemctl status` shows it.
func (s *service) status() string {
	r := s.process.readiness()
	connected := 0
	for i := range r.Origins {
		if r.Origins[i].Connected {
			connected++
		}
	}
	text := r.State
	if r.Ready {
		text += fmt.Sprintf("; %d of %d origins connected", connected, len(r.Origins))
	}
	if r.Why != "" {
		text += ": " + r.Why
	}
	if !r.ConfigRefused.IsZero() {
		text += "; the config file is refused, see the log"
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// extend has systemd wait for so long and some more, if the limit of the unit is shorter.
func extend(d time.Duration) string {
	return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (d + serviceSpare).Microseconds())
}

// tell sends lines in one message, and waits for no answer. If that fails it is logged once.
func (s *service) tell(lines ...string) {
	_, err := daemon.SdNotify(false, strings.Join(lines, "\n"))
	if err != nil && !s.failed.Swap(true) {
		s.process.log.Warn("systemd cannot be told how the process stands", zap.Error(err))
	}
	if err == nil {
		s.failed.Store(false)
	}
}
