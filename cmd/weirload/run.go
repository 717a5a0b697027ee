package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weirload/bed"
	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// measurement has the options of the command run.
type measurement struct {
	fleet         fleet.Config
	world         world.Options
	weir          string // path
	direct        bool
	originDialect string
}

func runCommand() *cobra.Command {
	var m measurement
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
	addFleetFlags(fs, &m.fleet)
	fs.StringVar((*string)(&m.world.Kind), "type", string(world.Clusters), "type of the resources: cds or eds")
	fs.IntVar(&m.world.Resources, "resources", 1000, "how many resources there are")
	fs.IntVar(&m.world.Bytes, "bytes", 436, "about how many bytes an encoded resource has")
	fs.StringVar(&m.weir, "weir", "", "the weir to start (default: the one beside this program, or in PATH)")
	fs.StringVar(&m.originDialect, "origin-dialect", "delta", "what weir speaks to the origin: delta or sotw")
	fs.BoolVar(&m.direct, "direct", false, "no weir: the fleet asks the origin itself")
	addOutputFlag(fs, &output)
	cmd.PreRunE = checkOutput(&output)
	cmd.RunE = action(func(cmd *cobra.Command) error {
		m.fleet.Say = sayTo(cmd.ErrOrStderr())
		report, err := m.run(cmd.Context())
		if err != nil {
			return err
		}
		return write(report, output, cmd.OutOrStdout())
	})
	return cmd
}

// run starts everything, measures, and stops everything.
func (m *measurement) run(ctx context.Context) (report *fleet.Report, err error) {
	m.world.NamesPerClient = m.fleet.Names // to be checked with the rest
	m.fleet.TypeURL, m.fleet.Resources = m.world.Kind.TypeURL(), m.world.Resources
	if _, err := world.New(m.world); err != nil {
		return nil, err
	}
	program := ""
	if !m.direct {
		if program, err = findWeir(m.weir); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "weirload-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var children []*bed.Child
	defer func() {
		cancel(nil)
		for _, c := range slices.Backward(children) {
			err = errors.Join(err, c.End())
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()

	origin, ready, err := m.startOrigin(ctx, cancel)
	if err != nil {
		return nil, err
	}
	children = append(children, origin)
	m.fleet.Server, m.fleet.Control, m.fleet.PIDs = ready.XDS, ready.Control, []int{ready.PID}
	if !m.direct {
		weir, at, err := bed.StartWeir(ctx, cancel, program, filepath.Join(dir, "weir.yaml"), m.config(ready.XDS))
		if err != nil {
			return nil, err
		}
		children = append(children, weir)
		m.fleet.Server, m.fleet.PIDs = at.XDS, []int{weir.PID(), ready.PID}
	}
	f, err := fleet.New(m.fleet)
	if err != nil {
		return nil, err
	}
	return f.Run(ctx)
}

// startOrigin runs this program as an origin.
func (m *measurement) startOrigin(ctx context.Context, fail context.CancelCauseFunc) (*bed.Child, world.Ready, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, world.Ready{}, err
	}
	return bed.StartPlane(ctx, fail, "origin", exec.Command(self, "origin", "--type", string(m.world.Kind),
		"--resources", strconv.Itoa(m.world.Resources), "--bytes", strconv.Itoa(m.world.Bytes)))
}

// config returns weir's configuration: the defaults, with a group for each node.cluster, and room
// for as many streams on a connection as there will be.
func (m *measurement) config(origin string) map[string]any {
	return map[string]any{
		"listeners": []any{map[string]any{"address": "127.0.0.1:0"}},
		"origins": []any{map[string]any{
			"name": "origin", "group_by": []any{"cluster"},
			"grpc": map[string]any{"addresses": []any{origin}, "dialect": m.originDialect},
		}},
		"limits": map[string]any{"streams": 0, "streams_per_connection": max(100, m.fleet.PerConnection+1)},
		"timing": map[string]any{"drain": "100ms"},
		"admin":  map[string]any{"address": "127.0.0.1:0"},
	}
}

// findWeir returns the given path, or else the weir that was built with this program.
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
