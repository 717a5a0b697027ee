package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// machine says where and when something was measured.
type machine struct {
	Date   string `json:"date"`
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Go     string `json:"go"`
	Kernel string `json:"kernel"`
	Arch   string `json:"arch"`
}

func thisMachine() machine {
	m := machine{
		Date: time.Now().UTC().Format("2006-01-02"), Cores: runtime.NumCPU(), CPU: "unknown", Go: runtime.Version(), Kernel: "unknown",
		Arch: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = field(b, "model name")
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = string(bytes.TrimSpace(b))
	}
	return m
}

// field returns the first value of a key in a file of "key : value" lines.
func field(b []byte, key string) string {
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

// String returns one line for people.
func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores of %s, %s, Linux %s, %s, loopback", m.Date, m.Cores, m.CPU, m.Arch, m.Kernel, m.Go)
}
