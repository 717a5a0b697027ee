package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"

	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// arguments returns the arguments of `weirload fleet` for a configuration, as far as measurements
// use it.
func arguments(c *fleet.Config, kind world.Kind) []string {
	args := []string{"fleet", "--output", "json", "--server", c.Server, "--type", string(kind), "--dialect", string(c.Dialect)}
	number := func(flag string, n int) {
		if n != 0 {
			args = append(args, "--"+flag, strconv.Itoa(n))
		}
	}
	if c.Control != "" {
		args = append(args, "--control", c.Control)
	}
	number("clients", c.Clients)
	number("per-connection", c.PerConnection)
	number("names", c.Names)
	number("resources", c.Resources)
	number("connect-rate", c.ConnectRate)
	number("groups", c.Groups)
	number("deaf", c.Deaf)
	number("mute", c.Mute)
	number("slow", c.Slow)
	number("rate", c.Rate)
	number("changes", c.Changes)
	number("batch", c.Batch)
	if c.For > 0 {
		args = append(args, "--for", c.For.String())
	}
	if c.Patience > 0 {
		args = append(args, "--patience", c.Patience.String())
	}
	if c.Idle > 0 {
		args = append(args, "--idle", c.Idle.String())
	}
	if c.Away > 0 {
		args = append(args, "--away", c.Away.String())
	}
	if c.Rest > 0 {
		args = append(args, "--rest", c.Rest.String())
	}
	for _, pid := range c.PIDs {
		number("server-pid", pid)
	}
	return append(args, c.TLS.Arguments()...)
}

// cue is something to be done when the fleet prints a line.
type cue struct {
	line string // a part of the line
	then func() // must return soon
}

// The lines to wait for.
const (
	allThere = "first state" // all clients have theirs, and the measurement begins
	resting  = fleet.Resting
	left     = fleet.Left
)

// listener keeps the fleet's output, and acts on the cues.
type listener struct {
	said bytes.Buffer
	cues []cue
}

func (l *listener) Write(p []byte) (int, error) {
	l.said.Write(p)
	for i := range l.cues {
		if c := &l.cues[i]; c.then != nil && bytes.Contains(l.said.Bytes(), []byte(c.line)) {
			c.then()
			c.then = nil
		}
	}
	return len(p), nil
}

// fleet runs a fleet.
func (p *programs) fleet(ctx context.Context, c *fleet.Config, kind world.Kind, at ...cue) (*fleet.Report, error) {
	cmd := exec.CommandContext(ctx, p.weirload, arguments(c, kind)...)
	f := &listener{cues: at}
	cmd.Stderr = f
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("weirload fleet: %w\n%s", err, f.said.Bytes())
	}
	r := &fleet.Report{}
	if err := json.Unmarshal(out, r); err != nil {
		return nil, fmt.Errorf("weirload fleet: its report: %w", err)
	}
	if r.ChangesLost > 0 || r.StreamEnds > 0 {
		return nil, fmt.Errorf("weirload fleet: %d changes did not reach everybody, %d streams ended: %s", r.ChangesLost, r.StreamEnds, r.LastEnd)
	}
	return r, nil
}
