package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/fleet"
)

// profiles is the directory of profiles; "": none are taken.
type profiles string

// cpu takes a CPU profile of a server, of the given length.
func (dir profiles) cpu(ctx context.Context, addr, name string, span time.Duration) error {
	return dir.fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", addr, int(span.Seconds())), name+".cpu.pprof")
}

// profile runs the scenario once more for weir and for the yardstick, and takes profiles of each:
// of its CPU under load, which costs some CPU itself, and of its heap at the end. The figures of
// these runs do not count.
func (c *comparison) profile(ctx context.Context, sc *scenario) error {
	if err := os.MkdirAll(string(c.profiles), 0o777); err != nil {
		return err
	}
	var failed []error
	for _, subject := range c.subjects {
		if (subject == weir || subject == yardstick) && sc.measures(subject, 0) {
			failed = append(failed, c.profileOf(ctx, sc, subject))
		}
	}
	return errors.Join(failed...)
}

// aside is how much longer a fleet runs than its server's profile. longestProfile is what that
// leaves of the longest run of a fleet.
const (
	aside          = 2 * time.Second
	longestProfile = fleet.MaxFor - aside
)

func (c *comparison) profileOf(ctx context.Context, sc *scenario, subject string) error {
	err := c.on(ctx, sc, subject, func(ctx context.Context, s *server) error {
		cfg := c.config(sc, subject, s)
		cfg.Changes, cfg.For = 0, c.profileFor+aside // as many changes as fit
		name, taken := sc.name+"."+subject, make(chan error, 1)
		take := func() {
			err := c.profiles.cpu(ctx, s.pprof, name, c.profileFor)
			taken <- errors.Join(err, c.profiles.heap(ctx, s.pprof, name))
		}
		var err error
		if sc.mode == storm || sc.mode == idle {
			cfg.For, cfg.Idle = 0, cfg.For
			go take()
			_, err = c.programs.fleet(ctx, cfg, sc.world.Kind)
		} else {
			_, err = c.programs.fleet(ctx, cfg, sc.world.Kind, cue{allThere, func() { go take() }})
		}
		if err != nil {
			return err
		}
		return <-taken
	})
	if err != nil {
		return fmt.Errorf("%s, %s, with profiles: %w", sc.name, subject, err)
	}
	return nil
}

// heap takes a heap profile of a server after a collection.
func (dir profiles) heap(ctx context.Context, addr, name string) error {
	return dir.fetch(ctx, "http://"+addr+"/debug/pprof/heap?gc=1", name+".heap.pprof")
}

func (dir profiles) fetch(ctx context.Context, url, name string) error {
	body, err := get(ctx, url)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(string(dir), name))
	if err != nil {
		return orClose(err, body)
	}
	_, err = io.Copy(f, body)
	return orClose(orClose(err, f), body)
}
