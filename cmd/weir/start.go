package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/cmd/weir/tracing"
	"github.com/weir-xds/weir/cmd/weir/visible"
	"github.com/weir-xds/weir/relay"
)

const (
	// lastGoodName is the file with the text of the configuration that was last accepted.
	lastGoodName = "weir.yaml.last-good"
	// besideSnapshot is the value of --last-good without a directory.
	besideSnapshot = "cache.snapshot.path"
)

// start makes the process of the run command: with the config file, or with the configuration that
// was last accepted.
type start struct {
	// Set once.
	path     string // of the config file
	lastGood string // the flag: a directory, besideSnapshot, or "" if a refused file is an error
	stderr   io.Writer
	hangup   <-chan os.Signal
}

// process opens the process for cfg. refusal is the loader's error; opening may fail, too. If the
// flag was given, the configuration that was last accepted is used then.
func (s *start) process(ctx context.Context, cfg *config.Config, refusal error) (*process, error) {
	if refusal == nil {
		var p *process
		if p, refusal = s.open(ctx, cfg); refusal == nil {
			p.last.Store(&admin.ConfigState{File: s.path, Since: p.started, Read: p.started, Hash: hashOf(cfg.Text())})
			p.keep(cfg)
			return p, nil
		}
	}
	if s.lastGood == "" || ctx.Err() != nil {
		return nil, refusal
	}
	file, err := s.file()
	if err != nil {
		return nil, errors.Join(refusal, err)
	}
	text, accepted, err := readLastGood(file)
	if err != nil {
		return nil, errors.Join(refusal, fmt.Errorf("--last-good: %w", err))
	}
	// Its relative paths are relative to the config file's directory.
	if cfg, err = config.Parse(s.path, text, os.LookupEnv); err == nil {
		var p *process
		if p, err = s.open(ctx, cfg); err == nil {
			p.last.Store(&admin.ConfigState{File: s.path, Since: p.started, Hash: hashOf(text), LastGood: file, Accepted: accepted})
			p.refusedAtStart = refusal
			p.refused(p.started, "the start", refusal)
			p.metrics.ConfigLoaded(refusal)
			p.metrics.ConfigAccepted(accepted)
			return p, nil
		}
	}
	for _, x := range config.Problems(err) {
		x.File = file
	}
	return nil, errors.Join(refusal, err)
}

// open opens the process of a configuration, with the configured log.
func (s *start) open(ctx context.Context, cfg *config.Config) (*process, error) {
	log := newLogger(cfg.Log, s.stderr)
	ofConfig := levels.New(cfg.Log.Level, cfg.Log.Levels).Logger(log, levels.Config)
	for _, w := range cfg.Warnings() {
		warn(ofConfig, w)
	}
	p, err := newProcess(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	p.path, p.hangup, p.service = s.path, s.hangup, newService(p)
	p.keepIn = cfg.Cache.Snapshot.Path
	if s.lastGood != "" && s.lastGood != besideSnapshot {
		p.keepIn = s.lastGood
	} else if s.lastGood != "" && p.keepIn == "" {
		ofConfig.Warn("--last-good has no file to use: cache.snapshot.path is empty, so no configuration was saved; name a directory with --last-good=DIR")
	}
	return p, nil
}

// file returns the path of the last accepted configuration. Without a directory in the flag the
// refused file has to say it, as far as it can be read.
func (s *start) file() (string, error) {
	dir := s.lastGood
	if dir == besideSnapshot {
		text, err := config.ReadFile(s.path)
		if err == nil {
			dir = config.SnapshotPath(s.path, text, os.LookupEnv)
		}
		if err != nil || dir == "" {
			return "", fmt.Errorf("--last-good: %s does not say a cache.snapshot.path that can be read; say where with --last-good=DIR", s.path)
		}
	}
	return filepath.Join(dir, lastGoodName), nil
}

func readLastGood(file string) (text []byte, accepted time.Time, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, time.Time{}, err
	}
	text, err = config.ReadFile(file)
	return text, info.ModTime(), err
}

// hashOf returns the SHA-256 of a configuration's text, as sha256sum prints it.
func hashOf(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// keep writes the text of an accepted configuration for a start with a refused file: with variables
// not replaced, readable by weir's user only. If that fails, the previous one stays.
func (p *process) keep(cfg *config.Config) {
	if p.keepIn == "" || p.path == "" {
		return
	}
	file := filepath.Join(p.keepIn, lastGoodName)
	if kept, err := config.ReadFile(file); err == nil && bytes.Equal(kept, cfg.Text()) {
		return
	}
	if err := p.keepWhole(file, cfg); err != nil {
		p.logger(levels.Config).Warn("cannot save the accepted configuration; --last-good would use an older one, or none",
			zap.String("path", file), zap.Error(err))
	}
}

// keepWhole replaces the file, unless it would take the room of the snapshot beside it.
func (p *process) keepWhole(file string, cfg *config.Config) error {
	c, text := &cfg.Cache.Snapshot, cfg.Text()
	if most := snapshot.MaxBeside(int64(c.MaxBytes)); c.MaxBytes > 0 && p.keepIn == c.Path && int64(len(text)) > most {
		return fmt.Errorf("it has %d bytes, and cache.snapshot.max_bytes leaves %d for it", len(text), most)
	}
	if err := os.MkdirAll(p.keepIn, 0o700); err != nil {
		return err
	}
	return writeWhole(file, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// writeWhole replaces a file atomically and durably.
func writeWhole(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // with mode 0600
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is returned
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // nothing was written
	return d.Sync()
}

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [FILE]",
		Short: "Run the relay",
		Long: `Run the relay with the configuration in FILE (default: weir.yaml). Relative paths in
it start at the directory of the file.

SIGTERM or ^C drains the clients and stops. A second signal stops at once. SIGHUP
reads the file again; weir also reads it whenever it changes.

weir saves each accepted configuration in cache.snapshot.path. With --last-good it
starts with the saved one if it rejects FILE, and logs that. --last-good=DIR saves
to DIR instead.`,
		Example: `  weir run
  weir run /etc/weir/weir.yaml
  weir run -c /etc/weir/weir.yaml --last-good=/var/lib/weir`,
	}
	configFlag(cmd)
	s := &start{}
	cmd.Flags().StringVar(&s.lastGood, "last-good", "", "if FILE is rejected, start with the last accepted configuration, saved in `DIR`")
	cmd.Flags().Lookup("last-good").NoOptDefVal = besideSnapshot
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP) // from here on SIGHUP does not end the process
		defer signal.Stop(hangup)
		path, cfg, err := loadConfig(cmd, args)
		if usage := (usageError{}); errors.As(err, &usage) {
			return err
		}
		s.path, s.stderr, s.hangup = path, cmd.ErrOrStderr(), hangup
		p, err := s.process(cmd.Context(), cfg, err)
		if err != nil {
			return err
		}
		return p.run(cmd.Context())
	})
	return cmd
}

// newLogger writes to w, one line per entry, whatever its level: packages have levels of their own.
// What peers have hidden in names is shown.
func newLogger(cfg config.Log, w io.Writer) *zap.Logger {
	fields := zap.NewProductionEncoderConfig()
	fields.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	fields.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(fields)
	if cfg.Format == "console" {
		encoder = zapcore.NewConsoleEncoder(fields)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(visible.NewWriter(w)), zap.DebugLevel))
}

// openTracing begins to draw updates, if the configuration has an endpoint.
func (p *process) openTracing(ctx context.Context, cfg *config.Config) error {
	c := &cfg.Tracing
	if c.Endpoint == "" || c.Sample == 0 {
		return nil
	}
	name, err := instance(cfg)
	if err != nil {
		return err
	}
	tc := tracing.Config{
		Endpoint: c.Endpoint, Headers: c.Headers, Service: cfg.Name, Instance: name, Log: p.logger(levels.Tracing),
		Traces: relay.NewTraces(c.Sample, tracing.MostOpen),
		Unsent: func(all []*relay.Traced) []int { return p.server.Unsent(all) },
	}
	tc.Version, _ = buildVersion()
	if !c.Insecure {
		secured, err := p.tls.origin(cfg, "tracing.tls", &config.ClientTLS{CA: c.TLS.CA, Cert: c.TLS.Cert, Key: c.TLS.Key})
		if err != nil {
			return err
		}
		tc.TLS = secured.client()
		secured.close() // they are read once
	}
	if p.tracing, err = tracing.New(ctx, tc); err != nil {
		return cfg.Problemf("tracing.endpoint", "%v", err)
	}
	p.draws = tc.Traces
	return nil
}
