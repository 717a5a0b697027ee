package weirtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// MemoryGroup is a control group whose processes may have no more than so much memory together, as
// those of a pod do.
type MemoryGroup struct {
	dir   string
	files memoryFiles
}

// memoryFiles are the files of a control group by the version of the interface.
type memoryFiles struct{ root, limit, swap, events string }

var memoryVersions = []memoryFiles{
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"},
	{"/sys/fs/cgroup", "memory.max", "memory.swap.max", "memory.events"},
}

// memoryController is where groups can be made; false if the kernel or this user has none.
func memoryController() (memoryFiles, bool) {
	first, second := memoryVersions[0], memoryVersions[1]
	if _, err := os.Stat(filepath.Join(first.root, first.limit)); err == nil {
		return first, true
	}
	have, err := os.ReadFile(filepath.Join(second.root, "cgroup.subtree_control"))
	return second, err == nil && strings.Contains(string(have), "memory")
}

// NeedsMemoryGroup says why no process can be given a limit of memory here; empty if one can.
func NeedsMemoryGroup() string {
	files, ok := memoryController()
	if !ok {
		return "there is no memory controller here"
	}
	dir, err := os.MkdirTemp(files.root, "weir-test-")
	if err != nil {
		return fmt.Sprintf("no group of the memory controller can be made here: %v", err)
	}
	_ = os.Remove(dir) // it was only a question
	return ""
}

// NewMemoryGroup makes a group with a limit in bytes, and no swap. tb removes it, after the
// processes in it have ended.
func NewMemoryGroup(tb testing.TB, limit int) *MemoryGroup {
	tb.Helper()
	files, _ := memoryController()
	dir, err := os.MkdirTemp(files.root, "weir-test-") // several may run at once
	if err != nil {
		tb.Fatal(err)
	}
	g := &MemoryGroup{dir: dir, files: files}
	tb.Cleanup(func() {
		if !Until(Patience, func() bool { return os.Remove(dir) == nil }) {
			tb.Logf("the group %s is left behind", dir)
		}
	})
	if err := g.put(files.limit, limit); err != nil {
		tb.Fatal(err)
	}
	swap := 0
	if files == memoryVersions[0] {
		swap = limit // which is of both together
	}
	_ = g.put(files.swap, swap) // there is no such file where the kernel does not account for swap
	return g
}

func (g *MemoryGroup) put(file string, n int) error {
	return os.WriteFile(filepath.Join(g.dir, file), fmt.Append(nil, n), 0o644)
}

// Under is a command that runs another one in the group, for Launch.
func (g *MemoryGroup) Under() []string {
	return []string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")}
}

// Kills is how many processes of the group the kernel has killed for its limit.
func (g *MemoryGroup) Kills() int {
	text, err := os.ReadFile(filepath.Join(g.dir, g.files.events))
	kills := 0
	if _, n, ok := strings.Cut(string(text), "oom_kill "); err == nil && ok {
		_, _ = fmt.Sscan(n, &kills)
	}
	return kills
}
