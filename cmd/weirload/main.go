// Weirload is weir's load tool: an origin that costs little (origin), a fleet of clients that count
// rather than decode (fleet), and both with a weir between them (run).
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
	// The first signal asks for an orderly end; a second one kills as usual.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
