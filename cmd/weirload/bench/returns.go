package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/fleet"
)

// away is how long clients are gone while weir is restarted.
const away = 5 * time.Second

// ticketKeys writes a file with a new key.
func (c *comparison) ticketKeys() (string, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return "", err
	}
	file := filepath.Join(c.dir, "tickets")
	return file, os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600)
}

// returns compares the return of all clients after a restart of weir with full handshakes, since it
// knows no session, and with resumed ones. Clients and server share the machine, so the time has the
// CPU of both; their shares are told apart.
func (c *comparison) returns(ctx context.Context, sc *scenario) (result, error) {
	found := result{}
	for name, tickets := range map[string]bool{"full": false, "resumed": true} {
		sc := *sc
		sc.tickets = tickets
		err := c.on(ctx, &sc, weir, func(ctx context.Context, s *server) error {
			r, spent, err := c.comeBack(ctx, &sc, s)
			if err != nil {
				return err
			}
			if want := int64(sc.clients); tickets && r.Resumed != want || !tickets && r.Resumed != 0 {
				return fmt.Errorf("%d of %d clients resumed their sessions; ticket keys: %v", r.Resumed, want, tickets)
			}
			each := 1e6 / float64(sc.clients)
			found["return_s_"+name] = r.ReturnSeconds
			found["server_us_"+name], found["client_us_"+name] = spent.Seconds()*each, r.ReturnFleetCPUSeconds*each
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	found["return_ratio"] = found["return_s_resumed"] / found["return_s_full"]
	found["server_ratio"] = found["server_us_resumed"] / max(found["server_us_full"], 1)
	return found, nil
}

// comeBack has all clients come, restarts weir while they are gone, and returns the CPU time that it
// spends on their return.
func (c *comparison) comeBack(ctx context.Context, sc *scenario, s *server) (r *fleet.Report, spent time.Duration, err error) {
	cfg := c.config(sc, weir, s)
	cfg.PIDs, cfg.ConnectRate, cfg.Away, cfg.Rest = nil, idleRate*2, away, time.Second
	var began time.Duration
	var restarted chan error // nil: nothing is under way
	failed := errors.New("weir was not restarted")
	r, err = c.programs.fleet(ctx, cfg, sc.world.Kind, cue{left, func() {
		restarted = make(chan error, 1)
		go func(done chan<- error) {
			err := s.restart(c.programs.weir, c.dir)
			if err == nil {
				began, err = fleet.CPUTime(s.pids[0])
			}
			done <- err
		}(restarted)
	}}, cue{resting, func() {
		if failed = <-restarted; failed == nil {
			spent, failed = fleet.CPUTime(s.pids[0])
		}
		restarted = nil
	}})
	if restarted != nil { // the fleet ended early
		failed = <-restarted
	}
	return r, spent - began, errors.Join(err, failed)
}
