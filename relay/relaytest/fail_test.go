package relaytest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// failure is what a captured test failed with.
type failure string

// capture is a test whose failure can be looked at; Fatal and Fatalf unwind like the real ones.
type capture struct{ testing.TB }

func (capture) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

func (capture) Fatal(args ...any) { panic(failure(fmt.Sprint(args...))) }

// failureOf returns what f fails with, empty if it does not.
func failureOf(f func()) (message string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			message = string(r)
		default:
			panic(r)
		}
	}()
	f()
	return ""
}

// A failed expectation says its sentence and what was seen instead.
func TestFailuresTellWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := Memory()
		o := NewOrigin(capture{t}, n, OriginConfig{})
		c := NewClient(capture{t}, n.Connect(t), ClientConfig{})
		early := failureOf(func() { c.Request(ClusterType) })
		c.Open(nil)
		untaken := failureOf(func() { o.WantNoStream(time.Second) })
		s := o.ExpectStream("the client opens a stream")
		c.Request(ClusterType, "a")
		for _, tc := range []struct {
			got  string
			want []string
		}{
			{early, []string{"no open stream"}},
			{untaken, []string{"no new stream"}},
			{failureOf(func() { o.WantIdle(time.Second) }), []string{"want no request", "Cluster", `["a"]`}},
			{failureOf(func() { s.WantIdle(time.Second) }), []string{"on stream 1"}},
			{failureOf(func() { s.ExpectType(SecretType, "secrets are asked") }), []string{"secrets are asked", `["a"]`}},
			{failureOf(func() { s.ExpectNames(ClusterType, "b is asked", "b") }), []string{"b is asked", `["b"]`, `["a"]`}},
			{failureOf(func() { s.Expect("more is asked") }), []string{"30s", "more is asked"}},
			{failureOf(func() { c.ACK(ClusterType) }), []string{"unanswered"}},
			{failureOf(func() { c.AwaitNames(ClusterType, "a is held", "a") }), []string{"a is held", "holds 0 of Cluster"}},
			{failureOf(func() { c.Expect("", "something comes") }), []string{"something comes", "ended with: <nil>"}},
		} {
			for _, want := range tc.want {
				if !strings.Contains(tc.got, want) {
					t.Errorf("want %q in the failure, got %q", want, tc.got)
				}
			}
		}

		s.Respond(ClusterType, "1", Resource{Name: "a", Version: "1", Body: Cluster("a", time.Second)})
		if got := failureOf(func() { c.WantIdle(time.Second) }); !strings.Contains(got, "response 1: Cluster") {
			t.Errorf("want the response named, got %q", got)
		}
		if got := failureOf(func() { s.ExpectACK(ClusterType, "other", "another is accepted") }); !strings.Contains(got, "s1-1") {
			t.Errorf("want the nonce seen instead, got %q", got)
		}
		c.Skip()
		time.AfterFunc(time.Millisecond, func() { s.End(nil) }) // what has ended before is idle
		if got := failureOf(func() { c.WantIdle(time.Second) }); !strings.Contains(got, "the stream ended") {
			t.Errorf("want the end reported, got %q", got)
		}
	})
}
