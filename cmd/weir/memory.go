package main

import (
	"cmp"
	"context"
	"math"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/relay"
)

const (
	// memoryLook is the interval between measurements. The table estimates what clients ask for in
	// between.
	memoryLook = 250 * time.Millisecond
	// memoryCollect is the least time between two garbage collections made only to measure.
	memoryCollect = 5 * time.Second
	// memoryFreed is the same while clients have left since: a new client should be admitted soon
	// after those who filled the memory are gone.
	memoryFreed = time.Second
	// memorySay is the interval between log lines.
	memorySay = time.Minute
)

// memory measures the memory in use, and tells the table what it may still take on (RELAY-79). It
// counts what the last garbage collection left alive, with stacks and the runtime's own memory.
// Garbage does not count; the runtime keeps it within its soft limit.
type memory struct {
	// Set once by newMemory.
	table      *relay.Table
	log        *zap.Logger
	env, group int64 // GOMEMLIMIT, and the limit of the control group; 0: none
	sample     []metrics.Sample

	each func(now time.Time) // called at each look of watch; set before watch, may be nil

	limit atomic.Int64 // in force; 0: none
	soft  atomic.Int64 // the garbage collector's; 0: none
	used  atomic.Int64 // at the last look, for status pages

	// Owned by watch.
	cycles    uint64
	collected time.Time
	most      int // most goroutines since; each stream has one
	tight     bool
	said      time.Time
	vain      bool // it was logged that a collection freed nothing, and memory is still short
}

// The runtime/metrics samples, in this order.
const (
	gcCycles = iota
	heapLive
	heapObjects
	memoryOverhead // the first of several
)

func newMemory(table *relay.Table, log *zap.Logger) *memory {
	m := &memory{table: table, log: log}
	for _, name := range []string{
		"/gc/cycles/total:gc-cycles", "/gc/heap/live:bytes", "/memory/classes/heap/objects:bytes",
		"/memory/classes/heap/stacks:bytes", "/memory/classes/os-stacks:bytes", "/memory/classes/metadata/mspan/inuse:bytes",
		"/memory/classes/metadata/other:bytes", "/memory/classes/other:bytes",
	} {
		m.sample = append(m.sample, metrics.Sample{Name: name})
	}
	return m
}

// watch measures until ctx ends.
func (m *memory) watch(ctx context.Context) error {
	return every(ctx, memoryLook, func(now time.Time) {
		m.look(now)
		if m.each != nil {
			m.each(now)
		}
	})
}

// room reports whether the process may take so many bytes more before it serves anybody, as what it
// restores is. It leaves a tenth for what comes then.
func (p *process) room(bytes int64) bool { return p.memory.room(bytes) }

func (m *memory) room(bytes int64) bool {
	if m == nil { // of a process of which no memory is measured
		return true
	}
	most := m.soft.Load() / 10 * 9
	if _, _, all := m.read(); most == 0 || all+bytes <= most {
		return true
	}
	runtime.GC()
	_, _, all := m.read()
	return all+bytes <= most
}

// look tells the table the memory in use, if that is known. Between two collections the live heap
// is unknown, unless there is plenty of room even with the garbage.
func (m *memory) look(now time.Time) {
	limit := m.limit.Load()
	if limit == 0 {
		m.used.Store(0)
		m.table.Measured(0, 0)
		return
	}
	cycles, live, all := m.read()
	if m.table.Tight() && cycles == m.cycles && now.Sub(m.collected) >= m.patience() {
		m.collected, m.most = now, 0
		before := all
		runtime.GC()
		cycles, live, all = m.read()
		m.sayVain(before - all)
	}
	switch {
	case all <= limit/4*3:
		m.tell(all)
	case cycles != m.cycles:
		m.cycles = cycles
		m.tell(live)
	}
	m.vain = m.vain && m.table.Tight()
	m.say(now)
}

// patience returns how long after a collection the next may be.
func (m *memory) patience() time.Duration {
	n := runtime.NumGoroutine()
	m.most = max(m.most, n)
	if n < m.most/8*7 {
		return memoryFreed
	}
	return memoryCollect
}

func (m *memory) read() (cycles uint64, live, all int64) {
	metrics.Read(m.sample)
	bytes := func(i int) int64 { return int64(m.sample[i].Value.Uint64()) }
	overhead := int64(0)
	for i := memoryOverhead; i < len(m.sample); i++ {
		overhead += bytes(i)
	}
	return m.sample[gcCycles].Value.Uint64(), bytes(heapLive) + overhead, bytes(heapObjects) + overhead
}

func (m *memory) tell(used int64) {
	m.used.Store(used)
	if m.table.Measured(used, m.limit.Load()) > 0 {
		m.collected = time.Time{} // what was given up is garbage now
	}
}

// say logs when new names begin to be refused, and when they are accepted again.
func (m *memory) say(now time.Time) {
	tight := m.table.Tight()
	if tight == m.tight || now.Sub(m.said) < memorySay {
		return
	}
	m.tight, m.said = tight, now
	fields := []zap.Field{zap.Int64("used", m.used.Load()), zap.Int64("limits.memory", m.limit.Load())}
	if tight {
		m.log.Warn("memory is short: dropped history and retired resources; refusing names without subscribers", fields...)
		return
	}
	m.log.Info("memory is no longer short", fields...)
}

// sayVain logs, once until there is room again, that a collection freed nothing: everything is in
// use, and there is room only when clients leave.
func (m *memory) sayVain(freed int64) {
	limit := m.limit.Load()
	if m.vain || freed >= limit/100 {
		return
	}
	m.vain = true
	m.log.Warn("a forced garbage collection freed nothing: all memory is in use",
		zap.Int64("freed", freed), zap.Int64("used", m.used.Load()), zap.Int64("limits.memory", limit))
}

// openMemory determines the limit, and tells the table, since all waiting clients may come before
// the first look of watch.
func openMemory(configured int64, table *relay.Table, log *zap.Logger) *memory {
	m := newMemory(table, log)
	if m.env = debug.SetMemoryLimit(-1); m.env == math.MaxInt64 {
		m.env = 0
	}
	m.group = cgroupLimit("/")
	m.configure(configured)
	m.look(time.Now())
	return m
}

// configure sets the limit for new names, and the garbage collector's soft limit unless GOMEMLIMIT
// does.
func (m *memory) configure(configured int64) {
	limit, soft := budget(configured, m.env, m.group)
	m.soft.Store(soft)
	if m.limit.Swap(limit) == limit {
		return
	}
	if m.env == 0 {
		debug.SetMemoryLimit(cmp.Or(soft, math.MaxInt64))
	}
	fields := []zap.Field{zap.Int64("limits.memory", limit), zap.Int64("soft_limit", soft), zap.Int64("cgroup", m.group)}
	if limit > soft {
		m.log.Warn("limits.memory exceeds the memory limit of the process, so it does not protect it", fields...)
		return
	}
	m.log.Info("memory is limited", fields...)
}

// budget returns the limit for new names and the soft limit of the garbage collector, each 0 for
// none, from the configuration, GOMEMLIMIT and the control group. The collector needs room between
// the two, or it takes more and more of the processor. So do requests that are read and refused
// (the schedules "memory capped" of package chaos).
func budget(configured, env, group int64) (limit, soft int64) {
	switch {
	case env > 0:
		soft = env
	case group > 0:
		soft = group / 5 * 4
	case configured > 0:
		soft = configured / 4 * 5
	}
	if configured > 0 {
		return configured, soft
	}
	return soft / 3 * 2, soft
}

// cgroupLimit returns the memory limit of the process's control group (version 2 or 1), the least
// of it and its parents; 0: unknown. root is where /proc and /sys are.
func cgroupLimit(root string) (least int64) {
	groups, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0 // another operating system
	}
	for line := range strings.Lines(string(groups)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		switch {
		case part[0] == "0" && part[1] == "":
		case strings.Contains(","+part[1]+",", ",memory,"):
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for dir := path.Join("/", part[2]); ; dir = path.Dir(dir) {
			if n := readLimit(path.Join(root, mount, dir, file)); n > 0 && (least == 0 || n < least) {
				least = n
			}
			if dir == "/" { // the only one visible in a container with its own namespace
				break
			}
		}
	}
	return least
}

// readLimit reads a limit. Version 1 writes "none" as a number larger than any machine's memory.
func readLimit(file string) int64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n >= 1<<60 {
		return 0
	}
	return n
}
