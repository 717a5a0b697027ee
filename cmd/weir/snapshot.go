package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
)

func snapshotCommand() *cobra.Command {
	return family("snapshot", "Inspect, verify, export or import the snapshot on disk",
		"  weir snapshot inspect\n  weir snapshot export backup.weir", inspectCommand(), verifyCommand(), exportCommand(), importCommand())
}

// where holds the flags that say which snapshot a command is about.
type where struct {
	config, path, keyFile string

	maxBytes int64 // cache.snapshot.max_bytes; 0: there is no bound, or no configuration was read
}

func (w *where) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&w.config, "config", "c", "weir.yaml", "configuration `file` with cache.snapshot.path")
	cmd.Flags().StringVar(&w.path, "path", "", "`directory` of the snapshot, instead of --config")
	cmd.Flags().StringVar(&w.keyFile, "key-file", "", "`file` with the encryption key (default: cache.snapshot.key_file, without --path)")
}

// directory returns the directory, and the deployment in the configuration; empty: none was read.
// It sets the key file and the bound that are meant.
func (w *where) directory() (dir, deployment string, err error) {
	if w.path != "" {
		return w.path, "", nil
	}
	cfg, err := config.Load(w.config)
	if err != nil {
		return "", "", err
	}
	if cfg.Cache.Snapshot.Path == "" {
		return "", "", cfg.Problemf("cache.snapshot.path", "is empty: there is no snapshot; or name its directory with --path")
	}
	w.keyFile = cmp.Or(w.keyFile, cfg.Cache.Snapshot.KeyFile)
	w.maxBytes = int64(cfg.Cache.Snapshot.MaxBytes)
	return cfg.Cache.Snapshot.Path, cfg.Name, nil
}

// keys reads the key file. directory comes first.
func (w *where) keys() (*snapshot.Keys, error) {
	if w.keyFile == "" {
		return nil, nil
	}
	keys, _, err := snapshot.ReadKeys(w.keyFile)
	return keys, err
}

// read reads a directory, or an exported file. A running weir may be writing to it.
func (w *where) read(ctx context.Context) (*snapshot.Content, error) {
	path, _, err := w.directory()
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = snapshot.File(path)
	}
	defer slow(ctx, "reading %s", path)()
	keys, err := w.keys()
	if err != nil {
		return nil, err
	}
	return snapshot.Read(path, keys)
}

func verifyCommand() *cobra.Command {
	w := &where{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check a snapshot and print each damaged place",
		Long:  "Check a snapshot and print each damaged place. weir may be running.",
		Example: `  weir snapshot verify
  weir snapshot verify --path /var/lib/weir/snapshot`,
	}
	w.register(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		c, err := w.read(cmd.Context())
		if err != nil {
			return err
		}
		if err := c.Check(); err != nil {
			return err
		}
		text := fmt.Sprintf("ok: %d records in %d writes, %d resources", c.Report.Records, c.Report.Commits, c.Summary(false).Resources)
		if n := c.Report.CutOff; n > 0 {
			text += fmt.Sprintf("; the last %d bytes are of a write that was not finished, and are not used", n)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
		return err
	})
	return cmd
}

func exportCommand() *cobra.Command {
	w := &where{}
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Write a snapshot to one file for weir snapshot import",
		Long: `Write a snapshot to one file for weir snapshot import. A dash is standard output.
weir may be running.

The file is not encrypted, so the command omits secrets and resources that contain a
private key, and prints how many.`,
		Example: `  weir snapshot export backup.weir
  weir snapshot export - --path /var/lib/weir/snapshot > backup.weir`,
	}
	w.register(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		c, err := w.read(cmd.Context())
		if err != nil {
			return err
		}
		warnOf(cmd, c)
		defer slow(cmd.Context(), "writing %s", args[0])()
		var left snapshot.LeftOut
		if args[0] == "-" {
			left, err = c.Export(unshown(cmd.OutOrStdout()))
		} else {
			err = writeWhole(args[0], func(w io.Writer) (err error) {
				left, err = c.Export(w)
				return err
			})
		}
		sayLeftOut(cmd, left)
		return err
	})
	return cmd
}

// sayLeftOut says what is not in what was written.
func sayLeftOut(cmd *cobra.Command, left snapshot.LeftOut) {
	if left != (snapshot.LeftOut{}) {
		// as with errors, there is nobody left to tell
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "left out, since it is in plain text: %s\n", leftOutText(left))
	}
}

func leftOutText(left snapshot.LeftOut) string {
	return fmt.Sprintf("%d secrets, %d other resources with a private key in them", left.Secrets, left.WithKeys)
}

func importCommand() *cobra.Command {
	w, force, ifEmpty := &where{}, false, false
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Create a snapshot from an exported file, before weir starts",
		Long: `Create a snapshot from an exported file, so that weir serves it as soon as it starts,
even if the origin is down. A dash is standard input. No weir may be using the
directory.

With a key file the command encrypts the snapshot. FILE may also be a copy of an
encrypted snapshot.`,
		Example: `  weir snapshot import backup.weir
  weir snapshot import backup.weir --path /var/lib/weir/snapshot --if-empty`,
	}
	w.register(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing snapshot, and accept a damaged file or one of another deployment")
	cmd.Flags().BoolVar(&ifEmpty, "if-empty", false, "do nothing if a snapshot exists; the exit code is 0")
	cmd.MarkFlagsMutuallyExclusive("force", "if-empty")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		dir, deployment, err := w.directory()
		if err != nil {
			return err
		}
		if ifEmpty && snapshot.Exists(dir) {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: left as it is\n", snapshot.File(dir))
			return err
		}
		keys, err := w.keys()
		if err != nil {
			return err
		}
		defer slow(cmd.Context(), "importing %s into %s", args[0], dir)()
		c, err := readExport(cmd.InOrStdin(), args[0], keys)
		if err != nil {
			return err
		}
		if err := c.Check(); err != nil && !force {
			return err
		}
		if of := c.Header.Deployment; deployment != "" && of != deployment && !force {
			return fmt.Errorf("%s: is of the deployment %q, and %s says %q: it would not be restored", args[0], of, w.config, deployment)
		}
		if force && deployment != "" {
			c.Header.Deployment = deployment
		}
		before := c.Report.LeftOut
		warning, err := c.Import(dir, force, keys, w.maxBytes)
		if warning != nil {
			// as with errors
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: %v\n", dir, warning)
		}
		if err != nil {
			return err
		}
		if left := c.Report.LeftOut; left != before {
			sayLeftOut(cmd, left)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d resources\n", snapshot.File(dir), c.Summary(false).Resources)
		return err
	})
	return cmd
}

func readExport(stdin io.Reader, path string, keys *snapshot.Keys) (*snapshot.Content, error) {
	if path != "-" {
		return snapshot.Read(path, keys)
	}
	data, err := io.ReadAll(stdin)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return snapshot.Decode("standard input", data, keys)
}
