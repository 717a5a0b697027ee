package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

func freezeCommand() *cobra.Command {
	return onOrigin("freeze", "Keep the clients of an origin at what they have, whatever it says")
}

func unfreezeCommand() *cobra.Command {
	return onOrigin("unfreeze", "Let the clients of a frozen origin go on")
}

// onOrigin makes a command that asks a running weir to do something about one origin.
func onOrigin(verb, short string) *cobra.Command {
	o := &operator{}
	cmd := &cobra.Command{Use: verb + " ORIGIN", Short: short, Args: arguments, ValidArgsFunction: o.completeOrigin}
	o.register(cmd)
	o.registerAll(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		return o.act(cmd, "/origins/"+url.PathEscape(args[0])+"/"+verb)
	})
	return cmd
}
