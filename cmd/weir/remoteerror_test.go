package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/client/clienttest"
	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// commandsOfTree are all commands that do something by themselves.
func commandsOfTree(of *cobra.Command) (all []*cobra.Command) {
	if of.Runnable() && !of.HasSubCommands() {
		all = append(all, of)
	}
	for _, sub := range of.Commands() {
		all = append(all, commandsOfTree(sub)...)
	}
	return all
}

// minimal is the shortest command line that a command takes, with x for each argument.
func minimal(cmd *cobra.Command) []string {
	args := strings.Fields(cmd.CommandPath())[1:]
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.ToUpper(word) == word && !strings.ContainsAny(word, "[]-") {
			args = append(args, "x")
		}
	}
	if cmd.Flags().Lookup("to") != nil && strings.HasPrefix(cmd.Use, "rollback") {
		args = append(args, "--to", "last-good")
	}
	return args
}

// wantSentence checks that an error is one line with what to do, and without the words of a library.
func wantSentence(t *testing.T, line, stderr string) {
	t.Helper()
	if strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") {
		t.Errorf("%s: not one line: %q", line, stderr)
	}
	for _, word := range []string{"dial tcp", "dial unix", "rpc error", "desc =", "code =", "Get \"", "Post \"", "GET ", "POST ", "404 ", "409 ", "401 ", "400 ", "transport:", "lookup "} {
		if strings.Contains(stderr, word) {
			t.Errorf("%s: %q is a word of a library: %q", line, word, stderr)
		}
	}
}

// TestNobodyAnswers: each command that talks to a running weir says in one sentence that there is
// none, where it looked, and how to name another address.
func TestNobodyAnswers(t *testing.T) {
	dead := deadAddress(t)
	t.Setenv(adminVariable, dead)
	asked := 0
	for _, cmd := range commandsOfTree(commandTree()) {
		if !talks(cmd) {
			continue
		}
		asked++
		line := minimal(cmd)
		code, stdout, stderr := weir(t, line...)
		want := "no weir answers at " + dead + " (connection refused); is it running? Set --admin or WEIR_ADMIN to its admin.address\n"
		if code != exitFailed || stdout != "" || stderr != want {
			t.Errorf("%v: %d, %q, %q", line, code, stdout, stderr)
		}
	}
	if asked < 14 {
		t.Errorf("only %d commands were tried", asked)
	}
	for _, line := range []string{"get cds", "get cds web", "get cds --watch", "diff cds " + loopback + " "} {
		args := strings.Fields(line)
		if args[0] == "diff" {
			args = append(args[:2], dead, dead)
		} else {
			args = append(args, "--from", dead)
		}
		code, stdout, stderr := weir(t, args...)
		if code != exitFailed || stdout != "" || !strings.HasPrefix(stderr, "no xDS server answers at "+dead+" (connection refused); is it running?") {
			t.Errorf("%v: %d, %q, %q", args, code, stdout, stderr)
		}
		wantSentence(t, line, stderr)
	}
}

// TestWrongPort: a server of another kind, or with other security, is named, with the flag to give.
func TestWrongPort(t *testing.T) {
	ca, other := weirtest.NewAuthority(t, "ca"), weirtest.NewAuthority(t, "other")
	ca.Issue("server", 1)
	pair := ca.Pair("server")
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	plain := startWeir(t, freePorts+filesOrigin(dir))
	secret := tokenFile(t, "hush")
	secure := startWeir(t, "listeners: [{ address: \"127.0.0.1:0\", "+tlsOf(ca, "")+" }]\nadmin: { address: \"127.0.0.1:0\", "+tlsOf(ca, "")+fmt.Sprintf(", token_file: %q", secret)+" }\n"+filesOrigin(dir))
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	webAt := web.Listener.Addr().String()
	sotwOnly := clienttest.Serve(t, &clienttest.Server{Delta: func(clienttest.DeltaStream) error {
		return status.Error(codes.Unimplemented, "method DeltaAggregatedResources not implemented")
	}}, loopback)
	refusing := clienttest.Serve(t, &clienttest.Server{Delta: func(clienttest.DeltaStream) error {
		return status.Error(codes.PermissionDenied, "not\n\x1byou")
	}}, loopback, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	admin := func(w *running) string { return w.admin.listener.Addr().String() }
	for _, row := range []struct{ line, want string }{
		{"get cds --from " + secure.listenAddress(), secure.listenAddress() + ": closed the connection at once; if it speaks TLS, give --tls or --ca\n"},
		{"get cds --from " + plain.listenAddress() + " --tls", plain.listenAddress() + ": does not speak TLS; leave out --tls and --ca\n"},
		{"get cds --from " + secure.listenAddress() + " --ca " + other.Path("ca.pem"), secure.listenAddress() + ": its certificate is not accepted: x509: "},
		{"get cds --from " + admin(plain), admin(plain) + ": speaks gRPC, and does not serve ADS; an admin port does not either: name a listener\n"},
		{"get cds --from " + webAt, webAt + ": speaks HTTP and not gRPC; is it an admin port? Name a listener\n"},
		{"get cds --from " + sotwOnly, sotwOnly + ": does not serve the delta dialect; try --dialect sotw\n"},
		{"get cds a --from " + refusing + " --ca " + ca.Path("ca.pem"), refusing + ": ended the stream: not \\u001byou (PermissionDenied)\n"},
		{"get cds --from nowhere.invalid:1", "no xDS server answers at nowhere.invalid:1 (no such host); is it running?"},
		{"get cds --from unix:///nowhere", "no xDS server answers at unix:///nowhere (no such file or directory); is it running?"},
		{"diff cds " + plain.listenAddress() + " " + secure.listenAddress(), secure.listenAddress() + ": closed the connection at once; if it speaks TLS, give --tls or --ca\n"},
		{"status --admin " + admin(secure), admin(secure) + ": speaks TLS; give --tls or --ca\n"},
		{"status --admin " + admin(plain) + " --tls", admin(plain) + ": does not speak TLS; write http://, and leave out --tls and --ca\n"},
		{"freeze disk --admin " + admin(secure) + " --ca " + other.Path("ca.pem"), admin(secure) + ": its certificate is not accepted: x509: "},
		{"freeze disk --admin " + admin(secure) + " --ca " + ca.Path("ca.pem"), admin(secure) + ": this needs the token of admin.token_file; give it with --token-file\n"},
		{"status --admin " + plain.listenAddress(), plain.listenAddress() + ": does not speak HTTP; is it a listener? Set --admin or WEIR_ADMIN to its admin.address\n"},
		{"status --admin " + webAt, webAt + ": has no /overview: this is not an admin port, or weir there is older. Set --admin or WEIR_ADMIN to its admin.address\n"},
		{"explain n --follow --admin " + webAt, webAt + ": has no /explain/follow: "},
		{"status --admin unix:///nowhere", "no weir answers at unix:///nowhere (no such file or directory); is it running?"},
		{"status --admin nowhere.invalid:1", "no weir answers at nowhere.invalid:1 (no such host); is it running?"},
	} {
		code, stdout, stderr := weir(t, strings.Fields(row.line)...)
		if code != exitFailed || stdout != "" || !strings.HasPrefix(stderr, row.want) {
			t.Errorf("%s: %d, %q\ngot  %swant %s", row.line, code, stdout, stderr, row.want)
		}
		wantSentence(t, row.line, strings.Replace(stderr, "not \\u001byou", "", 1))
	}
}

// TestNoSuchOrigin: each command about an origin answers alike to a name that is none, with the list.
func TestNoSuchOrigin(t *testing.T) {
	near, far := newFiles(t), newFiles(t)
	w := startWeir(t, freePorts+fmt.Sprintf("origins:\n  - { name: near, default: true, files: { path: %q } }\n  - { name: far, files: { path: %q } }\n", near, far))
	at := w.admin.listener.Addr().String()
	for _, line := range []string{
		"freeze nope", "unfreeze nope", "rollback nope --to last-good", "rollforward nope", "history nope", "history nope --states", "guard release nope",
		"history nope --diff --type cds --name x", "clients --origin nope", "nacks --origin nope", "groups suggest --origin nope", "authz denials --origin nope",
	} {
		code, stdout, stderr := weir(t, append(strings.Fields(line), "--admin", at)...)
		if want := at + ": there is no origin \"nope\"; the origins are near, far\n"; code != exitFailed || stdout != "" || stderr != want {
			t.Errorf("%s: %d, %q, %q, want %q", line, code, stdout, stderr, want)
		}
	}
}

// TestClosedAtOnce: a server that closes the connection may be one that speaks TLS.
func TestClosedAtOnce(t *testing.T) {
	closing, err := net.Listen("tcp", loopback)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closing.Close() })
	go func() {
		for {
			c, err := closing.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	at := closing.Addr().String()
	code, _, stderr := weir(t, "status", "--admin", at)
	if code != exitFailed || stderr != at+": closed the connection without an answer; if it speaks TLS, give --tls or --ca\n" {
		t.Errorf("%d, %q", code, stderr)
	}
	wantSentence(t, "status", stderr)
}
