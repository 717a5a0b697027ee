package main

import (
	"log"
	"os"
)

// process is what istio's helpers take for a test: one that ends with the process.
type process struct{}

// Fail ends the process.
func (process) Fail() { log.Fatal("istio failed") }

// FailNow ends the process.
func (process) FailNow() { log.Fatal("istio failed") }

// Fatal ends the process.
func (process) Fatal(args ...any) { log.Fatal(args...) }

// Fatalf ends the process.
func (process) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

// Skip ends the process.
func (process) Skip(args ...any) { log.Fatal(args...) }

// Log writes to the standard error.
func (process) Log(args ...any) { log.Print(args...) }

// Logf writes to the standard error.
func (process) Logf(format string, args ...any) { log.Printf(format, args...) }

// TempDir is a folder that nobody removes but the machine.
func (process) TempDir() string {
	dir, err := os.MkdirTemp("", "istio-")
	if err != nil {
		log.Fatal(err)
	}
	return dir
}

// Helper does nothing.
func (process) Helper() {}

// Cleanup does nothing: what would be cleaned up ends with the process.
func (process) Cleanup(func()) {}
