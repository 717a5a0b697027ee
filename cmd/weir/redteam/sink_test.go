package redteam

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// sinkRole is the environment variable that makes the test binary a sink.
const sinkRole = "WEIR_REDTEAM_SINK"

// sinkKind is what a sink's port does with an attacker.
type sinkKind string

const (
	// bytesSink reads what comes, and says nothing.
	bytesSink sinkKind = "bytes"
	// refusingSink is grpc-go alone, which reads the first message of a stream and then refuses it.
	refusingSink sinkKind = "refuses"
	// patientSink is grpc-go alone, which answers the first message of a stream with an empty one,
	// and reads the others.
	patientSink sinkKind = "reads"
	// webSink is net/http alone, which refuses each request.
	webSink sinkKind = "web"
)

// sinkMain is the process of a sink. It writes its addresses, and ends when nobody holds its
// standard input any more.
func sinkMain() int {
	raiseDescriptors()
	addresses := map[sinkKind]string{}
	for kind, serve := range map[sinkKind]func(net.Listener) error{
		bytesSink: swallow, refusingSink: bare(refuseFirst).Serve, patientSink: bare(answerFirst).Serve, webSink: serveNobody,
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		addresses[kind] = l.Addr().String()
		go func() { fmt.Fprintln(os.Stderr, kind, serve(l)) }()
	}
	if err := json.NewEncoder(os.Stdout).Encode(addresses); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is closed
	return 0
}

// swallow reads all that comes on as many connections as one peer may have at weir.
func swallow(l net.Listener) error {
	buffers := sync.Pool{New: func() any { return new([32 << 10]byte) }}
	var open atomic.Int64
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		if open.Add(1) > perPeer {
			open.Add(-1)
			_ = conn.Close()
			continue
		}
		go func() {
			b := buffers.Get().(*[32 << 10]byte)
			for err := error(nil); err == nil; {
				_, err = conn.Read(b[:])
			}
			buffers.Put(b)
			_ = conn.Close()
			open.Add(-1)
		}()
	}
}

// bare is grpc-go with the bounds that weir has, and nothing of weir's.
func bare(handle grpc.StreamHandler) *grpc.Server {
	return grpc.NewServer(grpc.UnknownServiceHandler(handle), grpc.ForceServerCodecV2(deaf{}),
		grpc.RPCDecompressor(asItIs{}), //nolint:staticcheck // as weir has it
		grpc.MaxConcurrentStreams(100), grpc.MaxHeaderListSize(16<<10),
		grpc.StaticStreamWindowSize(64<<10), grpc.StaticConnWindowSize(64<<10))
}

var errSink = status.Error(codes.Unavailable, "nobody is served here")

func refuseFirst(_ any, s grpc.ServerStream) error {
	if err := s.RecvMsg(nil); err != nil {
		return err
	}
	return errSink
}

func answerFirst(_ any, s grpc.ServerStream) error {
	for first := true; ; first = false {
		if err := s.RecvMsg(nil); errors.Is(err, io.EOF) {
			return errSink
		} else if err != nil {
			return err
		}
		if first {
			if err := s.SendMsg(nil); err != nil {
				return err
			}
		}
	}
}

// deaf is a codec whose messages are all empty.
type deaf struct{}

func (deaf) Name() string                         { return "proto" }
func (deaf) Marshal(any) (mem.BufferSlice, error) { return nil, nil }
func (deaf) Unmarshal(mem.BufferSlice, any) error { return nil }

// asItIs leaves messages compressed.
type asItIs struct{}

func (asItIs) Type() string                   { return "gzip" }
func (asItIs) Do(r io.Reader) ([]byte, error) { return io.ReadAll(r) }

func serveNobody(l net.Listener) error {
	s := http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "nobody is served here", http.StatusForbidden)
	})}
	return s.Serve(l)
}

// sink is the process of one.
type sink struct {
	addresses map[sinkKind]string
	pid       int
}

// startSink starts one. t ends it.
func startSink(t *testing.T) sink {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), sinkRole+"=1")
	held, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = held.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the sink: %v", err)
		}
	})
	s := sink{pid: cmd.Process.Pid}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s.addresses)
	}
	if err != nil {
		t.Fatalf("the sink does not say where it listens: %v", err)
	}
	return s
}
