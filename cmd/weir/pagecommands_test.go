package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// picture marks a block that is none of commands: a drawing, or a formula.
const picture = "a picture"

// programs are those that the pages call, each with the test that looks at its arguments. That test
// is among those of every block with the program.
var programs = map[string]string{
	"weir":     "TestWeirOfThePages",
	"kubectl":  "TestKubectlOfThePages",
	"curl":     "TestCurlOfThePages",
	"make":     "TestCommandsAreThere",
	"helm":     "TestHelmOfThePages", // .ci/chart
	"weirload": "TestPages",          // cmd/weirload
	"go":       "TestCold",           // .ci/real
	"install":  "TestCold",           // .ci/real
	"grpcurl":  "TestGenericTools",
	"openssl":  "TestKeyOfThePage",
	"git":      "TestRelease", // .ci/release
	"cosign":   "TestReleaseIsVerified",
	"gh":       "TestReleaseIsVerified",
	"cd":       "",
	"chmod":    "",
}

// commandsShownBy has the first line of every indented block in the pages, without a comment that is
// set off, and its tests. Those without a line are configurations, which validate takes.
var commandsShownBy = map[string]string{
	"weir explain web-7f9c cds web":                                                                "TestExplainOrder TestWeirOfThePages TestCurlOfThePages",
	"helm install weir deploy/helm/weir -f values.yaml":                                            "TestHelmOfThePages TestKubectlOfThePages",
	"helm install weir deploy/helm/weir -f values.yaml --set workload.kind=StatefulSet":            "TestHelmOfThePages",
	"helm upgrade weir deploy/helm/weir -f values.yaml":                                            "TestHelmOfThePages",
	"helm upgrade weir deploy/helm/weir -f values.yaml --set image.tag=1.2.0 --wait --timeout 10m": "TestHelmOfThePages TestKubectlOfThePages TestWeirOfThePages",
	"git tag -a v0.2.0 -m v0.2.0":                                                                  "TestRelease TestCommandsAreThere",
	"cosign verify-blob --bundle SHA256SUMS.sigstore.json SHA256SUMS \\":                           "TestReleaseIsVerified",
	"helm history weir": "TestHelmOfThePages TestKubectlOfThePages",
	"helm lint deploy/helm/weir -f values.yaml --strict":                                                      "TestHelmOfThePages",
	"kubectl exec deployment/weir -- /weir get cds --from 127.0.0.1:18080":                                    "TestKubectlOfThePages TestWeirOfThePages",
	"kubectl exec deployment/weir -- /weir clients":                                                           "TestKubectlOfThePages TestWeirOfThePages",
	"kubectl exec deployment/weir -- /weir status":                                                            "TestKubectlOfThePages TestWeirOfThePages",
	"kubectl exec deployment/weir -- /weir freeze mesh":                                                       "TestKubectlOfThePages TestWeirOfThePages",
	"kubectl create configmap weir-files --from-file=cds.yaml":                                                "TestKubectlOfThePages",
	"kubectl port-forward deployment/weir 19080":                                                              "TestKubectlOfThePages TestWeirOfThePages TestCurlOfThePages",
	"weir freeze mesh --all dns:///weir-headless:19080 --token-file admin.token --ca ca.pem":                  "TestAllReplicas TestWeirOfThePages",
	"weir rollback mesh --to last-good --all dns:///weir-headless:19080 --token-file admin.token --ca ca.pem": "TestRollbackOfAllReplicas TestWeirOfThePages",
	"weir history mesh --states":                                                                              "TestWeirOfThePages",
	"weir version":                                                                                            "TestWeirOfThePages",
	"weir status":                                                                                             "TestWeirOfThePages",
	"weir snapshot verify --path /var/lib/weir/snapshot":                                                      "TestWeirOfThePages",
	"weir validate weir.yaml":                                                                                 "TestWeirOfThePages",
	"weir get cds --from xds-relay.example.com:9991 --dialect sotw --node-id web-1 --node-cluster web":        "TestWeirOfThePages",
	"weir clients --node web-1":                                                                               "TestWeirOfThePages",
	"weir groups suggest":                                                                                     "TestWeirOfThePages",
	"weir diff cds my-control-plane.example.com:18000 weir.example.com:18080 --node-cluster web":              "TestWeirOfThePages TestDiff",
	"in use   = 4832623 + 32539 * clients + 28466 * groups + 113 * resources * groups":                        picture,
	"ORIGIN                  WEIR                           CLIENTS":                                          picture,
	"make demo":  "TestCommandsAreThere",
	"make build": "TestCommandsAreThere",
	"bin/weirload origin --listen 127.0.0.1:18000 --resources 3":                                                      "TestPages",
	"bin/weir validate weir.yaml":                                                                                     "TestWeirOfThePages",
	"bin/weir get cds --from 127.0.0.1:18080":                                                                         "TestWeirOfThePages",
	"helm install weir deploy/helm/weir --set image.repository=registry.example.com/weir \\":                          "TestHelmOfThePages",
	"weir run [FILE] [--last-good[=DIR]]        serve until SIGTERM or ^C, then drain; a second signal stops at once": "TestCommandsAreThere",
	"weir authz explain -c weir.yaml --identity spiffe://corp/ns/shop/sa/web --node-cluster api \\":                   "TestWeirOfThePages",
	"grpcurl -plaintext 127.0.0.1:19080 envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus":       "TestGenericTools TestCurlOfThePages",
	"make chaos":         "TestCommandsAreThere",
	"make kube":          "TestCommandsAreThere",
	"dynamic_resources:": "TestSink",
	"weir run -c /etc/weir/weir.yaml --last-good=/var/lib/weir": "TestWeirOfThePages TestLastGood",
	"weir clients --unsynced":                                   "TestWeirOfThePages",
	"weir log":                                                  "TestWeirOfThePages TestLogCommand",
	"openssl rand -base64 32 > /etc/weir/snapshot.key && chmod 0400 /etc/weir/snapshot.key":                      "TestKeyOfThePage",
	"kubectl create secret generic weir-tickets --from-file=keys --dry-run=client -o yaml | kubectl apply -f -":  "TestKubectlOfThePages",
	"weirload run --clients 10000 --resources 100 --connect-rate 250 --changes 10 --groups 10000":                "TestPages",
	"weirload run --clients 10000 --changes 10 --idle 3s --rest 12s":                                             "TestPages",
	".ci/real/install envoy && make build && cd .ci/real &&":                                                     "TestCold TestCommandsAreThere",
	"weirload run    --clients 1000 --changes 50 --idle 5s":                                                      "TestPages",
	"curl -d '{\"node\": {\"id\": \"me\", \"cluster\": \"edge\"}}' http://127.0.0.1:18081/v3/discovery:clusters": "TestCurlOfThePages",

	"kubectl exec deployment/weir -- /weir freeze mesh --all dns:///weir-headless.default.svc:19080 \\": "TestKubectlOfThePages TestWeirOfThePages TestAllReplicas",
}

// commandsOf are the commands of a block, each as its words. A line that begins with a space goes on
// with an explanation, unless the line before is not whole.
func commandsOf(text string) (commands [][]string) {
	text = regexp.MustCompile(`\\\n *|(&&|\|) *\n *`).ReplaceAllString(text, "$1 ")
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, " ") {
			commands = append(commands, words(line)...)
		}
	}
	return commands
}

// words splits a line as a shell would: quotes hold words together, operators part commands, and a
// comment ends the line. Variables before a command, and files that it reads or writes, are no words.
func words(line string) (commands [][]string) {
	var command []string
	word, begun, skip := "", false, false
	end := func() {
		if begun && !skip && (len(command) > 0 || !regexp.MustCompile(`^[A-Z_]+=`).MatchString(word)) {
			command = append(command, word)
		}
		skip = skip && !begun
		word, begun = "", false
	}
	var quote rune
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == '#' && !begun:
			return append(commands, command)
		case strings.ContainsRune(" \t\n|&;", r):
			if end(); strings.ContainsRune("|&;\n", r) && len(command) > 0 {
				commands, command = append(commands, command), nil
			}
		case r == '>' || r == '<':
			end()
			skip = true
		default:
			word, begun = word+string(r), true
		}
	}
	if end(); len(command) > 0 {
		commands = append(commands, command)
	}
	return commands
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"a 'b c' -d=\"e\"  # f\n":                      "[[a b c -d=e]]",
		"X=1 Y='2' a --b=c > d e && f | g - ; h\n":     "[[a --b=c e] [f] [g -] [h]]",
		"a \\\n    b\n  an explanation\nc &&\n  d#e\n": "[[a b] [c] [d#e]]",
		"# nothing\n": "[[]]",
	} {
		if got := fmt.Sprint(commandsOf(text)); got != want {
			t.Errorf("%q is %s, not %s", text, got, want)
		}
	}
}

// TestEveryCommandIsRun: each block of commands in a page names the tests of its programs, and no
// picture has a command.
func TestEveryCommandIsRun(t *testing.T) {
	fenced, indented := blocksOf(t)
	found := map[string]int{}
	for _, b := range append(indented, fenced...) {
		if dataOf(b) != nil {
			continue
		}
		shown := strings.Fields(b.shownBy())
		whole := b.fence && !isProgram(commandsOf(b.text)) // data, or a script that its test runs as it is
		for _, command := range commandsOf(b.text) {
			if len(command) == 0 || whole || isSynopsis(b) {
				continue
			}
			program := path.Base(command[0])
			test, known := programs[program]
			switch {
			case b.shownBy() == picture && known:
				t.Errorf("%s: a picture, and a command: %q", b.page, command)
			case b.shownBy() == picture:
			case !known:
				t.Errorf("%s: which test looks at %q? Say so in programs", b.page, command)
			case test != "" && !slices.Contains(shown, test):
				t.Errorf("%s: the block that begins with %q has %s, which %s looks at: say so in commandsShownBy", b.page, b.first, program, test)
			}
			found[program]++
		}
	}
	for program := range programs {
		if found[program] == 0 {
			t.Errorf("no page has %s: is the pattern right?", program)
		}
	}
}

// isSynopsis reports whether a block is the README's list of commands, which TestCommandsAreThere
// looks at.
func isSynopsis(b block) bool { return strings.Contains(b.text, "[FILE]") }

func isProgram(commands [][]string) bool {
	if len(commands) == 0 || len(commands[0]) == 0 {
		return false
	}
	_, known := programs[path.Base(commands[0][0])]
	return known
}

// commandsWith are the commands of a program in all pages, without those of the README's list.
func commandsWith(t *testing.T, program string) (all []pageCommand) {
	t.Helper()
	fenced, indented := blocksOf(t)
	for _, b := range append(indented, fenced...) {
		if dataOf(b) != nil || b.fence && !isProgram(commandsOf(b.text)) || isSynopsis(b) {
			continue
		}
		for _, command := range commandsOf(b.text) {
			if len(command) > 0 && path.Base(command[0]) == program {
				all = append(all, pageCommand{b.page, command[1:]})
			}
		}
	}
	return all
}

type pageCommand struct {
	page string
	args []string
}
