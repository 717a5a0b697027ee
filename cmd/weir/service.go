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

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/inspect"
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
		p.log.Warn("cannot parse systemd's watchdog time: not answering it", zap.Error(err))
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
		s.process.log.Warn("cannot report the state of the process to systemd", zap.Error(err))
	}
	if err == nil {
		s.failed.Store(false)
	}
}

// readiness returns the state behind /readyz. What is required of origins stays true once it is: an
// origin that goes away must not take the cache in front of it out of service. A process that can
// admit nobody is not ready until it can; its clients are still served.
func (p *process) readiness() admin.Readiness {
	states, groups := p.originStates()
	file := p.last.Load()
	r := admin.Readiness{Ready: true, State: "ready", ConfigRefused: file.Refused, ConfigLastGood: file.Accepted}
	var missing []string
	for i := range states {
		o := &states[i]
		if !o.Reached && !p.kept.origins[o.Name] {
			missing = append(missing, o.Name)
		}
		r.Origins = append(r.Origins, admin.OriginReadiness{
			Name: o.Name, Reached: o.Reached, Restored: p.kept.origins[o.Name], RestoredFrom: p.kept.source(o.Name), Connected: o.Connected, Unanswered: unanswered(groups[i]),
		})
	}
	left := time.Until(p.started.Add(p.config().Timing.ReadyWait))
	switch {
	case p.draining.Load():
		r.Ready, r.State = false, "draining"
	case len(missing) > 0 && left > 0 && !p.ready.Load():
		r.Ready, r.State = false, "starting"
		r.Why = fmt.Sprintf("not reached yet: %s; timing.ready_wait ends in %s", strings.Join(missing, ", "), left.Round(time.Second/10))
	case len(missing) > 0:
		r.Why = "timing.ready_wait is over; never reached since the start: " + strings.Join(missing, ", ")
	}
	if why := p.shortage.why(time.Now()); r.Ready && why != "" {
		r.Ready, r.State, r.Why = false, "full", why
	}
	// existing clients are still served
	if r.Ready && r.Why == "" && p.table.Tight() {
		r.Why = "memory is short: names without subscribers are refused (limits.memory)"
	}
	if r.Ready {
		p.ready.Store(true) // an origin that a reload adds does not change it
	}
	return r
}

// unanswered returns the types, by short name, that clients wait for.
func unanswered(groups []inspect.GroupStatus) []string {
	var names []string
	seen := make(map[string]bool)
	for i := range groups {
		for j := range groups[i].Types {
			t := &groups[i].Types[j]
			short := metrics.ShortName(t.TypeURL)
			if (t.Waiting > 0 || t.Wildcard && !t.Settled) && !seen[short] {
				seen[short] = true
				names = append(names, short)
			}
		}
	}
	return names
}
