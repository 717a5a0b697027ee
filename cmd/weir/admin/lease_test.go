package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/downstream"
)

// followed is a world in which every client can be followed, and says nothing.
func followed(t *testing.T) *world {
	w := newWorld(t)
	w.cfg.Follow = func(string) (*downstream.Follower, func(), error) { return &downstream.Follower{}, func() {}, nil }
	return w
}

// running is an Admin whose Run goes on until the function is called.
func (w *world) running() (a *Admin, end func()) {
	w.t.Helper()
	a, err := New(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ran := make(chan error)
	go func() { ran <- a.Run(ctx) }()
	return a, func() {
		cancel()
		if err := <-ran; err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) rotate(token string) {
	if err := os.WriteFile(w.cfg.TokenFile, []byte(token), 0o600); err != nil {
		w.t.Error(err)
	}
}

// TestLongAnswersEndWithTrust: an answer that goes on ends within moments of what admitted its
// caller, and after ten minutes in any case, also when nothing happens. It says that the caller may
// ask again.
func TestLongAnswersEndWithTrust(t *testing.T) {
	const after = time.Minute
	byCertificate := func(r *http.Request) {
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{DNSNames: []string{"operator"}}}}}
	}
	for name, row := range map[string]struct {
		edit func(*http.Request)
		end  func(w *world, distrust *atomic.Bool) // of what admits the caller; nil: nothing does
		says string
	}{
		"token":       {bearer("hush"), func(w *world, _ *atomic.Bool) { w.rotate("new") }, wrongToken.text},
		"certificate": {byCertificate, func(_ *world, distrust *atomic.Bool) { distrust.Store(true) }, untrusted.text},
		"time":        {bearer("hush"), nil, "10m"},
	} {
		for _, path := range []string{"/explain/follow?node=a", "/events"} {
			t.Run(name+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, distrust := followed(t), &atomic.Bool{}
					w.cfg.Trusts = func(*tls.ConnectionState) error {
						if distrust.Load() {
							return errors.New("it is revoked")
						}
						return nil
					}
					if w.cfg.Reachable = true; name != "certificate" {
						w.cfg.TokenFile = tokenFile(t, "hush")
					}
					a, end := w.running()
					defer end()
					least := leaseFor
					if row.end != nil {
						least = after
						time.AfterFunc(after, func() { row.end(w, distrust) })
					}
					began := time.Now()
					rec := ask(a, http.MethodGet, path, row.edit)
					if d := time.Since(began); rec.Code != http.StatusOK || d < least || d > least+2*leaseEvery {
						t.Errorf("%d, it ended after %v, want %v", rec.Code, d, least)
					}
					if strings.HasPrefix(path, "/explain") && !strings.Contains(rec.Body.String(), `"event":"reconnect","text":"`+row.says[:3]) {
						t.Errorf("it ends with %s", rec.Body)
					}
				})
			})
		}
	}
}

// TestEndsUseNoTries: that open answers end with their token is no guess of another one.
func TestEndsUseNoTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := followed(t)
		w.cfg.TokenFile = tokenFile(t, "hush")
		a, end := w.running()
		defer end()
		const streams = 3 * mostTries
		over := make(chan *httptest.ResponseRecorder)
		for range streams {
			go func() { over <- ask(a, http.MethodGet, "/explain/follow?node=a", bearer("hush")) }()
		}
		time.Sleep(time.Minute)
		// Another peer of the same address, or behind it, guesses.
		for range 2 * mostTries {
			ask(a, http.MethodGet, "/clients", bearer("guess"))
		}
		time.Sleep(time.Minute)
		select {
		case rec := <-over:
			t.Fatalf("guesses end what was admitted: %s", rec.Body)
		default:
		}
		w.rotate("new")
		for range streams {
			<-over
		}
		want(t, ask(a, http.MethodGet, "/clients", bearer("new")), http.StatusOK)
	})
}

// quietCall is a gRPC stream on which the client says nothing.
type quietCall struct {
	grpc.ServerStream
	ctx  context.Context
	sent int
}

func (q *quietCall) Context() context.Context { return q.ctx }
func (q *quietCall) RecvMsg(any) error {
	<-q.ctx.Done()
	return q.ctx.Err()
}

func (q *quietCall) SendMsg(any) error {
	q.sent++
	return nil
}

// call serves gRPC calls by a handler, as the port would.
func (w *world) call(does grpc.StreamHandler) (code codes.Code, sent int, took time.Duration) {
	w.t.Helper()
	q := &quietCall{}
	w.cfg.GRPC = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context()) // as that of a transport
		defer cancel()
		q.ctx = ctx
		began := time.Now()
		err := ofStreams(nil, q, &grpc.StreamServerInfo{}, does)
		code, took = status.Code(err), time.Since(began)
		if ctx.Err() != nil {
			w.t.Error("the transport is over, and the client hears no status")
		}
	})
	a, end := w.running()
	defer end()
	ask(a, http.MethodPost, "/a.Service/Watch", bearer("hush"), func(r *http.Request) {
		r.ProtoMajor = 2
		r.Header.Set("Content-Type", "application/grpc")
	})
	return code, q.sent, took
}

// TestCallsEndWithTrust: so do gRPC streams, whether they wait for a message, for something to say,
// or speak.
func TestCallsEndWithTrust(t *testing.T) {
	for name, does := range map[string]grpc.StreamHandler{
		"hears": func(_ any, s grpc.ServerStream) error { return s.RecvMsg(nil) },
		"waits": func(_ any, s grpc.ServerStream) error {
			<-s.Context().Done()
			return status.FromContextError(s.Context().Err()).Err()
		},
		"speaks": func(_ any, s grpc.ServerStream) error {
			for {
				if err := s.SendMsg(nil); err != nil {
					return err
				}
				time.Sleep(leaseEvery / 2)
			}
		},
		"ignores": func(_ any, s grpc.ServerStream) error {
			time.Sleep(leaseFor + time.Hour)
			return s.SendMsg(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.cfg.TokenFile = tokenFile(t, "hush")
				code, sent, took := w.call(does)
				if code != codes.Unavailable || name == "ignores" && sent > 0 || name != "ignores" && (took < leaseFor || took > leaseFor+time.Second) {
					t.Errorf("by time: %s, %d messages, %v", code, sent, took)
				}
			})
			if name == "ignores" {
				return
			}
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.cfg.TokenFile = tokenFile(t, "hush")
				time.AfterFunc(time.Minute, func() { w.rotate("new") })
				code, _, took := w.call(does)
				if code != codes.Unauthenticated || took < time.Minute || took > time.Minute+2*leaseEvery {
					t.Errorf("by token: %s, %v", code, took)
				}
			})
		})
	}
}
