package admin

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-xds/weir/downstream"
)

// place is the place of a client stream in the list: first those that reject what they were sent,
// then those that have been out of sync for longest, then the rest by age. A page of the list
// begins after the place of the last one before, which may be gone. So nobody whose state stays as
// it is is left out or listed twice while others come and go.
type place struct {
	nacking bool
	// since is when it was in sync last, in nanoseconds of the wall clock; 0: it is. A cursor has
	// no other clock.
	since  int64
	stream uint64
}

// placed is a client with its place.
type placed struct {
	place  place
	client *downstream.ClientStatus
}

func placeOf(c *downstream.ClientStatus) place {
	nacking, since := trouble(c)
	p := place{nacking: nacking, stream: c.Stream}
	if !since.IsZero() {
		p.since = since.UnixNano()
	}
	return p
}

func (p place) compare(other place) int {
	switch {
	case p.nacking != other.nacking:
		if p.nacking {
			return -1
		}
		return 1
	case (p.since == 0) != (other.since == 0):
		if p.since != 0 {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(p.since, other.since), cmp.Compare(p.stream, other.stream))
}

// cursor is the place as it is written in after=.
func (p place) cursor() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%t %d %d", p.nacking, p.since, p.stream))
}

// cursor returns where the page begins that is asked for; nil: with the first client.
func cursor(r *http.Request) (*place, error) {
	text := r.URL.Query().Get("after")
	if text == "" {
		return nil, nil
	}
	raw, _ := base64.RawURLEncoding.DecodeString(text)
	var after place
	var problems [3]error
	parts := strings.Split(string(raw), " ")
	if len(parts) == len(problems) {
		after.nacking, problems[0] = strconv.ParseBool(parts[0])
		after.since, problems[1] = strconv.ParseInt(parts[1], 10, 64)
		after.stream, problems[2] = strconv.ParseUint(parts[2], 10, 64)
	}
	// Each place has one cursor only, so what was read in part is none.
	if cmp.Or(problems[:]...) != nil || after.cursor() != text {
		return nil, fmt.Errorf("after=%q: write the next of the page before", text)
	}
	return &after, nil
}
