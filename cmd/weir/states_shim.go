package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/weir-xds/weir/relay"
)

type stateRow struct {
	Revision uint64
	ID       string
	At       time.Time
	Whole    bool
}

func resolveState(part *relay.Origin, b *rollbacks, key, to string, now time.Time) (uint64, error) {
	if n, err := strconv.ParseUint(to, 10, 64); err == nil {
		return n, nil
	}
	at, err := time.Parse(time.RFC3339, to)
	if err != nil {
		return 0, fmt.Errorf("%q is no state", to)
	}
	return b.table.History().At(part.Name(), key, at, b.table.Revision()), nil
}

func statesOf(part *relay.Origin, key string, most int) []stateRow { return nil }
