package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/weir-xds/weir/cmd/weirload/bed"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// server is what a fleet connects to: a plane, or a weir in front of one.
type server struct {
	ctx      context.Context // ends, with the reason, when a process ends by itself
	xds      string
	pprof    string // of the plane, or of weir
	control  string // of the plane
	pids     []int  // the measured process first
	cancel   context.CancelCauseFunc
	children []*bed.Child
	file     map[string]any // of weir
}

// startPlane starts the plane of a program, with further arguments.
func startPlane(ctx context.Context, program, kind string, o *world.Options, more ...string) (*server, error) {
	s := &server{}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	arguments := []string{
		kind, "--type", string(o.Kind), "--resources", fmt.Sprint(o.Resources),
		"--bytes", fmt.Sprint(o.Bytes), "--names-per-client", fmt.Sprint(o.NamesPerClient),
	}
	cmd := exec.Command(program, append(arguments, more...)...)
	child, ready, err := bed.StartPlane(s.ctx, s.cancel, kind, cmd)
	if err != nil {
		s.cancel(nil)
		return nil, err
	}
	s.xds, s.pprof, s.control = ready.XDS, ready.Control, ready.Control
	s.pids, s.children = []int{child.PID()}, []*bed.Child{child}
	return s, nil
}

// config returns weir's default configuration, in front of the plane: one group, and ports that the
// system chooses.
func (s *server) config() map[string]any {
	return map[string]any{
		"listeners": []any{map[string]any{"address": "127.0.0.1:0"}},
		"origins": []any{map[string]any{
			"name": "plane", "group_by": []any{}, "grpc": map[string]any{"addresses": []any{s.xds}, "dialect": "delta"},
		}},
		"admin":  map[string]any{"address": "127.0.0.1:0"},
		"timing": map[string]any{"drain": "100ms"},
	}
}

// before starts a weir in front of the plane, with a configuration that it writes to dir. If weir
// does not start, the plane is stopped.
func (s *server) before(program, dir string, config map[string]any) error {
	child, at, err := bed.StartWeir(s.ctx, s.cancel, program, filepath.Join(dir, "weir.yaml"), config)
	if err != nil {
		return errors.Join(err, s.stop())
	}
	s.xds, s.pprof, s.file = at.XDS, at.Admin, config
	s.pids, s.children = append([]int{child.PID()}, s.pids...), append([]*bed.Child{child}, s.children...)
	return nil
}

// restart ends weir, and starts it again on the port that it had.
func (s *server) restart(program, dir string) error {
	err := s.children[0].End()
	s.children, s.pids = s.children[1:], s.pids[1:]
	s.file["listeners"].([]any)[0].(map[string]any)["address"] = s.xds
	return errors.Join(err, s.before(program, dir, s.file))
}

// stop stops weir, and then the plane.
func (s *server) stop() error {
	var errs []error
	for _, child := range s.children {
		errs = append(errs, child.End())
	}
	s.cancel(nil)
	return errors.Join(errs...)
}

// with runs a measurement on a server and stops the server.
func (s *server) with(measure func(context.Context) error) error {
	err := measure(s.ctx)
	if cause := context.Cause(s.ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	return errors.Join(err, s.stop())
}
