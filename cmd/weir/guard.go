package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
)

func guardCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "guard", Short: "Act on mass removals that a running weir holds back", Args: arguments}
	cmd.AddCommand(releaseCommand())
	return cmd
}

func releaseCommand() *cobra.Command {
	o, typ := &operator{}, ""
	cmd := &cobra.Command{
		Use:   "release [ORIGIN]",
		Short: "Let removals go that the guard holds back, of one origin or of all",
		Args:  arguments, ValidArgsFunction: o.completeOrigin,
	}
	o.register(cmd)
	o.registerAll(cmd)
	cmd.Flags().StringVar(&typ, "type", "", "only the `type`, as cds or a full URL")
	complete(cmd, "type", config.ShortNames()...)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		q := url.Values{}
		if len(args) > 0 {
			q.Set("origin", args[0])
		}
		if typ != "" {
			q.Set("type", typ)
		}
		return o.act(cmd, "/guard/release?"+q.Encode())
	})
	return cmd
}
