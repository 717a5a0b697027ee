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

// inUse are the lines of a heap profile as text that together are what is alive: objects, and
// stacks. Spans in use would count the holes between the objects of before, which the next ones
// fill.
var inUse = regexp.MustCompile(`^# (HeapAlloc =|Stack =) ([0-9]+)`)

// fleetAndMemory runs a fleet, and reads a server's memory in a pause at its end, in which the
// clients are there and nothing is measured: a collection while changes are running would be
// counted as theirs. It collects at the pause's beginning, which gives what is in use; resident
// memory is that of the report at its end, RSSRested, when the runtime has given back what it does
// not need.
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
	cancel() // what it reads now is no longer with the clients
	<-read
	return nil, 0, errors.Join(err, fmt.Errorf("a pause of %v was too short to collect garbage in", s.pause))
}

// collect has a server collect its garbage, three times since stacks shrink by half at a time, and
// gives the bytes in use after that.
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

// get is the body of what an address answers.
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
