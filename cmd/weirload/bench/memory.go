package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"

	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// inUse matches the lines of a heap profile as text that add up to what is alive: objects, and
// stacks. Spans in use would count the holes between old objects, which new ones fill.
var inUse = regexp.MustCompile(`^# (HeapAlloc =|Stack =) ([0-9]+)`)

// fleetAndMemory runs a fleet, and reads the server's memory in a pause at the end, with the
// clients connected and nothing being measured: a collection during the changes would count as
// their cost. It collects at the beginning of the pause, which gives the bytes in use. The report's
// RSSRested is the resident memory at its end, when the runtime has returned what it does not need.
func (s *study) fleetAndMemory(ctx context.Context, c *fleet.Config, kind world.Kind, pprof string) (r *fleet.Report, inUse float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.Rest = s.pause
	var read chan struct{} // nil until reading begins
	var failed error
	r, err = s.programs.fleet(ctx, c, kind, cue{resting, func() {
		read = make(chan struct{})
		go func() {
			defer close(read)
			inUse, failed = collect(ctx, pprof)
		}()
	}})
	if read == nil {
		return nil, 0, errors.Join(err, errors.New("the fleet did not rest"))
	}
	select {
	case <-read:
		return r, inUse, errors.Join(err, failed)
	default:
	}
	cancel() // the clients are gone, so what it reads now is of no use
	<-read
	return nil, 0, errors.Join(err, fmt.Errorf("a pause of %v was too short to collect garbage in", s.pause))
}

// collect makes a server collect its garbage, three times since stacks shrink by half at a time,
// and returns the bytes in use then.
func collect(ctx context.Context, addr string) (float64, error) {
	bytes := 0.0
	for range 3 {
		body, err := get(ctx, "http://"+addr+"/debug/pprof/heap?gc=1&debug=1")
		if err != nil {
			return 0, err
		}
		bytes, err = readInUse(body)
		if err = orClose(err, body); err != nil {
			return 0, fmt.Errorf("the heap profile of %s: %w", addr, err)
		}
	}
	return bytes, nil
}

func readInUse(r io.Reader) (float64, error) {
	bytes, found := 0.0, 0
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := inUse.FindSubmatch(lines.Bytes()); m != nil {
			n, err := strconv.ParseFloat(string(m[2]), 64)
			if err != nil {
				return 0, err
			}
			bytes += n
			found++
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if found != 2 {
		return 0, fmt.Errorf("%d of 2 lines found", found)
	}
	return bytes, nil
}

func orClose(err error, c io.Closer) error {
	if closing := c.Close(); err == nil {
		return closing
	}
	return err
}

// get returns the body of a URL.
func get(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return resp.Body, nil
}
