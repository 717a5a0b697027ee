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
// weir does. weir ends an answer from time to time; then it is asked again, by the token that is in
// the file then. asJSON: as it comes.
func (o *operator) followClient(ctx context.Context, node string, asJSON bool, to io.Writer) error {
	for began := false; ; began = true {
		again, err := o.followOnce(ctx, node, asJSON, began, to)
		if err != nil || !again {
			return err
		}
	}
}

// followOnce prints one answer, from the second event on if it continues another one. Again: weir
// has ended it, and may be asked again.
func (o *operator) followOnce(ctx context.Context, node string, asJSON, continues bool, to io.Writer) (again bool, _ error) {
	path := "/explain/follow?" + url.Values{"node": {node}}.Encode()
	resp, err := o.send(ctx, http.MethodGet, path)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, longestEvent))
		return false, o.refused(http.MethodGet, path, resp.StatusCode, said)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, longestEvent)
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue // a sign of life, or the end of an event
		}
		switch kind := eventKind(data); {
		case kind == "reconnect":
			again = true
			continue
		case kind == "following" && continues:
			continue
		case !asJSON:
			data = eventLine(data)
		}
		if _, err := fmt.Fprintln(to, visible.Text(data)); err != nil {
			return false, err
		}
	}
	switch {
	case ctx.Err() != nil:
		return false, nil // it was interrupted
	case again:
		return true, nil
	case lines.Err() != nil:
		return false, fmt.Errorf("%s: GET %s: %w", o.address, path, lines.Err())
	}
	return false, fmt.Errorf("%s: weir has ended", o.address)
}

// eventKind is what kind of event it is; "" if it cannot be read.
func eventKind(data string) string {
	var e struct {
		Event string `json:"event"`
	}
	_ = json.Unmarshal([]byte(data), &e) // eventLine prints what cannot be read
	return e.Event
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
