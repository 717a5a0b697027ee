// Weirload is weir's load tool: a cheap origin (origin), a fleet of clients that count instead of
// decoding (fleet), and both with a weir between them (run).
//
// Exit codes are those of weir: 0 ok, 1 refused input or failed work, 2 usage.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly shutdown; a second one kills.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
