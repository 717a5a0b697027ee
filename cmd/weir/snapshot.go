package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/metrics"
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

// where says which snapshot a command is about.
type where struct {
	config, path string
}

func (w *where) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&w.config, "config", "c", "weir.yaml", "the configuration `file` whose cache.snapshot.path is meant")
	cmd.Flags().StringVar(&w.path, "path", "", "the `directory` itself")
}

// directory also gives the deployment that the configuration says; empty: none was read.
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
	return cfg.Cache.Snapshot.Path, cfg.Name, nil
}

// read takes a directory, or a file that was exported. Others may be writing it.
func (w *where) read() (*snapshot.Content, error) {
	path, _, err := w.directory()
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = snapshot.File(path)
	}
	return snapshot.Read(path)
}

func inspectCommand() *cobra.Command {
	w, output, list, bodies := &where{}, "", false, false
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Show what is in a snapshot; weir may be running",
		Args:  cobra.NoArgs,
	}
	w.register(cmd)
	cmd.Flags().BoolVar(&list, "resources", false, "list every resource by name, version and size")
	cmd.Flags().BoolVar(&bodies, "bodies", false, "with -o json or yaml: and what is in it")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "`table, yaml or json`")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		show, ok := map[string]func(io.Writer, []byte) error{"table": nil, "json": statusJSON, "yaml": statusYAML}[output]
		if !ok {
			return usageError{fmt.Errorf("--output %q is none of table, yaml, json", output)}
		}
		c, err := w.read()
		if err != nil {
			return err
		}
		s := c.Summary(list || bodies)
		warnOf(cmd, c)
		if show == nil {
			return inspectTable(cmd.OutOrStdout(), &s)
		}
		text, err := json.Marshal(inspected(&s, bodies))
		if err != nil {
			return err
		}
		return show(cmd.OutOrStdout(), text)
	})
	return cmd
}

// warnOf tells that what is shown is not all there was.
func warnOf(cmd *cobra.Command, c *snapshot.Content) {
	if err := c.Check(); err != nil {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "warning: it is damaged:\n%v\n", err) // as with errors, there is nobody left to tell
	}
}

// inspected is a summary with bodies that are readable; what Envoy's API marks as sensitive is blanked.
func inspected(s *snapshot.Summary, bodies bool) any {
	type resource struct {
		snapshot.ResourceSummary
		Resource json.RawMessage `json:"resource,omitempty"`
	}
	type typ struct {
		snapshot.TypeSummary
		Listed []resource `json:"listed,omitempty"`
	}
	out := struct {
		*snapshot.Summary
		Types []typ `json:"types"`
	}{Summary: s, Types: make([]typ, len(s.Types))}
	for i := range s.Types {
		t := &out.Types[i]
		t.TypeSummary = s.Types[i]
		for _, r := range s.Types[i].Listed {
			x := resource{ResourceSummary: r}
			if bodies && r.Body != nil {
				x.Resource = blankedBody(r.Body)
			}
			t.Listed = append(t.Listed, x)
		}
		t.TypeSummary.Listed = nil
	}
	return out
}

func blankedBody(body *anypb.Any) json.RawMessage {
	admin.Blank(body)
	return readable(body)
}

func inspectTable(w io.Writer, s *snapshot.Summary) error {
	now := time.Now()
	// A tabwriter keeps its first error for Flush.
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row(tw, "snapshot", s.Path)
	row(tw, "deployment", s.Deployment)
	row(tw, "format", s.Version)
	row(tw, "resources", fmt.Sprintf("%d, in %d bytes", s.Resources, s.Bytes))
	_, _ = fmt.Fprintln(tw)
	row(tw, "ORIGIN", "VOUCHED", "FROZEN", "ADDRESSES")
	for _, o := range s.Origins {
		row(tw, o.Name, ago(now, o.Vouched), o.Frozen, fmt.Sprint(o.Addresses))
	}
	if len(s.Types) > 0 {
		_, _ = fmt.Fprintln(tw)
		row(tw, "TYPE", "ORIGIN", "GROUP", "RESOURCES", "BYTES", "EXPIRING", "NAMES", "SETS")
	}
	for i := range s.Types {
		t := &s.Types[i]
		row(tw, metrics.ShortName(t.TypeURL), t.Origin, t.NodeID, t.Resources, t.Bytes, t.Expiring, t.Names, setsText(t.Sets))
	}
	for i := range s.Types {
		t := &s.Types[i]
		if len(t.Listed) > 0 {
			_, _ = fmt.Fprintln(tw)
			row(tw, "TYPE", "ORIGIN", "GROUP", "SET", "NAME", "VERSION", "BYTES", "EXPIRES")
		}
		for _, r := range t.Listed {
			expires := ""
			if !r.Expires.IsZero() {
				expires = r.Expires.UTC().Format(time.RFC3339)
			}
			row(tw, metrics.ShortName(t.TypeURL), t.Origin, t.NodeID, r.Set, r.Name, r.Version, r.Bytes, expires)
		}
	}
	return tw.Flush()
}

func setsText(sets []snapshot.SetSummary) (text string) {
	for i, s := range sets {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %d", s.Selector, s.Members)
		if !s.Settled {
			text += " (not whole)"
		}
	}
	return text
}

func verifyCommand() *cobra.Command {
	w := &where{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check a snapshot and print each damage with its place; weir may be running",
		Args:  cobra.NoArgs,
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
standard output. weir may be running.`,
		Args: cobra.ExactArgs(1),
	}
	w.register(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		c, err := w.read()
		if err != nil {
			return err
		}
		warnOf(cmd, c)
		if args[0] == "-" {
			return c.Export(cmd.OutOrStdout())
		}
		return exportTo(args[0], c)
	})
	return cmd
}

// exportTo leaves no half of a file.
func exportTo(path string, c *snapshot.Content) error {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = c.Export(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error that is told is the first
	}
	return err
}

func importCommand() *cobra.Command {
	w, force, ifEmpty := &where{}, false, false
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Give a directory a snapshot that was exported, before weir starts",
		Long: `Give a directory a snapshot that export made, so that a weir that starts there
serves it from the first moment, whether its origin can be reached or not. A dash
stands for standard input. No weir may have the directory.`,
		Args: cobra.ExactArgs(1),
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
		c, err := readExport(cmd.InOrStdin(), args[0])
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
		warning, err := c.Import(dir, force)
		if warning != nil {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: %v\n", dir, warning) // as with errors
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d resources\n", snapshot.File(dir), c.Summary(false).Resources)
		return err
	})
	return cmd
}

func readExport(stdin io.Reader, path string) (*snapshot.Content, error) {
	if path != "-" {
		return snapshot.Read(path)
	}
	data, err := io.ReadAll(stdin)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return snapshot.Decode("standard input", data)
}
