// Weir is a caching xDS relay: it stands between control planes and their
// clients, asks for each thing once, and keeps the last known good at hand.
//
// Every command is a cobra command in a file of its own. run maps what they
// return to exit codes: 0 ok, 1 refused input or failed check, 2 usage.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	// an image from scratch has no roots; where the system has some they are used
	_ "golang.org/x/crypto/x509roots/fallback"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; a second one kills as usual.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
