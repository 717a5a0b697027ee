package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/cmd/weir/visible"
)

func snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Look at the last known good on disk, or carry it elsewhere",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("weir snapshot: say inspect, verify, export or import")}
		},
	}
	cmd.AddCommand(inspectCommand(), verifyCommand(), exportCommand(), importCommand())
	return cmd
}

// where holds the flags that say which snapshot a command is about.
type where struct {
	config, path, keyFile string

	maxBytes int64 // cache.snapshot.max_bytes; 0: there is no bound, or no configuration was read
}

func (w *where) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&w.config, "config", "c", "weir.yaml", "the configuration `file` whose cache.snapshot.path is meant")
	cmd.Flags().StringVar(&w.path, "path", "", "the `directory` itself")
	cmd.Flags().StringVar(&w.keyFile, "key-file", "", "the `file` with the key it is encrypted with; default: cache.snapshot.key_file, without --path")
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
	if w.keyFile == "" {
		w.keyFile = cfg.Cache.Snapshot.KeyFile
	}
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
func (w *where) read() (*snapshot.Content, error) {
	path, _, err := w.directory()
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = snapshot.File(path)
	}
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
		Short: "Check a snapshot and print each damage with its place; weir may be running",
		Args:  arguments,
	}
	w.register(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		c, err := w.read()
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
		Short: "Write what is in a snapshot to one file that import takes; weir may be running",
		Long: `Write what is in a snapshot to one file that import takes. A dash stands for
standard output. weir may be running.

The file is in plain text, so it has neither secrets nor resources with a private
key in them. How many are left out is said.`,
		Args: arguments,
	}
	w.register(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		c, err := w.read()
		if err != nil {
			return err
		}
		warnOf(cmd, c)
		var left snapshot.LeftOut
		if args[0] == "-" {
			left, err = c.Export(visible.Plain(cmd.OutOrStdout()))
		} else {
			left, err = exportTo(args[0], c)
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

// exportTo writes the whole file or none.
func exportTo(path string, c *snapshot.Content) (left snapshot.LeftOut, err error) {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return left, err
	}
	left, err = c.Export(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is returned
	}
	return left, err
}

func importCommand() *cobra.Command {
	w, force, ifEmpty := &where{}, false, false
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Give a directory a snapshot that was exported, before weir starts",
		Long: `Give a directory a snapshot that export made, so that a weir that starts there
serves it from the first moment, whether its origin can be reached or not. A dash
stands for standard input. No weir may have the directory.

With a key file the snapshot is encrypted. It may also be an encrypted one that
was copied.`,
		Args: arguments,
	}
	w.register(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "replace what is there; take a damaged file, or one of another deployment, as well")
	cmd.Flags().BoolVar(&ifEmpty, "if-empty", false, "leave what is there, and call that a success")
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
