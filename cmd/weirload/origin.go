package main

import (
	"encoding/json"
	"net"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weirload/origin"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

func originCommand() *cobra.Command {
	var o world.Options
	cmd := &cobra.Command{
		Use:   "origin",
		Short: "Serve resources that change when the control endpoint is asked to change them",
		Long: `Serve resources of one type, in delta and state of the world, until interrupted. When it serves, it prints one line of JSON:
the address of the xDS port, that of the control endpoint, and its process id. The control endpoint is HTTP:

  POST /change?count=K           change the next K resources, as one transaction
  POST /churn?rate=R&for=10s     change R resources a second, one at a time
  GET  /counts                   what clients have cost: streams, requests, names, bytes`,
		Args: cobra.NoArgs,
	}
	o.AddFlags(cmd.Flags())
	cmd.RunE = action(func(cmd *cobra.Command) error {
		w, err := world.New(o)
		if err != nil {
			return err
		}
		served := origin.New(w)
		xds, err := net.Listen("tcp", o.Listen)
		if err != nil {
			return err
		}
		control, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			_ = xds.Close()
			return err
		}
		// Clients that connect from here on wait in the listener's queue, until Serve.
		ready := world.NewReady(xds.Addr().String(), control.Addr().String())
		if err := json.NewEncoder(cmd.OutOrStdout()).Encode(ready); err != nil {
			_, _ = xds.Close(), control.Close()
			return err
		}
		return served.Serve(cmd.Context(), xds, control)
	})
	return cmd
}
