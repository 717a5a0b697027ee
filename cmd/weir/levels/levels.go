// Package levels says what is logged, package by package, and changes it while weir runs.
//
// Each package that logs has a logger with a level of its own ([Levels.Logger]). The configuration
// gives the level. An operator may give another one, for a time or until the end of the process
// ([Levels.Set]). After that time the configured one is back (TestLevels). A level that is off
// costs a comparison: a hot path asks zap's Check first, and makes the fields only if it says so
// (TestDisabledCostsNothing).
//
// # Who imports it
//
// cmd/weir, cmd/weir/admin and cmd/weir/config.
package levels

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// The packages that have a level. A line of the log has the package's name as "logger".
const (
	Admin      = "admin"      // the operators' port, with what operators did
	Config     = "config"     // the file, what a reload changes, and files that are watched
	Downstream = "downstream" // clients: streams, handshakes, NACKs, limits, authorization
	Seed       = "seed"       // siblings
	Sink       = "sink"       // directories for Envoys that read files
	Snapshot   = "snapshot"   // the last known good on disk
	TLS        = "tls"        // certificates and keys
	Tracing    = "tracing"    // the exporter of traces
	Upstream   = "upstream"   // origins
	Weir       = "weir"       // the process: start, end, memory, guard and freeze
)

// Packages are all of them, in order.
var Packages = []string{Admin, Config, Downstream, Seed, Sink, Snapshot, TLS, Tracing, Upstream, Weir}

// Texts are the levels as the configuration and operators write them.
var Texts = []string{"debug", "info", "warn", "error"}

// Levels has the level of each package.
type Levels struct {
	mu sync.Mutex        // guards all but the levels' own values; a leaf
	of map[string]*level // by package; set once
}

type level struct {
	zap.AtomicLevel // in force

	configured zapcore.Level
	changed    bool        // an operator gave the level that is in force
	until      time.Time   // when configured is back; zero: it is not by itself
	timer      *time.Timer // does that; nil: none runs
	given      int         // how often the level was changed, so that an old timer does nothing
}

// Status is the level of a package.
type Status struct {
	Package    string `json:"package"`
	Level      string `json:"level"`
	Configured string `json:"configured"`
	// Until is when the configured level is back by itself; nil: it is in force, or does not come
	// back by itself.
	Until *time.Time `json:"until,omitempty"`
}

// New makes levels as the configuration has them: one for all, and others for some packages. What
// is no level counts as info, and what is no package has no effect: the configuration is checked.
func New(all string, some map[string]string) *Levels {
	l := &Levels{of: make(map[string]*level, len(Packages))}
	for _, name := range Packages {
		l.of[name] = &level{AtomicLevel: zap.NewAtomicLevelAt(configured(name, all, some)), configured: configured(name, all, some)}
	}
	return l
}

// configured returns the level of a package.
func configured(name, all string, some map[string]string) zapcore.Level {
	text := all
	if own, has := some[name]; has {
		text = own
	}
	parsed, err := zapcore.ParseLevel(text)
	if err != nil {
		return zapcore.InfoLevel
	}
	return parsed
}

// Configure puts another configuration into force. What an operator gave to a package stays, unless
// the configuration gives that package another level than before.
func (l *Levels) Configure(all string, some map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, x := range l.of {
		was := x.configured
		if x.configured = configured(name, all, some); x.configured != was || !x.changed {
			x.back()
		}
	}
}

// Logger returns the logger of a package: log, at the package's level. log itself lets every level
// pass, or none.
func (l *Levels) Logger(log *zap.Logger, name string) *zap.Logger {
	return log.Named(name).WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		at, err := zapcore.NewIncreaseLevelCore(c, l.of[name])
		if err != nil { // c lets none pass
			return c
		}
		return at
	}))
}

// Configured is the level that Set takes for the configured one.
const Configured = "configured"

// Set gives a package another level, or all of them if name is empty; for a time, or until the
// process ends if that is 0. The error says what is wrong with the arguments.
func (l *Levels) Set(name, text string, now time.Time, lasts time.Duration) error {
	if name != "" && l.of[name] == nil {
		return fmt.Errorf("package %q: the packages are %s", name, strings.Join(Packages, ", "))
	}
	if text != Configured && !slices.Contains(Texts, text) {
		return fmt.Errorf("level %q: write one of %s, %s", text, strings.Join(Texts, ", "), Configured)
	}
	if lasts < 0 || lasts > 0 && text == Configured {
		return fmt.Errorf("for %s: write a time such as 10m, and none for the configured level", lasts)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, each := range Packages {
		if name != "" && name != each {
			continue
		}
		x := l.of[each]
		if x.back(); text == Configured {
			continue
		}
		parsed, _ := zapcore.ParseLevel(text) // it is one of Texts
		x.SetLevel(parsed)
		if x.changed = true; lasts > 0 {
			x.until = now.Add(lasts)
			given := x.given
			x.timer = time.AfterFunc(lasts, func() { l.end(x, given) })
		}
	}
	return nil
}

// end is called when the time of an operator's level is over. It locks the levels.
func (l *Levels) end(x *level, given int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.given == given { // or else another level was given meanwhile
		x.back()
	}
}

// back puts the configured level into force.
func (x *level) back() {
	if x.timer != nil {
		x.timer.Stop()
	}
	x.given++
	x.changed, x.until, x.timer = false, time.Time{}, nil
	x.SetLevel(x.configured)
}

// Status returns the levels, by package.
func (l *Levels) Status() []Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Status, 0, len(Packages))
	for _, name := range Packages {
		x := l.of[name]
		s := Status{Package: name, Level: x.Level().String(), Configured: x.configured.String()}
		if !x.until.IsZero() {
			until := x.until
			s.Until = &until
		}
		all = append(all, s)
	}
	return all
}
