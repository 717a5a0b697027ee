package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestFailureOf: what a server says of itself, what the network says, and what we say have reasons of
// their own.
func TestFailureOf(t *testing.T) {
	unavailable := func(text string) error { return status.Error(codes.Unavailable, text) }
	for _, row := range []struct {
		err  error
		want string
	}{
		{errors.New("connection refused"), "refused"},
		{unavailable(`connection error: desc = "transport: Error while dialing: dial unix /run/x: connect: no such file or directory"`), "refused"},
		{unavailable(`connection error: desc = "transport: Error while dialing: dial tcp: lookup nowhere: i/o timeout"`), "dns"},
		{unavailable(`connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.1:1: i/o timeout"`), "timeout"},
		{unavailable(`connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.1:1: connect: no route to host"`), "unreachable"},
		{unavailable(`connection error: desc = "error reading server preface: EOF"`), "unreachable"},
		{unavailable("error reading from server: EOF"), "unreachable"},
		{unavailable("no healthy upstream"), "unavailable"},
		{status.Error(codes.Unauthenticated, "EOF"), "unauthenticated"},
		{fmt.Errorf("10.0.0.1: %w", status.Error(codes.PermissionDenied, "no")), "permission_denied"},
		{status.Error(codes.Unimplemented, "unknown service"), "unimplemented"},
		{status.Error(codes.ResourceExhausted, "later"), "limited"},
		{status.Error(codes.DeadlineExceeded, ""), "timeout"},
		{fmt.Errorf("no stream within 20s: %w", status.Error(codes.Canceled, "context canceled")), "timeout"},
		{errors.New("no response within 15s of a server that was unreachable before"), "timeout"},
		{fmt.Errorf("not connected within 20s: %w", context.DeadlineExceeded), "timeout"},
		{errSilent, "timeout"},
		{errEnded, "ended"},
		{fmt.Errorf("%w: %w", ErrToken, io.EOF), "credentials"},
		{fmt.Errorf("in a group: %w", BadResponse(errors.New("tls: "))), "bad_response"},
		{status.Error(codes.Internal, "EOF"), "other"},
		{status.Error(codes.FailedPrecondition, "the table is not ready"), "other"},
		{errors.New("something"), "other"},
	} {
		if got := FailureOf(row.err); got != row.want {
			t.Errorf("%v is %q, want %q", row.err, got, row.want)
		}
	}
}
