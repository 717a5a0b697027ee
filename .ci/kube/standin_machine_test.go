package kube

import (
	"net/netip"
	"os/exec"
	"syscall"
	"time"
)

// machine is a host outside of the cluster, with an address of its own on the same bridge.
type machine struct {
	address netip.Addr

	launcher  *launcher
	own       *namespaces
	processes []*process
}

// newMachine makes a machine of that name.
func (c *standin) newMachine(name string) (*machine, error) {
	own, address, err := c.network.join(name)
	if err != nil {
		return nil, err
	}
	return &machine{address: address, launcher: c.launcher, own: own}, nil
}

// start runs a command on the machine, which says where its output goes.
func (m *machine) start(cmd *exec.Cmd) error {
	p, err := m.launcher.start(cmd, m.own)
	if err == nil {
		m.processes = append(m.processes, p)
	}
	return err
}

// close ends what runs there, in order, or after ten seconds by force.
func (m *machine) close() {
	for _, p := range m.processes {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-p.done:
		case <-time.After(10 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
	m.own.close()
}
