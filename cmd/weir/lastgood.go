package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
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

func lastGoodFlag(cmd *cobra.Command, s *start) {
	f := cmd.Flags()
	f.StringVar(&s.lastGood, "last-good", "", "if the file is refused, start with the one that was accepted last, as kept in `DIR`")
	f.Lookup("last-good").NoOptDefVal = besideSnapshot
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
		ofConfig.Warn("--last-good has nothing to give: cache.snapshot.path is empty, so the configuration is kept nowhere; name a directory with --last-good=DIR")
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
		p.logger(levels.Config).Warn("the accepted configuration cannot be kept; at a start with a refused file --last-good gives an older one, or none",
			zap.String("path", file), zap.Error(err))
	}
}

// keepWhole replaces the file, unless it would take the room of the snapshot beside it.
func (p *process) keepWhole(file string, cfg *config.Config) error {
	c, text := &cfg.Cache.Snapshot, cfg.Text()
	if most := snapshot.MaxBeside(int64(c.MaxBytes)); c.MaxBytes > 0 && p.keepIn == c.Path && int64(len(text)) > most {
		return fmt.Errorf("it has %d bytes, and cache.snapshot.max_bytes leaves %d for it", len(text), most)
	}
	return writeWhole(file, text)
}

// writeWhole replaces a file atomically and durably.
func writeWhole(path string, text []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*.tmp") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is returned
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // nothing was written
	return d.Sync()
}
