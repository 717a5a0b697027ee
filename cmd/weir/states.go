package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// stateList is what a running weir says of the states of groups: the part that is shown as a table.
type stateList struct {
	States    []stateLine `json:"states"`
	Truncated bool        `json:"truncated"`
	Kept      struct {
		Off bool `json:"off"`
	} `json:"kept"`
}

type stateLine struct {
	Group    string    `json:"group"`
	Revision uint64    `json:"revision"`
	ID       string    `json:"id"`
	At       time.Time `json:"at"`
	Added    int       `json:"added"`
	Changed  int       `json:"changed"`
	Removed  int       `json:"removed"`
	Types    []string  `json:"types"`
	Whole    bool      `json:"whole"`
	Present  bool      `json:"present"`
	Good     time.Time `json:"good"`
}

// shownID is as much of a state's ID as a table has.
const shownID = 12

func statesTable(w io.Writer, body []byte) error {
	var all stateList
	if err := json.Unmarshal(body, &all); err != nil {
		return notUnderstood(err)
	}
	now := time.Now()
	// A tabwriter keeps its first error for Flush.
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row(tw, "GROUP", "STATE", "REVISION", "AGO", "CHANGES", "GOOD SINCE", "NOW", "WHOLE")
	for i := range all.States {
		x := &all.States[i]
		good := ""
		if !x.Good.IsZero() {
			good = ago(now, x.Good)
		}
		row(tw, shownGroup(x.Group), x.ID[:min(shownID, len(x.ID))], strconv.FormatUint(x.Revision, 10),
			ago(now, x.At), x.changes(), good, word(x.Present, "now", ""), word(x.Whole, "yes", "no"))
	}
	return cmp.Or(tw.Flush(), listEnd(w, all.Kept.Off, all.Truncated))
}

// changes is what a state changed: how many resources were added, changed and removed, and of which
// types. The oldest state that is known has none.
func (x *stateLine) changes() string {
	var parts []string
	for _, p := range []struct {
		sign string
		n    int
	}{{"+", x.Added}, {"~", x.Changed}, {"-", x.Removed}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s%d", p.sign, p.n))
		}
	}
	return strings.TrimSpace(strings.Join(parts, " ") + " " + strings.Join(x.Types, ","))
}

func word(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}
