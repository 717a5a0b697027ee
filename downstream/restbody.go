package downstream

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc/mem"
)

// countedBody counts what is read of the body of a request.
type countedBody struct {
	io.ReadCloser
	n int
}

// Read is part of io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += n
	return n, err
}

// applied counts the body as applied. With HTTP/1.1 a connection has one request at a time.
func (b *countedBody) applied(c *connection, major int) {
	if major == 1 {
		c.appliedAll()
		return
	}
	c.applied(b.n)
}

// readBody reads the body. Its size is bounded after decompression.
func readBody(ctx context.Context, w http.ResponseWriter, r *http.Request, in *request) ([]byte, error) {
	how := r.Header.Get("Content-Encoding")
	if how != "" && how != "identity" && how != "gzip" {
		return nil, fmt.Errorf("its Content-Encoding %q is not gzip", how)
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(in.most())))
	if err != nil || how != "gzip" {
		return text, err
	}
	inflated, turn, err := in.intake.inflate(ctx, in.from, mem.BufferSlice{mem.SliceBuffer(text)}, in.most())
	if in.turn = turn; err != nil {
		in.leaveTurn()
		return nil, err
	}
	defer inflated.Free()
	return inflated.Materialize(), nil
}
