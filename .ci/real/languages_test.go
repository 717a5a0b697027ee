package real

import (
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

// javaClass is a class of clients/grpcjava, in a small virtual machine that starts fast.
func javaClass(class string) func(testing.TB) []string {
	return func(tb testing.TB) []string {
		path := javaClasses(tb)
		return []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx128m", "-cp", path, class}
	}
}

// compiled are the classes of clients/grpcjava, once they are.
var compiled struct {
	sync.Once
	out []byte
	err error
}

// javaClasses compiles clients/grpcjava and returns the class path to run it with.
func javaClasses(tb testing.TB) string {
	tb.Helper()
	libraries := filepath.Join(installed(tb, "grpc-java-"+pinned("GRPC_JAVA")), "*")
	classes := filepath.Join(clients, "java")
	compiled.Do(func() {
		sources, err := filepath.Glob("clients/grpcjava/*.java")
		if err != nil {
			tb.Fatal(err)
		}
		cmd := exec.Command("javac", append([]string{"-d", classes, "-cp", libraries}, sources...)...)
		compiled.out, compiled.err = cmd.CombinedOutput()
	})
	if compiled.err != nil {
		tb.Fatalf("clients/grpcjava does not compile: %v\n%s", compiled.err, compiled.out)
	}
	return classes + string(filepath.ListSeparator) + libraries
}
