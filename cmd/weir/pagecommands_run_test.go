package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-xds/weir/cmd/weir/snapshot"
)

// TestWeirOfThePages: each weir command of the pages, also those that kubectl runs in a pod, is one
// that weir takes, and does its work beside a weir that serves.
func TestWeirOfThePages(t *testing.T) {
	all := commandsWith(t, "weir")
	for _, c := range commandsWith(t, "kubectl") {
		if _, inside, ok := cutAt(c.args, "--"); ok {
			all = append(all, pageCommand{c.page, inside[1:]})
		}
	}
	if len(all) < 15 {
		t.Errorf("only %d commands are found", len(all))
	}
	here := newPlace(t)
	for _, c := range all {
		cmd, err := parsed(c.args)
		if err != nil {
			t.Errorf("%s: weir %s: %v", c.page, strings.Join(c.args, " "), err)
			continue
		}
		if here.elsewhere(cmd) {
			continue
		}
		args := here.local(cmd, c.args)
		code, stdout, stderr := weir(t, args...)
		if cmd.CommandPath() == "weir authz explain" && code == exitFailed && strings.Contains(stdout, "\nasked at ") {
			continue // it explains why not
		}
		if cmd.CommandPath() == "weir explain" && code == exitFailed && strings.Contains(stdout, "unknown: ") {
			continue // nor has this weir such a client
		}
		if code != exitOK {
			t.Errorf("%s: weir %s\nas %s: %d\n%s%s", c.page, strings.Join(c.args, " "), strings.Join(args, " "), code, stdout, stderr)
		}
	}
}

// TestWeirInText: so are those in the middle of a sentence, but for what stands for something else,
// in capitals.
func TestWeirInText(t *testing.T) {
	found := 0
	for page, text := range docPages(t) {
		text = codeIndent.ReplaceAllString(codeBlock.ReplaceAllString(text, ""), "\n")
		for _, span := range regexp.MustCompile("`weir ([a-z][^`]*)`").FindAllStringSubmatch(text, -1) {
			found++
			cmd, rest, err := commandTree().Find(strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(span[1])))
			if err == nil && cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
				err = fmt.Errorf("%s has no %s", cmd.CommandPath(), rest[0])
			}
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) && strings.ToUpper(invalid.GetValue()) == invalid.GetValue() {
				err = nil // it stands for a value
			}
			if err != nil {
				t.Errorf("%s: weir %s: %v", page, span[1], err)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d are found", found)
	}
}

// parsed is the command of a command line, if it takes the flags and arguments.
func parsed(args []string) (*cobra.Command, error) {
	tree := commandTree()
	tree.InitDefaultCompletionCmd()
	cmd, rest, err := tree.Find(args)
	if err != nil {
		return nil, err
	}
	if cmd.HasSubCommands() {
		return nil, fmt.Errorf("%s is no command by itself", cmd.CommandPath())
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return nil, err
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return nil, err
	}
	return cmd, cmd.ValidateArgs(cmd.Flags().Args())
}

// place is a weir that serves, and a directory with what the commands of the pages name.
type place struct {
	dir   string
	names *strings.Replacer // of pages, and here
	w     *running
}

func newPlace(t *testing.T) *place {
	t.Helper()
	rules := `listeners:
  - { address: "0.0.0.0:18080", tls: { cert: c, key: k, client_ca: a } }
  - { address: "unix:///run/weir.sock" }
origins: [{ name: mesh, grpc: { addresses: ["a:1"] } }]
` + pageOfRules(t, "authorization:")
	questions := pageOfRules(t, "# rules-test.yaml")
	served := newFiles(t)
	served.put(t, "cds.yaml", clusters("cluster-000001", "cluster-000002"))
	p := &place{dir: t.TempDir()}
	p.w = startWeir(t, fmt.Sprintf(`
listeners: [{ address: "127.0.0.1:0" }, { address: "127.0.0.1:0", rest: true }]
admin: { address: "127.0.0.1:0" }
probes: { address: "127.0.0.1:0" }
cache: { snapshot: { path: %q, interval: 100ms } }
origins: [{ name: mesh, files: { path: %q } }]
`, p.dir+"/snapshot", served))
	if err := os.MkdirAll(p.dir+"/etc", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"cds.yaml": clusters("cluster-000001", "cluster-000002"), "weir.yaml": "origins: [{ name: mesh, grpc: { addresses: [\"a:1\"] } }]\n", "rules.yaml": rules, "rules-test.yaml": strings.Replace(questions, "weir.yaml", "rules.yaml", 1)} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(p.dir)
	t.Setenv(adminVariable, p.w.admin.listener.Addr().String())
	listeners := p.listeners()
	p.names = strings.NewReplacer(
		"127.0.0.1:19080", p.w.admin.listener.Addr().String(), "127.0.0.1:19081", p.w.probes.listener.Addr().String(),
		"127.0.0.1:18080", listeners[0], "127.0.0.1:18081", listeners[1],
		"/var/lib/weir/snapshot", p.dir+"/snapshot", "/etc/weir/config/", p.dir+"/", "/etc/weir/", p.dir+"/",
	)
	// A client, so that there is something in the snapshot.
	if code, _, stderr := weir(t, "get", "cds", "--from", listeners[0]); code != exitOK {
		t.Fatal(stderr)
	}
	await(t, "the snapshot is on disk", func() bool { return snapshotOf(t, p.w.admin.listener.Addr().String()).Resources == 2 })
	return p
}

// listeners are the addresses of gRPC and REST.
func (p *place) listeners() (addresses []string) {
	for _, port := range p.w.active.Load().ports {
		addresses = append(addresses, port.Addr().String())
	}
	return addresses
}

// elsewhere reports whether the command is one that other tests run: it serves, or ends what does.
func (p *place) elsewhere(cmd *cobra.Command) bool {
	switch cmd.CommandPath() {
	case "weir run", "weir demo", "weir drain", "weir rollback": // TestExamplesServe, TestDemo, TestDrainCommand, TestRollback
		return true
	}
	return false
}

// local is a command line with the addresses and files of here. What a server elsewhere is asked
// with TLS is asked in plain text.
func (p *place) local(cmd *cobra.Command, args []string) (local []string) {
	skip := false
	for _, arg := range args {
		if skip {
			skip = false
			continue
		}
		if name, isFlag := strings.CutPrefix(arg, "--"); isFlag {
			name, _, has := strings.Cut(name, "=")
			if slices.Contains([]string{"tls", "ca", "cert", "key", "server-name", "from", "admin", "token-file", "all"}, name) {
				skip = !has && name != "tls"
				if name == "from" {
					local = append(local, "--from", p.listeners()[0])
				}
				continue
			}
		}
		arg = p.names.Replace(arg)
		if cmd.CommandPath() == "weir diff" && regexp.MustCompile(`^[a-z][a-z0-9.-]*:[0-9]+$`).MatchString(arg) {
			arg = p.listeners()[0]
		}
		if strings.HasPrefix(cmd.CommandPath(), "weir authz") && filepath.Base(arg) == "weir.yaml" {
			arg = "rules.yaml"
		}
		local = append(local, arg)
	}
	return local
}

func cutAt(words []string, at string) (before, after []string, found bool) {
	if i := slices.Index(words, at); i >= 0 {
		return words[:i], words[i+1:], true
	}
	return words, nil, false
}

// TestKubectlOfThePages: kubectl is told to do what it can, and in a pod there is nothing but weir.
func TestKubectlOfThePages(t *testing.T) {
	verbs := strings.Fields("annotate apply create delete describe drain exec get label logs port-forward rollout run scale set wait uncordon")
	for _, c := range commandsWith(t, "kubectl") {
		args := c.args
		for len(args) > 1 && strings.HasPrefix(args[0], "-") { // -n NAMESPACE
			args = args[2:]
		}
		if len(args) == 0 || !slices.Contains(verbs, args[0]) {
			t.Errorf("%s: kubectl %q", c.page, c.args)
			continue
		}
		_, inside, ok := cutAt(args, "--")
		if args[0] == "exec" && (!ok || len(inside) < 2 || inside[0] != "/weir") {
			t.Errorf("%s: a pod has no other program than /weir: kubectl %q", c.page, c.args)
		}
	}
}

// TestCurlOfThePages: what the pages ask of weir by curl is answered.
func TestCurlOfThePages(t *testing.T) {
	all := commandsWith(t, "curl")
	here := newPlace(t)
	for _, c := range all {
		method, body, url := http.MethodGet, "", ""
		for i := 0; i < len(c.args); i++ {
			switch arg := c.args[i]; {
			case arg == "-d":
				method, i = http.MethodPost, i+1
				body = c.args[i]
			case arg == "-X":
				i++
				method = c.args[i]
			case strings.HasPrefix(arg, "-"):
				if strings.Trim(arg, "-sSf") != "" {
					t.Errorf("%s: curl %q: %s is not known here", c.page, c.args, arg)
				}
			default:
				url = here.names.Replace(strings.Replace(arg, "localhost", "127.0.0.1", 1))
			}
		}
		if !strings.Contains(url, "://") {
			url = "http://" + url
		}
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("%s: curl %q: %v", c.page, c.args, err)
			continue
		}
		said, _ := io.ReadAll(resp.Body) // for people
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: curl %q: %s: %s", c.page, c.args, resp.Status, said)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestKeyOfThePage: the key that the page makes is one for a snapshot.
func TestKeyOfThePage(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip(err)
	}
	_, indented := blocksOf(t)
	at := slices.IndexFunc(indented, func(b block) bool { return strings.HasPrefix(b.first, "openssl ") })
	if at < 0 {
		t.Fatal("no page makes a key")
	}
	dir := t.TempDir()
	script := strings.ReplaceAll(indented[at].text, "/etc/weir/", dir+"/")
	if out, err := exec.CommandContext(t.Context(), "sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, warning, err := snapshot.ReadKeys(dir + "/snapshot.key"); err != nil || warning != nil {
		t.Error(warning, err)
	}
}
