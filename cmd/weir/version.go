package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what this binary was built from",
		Args:  arguments,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), builtFrom())
			return err
		}),
	}
}

// builtFrom returns the build information, as lines.
func builtFrom() string {
	info, _ := debug.ReadBuildInfo()
	return versionText(info)
}

// versionText formats the build information, or says that the binary was built without it.
func versionText(info *debug.BuildInfo) string {
	if info == nil {
		return "weir unknown\n"
	}
	version, revision, modified := info.Main.Version, "unknown", ""
	if version == "" {
		version = "(devel)"
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " (modified)"
		}
	}
	return fmt.Sprintf("weir %s\nrevision %s%s\ngo %s\n", version, revision, modified, info.GoVersion)
}
