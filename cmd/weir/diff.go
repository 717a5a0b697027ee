package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
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
		Short: "Compare the answers of two xDS servers, or of one and a file",
		Long: `Send two xDS servers the same request and print the differences between their
answers: of a control plane and its weir, or of two replicas. The exit code is 1 if
there is a difference.

A and B are host:port, unix:///path, or a file or directory of resources. Without
NAME all resources of the type are compared, by a legacy wildcard; NAME '*' is the
explicit wildcard. The command waits until both servers have been quiet for a
second. It compares the content of messages, not their bytes, and versions only with
--versions.`,
		Example: `  weir diff cds control-plane:18000 127.0.0.1:18080
  weir diff eds backend 10.0.0.7:18080 10.0.0.8:18080 --versions
  weir diff cds resources.yaml 127.0.0.1:18080`,
		ValidArgsFunction: completeArgs(anyType),
	}
	f := cmd.Flags()
	d.register(cmd)
	f.DurationVar(&d.timeout, "timeout", 10*time.Second, "how long to wait until both have answered and are quiet")
	f.BoolVar(&d.versions, "versions", false, "also compare versions")
	choiceFlag(cmd, &d.tlsFor, "tls-for", "", "the `side` that the TLS flags are for: both, a or b", tlsSides...)
	f.StringArrayVar(&d.descriptors, "descriptors", nil, "`file` of descriptors from protoc, for messages that weir does not know; may be repeated")
	outputFlag(cmd, &d.output)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		return d.run(cmd.Context(), args, cmd.OutOrStdout())
	})
	return cmd
}

// tlsSides are the values of --tls-for.
var tlsSides = []string{"both", "a", "b"}

// errDiffers is the error of a comparison that found something.
var errDiffers = errors.New("their answers differ")

func (d *diff) run(ctx context.Context, args []string, out io.Writer) error {
	typeURL, err := typeOf(args[0])
	if err != nil {
		return err
	}
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
	done := slow(ctx, "waiting for the answers of %s and %s", sides[0].at, sides[1].at)
	err = d.ask(ctx, sub, sides)
	if done(); err != nil {
		return err
	}
	c := compare(sub, sides[0], sides[1], d.versions, d.known)
	most, bytes := mostChanges, mostValue
	if d.output == uncut {
		most, bytes = math.MaxInt, math.MaxInt
	}
	if err := printAs(out, d.output, c, func(w io.Writer) error { return comparisonLines(w, c, most, bytes) }); err != nil {
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
	secure bool           // by TLS
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
	case !isAddress(s.at):
		return usageError{fmt.Errorf("%q is neither host:port nor unix:///path, and no file", s.at)}
	}
	cfg, err := d.config(s.at)
	if err != nil {
		return err
	}
	if !secure {
		cfg.TLS = nil
	}
	s.secure = cfg.TLS != nil
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
				return d.streamError(h.side.at, h.side.secure, "", h.err)
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
			errs = append(errs, d.silence(s.at, fmt.Sprintf(" within %s", d.timeout)))
		case s.answer.unlocated:
			errs = append(errs, fmt.Errorf("%s: does not understand parameters, and answered as if asked for everything", s.at))
		}
	}
	return errors.Join(errs...)
}
