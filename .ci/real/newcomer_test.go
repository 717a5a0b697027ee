package real

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// A newcomer has the README, a clean clone and a terminal. The ports are the README's own, so all of
// it runs in a network namespace. The terminal is tmux: what is asserted is what stands on a screen.

// desk is the newcomer's: terminals that begin in one directory.
type desk struct {
	*testing.T
	socket, dir string
}

// newDesk is a desk in a network of its own, which has a loopback alone.
func newDesk(t *testing.T, dir string) *desk {
	t.Helper()
	for _, need := range []string{"tmux", "unshare", "ip"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skipf("%v: a newcomer needs a terminal and a network of its own", err)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("a network of its own needs root")
	}
	d := &desk{t, filepath.Join(t.TempDir(), "tmux"), dir}
	out, err := exec.Command("unshare", "-n", "--", "sh", "-c", `ip link set lo up && exec "$@"`, "sh",
		"tmux", "-S", d.socket, "-f", "/dev/null", "new-session", "-d", "-s", "desk", "-x", "160", "-y", "50", "sleep infinity").CombinedOutput()
	if err != nil {
		t.Fatalf("no terminal: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", d.socket, "kill-server").Run() })
	return d
}

func (d *desk) tmux(args ...string) string {
	d.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", d.socket}, args...)...).CombinedOutput()
	if err != nil {
		d.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), " \n")
}

// terminal is one of the desk's.
type terminal struct {
	*desk
	pane string
	runs int
}

func (d *desk) terminal() *terminal {
	d.Helper()
	pane := d.tmux("new-window", "-P", "-F", "#{pane_id}", "-t", "desk:", "-c", d.dir, "env", "PS1=$ ", "HISTFILE=", "bash", "--norc", "--noprofile")
	return &terminal{desk: d, pane: pane}
}

// screen is what stands there, and has scrolled away; lines that were too long are whole.
func (s *terminal) screen() string {
	s.Helper()
	return s.tmux("capture-pane", "-p", "-J", "-S", "-2000", "-t", s.pane)
}

func (s *terminal) typed(line string) {
	s.Helper()
	s.tmux("send-keys", "-t", s.pane, "-l", line)
	s.tmux("send-keys", "-t", s.pane, "Enter")
}

// run types a command, and waits for its end.
func (s *terminal) run(command string) (screen string, code int) {
	s.Helper()
	return s.runFor(command, patience)
}

func (s *terminal) runFor(command string, limit time.Duration) (screen string, code int) {
	s.Helper()
	s.runs++
	s.tmux("send-keys", "-t", s.pane, "-R")
	s.tmux("clear-history", "-t", s.pane)
	s.typed(fmt.Sprintf("%s; echo \"[$? of %d]\"", command, s.runs))
	end := regexp.MustCompile(fmt.Sprintf(`(?m)^(.*)\[(\d+) of %d\]$`, s.runs))
	var m []string
	if !weirtest.Until(limit, func() bool {
		screen = s.screen()
		m = end.FindStringSubmatch(screen)
		return m != nil
	}) {
		s.Fatalf("%s does not end:\n%s", command, screen)
	}
	code, _ = strconv.Atoi(m[2])
	_, screen, _ = strings.Cut(screen, "\n") // the command itself
	s.Logf("$ %s\n%s", command, screen)
	return screen, code
}

// says runs a command whose exit code is known, and whose screen has to name something.
func (s *terminal) says(code int, command string, parts ...string) string {
	s.Helper()
	screen, got := s.run(command)
	if got != code {
		s.Errorf("%s: exit code %d, want %d:\n%s", command, got, code, screen)
	}
	s.names(command, screen, parts...)
	return screen
}

func (s *terminal) names(command, screen string, parts ...string) {
	s.Helper()
	for _, part := range parts {
		if !strings.Contains(screen, part) {
			s.Errorf("%s does not name %q:\n%s", command, part, screen)
		}
	}
	for _, wrapper := range []string{"rpc error", "Get \"http", "goroutine ", "%!"} {
		if strings.Contains(screen, wrapper) {
			s.Errorf("%s shows %q:\n%s", command, wrapper, screen)
		}
	}
}

// soon waits until a command's screen has something.
func (s *terminal) soon(command string, parts ...string) string {
	s.Helper()
	screen := ""
	weirtest.Until(patience, func() bool {
		screen, _ = s.run(command)
		for _, part := range parts {
			if !strings.Contains(screen, part) {
				time.Sleep(time.Second)
				return false
			}
		}
		return true
	})
	s.names(command, screen, parts...)
	return screen
}

// shows waits until something stands on the screen of a program that goes on.
func (s *terminal) shows(part string) {
	s.Helper()
	if !weirtest.Until(patience, func() bool { return strings.Contains(s.screen(), part) }) {
		s.Errorf("no %q on the screen:\n%s", part, s.screen())
	}
}

// returns waits until a program that was told to end has ended.
func (s *terminal) returns() {
	s.Helper()
	if !weirtest.Until(patience, func() bool { return strings.HasSuffix(s.screen(), "\n$") }) {
		s.Errorf("it does not end:\n%s", s.screen())
	}
}

// commands are the README's lines of a section that begin with a word.
func commands(t *testing.T, section, first string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(text), "\n## "+section+"\n")
	body, _, _ = strings.Cut(body, "\n## ")
	for line := range strings.Lines(body) {
		if command := strings.TrimSpace(line); strings.HasPrefix(line, "    "+first) {
			command, _, _ = strings.Cut(command, "   #")
			all = append(all, strings.TrimSpace(command))
		}
	}
	if !found || len(all) == 0 {
		t.Fatalf("the README has no line %q in %s", first, section)
	}
	return all
}

// clone is the tree as it was committed last.
func clone(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "weir")
	if out, err := exec.Command("git", "-c", "safe.directory=*", "clone", "-q", "--no-hardlinks", "file://"+root, dir).CombinedOutput(); err != nil {
		t.Skipf("there is nothing to clone: %v\n%s", err, out)
	}
	return dir
}

// TestNewcomer does what the README says, and what people do wrong beside it: a real Envoy, and a
// control plane that knows one node by its id.
func TestNewcomer(t *testing.T) {
	const section = "Quick start"
	dir := clone(t)
	d := newDesk(t, dir)
	main, plane, running := d.terminal(), d.terminal(), d.terminal()

	if screen, code := main.runFor(commands(t, section, "make build")[0], 5*time.Minute); code != 0 {
		t.Fatalf("make build: %d\n%s", code, screen)
	}
	config := "# weir.yaml\n" + fenced(t, "# weir.yaml") + "\n"
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("weir.yaml", config)

	t.Run("before anything runs", func(t *testing.T) {
		s := &terminal{desk: &desk{t, d.socket, dir}, pane: main.pane, runs: 100}
		s.says(1, "bin/weir status", "no weir answers at 127.0.0.1:19080", "--admin", "WEIR_ADMIN", "admin.address")
		s.says(1, "bin/weir get cds", "127.0.0.1:18080", "--from")
		s.says(2, "bin/weir get", "TYPE is missing")
		s.says(2, "bin/weir statsu", "status")
		write("typo.yaml", strings.Replace(config, "dialect:", "dialekt:", 1))
		s.says(1, "bin/weir validate typo.yaml", "typo.yaml:", "dialekt", "did you mean", "dialect")
	})

	plane.typed(installedClient(t, "idplane") + " -node my-node")
	plane.shows("listening on 127.0.0.1:18000")
	for _, command := range commands(t, section, "bin/weir validate") {
		main.says(0, command, "ok")
	}
	start := commands(t, section, "bin/weir run")[0]
	running.typed(start)
	running.shows("19080")

	t.Run("a control plane that does not know the node", func(t *testing.T) {
		s := &terminal{desk: &desk{t, d.socket, dir}, pane: main.pane, runs: 200}
		s.says(1, "bin/weir get cds --timeout 12s", "no answer", "node id", "--node-id")
		watching := d.terminal()
		watching.typed("bin/weir get cds --watch")
		s.soon("bin/weir status", "it has not answered node id \"weir/", "origins[].node", "origins[].group_by", "silent about")
		running.shows("origins[].node and origins[].group_by")
		watching.tmux("kill-pane", "-t", watching.pane)
		// What the README says next.
		write("weir.yaml", strings.Replace(config, "  - name: mesh\n", "  - name: mesh\n    node: { id: my-node, cluster: my-cluster }\n", 1))
		s.says(0, "bin/weir validate weir.yaml", "ok")
		running.tmux("send-keys", "-t", running.pane, "C-c")
		running.returns()
		running.typed(start)
		for _, command := range commands(t, section, "bin/weir get cds --from") {
			s.soon(command, "backend")
		}
	})

	t.Run("an Envoy", func(t *testing.T) {
		s := &terminal{desk: &desk{t, d.socket, dir}, pane: main.pane, runs: 300}
		write("envoy-bootstrap.yaml", fenced(t, "# envoy-bootstrap.yaml")+"\n")
		envoy := d.terminal()
		envoy.typed(installed(t, "envoy-"+pinned("ENVOY_NEWEST")) + " --concurrency 1 --disable-hot-restart -c envoy-bootstrap.yaml")
		const request = `exec 3<>/dev/tcp/127.0.0.1/10000 && printf 'GET / HTTP/1.1\r\nHost: hello\r\nConnection: close\r\n\r\n' >&3 && cat <&3; echo`
		s.soon(request, "hello through weir")
		s.soon("bin/weir status", "newest configuration of 1 origin", "connected", "GROUP")
		s.says(0, "bin/weir clients", "envoy-1", "edge")
		s.says(0, "bin/weir explain envoy-1", "current")
		s.says(1, "bin/weir explain envoy-2", `no client with the node id "envoy-2" is connected`, "weir clients")
		s.says(1, "bin/weir freeze nope", "nope", "mesh")
		s.says(0, "bin/weir nacks", "no client has rejected anything")

		plane.tmux("send-keys", "-t", plane.pane, "C-c")
		s.soon("bin/weir status", "has been away since", "disconnected")
		for _, command := range commands(t, section, "bin/weir get cds --from") {
			s.says(0, command, "backend")
		}
		s.says(0, request, "hello through weir")
		s.says(0, "bin/weir drain --wait", "")
		running.returns()
	})
}

// installedClient is a client program that TestMain built.
func installedClient(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(clients, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}
