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

// arguments are those of `weirload fleet` for what a measurement needs of it.
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
	for _, pid := range c.PIDs {
		number("server-pid", pid)
	}
	return args
}

// full notices in what the fleet says that all clients have their first state.
type full struct {
	said bytes.Buffer
	then func()
}

func (f *full) Write(p []byte) (int, error) {
	f.said.Write(p)
	if f.then != nil && bytes.Contains(f.said.Bytes(), []byte("first state")) {
		f.then()
		f.then = nil
	}
	return len(p), nil
}

// fleet runs one, and calls then when all its clients have their first state.
func (p *programs) fleet(ctx context.Context, c *fleet.Config, kind world.Kind, then func()) (*fleet.Report, error) {
	cmd := exec.CommandContext(ctx, p.weirload, arguments(c, kind)...)
	f := &full{then: then}
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
