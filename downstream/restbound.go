package downstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// requestLevels is how deeply objects and arrays of a request in JSON may be nested. The metadata
// of a node has a few levels.
const requestLevels = 32

// errLocators: dynamic parameters are not available to polls.
var errLocators = status.Error(codes.InvalidArgument, "resource_locators: a poll has no dynamic parameters (REST-8)")

// boundJSON reports how much memory a request in JSON may take once it is decoded, or why it is not
// decoded. A text of a few KB, compressed, can cost seconds and hundreds of megabytes otherwise
// (TestPollBombs). It changes the text: what costs much and is not read is blanked.
func (set *settings) boundJSON(text []byte) (memory int, err error) {
	for f := xds.WalkJSON(text); f.Next() && err == nil; {
		switch string(f.Name) {
		case "node":
			err = boundNode(f.Value)
		case "resourceNames", "resource_names":
			err = set.boundNames(f.Value)
		case "resourceLocators", "resource_locators":
			if elements := xds.WalkJSON(f.Value); elements.Next() {
				err = errLocators
			}
		case "errorDetail", "error_detail":
			err = blankDetails(f.Value)
		}
	}
	if err != nil {
		return 0, err
	}
	bound := xds.JSONBound{Depth: requestLevels, Memory: maxNodeMemory + decodedShare*set.limits.RequestBytes}
	if memory, err = bound.Check(text); err != nil {
		return 0, notDecoded(err)
	}
	return memory, nil
}

// notDecoded is the status of a request that is refused before it is decoded.
func notDecoded(err error) error {
	return status.Errorf(codes.InvalidArgument, "the request is refused: %v", err)
}

func boundNode(value []byte) error {
	if len(value) > maxNode {
		return notDecoded(fmt.Errorf("node: it has %d bytes, and may have %d", len(value), maxNode))
	}
	if _, err := (xds.JSONBound{Depth: requestLevels, Memory: maxNodeMemory}).Check(value); err != nil {
		return notDecoded(fmt.Errorf("node: %w", err))
	}
	return nil
}

// boundNames refuses a list of more names than the poll may subscribe to.
func (set *settings) boundNames(value []byte) error {
	n := 0
	for f := xds.WalkJSON(value); f.Next(); n++ {
		if n == set.limits.NamesPerStream {
			return set.over("names_per_stream", n, "the request lists more")
		}
	}
	return nil
}

// blankDetails blanks the details of an error_detail, which may have any type of message. Of a NACK
// the code and the message are used.
func blankDetails(detail []byte) error {
	for f := xds.WalkJSON(detail); f.Next(); {
		if string(f.Name) != "details" || len(f.Value) == 0 || f.Value[0] != '[' {
			continue
		}
		if !json.Valid(f.Value) { // nothing would notice it any more
			return undecoded(errors.New("error_detail.details is not valid JSON"))
		}
		for i := range f.Value {
			f.Value[i] = ' '
		}
		f.Value[0], f.Value[len(f.Value)-1] = '[', ']'
	}
	return nil
}

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
