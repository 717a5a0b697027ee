package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of weir, its revision and its Go version",
		Example: "  weir version\n  weir version -o json",
	}
	choiceFlag(cmd, &output, "output", "o", "output `format`: text, json, yaml", "text", "json", "yaml")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		info, _ := debug.ReadBuildInfo()
		return printAs(cmd.OutOrStdout(), output, buildOf(info), func(w io.Writer) error {
			_, err := fmt.Fprint(w, builtFrom())
			return err
		})
	})
	return cmd
}

// build is what programs read of a binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
}

func buildOf(info *debug.BuildInfo) (b build) {
	if info == nil {
		return build{Version: "unknown", Revision: "unknown", Go: runtime.Version()}
	}
	b.Go = info.GoVersion
	b.Version, b.Revision, b.Modified = versionOf(info)
	return b
}

// linked is the version that `make build VERSION=v1.2.3` puts into a binary. It is for source
// archives. In a clone the Go command finds the tag by itself.
var linked string

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
	version, revision, modified := versionOf(info)
	if modified {
		revision += " (modified)"
	}
	return fmt.Sprintf("weir %s\nrevision %s\ngo %s\n", version, revision, info.GoVersion)
}

// buildVersion returns version and revision of this binary.
func buildVersion() (version, revision string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	version, revision, _ = versionOf(info)
	return version, revision
}

// versionOf returns what `weir version`, weir_build_info and the node presented to origins say. The
// version is the tag in a clone at a tag, and a pseudo-version in any other clone.
func versionOf(info *debug.BuildInfo) (version, revision string, modified bool) {
	version, revision = cmp.Or(linked, info.Main.Version, "(devel)"), "unknown"
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	return version, revision, modified
}
