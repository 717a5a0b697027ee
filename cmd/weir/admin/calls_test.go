package admin

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// asks is a gRPC stream on which the client asks at once, again and again, and reads slowly.
type asks struct {
	grpc.ServerStream
	ctx   context.Context
	reads time.Duration
}

func (s *asks) Context() context.Context { return s.ctx }
func (s *asks) RecvMsg(any) error        { return nil }
func (s *asks) SendMsg(any) error {
	time.Sleep(s.reads)
	return nil
}

// TestOneStatusAtATime: an answer of client status, which may be large, is made and read while no
// other one is, by whatever call it was asked for. Who waits for it in vain is told to come again.
func TestOneStatusAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		reading := 0
		alone := func(for_ time.Duration) {
			if reading++; reading > 1 {
				t.Error("two are read at a time")
			}
			time.Sleep(for_)
			reading--
		}
		var does func(ctx context.Context) error
		w.cfg.GRPC = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ctx, over := context.WithCancel(r.Context())
			defer over()
			if err := does(ctx); r.Header.Get("Want") != status.Code(err).String() {
				t.Errorf("%v, want %s", err, r.Header.Get("Want"))
			}
		})
		w.cfg.ClientStatus = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { alone(time.Second) })
		a, err := New(w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		call := func(want codes.Code, f func(ctx context.Context) error) {
			does = f
			ask(a, http.MethodPost, "/a.Service/Method", header("Want", want.String()), func(r *http.Request) {
				r.ProtoMajor = 2
				r.Header.Set("Content-Type", "application/grpc")
			})
		}
		single := func(reads time.Duration) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				info := &grpc.UnaryServerInfo{FullMethod: statusv3.ClientStatusDiscoveryService_FetchClientStatus_FullMethodName}
				_, err := ofCalls(ctx, nil, info, func(context.Context, any) (any, error) { return nil, nil })
				if err == nil {
					alone(reads) // the transport writes it
				}
				return err
			}
		}
		several := func(reads time.Duration) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				info := &grpc.StreamServerInfo{FullMethod: statusv3.ClientStatusDiscoveryService_StreamClientStatus_FullMethodName}
				return ofStreams(nil, &asks{ctx: ctx}, info, func(_ any, s grpc.ServerStream) error {
					for range 3 {
						if err := s.RecvMsg(nil); err != nil {
							return err
						}
						alone(reads)
						if err := s.SendMsg(nil); err != nil {
							return err
						}
					}
					return nil
				})
			}
		}
		calls := []func(time.Duration) func(context.Context) error{single, several}
		for _, first := range calls {
			done := make(chan bool)
			go func() {
				call(codes.OK, first(time.Second))
				done <- true
			}()
			synctest.Wait()
			for _, next := range calls {
				call(codes.OK, next(time.Second))
			}
			want(t, ask(a, http.MethodPost, "/v3/discovery:client_status"), http.StatusOK)
			<-done
			go func() {
				call(codes.OK, first(time.Minute))
				done <- true
			}()
			synctest.Wait()
			for _, next := range calls {
				call(codes.Unavailable, next(time.Second))
			}
			want(t, ask(a, http.MethodPost, "/v3/discovery:client_status"), http.StatusServiceUnavailable, "ask again")
			want(t, ask(a, http.MethodGet, "/clients"), http.StatusOK)
			<-done
		}
	})
}

// noted notes deadlines.
type noted struct {
	http.ResponseWriter
	set []time.Time
}

func (n *noted) SetWriteDeadline(at time.Time) error {
	n.set = append(n.set, at)
	return nil
}

// TestDeadlineOfACallThatIsOver: whatever ends a call leaves the connection alone once the call has
// ended by itself. The server of HTTP/2 panics otherwise.
func TestDeadlineOfACallThatIsOver(t *testing.T) {
	n := &noted{}
	d := &deadline{timing: http.NewResponseController(n)}
	d.set(time.Unix(1, 0))
	d.end()
	d.set(time.Unix(2, 0))
	if len(n.set) != 1 {
		t.Errorf("it is set to %v", n.set)
	}
}
