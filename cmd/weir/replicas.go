package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

const (
	// byName begins the value of --all.
	byName = "dns:///"
	// replicasAtOnce is how many replicas are asked at a time.
	replicasAtOnce = 16
)

// registerAll is register with --all.
func (o *operator) registerAll(cmd *cobra.Command) {
	o.register(cmd)
	cmd.Flags().StringVar(&o.all, "all", "", "every replica: all addresses behind `dns:///NAME:PORT`, instead of --admin")
}

// act requests an action and prints the answer. With --all every replica is asked, and has a line
// of its own, with its answer or what went wrong; the error says how many failed.
func (o *operator) act(cmd *cobra.Command, path string) error {
	if o.all == "" {
		said, err := o.post(cmd.Context(), path)
		if err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
		}
		return err
	}
	all, err := askAll(cmd.Context(), o, func(ctx context.Context, r *operator) (string, error) { return r.post(ctx, path) })
	if err != nil {
		return err
	}
	for i := range all {
		line := all[i].replica + ": " + all[i].said
		if all[i].err != nil {
			line = all[i].failure()
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
			return err
		}
	}
	return failedOf(o, all)
}

// reply is what a replica said, or why it said nothing.
type reply[T any] struct {
	replica string // its address; empty without --all
	said    T
	err     error
}

// failure is the error in one line, which names the replica.
func (a *reply[T]) failure() string {
	text := a.err.Error()
	if of := (*remoteError)(nil); errors.As(a.err, &of) && of.sentence == text {
		text = a.replica + ": " + of.brief
	}
	return oneLine(strings.NewReplacer("\n"+a.replica+": ", "; ", "\n", "; ").Replace(text))
}

// askAll asks every replica, side by side, and has a reply of each, in the order of addresses.
func askAll[T any](ctx context.Context, o *operator, ask func(context.Context, *operator) (T, error)) ([]reply[T], error) {
	replicas, err := o.replicas(ctx)
	if err != nil {
		return nil, err
	}
	defer slow(ctx, "waiting for the answers of %d replicas", len(replicas))()
	ctx = withoutProgress(ctx)
	all := make([]reply[T], len(replicas))
	var asked errgroup.Group
	asked.SetLimit(replicasAtOnce)
	for i, r := range replicas {
		asked.Go(func() error {
			all[i].replica = r.address
			all[i].said, all[i].err = ask(ctx, r)
			return nil
		})
	}
	return all, asked.Wait() // none fails as a whole
}

// failedOf returns an error that names the replicas that failed, if some did.
func failedOf[T any](o *operator, all []reply[T]) error {
	var missing []string
	for i := range all {
		if all[i].err != nil {
			missing = append(missing, all[i].replica)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d of %d replicas failed: %s", o.all, len(missing), len(all), strings.Join(missing, ", "))
}

// lookup is how a command shows what a running weir says, which is a JSON object.
type lookup[T any] struct {
	ask   func(context.Context, *operator) ([]byte, error)
	table func(io.Writer, []reply[T]) error
	// verdict is the error of what was shown; nil: there is none.
	verdict func([]reply[T]) error
}

// gets returns what asks for a path.
func gets(path string) func(context.Context, *operator) ([]byte, error) {
	return func(ctx context.Context, o *operator) (body []byte, err error) {
		err = o.get(ctx, path, (*json.RawMessage)(&body))
		return body, err
	}
}

// single is the table of commands without --all.
func single[T any](table func(io.Writer, *T) error) func(io.Writer, []reply[T]) error {
	return func(w io.Writer, all []reply[T]) error { return table(w, &all[0].said) }
}

// queryOf has the flags with these names that were given.
func queryOf(cmd *cobra.Command, names ...string) url.Values {
	q := url.Values{}
	for _, name := range names {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			q.Set(name, flag.Value.String())
		}
	}
	return q
}

// show shows what a running weir says, or with --all every replica. A replica that says nothing has
// a line, too, and the error says how many these are.
func show[T any](ctx context.Context, o *operator, w io.Writer, output string, l lookup[T]) error {
	text := shower(output, nil)
	var all []reply[[]byte]
	var err error
	if o.all != "" {
		all, err = askAll(ctx, o, l.ask)
	} else {
		all = make([]reply[[]byte], 1)
		all[0].said, err = l.ask(ctx, o)
	}
	if err != nil {
		return err
	}
	var read []reply[T]
	if text == nil || output == uncut || l.verdict != nil {
		if read, err = decoded[T](all); err != nil {
			return err
		}
	}
	switch {
	case output == uncut:
		err = l.table(wide(w), read)
	case text == nil:
		err = l.table(w, read)
	case o.all == "":
		err = text(w, all[0].said)
	default:
		var body []byte
		if body, err = listed(all); err == nil {
			err = text(w, body)
		}
	}
	if err = cmp.Or(err, failedOf(o, all)); err == nil && l.verdict != nil {
		err = l.verdict(read)
	}
	return err
}

// decoded reads what the replicas say.
func decoded[T any](all []reply[[]byte]) ([]reply[T], error) {
	read := make([]reply[T], len(all))
	for i, a := range all {
		read[i].replica, read[i].err = a.replica, a.err
		if a.err != nil {
			continue
		}
		if err := json.Unmarshal(a.said, &read[i].said); err != nil {
			return nil, notUnderstood(err)
		}
	}
	return read, nil
}

// listed is a JSON list of what the replicas say, each with its address as replica.
func listed(all []reply[[]byte]) ([]byte, error) {
	list := []map[string]any{}
	for i := range all {
		item := map[string]any{}
		if all[i].err != nil {
			item["error"] = all[i].failure()
		} else {
			var said map[string]json.RawMessage
			if err := json.Unmarshal(all[i].said, &said); err != nil {
				return nil, notUnderstood(err)
			}
			for key, value := range said {
				item[key] = value
			}
		}
		item["replica"] = all[i].replica
		list = append(list, item)
	}
	return json.Marshal(list)
}

// withReplica puts the address of a replica before the cells of a row, where there is one.
func withReplica(replica string, cells ...any) []any {
	if replica == "" {
		return cells
	}
	return append([]any{replica}, cells...)
}

// headOf is the head of a table, with a column for the replica if it shows several.
func headOf[T any](all []reply[T], cells ...any) []any {
	if all[0].replica == "" {
		return cells
	}
	return append([]any{"REPLICA"}, cells...)
}

// answered reports whether at least one replica said something.
func answered[T any](all []reply[T]) bool {
	return slices.ContainsFunc(all, func(a reply[T]) bool { return a.err == nil })
}

// failures writes a line for each replica that said nothing.
func failures[T any](w io.Writer, all []reply[T]) error {
	for i := range all {
		if all[i].err == nil {
			continue
		}
		if _, err := fmt.Fprintln(w, all[i].failure()); err != nil {
			return err
		}
	}
	return nil
}

// replicas returns an operator for each address behind the name of --all, in order. Each is reached
// at its own address, and has to be NAME, unless --server-name says another one.
func (o *operator) replicas(ctx context.Context) ([]*operator, error) {
	host, port, err := splitName(o.all)
	if err != nil {
		return nil, err
	}
	o.read()
	ctx, cancel := context.WithTimeout(ctx, operatorWait)
	defer cancel()
	defer slow(ctx, "looking up %s", host)()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(found) == 0 {
		err = errors.New("there is no address behind the name")
	}
	if err != nil {
		return nil, unresolved(o.all, err)
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	var all []*operator
	for _, ip := range slices.Compact(found) {
		r := &operator{address: netip.AddrPortFrom(ip, port).String(), given: func() bool { return true }, tokenFile: o.tokenFile, tls: o.tls, body: o.body}
		if r.tls.enabled() {
			r.tls.ServerName = cmp.Or(r.tls.ServerName, strings.TrimSuffix(host, "."))
		}
		all = append(all, r)
	}
	return all, nil
}

// unresolved is the error of a name behind which no address was found.
func unresolved(all string, err error) error {
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		return remotef(all, "%s; does the name exist? In Kubernetes it is that of the headless service", dns.Err)
	}
	return remotef(all, "%v", err)
}

// splitName reads the value of --all.
func splitName(all string) (host string, port uint16, _ error) {
	rest, is := strings.CutPrefix(all, byName)
	host, text, err := net.SplitHostPort(rest)
	number, notNumber := strconv.ParseUint(text, 10, 16)
	if !is || err != nil || host == "" || notNumber != nil || number == 0 {
		return "", 0, usageError{fmt.Errorf("--all %q is not dns:///NAME:PORT", all)}
	}
	return host, uint16(number), nil
}
