package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestHelpOfEveryCommand: each command is in a group, and has a sentence and examples that it takes.
// No line is too long, and no description shows backquotes, which stand in the help of the library
// for the name of a value.
func TestHelpOfEveryCommand(t *testing.T) {
	root := commandTree()
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" && cmd.Name() != "help" && cmd.Name() != "completion" && cmd.Name() != "version" {
			t.Errorf("%s is in no group", cmd.CommandPath())
		}
	}
	var each func(*cobra.Command)
	each = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		_, help, _ := weir(t, append(strings.Fields(path)[1:], "--help")...)
		for line := range strings.Lines(help) {
			if len(line) > helpWidth+1 {
				t.Errorf("%s: a line of the help is too long: %q", path, line)
			}
		}
		if strings.Contains(help, "`") || cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: %q, and\n%s", path, cmd.Short, help)
		}
		foreign := cmd.HasParent() && (cmd.Name() == "help" || cmd.Name() == "completion" || cmd.Parent().Name() == "completion")
		if cmd.HasParent() && !foreign {
			examplesOf(t, cmd)
		}
		if strings.Contains(help, "--token-file") != (talks(cmd) || cmd == root) {
			t.Errorf("%s: connection flags are for commands that talk to a running weir:\n%s", path, help)
		}
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	each(root)
	_, help, _ := weir(t, "--help")
	at := 0
	for _, title := range []string{"\nServe:\n", "\nInspect:\n", "\nAct on a running weir:\n", "\nConfigure:\n", "\nConnection flags, for commands"} {
		i := strings.Index(help, title)
		if i < at {
			t.Errorf("%q is not in its place in\n%s", title, help)
		}
		at = i
	}
}

// examplesOf checks that the examples of a command are its own, and taken.
func examplesOf(t *testing.T, of *cobra.Command) {
	t.Helper()
	if of.Example == "" {
		t.Errorf("%s has no example", of.CommandPath())
	}
	for line := range strings.Lines(of.Example) {
		if !strings.HasPrefix(line, "  weir ") {
			t.Errorf("%s: the example %q", of.CommandPath(), line)
			continue
		}
		for _, command := range commandsOf(strings.TrimSpace(line)) {
			if command[0] != "weir" {
				continue // what weir prints is piped to it
			}
			cmd, err := parsed(command[1:])
			if err != nil || !strings.HasPrefix(cmd.CommandPath(), of.CommandPath()) {
				t.Errorf("the example %q of %s: %v", line, of.CommandPath(), err)
			}
		}
	}
}

// TestFlagsBeforeTheCommand: connection flags are global, so they may stand before the command.
func TestFlagsBeforeTheCommand(t *testing.T) {
	w := startWeir(t, freePorts+filesOrigin(newFiles(t)))
	for _, flags := range [][]string{{"--admin", w.admin.listener.Addr().String()}, {"--admin=" + w.admin.listener.Addr().String()}} {
		if code, stdout, stderr := weir(t, append(flags, "status")...); code != exitOK || !strings.Contains(stdout, "disk") {
			t.Errorf("%v: %d, %q, %q", flags, code, stdout, stderr)
		}
	}
	if code, _, stderr := weir(t, "--tls", "--admin", w.admin.listener.Addr().String(), "status"); code != exitFailed || !strings.Contains(stderr, "does not speak TLS") {
		t.Errorf("--tls: %d, %q", code, stderr)
	}
}

// TestFlagDescriptions: what a shell shows beside a flag has no backquotes, and no flag of a running
// weir where none is asked.
func TestFlagDescriptions(t *testing.T) {
	for _, cmd := range commandsOfTree(commandTree()) {
		_, stdout, _ := weir(t, append(append([]string{"__complete"}, strings.Fields(cmd.CommandPath())[1:]...), "--")...)
		needs := cmd.Name() == "rollback" // --to, which is then all that is offered
		if strings.Contains(stdout, "`") || strings.Contains(stdout, "--token-file") != (talks(cmd) && !needs) {
			t.Errorf("%s: %s", cmd.CommandPath(), stdout)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if strings.Contains(f.Usage, "`") {
				t.Errorf("%s --%s: %s", cmd.CommandPath(), f.Name, f.Usage)
			}
		})
	}
}
