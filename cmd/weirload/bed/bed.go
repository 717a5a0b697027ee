package bed

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// StartPlane starts a program that prints world.Ready, and returns when it has. If the program ends
// before End, fail is called.
func StartPlane(ctx context.Context, fail context.CancelCauseFunc, name string, cmd *exec.Cmd) (*Child, world.Ready, error) {
	var ready world.Ready
	c, err := start(ctx, fail, name, cmd, cmd.StdoutPipe, func(line []byte) bool {
		return json.Unmarshal(line, &ready) == nil && ready.XDS != ""
	})
	return c, ready, err
}

// Addresses are the addresses of a weir.
type Addresses struct {
	XDS   string // of its first listener
	Admin string
}

// StartWeir writes a configuration, in which the system may choose ports, and starts a weir with
// it. The log level has to be info.
func StartWeir(ctx context.Context, fail context.CancelCauseFunc, program, file string, config any) (*Child, Addresses, error) {
	text, err := json.Marshal(config) // JSON is YAML
	if err != nil {
		return nil, Addresses{}, err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, Addresses{}, err
	}
	var at Addresses
	cmd := exec.Command(program, "run", "-c", file)
	c, err := start(ctx, fail, "weir", cmd, cmd.StderrPipe, func(line []byte) bool {
		var entry struct{ Msg, Port, Address string }
		if json.Unmarshal(line, &entry) != nil || entry.Msg != "listening" {
			return false
		}
		if entry.Port == "admin" {
			at.Admin = entry.Address
		} else if at.XDS == "" {
			at.XDS = entry.Address
		}
		return at.XDS != "" && at.Admin != ""
	})
	return c, at, err
}
