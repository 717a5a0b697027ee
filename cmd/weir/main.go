// Weir is a caching xDS relay. It stands between control planes and their clients, asks for each
// resource once per group, and keeps the last known good configuration at hand.
//
// Every command is a cobra command in a file of its own. run maps the errors that they return to
// exit codes: 0 ok, 1 refused input or failed check, 2 usage.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	// for images without CA certificates; the system's are preferred
	_ "golang.org/x/crypto/x509roots/fallback"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly shutdown; a second one kills.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
