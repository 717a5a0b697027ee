package real

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// The gRPC clients of other languages than Go: small programs in clients. What those need is in the
// folder of the programs.
var (
	grpcCore = grpcClient{name: "grpc-core-" + pinned("GRPC_CORE"), command: corePython}
	grpcJS   = grpcClient{name: "grpc-js-" + pinned("GRPC_JS_XDS"), command: nodeJS}
	grpcJava = grpcClient{name: "grpc-java-" + pinned("GRPC_JAVA"), command: javaClass("Client")}
	tonicXDS = grpcClient{name: "tonic-xds", command: func(tb testing.TB) []string { return []string{installed(tb, "tonic-xds")} }}
)

// corePython is Python's grpcio.
func corePython(tb testing.TB) []string {
	packages := installed(tb, "grpc-core-"+pinned("GRPC_CORE"))
	return []string{"env", "PYTHONPATH=" + packages, "python3", "clients/grpccore/client.py"}
}

// nodeJS is Node's grpc-js-xds.
func nodeJS(tb testing.TB) []string {
	modules := filepath.Join(installed(tb, "grpc-js-"+pinned("GRPC_JS_XDS")), "node_modules")
	return []string{"env", "NODE_PATH=" + modules, "node", "clients/grpcjs/client.js"}
}

// javaClass is a class of clients/grpcjava.
func javaClass(class string) func(testing.TB) []string {
	return func(tb testing.TB) []string {
		return javaProgram(tb, "clients/grpcjava", "grpc-java-"+pinned("GRPC_JAVA"), class)
	}
}

// javaProgram is a class of a folder of sources with the libraries it needs, in a small virtual
// machine that starts fast.
func javaProgram(tb testing.TB, sources, libraries, class string) []string {
	tb.Helper()
	path := filepath.Join(installed(tb, libraries), "*")
	classes, err := compiled(sources, path)
	if err != nil {
		tb.Fatal(err)
	}
	path = classes + string(filepath.ListSeparator) + path
	return []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-cp", path, class}
}

// classes are the folders of sources that are compiled.
var classes = struct {
	sync.Mutex
	done map[string]bool
}{done: map[string]bool{}}

// compiled compiles a folder of Java sources once, and returns where its classes are.
func compiled(sources, path string) (string, error) {
	classes.Lock()
	defer classes.Unlock()
	to := filepath.Join(clients, filepath.Base(sources))
	if classes.done[sources] {
		return to, nil
	}
	files, err := filepath.Glob(filepath.Join(sources, "*.java"))
	if err != nil {
		return "", err
	}
	out, err := exec.Command("javac", append([]string{"-d", to, "-cp", path}, files...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s does not compile: %w\n%s", sources, err, out)
	}
	classes.done[sources] = true
	return to, nil
}
