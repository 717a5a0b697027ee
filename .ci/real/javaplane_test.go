package real

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// javaSotW is java-control-plane. Its cache has one version for everything, and answers a SotW
// request on ADS only if all it names is there.
var javaSotW = origin{name: "java-control-plane-sotw", dialect: relaytest.SotW, program: javaPlane}

// javaDelta ignores initial_resource_versions: what went while no stream was open it never says to
// one that resumes.
var javaDelta = origin{
	name: "java-control-plane-delta", dialect: relaytest.Delta, program: javaPlane,
	weir: map[string]any{"resume": "none"},
}

func javaPlane(tb testing.TB) []string {
	return javaProgram(tb, "origins/javacontrolplane", "java-control-plane-"+pinned("JAVA_CONTROL_PLANE"), "ControlPlane")
}

// planeRun is a control plane that is a program of its own, running.
type planeRun struct {
	*child
	in        io.Writer
	asked     *atomic.Int64
	published atomic.Int64
	part      []byte // of a line
}

// startProgram runs the program with w.
func (p *plane) startProgram(w world) {
	p.tb.Helper()
	if _, port, _ := net.SplitHostPort(p.addr); port == "0" {
		p.addr = freeAddress(p.tb) // programs listen on 127.0.0.1
	}
	p.asked.Store(0)
	p.program = startPlane(p.tb, p.origin.program(p.tb), p.addr, &p.asked)
	p.set = p.program.publish
	p.Publish(w)
}

// freeAddress is one on loopback that a program is to have.
func freeAddress(tb testing.TB) string {
	tb.Helper()
	l := loopback(tb)
	if err := l.Close(); err != nil {
		tb.Fatal(err)
	}
	return l.Addr().String()
}

// startPlane runs a program on the port of addr.
func startPlane(tb testing.TB, args []string, addr string, asked *atomic.Int64) *planeRun {
	tb.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatal(err)
	}
	args = append(args, port)
	cmd, run := exec.Command(args[0], args[1:]...), &planeRun{asked: asked}
	cmd.Stdout = run
	if run.in, err = cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	run.child = start(tb, cmd)
	return run
}

// publish makes w all the program has, and waits until it is.
func (r *planeRun) publish(w world) error {
	all := &discovery.DiscoveryResponse{VersionInfo: fmt.Sprint(r.published.Load() + 1)}
	for _, typeURL := range slices.Sorted(maps.Keys(w)) {
		for _, name := range slices.Sorted(maps.Keys(w[typeURL])) {
			all.Resources = append(all.Resources, w[typeURL][name])
		}
	}
	b, err := proto.Marshal(all)
	if err != nil {
		return err
	}
	return r.give(b)
}

// give writes a line of input, and waits until the program has it.
func (r *planeRun) give(b []byte) error {
	n := r.published.Load() + 1
	if _, err := fmt.Fprintln(r.in, base64.StdEncoding.EncodeToString(b)); err != nil {
		return err
	}
	if !weirtest.Until(patience, func() bool { return r.published.Load() >= n || r.ended() }) || r.ended() {
		return errors.New("the control plane did not take what it was given")
	}
	return nil
}

// Write takes what the program prints.
func (r *planeRun) Write(b []byte) (int, error) {
	r.part = append(r.part, b...)
	for {
		line, rest, whole := bytes.Cut(r.part, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		switch string(line) {
		case "asked":
			r.asked.Add(1)
		case "published":
			r.published.Add(1)
		}
		r.part = rest
	}
}
