package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/cmd/weir/visible"
)

// longestEvent bounds a line of what is followed, in bytes.
const longestEvent = 1 << 20

// followClient prints what happens to one client of a running weir, line by line, until ctx ends or
// weir does. asJSON: as it comes.
func (o *operator) followClient(ctx context.Context, node string, asJSON bool, to io.Writer) error {
	path := "/explain/follow?" + url.Values{"node": {node}}.Encode()
	resp, err := o.send(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, longestEvent))
		return o.refused(http.MethodGet, path, resp.StatusCode, said)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, longestEvent)
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue // a sign of life, or the end of an event
		}
		if !asJSON {
			data = eventLine(data)
		}
		if _, err := fmt.Fprintln(to, visible.Text(data)); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil // it was interrupted
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: GET %s: %w", o.address, path, err)
	}
	return fmt.Errorf("%s: weir has ended", o.address)
}

// eventLine is an event for people: the time, what happened, and what there is to say of it.
func eventLine(data string) string {
	var e map[string]any
	if json.Unmarshal([]byte(data), &e) != nil {
		return oneLine(data)
	}
	at, _ := e["at"].(string)
	if t, err := time.Parse(time.RFC3339, at); err == nil {
		at = t.Local().Format("15:04:05.000")
	}
	said := at + " " + fmt.Sprint(e["event"])
	if kind, has := e["type"]; has {
		said += " " + fmt.Sprint(kind)
	}
	var more []string
	for key, value := range e {
		if !slices.Contains([]string{"at", "event", "type", "type_url"}, key) {
			more = append(more, fmt.Sprintf("%s=%v", key, value))
		}
	}
	slices.Sort(more)
	return shortened(visible.Text(said + " " + strings.Join(more, " ")))
}
