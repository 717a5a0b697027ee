package fleet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is a process's CPU time since its start, and its present memory.
type usage struct {
	cpu time.Duration
	rss int64 // in bytes
}

// usages returns the usage of several processes. The system counts CPU time in ticks of 10 ms.
func usages(pids []int) ([]usage, error) {
	out := make([]usage, len(pids))
	for i, pid := range pids {
		var err error
		if out[i], err = readUsage(pid); err != nil {
			return nil, fmt.Errorf("server-pid %d: %w", pid, err)
		}
	}
	return out, nil
}

func readUsage(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	return parseStat(string(stat))
}

// parseStat parses /proc/PID/stat: utime is its 14th field, stime the 15th, rss the 24th. The
// second, the command in parentheses, may itself contain spaces and parentheses.
func parseStat(stat string) (usage, error) {
	const ticks = 100 // per second, on every Linux that Go runs on
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) < 22 {
		return usage{}, fmt.Errorf("unreadable: %q", stat)
	}
	var n [3]int64
	for i, at := range []int{14, 15, 24} {
		v, err := strconv.ParseInt(fields[at-3], 10, 64)
		if err != nil {
			return usage{}, fmt.Errorf("unreadable: %q", stat)
		}
		n[i] = v
	}
	return usage{cpu: time.Duration(n[0]+n[1]) * time.Second / ticks, rss: n[2] * int64(os.Getpagesize())}, nil
}

// ownCPU returns the CPU time of this process, in seconds.
func ownCPU() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// checkFiles returns an error if so many connections cannot be open at once. Go has raised the soft
// limit to the hard one.
func checkFiles(conns int) error {
	const others = 64
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if need := uint64(conns + others); limit.Cur < need {
		return fmt.Errorf("clients: %d connections need %d open files, and the limit of this process is %d (hard: %d); "+
			"raise it (ulimit -n), or let clients share connections (--per-connection)", conns, need, limit.Cur, limit.Max)
	}
	return nil
}

// checkPorts returns an error if there are not as many local ports. It knows their number on Linux
// only.
func checkPorts(server string, conns int) error {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return nil
	}
	var from, to int
	if _, err := fmt.Sscan(string(text), &from, &to); err != nil || to < from {
		return nil
	}
	if ports := to - from + 1; conns > ports {
		return fmt.Errorf("clients: %d connections to %s need a local port each, and there are %d "+
			"(net.ipv4.ip_local_port_range); let clients share connections (--per-connection)", conns, server, ports)
	}
	return nil
}

// inUse matches the lines of a heap profile as text that add up to what is alive: objects, and
// stacks. Spans in use would count the holes between old objects, which new ones fill.
var inUse = regexp.MustCompile(`^# (HeapAlloc =|Stack =) ([0-9]+)`)

// collect makes a server collect its garbage, three times since stacks shrink by half at a time,
// and returns the bytes in use then.
func collect(ctx context.Context, addr string) (bytes int64, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	url := "http://" + addr + "/debug/pprof/heap?gc=1&debug=1"
	for range 3 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return 0, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		bytes, err = readInUse(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return 0, fmt.Errorf("%s: %s: %w", url, resp.Status, err)
		}
	}
	return bytes, nil
}

func readInUse(r io.Reader) (int64, error) {
	bytes, found := int64(0), 0
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := inUse.FindSubmatch(lines.Bytes()); m != nil {
			n, err := strconv.ParseInt(string(m[2]), 10, 64)
			if err != nil {
				return 0, err
			}
			bytes += n
			found++
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if found != 2 {
		return 0, fmt.Errorf("%d of 2 lines found", found)
	}
	return bytes, nil
}
