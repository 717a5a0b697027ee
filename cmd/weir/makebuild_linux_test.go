package main

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMakeBuildStrips: what `make build` makes has neither symbols nor DWARF, says its version, and
// its stack traces still name functions, files and lines.
func TestMakeBuildStrips(t *testing.T) {
	if testing.Short() {
		t.Skip("it links weir once more")
	}
	recipe := regexp.MustCompile(`(?m)^build:\n\tCGO_ENABLED=0 go build (-trimpath) -ldflags "(.*?)\$\(if \$\(VERSION\),(.*?)\$\(VERSION\)\)" `).
		FindStringSubmatch(readText(t, "../../Makefile"))
	if recipe == nil {
		t.Fatal("the target build of the Makefile has another shape")
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", recipe[1], "-ldflags", recipe[2]+recipe[3]+"v1.2.3", "-o", dir+"/weir", ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary, err := elf.Open(dir + "/weir")
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	for _, s := range binary.Sections {
		if s.Name == ".symtab" || strings.Contains(s.Name, "debug_") {
			t.Errorf("it has a section %s of %d bytes", s.Name, s.Size)
		}
	}
	if out, err := exec.Command(dir+"/weir", "version").CombinedOutput(); err != nil || !bytes.HasPrefix(out, []byte("weir v1.2.3\n")) {
		t.Errorf("weir version: %v, %s", err, out)
	}
	text := "origins: [{ name: mesh, grpc: { addresses: [\"127.0.0.1:1\"] } }]\nlisteners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"127.0.0.1:0\" }\n"
	if err := os.WriteFile(dir+"/weir.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out output
	serving := exec.CommandContext(t.Context(), dir+"/weir", "run", "--config", dir+"/weir.yaml")
	serving.Stdout, serving.Stderr = &out, &out
	if err := serving.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "it runs", func() bool { return out.String() != "" })
	if err := serving.Process.Signal(syscall.SIGQUIT); err != nil { // the runtime prints all stacks
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = serving.Process.Kill() })
	defer late.Stop()
	_ = serving.Wait()
	for _, want := range []string{`(?m)^main\.main\(\)$`, `weir/cmd/weir/main\.go:\d+ `} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %s in\n%.2000s", want, out.String())
		}
	}
}
