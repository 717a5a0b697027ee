package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
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

// registerAll adds --all, for commands that act, to those of register.
func (o *operator) registerAll(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.all, "all", "",
		"`dns:///NAME:PORT` instead of --admin: ask the admin ports of all addresses behind a name, so every replica")
	cmd.MarkFlagsMutuallyExclusive("admin", "all")
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
	replicas, err := o.replicas(cmd.Context())
	if err != nil {
		return err
	}
	lines, failed := make([]string, len(replicas)), make([]bool, len(replicas))
	var asked errgroup.Group
	asked.SetLimit(replicasAtOnce)
	for i, r := range replicas {
		asked.Go(func() error {
			said, err := r.post(cmd.Context(), path)
			lines[i], failed[i] = r.address+": "+said, err != nil
			if err != nil {
				lines[i] = oneLine(strings.ReplaceAll(err.Error(), "\n", "; "))
			}
			return nil
		})
	}
	_ = asked.Wait() // none fails as a whole
	var missing []string
	for i, line := range lines {
		if failed[i] {
			missing = append(missing, replicas[i].address)
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: %d of %d replicas failed: %s", o.all, len(missing), len(replicas), strings.Join(missing, ", "))
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
	ctx, cancel := context.WithTimeout(ctx, operatorWait)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(found) == 0 {
		err = errors.New("there is no address behind the name")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.all, err)
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
