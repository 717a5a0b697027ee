package main

import (
	"fmt"
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
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		said, err := o.post(cmd.Context(), "/origins/"+url.PathEscape(args[0])+"/"+verb)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
		return err
	})
	return cmd
}
