package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/client"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/upstream/descriptors"
	"github.com/weir-xds/weir/upstream/file"
)

// diff is one run of the command.
type diff struct {
	peer
	timeout  time.Duration
	versions bool
	tlsFor   string
	output   string

	descriptors []string
	known       *descriptors.Types
}

func diffCommand() *cobra.Command {
	d := &diff{}
	cmd := &cobra.Command{
		Use:   "diff TYPE [NAME...] A B",
		Short: "Compare what two xDS servers answer, or one and a file",
		Long: `Ask two xDS servers the same, as one client, and print what they answer
differently: a control plane and a weir before it, or two replicas. The exit
code is 1 if there is a difference.

A and B are host:port, unix:///path, or a file or directory as an origin of
files has it. Without a name everything is compared that clients get as they
always could; '*' asks the newer way. Both are listened to until they have been
quiet for a second, so that a change on its way is no difference. Bodies are
compared as they read, not byte by byte; versions only with --versions.`,
		Args:              arguments,
		ValidArgsFunction: completeType,
	}
	f := cmd.Flags()
	d.register(cmd)
	f.DurationVar(&d.timeout, "timeout", 10*time.Second, "how long to wait until both have answered and are quiet")
	f.BoolVar(&d.versions, "versions", false, "another version of the same body is a difference, too")
	f.StringVar(&d.tlsFor, "tls-for", "both", "`a, b or both`: for which of them the TLS flags are")
	f.StringArrayVar(&d.descriptors, "descriptors", nil, "a `file` of descriptors, as protoc writes it, of messages to compare; may be repeated")
	outputFlag(cmd, &d.output)
	complete(cmd, "tls-for", "a", "b", "both")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		return d.run(cmd.Context(), args, cmd.OutOrStdout())
	})
	return cmd
}

// errDiffers is the error of a comparison that found something.
var errDiffers = errors.New("they answer differently")

func (d *diff) run(ctx context.Context, args []string, out io.Writer) error {
	typeURL, ok := config.TypeURL(args[0])
	if !ok {
		return usageError{fmt.Errorf("%q is neither a short name such as cds nor a full type URL", args[0])}
	}
	show, ok := map[string]func(io.Writer, *comparison) error{"table": comparisonTable, "json": comparisonJSON, "yaml": comparisonYAML}[d.output]
	if !ok {
		return usageError{fmt.Errorf("--output %q is none of table, yaml, json", d.output)}
	}
	if !slices.Contains([]string{"a", "b", "both"}, d.tlsFor) {
		return usageError{fmt.Errorf("--tls-for %q is none of a, b, both", d.tlsFor)}
	}
	var err error
	if d.known, err = descriptors.ReadFiles(d.descriptors); err != nil {
		return err
	}
	n := len(args)
	sub, err := d.subscription(typeURL, args[1:n-2])
	if err != nil {
		return err
	}
	sides := [2]*side{{at: args[n-2], answer: newAnswer(sub)}, {at: args[n-1], answer: newAnswer(sub)}}
	for i, s := range sides {
		defer s.close()
		if err := d.open(s, sub, d.tlsFor == "both" || d.tlsFor == []string{"a", "b"}[i]); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if err := d.ask(ctx, sub, sides); err != nil {
		return err
	}
	c := compare(sub, sides[0], sides[1], d.versions, d.known)
	if err := show(out, c); err != nil {
		return err
	}
	if len(c.Differences) > 0 {
		return errDiffers
	}
	return nil
}

// side is one of the two that are compared.
type side struct {
	at     string         // as given
	server *client.Client // nil: a file
	answer *answer
}

// open makes a side what its place says: a file if there is one, else a server.
func (d *diff) open(s *side, sub client.Subscription, secure bool) error {
	_, missing := os.Stat(s.at)
	switch {
	case missing == nil:
		return d.read(s, sub)
	case strings.Contains(s.at, "/") && !strings.HasPrefix(s.at, "unix:"):
		return missing
	}
	cfg, err := d.config(s.at)
	if err != nil {
		return err
	}
	if !secure {
		cfg.TLS = nil
	}
	s.server, err = client.Dial(cfg)
	return err
}

func (s *side) close() {
	if s.server != nil {
		_ = s.server.Close() // nothing was written that could be lost
	}
}

// read takes what files answer.
func (d *diff) read(s *side, sub client.Subscription) error {
	names := sub.Names
	if slices.Contains(names, client.Wildcard) {
		names = nil
	}
	all, err := file.Resources(file.Config{Name: s.at, Path: s.at, Types: d.known, TP2: true}, sub.TypeURL, names, constraints.NewParams(sub.Params))
	if err != nil {
		return err
	}
	r := &client.Response{TypeURL: sub.TypeURL}
	for i := range all {
		x := &all[i]
		var stated discoveryv3.ResourceName
		if err := proto.Unmarshal(x.RawConstraints, &stated); err != nil {
			return fmt.Errorf("%s: the constraints of %s: %w", s.at, x.Name, err)
		}
		r.Set = append(r.Set, client.Resource{
			Name: x.Name, Version: x.Version, TTL: x.TTL, Located: true,
			Constraints: stated.GetDynamicParameterConstraints(),
			Body:        &anypb.Any{TypeUrl: string(x.PayloadType), Value: x.Payload},
		})
	}
	r.Removed = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(r.Set, func(x client.Resource) bool { return x.Name == name })
	})
	s.answer.take(r)
	return nil
}

// heard is a response of a side, or why its stream has ended.
type heard struct {
	side     *side
	response *client.Response
	err      error
}

// ask listens to the servers until both have answered and are quiet. The error is that of a server
// that was not reached, or of one that said nothing.
func (d *diff) ask(ctx context.Context, sub client.Subscription, sides [2]*side) error {
	ctx, enough := context.WithCancel(ctx)
	said := make(chan heard)
	var listening sync.WaitGroup
	for _, s := range sides {
		if s.server != nil {
			listening.Go(func() { s.listen(ctx, sub, said) })
		}
	}
	defer func() {
		enough()
		listening.Wait()
	}()
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	for {
		select {
		case h := <-said:
			if h.err != nil {
				return h.err
			}
			h.side.answer.take(h.response)
			quiet.Reset(quietTime)
			continue
		case <-quiet.C:
			if slices.ContainsFunc(sides[:], func(s *side) bool { return !s.answer.complete() }) {
				continue // until the next response, or the end
			}
		case <-ctx.Done():
		}
		return d.verdict(sides)
	}
}

// listen passes on what a server says until ctx ends.
func (s *side) listen(ctx context.Context, sub client.Subscription, said chan<- heard) {
	for r, err := range s.server.Watch(ctx, sub) {
		select {
		case said <- heard{s, r, err}:
		case <-ctx.Done():
			return
		}
	}
}

// verdict is the error of sides that cannot be compared.
func (d *diff) verdict(sides [2]*side) error {
	var errs []error
	for _, s := range sides {
		switch {
		case s.answer.last == nil:
			errs = append(errs, fmt.Errorf("%s: nothing answered within %s", s.at, d.timeout))
		case s.answer.unlocated:
			errs = append(errs, fmt.Errorf("%s: does not understand parameters, and answered as if asked for everything", s.at))
		}
	}
	return errors.Join(errs...)
}
