package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// bed is what the command run was told.
type bed struct {
	fleet         fleet.Config
	world         world.Options
	weir          string // path
	direct        bool
	originDialect string
}

func runCommand() *cobra.Command {
	var b bed
	var output string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Start an origin, a weir before it and a fleet, and tell what it costs",
		Long: `Start an origin and a weir as processes of their own, with ports that the system chooses, and a fleet that measures them; end
them all. Without a number of changes or a rate only the storm is measured. The flags are those of origin and fleet.`,
		Example: `  weirload run --clients 1000 --changes 50
  weirload run --clients 500 --dialect sotw --rate 10 --for 10s
  weirload run --clients 500 --type eds --resources 5000 --names 50 --rate 100 --for 10s -o json`,
		Args: cobra.NoArgs,
	}
	fs := cmd.Flags()
	addFleetFlags(fs, &b.fleet)
	fs.StringVar((*string)(&b.world.Kind), "type", string(world.Clusters), "type of the resources: cds or eds")
	fs.IntVar(&b.world.Resources, "resources", 1000, "how many resources there are")
	fs.IntVar(&b.world.Bytes, "bytes", 436, "about how many bytes an encoded resource has")
	fs.StringVar(&b.weir, "weir", "", "the weir to start (default: the one beside this program, or in PATH)")
	fs.StringVar(&b.originDialect, "origin-dialect", "delta", "what weir speaks to the origin: delta or sotw")
	fs.BoolVar(&b.direct, "direct", false, "no weir: the fleet asks the origin itself")
	addOutputFlag(fs, &output)
	cmd.PreRunE = checkOutput(&output)
	cmd.RunE = action(func(cmd *cobra.Command) error {
		b.fleet.Say = sayTo(cmd.ErrOrStderr())
		report, err := b.run(cmd.Context())
		if err != nil {
			return err
		}
		return write(report, output, cmd.OutOrStdout())
	})
	return cmd
}

// run starts everything, measures, and ends everything.
func (b *bed) run(ctx context.Context) (report *fleet.Report, err error) {
	b.world.NamesPerClient = b.fleet.Names
	b.fleet.TypeURL, b.fleet.Resources = b.world.Kind.TypeURL(), b.world.Resources
	if _, err := world.New(b.world); err != nil {
		return nil, err
	}
	program := ""
	if !b.direct {
		if program, err = findWeir(b.weir); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "weirload-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var children []*child
	defer func() {
		cancel(nil)
		for _, c := range children {
			err = errors.Join(err, c.end())
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()

	origin, ready, err := startOrigin(ctx, cancel, b.world)
	if err != nil {
		return nil, err
	}
	children = append(children, origin)
	b.fleet.Server, b.fleet.Control, b.fleet.PIDs = ready.XDS, ready.Control, []int{ready.PID}
	if !b.direct {
		weir, addr, err := startWeir(ctx, cancel, program, filepath.Join(dir, "weir.yaml"), b.config(ready.XDS))
		if err != nil {
			return nil, err
		}
		children = append(children, weir)
		b.fleet.Server, b.fleet.PIDs = addr, []int{weir.cmd.Process.Pid, ready.PID}
	}
	if b.fleet.Changes == 0 && b.fleet.For == 0 {
		b.fleet.Control = ""
	}
	f, err := fleet.New(b.fleet)
	if err != nil {
		return nil, err
	}
	return f.Run(ctx)
}

// config is weir's: its defaults, with one group, and room for as many streams on a connection as there will be.
func (b *bed) config(origin string) map[string]any {
	return map[string]any{
		"listeners": []any{map[string]any{"address": "127.0.0.1:0"}},
		"origins": []any{map[string]any{
			"name": "origin", "group_by": []any{},
			"grpc": map[string]any{"addresses": []any{origin}, "dialect": b.originDialect},
		}},
		"limits": map[string]any{"streams": 0, "streams_per_connection": max(100, b.fleet.PerConnection+1)},
		"timing": map[string]any{"drain": "100ms"},
		"admin":  map[string]any{"address": "127.0.0.1:0"},
	}
}

// findWeir prefers the one that was built with this program.
func findWeir(path string) (string, error) {
	if path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return "", fmt.Errorf("--weir: %w", err)
		}
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "weir")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("weir")
	if err != nil {
		return "", errors.New("no weir beside this program, and none in PATH: say where one is with --weir, or leave it out with --direct")
	}
	return path, nil
}

// startOrigin runs this program once more.
func startOrigin(ctx context.Context, fail context.CancelCauseFunc, o world.Options) (*child, world.Ready, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, world.Ready{}, err
	}
	cmd := exec.Command(self, "origin", "--type", string(o.Kind), "--resources", strconv.Itoa(o.Resources),
		"--bytes", strconv.Itoa(o.Bytes), "--names-per-client", strconv.Itoa(o.NamesPerClient))
	var ready world.Ready
	c, err := startChild(ctx, fail, "origin", cmd, cmd.StdoutPipe, func(line []byte) bool {
		return json.Unmarshal(line, &ready) == nil && ready.XDS != ""
	})
	return c, ready, err
}

// startWeir writes the file and runs weir with it, and gives the address that it listens on.
func startWeir(ctx context.Context, fail context.CancelCauseFunc, program, file string, config map[string]any) (*child, string, error) {
	text, err := json.Marshal(config) // which is YAML
	if err != nil {
		return nil, "", err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, "", err
	}
	cmd := exec.Command(program, "run", "-c", file)
	address := ""
	c, err := startChild(ctx, fail, "weir", cmd, cmd.StderrPipe, func(line []byte) bool {
		var entry struct{ Msg, Port, Address string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "listening" && entry.Port != "admin" {
			address = entry.Address
		}
		return address != ""
	})
	return c, address, err
}

// startTimeout is how long a process may take until it serves: an origin encodes a million resources first.
const startTimeout = time.Minute
