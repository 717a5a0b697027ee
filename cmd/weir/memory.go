package main

import (
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
	// memoryLook is how often the memory is looked at. What clients ask for in
	// between is estimated by the table.
	memoryLook = 250 * time.Millisecond
	// memoryCollect is how often garbage is collected only to see what is left.
	memoryCollect = 5 * time.Second
	// memoryFreed is the same where clients have gone since: a new one is to be
	// taken in soon after those who filled the memory have left.
	memoryFreed = time.Second
	// memorySay is how often the log says so.
	memorySay = time.Minute
)

// memory measures what the process holds, and tells the table what it may still
// take on (RELAY-79). The measure is what the last garbage collection left
// alive, with stacks and what the runtime itself needs: garbage is no load, and
// the runtime keeps it within its own soft limit.
type memory struct {
	// Set once by newMemory.
	table      *relay.Table
	log        *zap.Logger
	env, group int64 // GOMEMLIMIT and the control group's limit; 0: none
	sample     []metrics.Sample

	each func(now time.Time) // called at each look of watch; set before it, may be nil

	limit atomic.Int64 // in force; 0: none
	used  atomic.Int64 // as of the last look, for people

	// Owned by watch.
	cycles    uint64
	collected time.Time
	most      int // goroutines, of which each stream has one, since then
	tight     bool
	said      time.Time
	vain      bool // it was said that a collection freed nothing, and memory has been short since
}

// The samples, in their order.
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

// watch looks until ctx ends.
func (m *memory) watch(ctx context.Context) error {
	tick := time.NewTicker(memoryLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			m.look(now)
			if m.each != nil {
				m.each(now)
			}
		}
	}
}

// look tells the table what there is if that is known. Between two collections
// the live heap is not, unless even the garbage leaves plenty of room.
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

// patience is how long after a collection there may be another.
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

// say logs when names begin to be refused, and when they are taken again.
func (m *memory) say(now time.Time) {
	tight := m.table.Tight()
	if tight == m.tight || now.Sub(m.said) < memorySay {
		return
	}
	m.tight, m.said = tight, now
	fields := []zap.Field{zap.Int64("used", m.used.Load()), zap.Int64("limits.memory", m.limit.Load())}
	if tight {
		m.log.Warn("memory is short: what retired is given up, and names that nobody has asked for yet are refused", fields...)
		return
	}
	m.log.Info("memory is no longer short", fields...)
}

// sayVain logs, once until there is room again, that a collection freed nothing:
// what is held is in use, and only clients that go make room.
func (m *memory) sayVain(freed int64) {
	limit := m.limit.Load()
	if m.vain || freed >= limit/100 {
		return
	}
	m.vain = true
	m.log.Warn("a forced collection of garbage freed nothing: all that is held is in use",
		zap.Int64("freed", freed), zap.Int64("used", m.used.Load()), zap.Int64("limits.memory", limit))
}

// openMemory finds out what the process may have, and tells the table, since
// clients who were waiting may all be there before the first look of watch.
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

// configure sets the limits: that of new names, and the soft limit of the
// garbage collector, unless GOMEMLIMIT did.
func (m *memory) configure(configured int64) {
	limit, soft := budget(configured, m.env, m.group)
	if m.limit.Swap(limit) == limit {
		return
	}
	if m.env == 0 {
		collector := soft
		if collector == 0 {
			collector = math.MaxInt64
		}
		debug.SetMemoryLimit(collector)
	}
	fields := []zap.Field{zap.Int64("limits.memory", limit), zap.Int64("soft_limit", soft), zap.Int64("cgroup", m.group)}
	if limit > soft {
		m.log.Warn("limits.memory is more than the process may have: it does not protect it", fields...)
		return
	}
	m.log.Info("memory is limited", fields...)
}

// budget is the limit of new names and the soft limit of the garbage collector,
// each 0 for none: what is configured, what GOMEMLIMIT says, what the cgroup
// allows. The collector needs air to breathe between the two, or it takes more
// and more of the processor, and requests that are being read and refused need
// some as well (the schedules "memory capped" of package chaos).
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

// cgroupLimit is the memory that the process's control group may have, of
// version 2 or 1, the smallest of it and those above it; 0: none is known. root
// is where /proc and /sys are.
func cgroupLimit(root string) (least int64) {
	groups, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0 // another system
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
			if dir == "/" { // which is all there is in a container with a view of its own
				break
			}
		}
	}
	return least
}

// readLimit reads a limit; version 1 writes "none" as a number that no machine has.
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
