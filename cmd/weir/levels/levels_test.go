package levels

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestLevels: each package has its own level, which an operator may change for a time, and which a
// configuration changes only where it says something else than before.
func TestLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		l := New("warn", map[string]string{Upstream: "debug"})
		of := map[string]*zap.Logger{}
		for _, name := range Packages {
			of[name] = l.Logger(zap.New(core), name).With(zap.Int("some", 1))
		}
		want := func(when, packages string) {
			t.Helper()
			for _, name := range Packages {
				of[name].Debug("x")
			}
			var said []string
			for _, e := range logs.TakeAll() {
				said = append(said, e.LoggerName)
			}
			if got := strings.Join(said, " "); got != packages {
				t.Errorf("%s: debug lines of %q, want %q", when, got, packages)
			}
		}
		set := func(name, level string, lasts time.Duration) {
			t.Helper()
			if err := l.Set(name, level, time.Now(), lasts); err != nil {
				t.Error(err)
			}
		}
		want("as configured", "upstream")
		set(Downstream, "debug", time.Minute)
		want("for a minute", "downstream upstream")
		if s := l.Status()[2]; s.Package != Downstream || s.Level != "debug" || s.Configured != "warn" || s.Until == nil || !s.Until.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("the status is %+v", s)
		}
		time.Sleep(59 * time.Second)
		set(Downstream, "debug", time.Minute)
		time.Sleep(2 * time.Second)
		want("after the first minute, of which the second took over", "downstream upstream")
		l.Configure("warn", map[string]string{Upstream: "debug", Seed: "debug"})
		want("a configuration that says nothing new of it", "downstream seed upstream")
		time.Sleep(time.Minute)
		want("after the second minute", "seed upstream")
		set("", "error", 0)
		time.Sleep(time.Hour)
		want("all of them", "")
		l.Configure("warn", map[string]string{Upstream: "info", Seed: "debug"})
		if s := l.Status()[8]; s.Package != Upstream || s.Level != "info" {
			t.Errorf("a configuration that says something else is not in force: %+v", s)
		}
		want("seed is as the operator has it", "")
		set("", Configured, 0)
		want("as configured again", "seed")
	})
}

// TestRefusedLevels: what makes no sense changes nothing, and the error says what would.
func TestRefusedLevels(t *testing.T) {
	l := New("info", nil)
	for _, row := range []struct {
		name, level string
		lasts       time.Duration
		want        string
	}{
		{"relay", "debug", 0, `package "relay": the packages are admin, config`},
		{Seed, "loud", 0, `level "loud": write one of debug, info, warn, error, configured`},
		{Seed, "debug", -1, "for -1ns"},
		{Seed, Configured, time.Second, "for 1s"},
	} {
		err := l.Set(row.name, row.level, time.Now(), row.lasts)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v", row, err)
		}
	}
	for _, s := range l.Status() {
		if s.Level != "info" {
			t.Errorf("%+v", s)
		}
	}
}

// TestDisabledCostsNothing: a line that is off makes no object if Check is asked first.
func TestDisabledCostsNothing(t *testing.T) {
	core, _ := observer.New(zapcore.DebugLevel)
	log := New("info", nil).Logger(zap.New(core), Downstream)
	if n := testing.AllocsPerRun(1000, func() {
		if ce := log.Check(zap.DebugLevel, "x"); ce != nil {
			ce.Write(zap.String("some", "field"))
		}
	}); n != 0 {
		t.Errorf("%v objects", n)
	}
}

// TestNoLogger: a logger that writes nothing writes nothing at any level, also of what is set later.
func TestNoLogger(t *testing.T) {
	l := New("debug", nil)
	log := l.Logger(zap.NewNop(), Seed)
	if err := l.Set(Seed, "error", time.Now(), 0); err != nil {
		t.Fatal(err)
	}
	if log.Check(zap.ErrorLevel, "x") != nil || log.With(zap.Int("some", 1)).Core().Enabled(zap.ErrorLevel) {
		t.Error("it writes")
	}
}
