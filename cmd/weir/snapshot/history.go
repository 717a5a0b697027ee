package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// How the history of a page is written: a head, and the changes in parts. What was written of it
// stays, and a write appends the changes since.

// Fields of classHistory.
const (
	historyRevision = 1 // without a key: the newest revision of the table

	headFloor   = 1 // nothing before this revision is known
	headParts   = 2 // how many there are
	headFloorAt = 3 // when the floor was; missing: that is not known

	partChange = 1 // of a part's body; repeated, the oldest first

	changeSet      = 1
	changeName     = 2
	changeRevision = 3
	changeAt       = 4
	changeKind     = 5
	changeSince    = 6
	changeLost     = 7
	changeIs       = 8  // digest
	changeWas      = 9  // what was held before; missing: nothing
	changeBody     = 10 // of that; missing: it is not kept
	changeFirst    = 11
	changeLostAt   = 12
	changeStripped = 13 // the body was kept, and is not written

	wasDigest   = 1
	wasName     = 2
	wasOrigin   = 3 // the origin's version
	wasShown    = 4
	wasFallback = 5
	wasSource   = 6
	wasServer   = 7
	wasBytes    = 8
	wasReceived = 9
	wasResponse = 10 // the version of the response
	wasExpires  = 11
	wasLeft     = 12
)

// maxRevision bounds the revisions of a file, so that they do not overflow, and are numbers to all
// who read them.
const maxRevision = 1 << 53

// historyPart is how many bytes of changes a part has, or a little more.
const historyPart = 256 << 10

// revisionRecord says how far the table had come.
func revisionRecord(revision uint64) record {
	return record{class: classHistory, meta: appendNumber(nil, historyRevision, revision)}
}

// historyHead is the record of the history of a page.
func historyHead(page string, floor history.Edge, parts int) record {
	b := appendNumber(appendNumber(nil, headFloor, floor.Revision), headParts, uint64(parts))
	return record{class: classHistory, key: page, meta: appendTime(b, headFloorAt, floor.At())}
}

// partRecord is the record of a part of it.
func partRecord(page string, number int, body []byte) record {
	return record{class: classHistory, key: string(binary.BigEndian.AppendUint64([]byte(page), uint64(number))), body: body}
}

// partSize is the length of the key of a part.
const partSize = shardKeySize + 8

// appendChange appends a change to the body of a part. withheld: its body is not written.
func appendChange(b []byte, n *history.Noted, withheld bool, now, wall time.Time) []byte {
	x := appendText(nil, changeSet, n.Set)
	x = appendText(x, changeName, n.Name)
	x = appendNumber(x, changeRevision, n.Revision)
	x = appendTime(x, changeAt, n.At)
	x = appendNumber(x, changeKind, uint64(n.Kind))
	x = appendNumber(x, changeSince, n.Since)
	x = appendNumber(x, changeLost, n.Lost.Revision)
	x = appendTime(x, changeLostAt, n.Lost.At())
	x = appendBool(x, changeFirst, n.First)
	x = appendBool(x, changeStripped, withheld)
	if n.Is != (xds.Digest{}) {
		x = appendBytes(x, changeIs, n.Is[:])
	}
	if n.Was != nil {
		body := n.Was.Body
		if withheld {
			body = nil
		}
		was, resource := appendVersion(nil, n.Was, body, now, wall)
		x = appendBytes(x, changeWas, was)
		if body != nil {
			x = appendBytes(x, changeBody, resource)
		}
	}
	return appendBytes(b, partChange, x)
}

// appendVersion appends what is known of a version besides its body, if that is written.
func appendVersion(b []byte, w *history.Version, v *xds.Variant, now, wall time.Time) (was, resource []byte) {
	b = appendNumber(b, wasServer, uint64(w.Server))
	b = appendTime(b, wasReceived, w.Received)
	b = appendBool(b, wasFallback, w.Fallback)
	b = appendText(b, wasSource, w.Source)
	if v == nil {
		b = appendBytes(b, wasDigest, w.Digest[:])
		b = appendText(b, wasName, w.Name)
		b = appendText(b, wasOrigin, w.Origin)
		b = appendBool(b, wasShown, w.Shown)
		return appendNumber(b, wasBytes, uint64(w.Bytes)), nil
	}
	x := v.Image(now, wall)
	b = appendText(b, wasResponse, v.From.Version)
	b = appendTime(b, wasExpires, x.Expires)
	return appendNumber(b, wasLeft, protowire.EncodeZigZag(int64(x.Left))), x.Resource
}

// keptChange is a change as it was read.
type keptChange struct {
	history.Noted
	response string // of the body
	body     *xds.BodyImage
	lost     uint64
	lostAt   time.Time
	stripped bool // it was not written
}

// readPart returns the changes of a part.
func readPart(b []byte) (all []keptChange, err error) {
	for f, err := range fields(b) {
		switch {
		case err != nil:
			return nil, err
		case f.number != partChange:
			continue
		}
		x, err := readChange(f.bytes)
		if err != nil {
			return nil, err
		}
		if all = append(all, x); len(all) > maxSaid {
			return nil, tooMany(maxSaid, "changes")
		}
	}
	return all, nil
}

func readChange(b []byte) (x keptChange, err error) {
	for f, err := range fields(b) {
		if err != nil {
			return x, err
		}
		switch f.number {
		case changeSet:
			x.Set = f.text()
		case changeName:
			x.Name = f.text()
		case changeRevision:
			x.Revision = f.n
		case changeAt:
			x.At = f.time()
		case changeKind:
			x.Kind = history.Kind(min(f.n, 255))
		case changeSince:
			x.Since = f.n
		case changeLost:
			x.lost = f.n
		case changeLostAt:
			x.lostAt = f.time()
		case changeFirst:
			x.First = f.bool()
		case changeStripped:
			x.stripped = f.bool()
		case changeIs:
			copy(x.Is[:], f.bytes)
		case changeWas:
			if err := x.readVersion(f.bytes); err != nil {
				return x, err
			}
		case changeBody:
			x.image().Resource = f.bytes
		}
	}
	if x.body != nil && (x.Was == nil || len(x.body.Resource) == 0) {
		x.body = nil // what is known of it is in Was alone
	}
	if x.Lost = history.EdgeAt(x.lost, x.lostAt); x.stripped {
		x.Lose()
	}
	return x, nil
}

// image is what there is of the body.
func (x *keptChange) image() *xds.BodyImage {
	if x.body == nil {
		x.body = &xds.BodyImage{}
	}
	return x.body
}

func (x *keptChange) readVersion(b []byte) error {
	x.Was = &history.Version{}
	for f, err := range fields(b) {
		if err != nil {
			return err
		}
		switch f.number {
		case wasDigest:
			copy(x.Was.Digest[:], f.bytes)
		case wasName:
			x.Was.Name = f.text()
		case wasOrigin:
			x.Was.Origin = f.text()
		case wasShown:
			x.Was.Shown = f.bool()
		case wasFallback:
			x.Was.Fallback = f.bool()
		case wasSource:
			x.Was.Source = f.text()
		case wasServer:
			x.Was.Server = uint8(min(f.n, 255))
		case wasBytes:
			x.Was.Bytes = int(min(f.n, maxPart))
		case wasReceived:
			x.Was.Received = f.time()
		case wasResponse:
			x.response = f.text()
		case wasExpires:
			x.image().Expires = f.time()
		case wasLeft:
			x.image().Left = time.Duration(protowire.DecodeZigZag(f.n))
		}
	}
	return nil
}

// historyRecords are the records of the history of one page.
type historyRecords struct {
	head  record // class 0: it was not found
	parts map[string]record
}

var errNoHead = errors.New("its head was not found")

// changes returns what is there, the oldest first. It has to be all of it.
func (h *historyRecords) changes(page string) (floor history.Edge, all []keptChange, err error) {
	if h.head.class != classHistory {
		return floor, nil, errNoHead
	}
	var parts, revision uint64
	var at time.Time
	for f, err := range fields(h.head.meta) {
		switch {
		case err != nil:
			return floor, nil, err
		case f.number == headFloor:
			revision = f.n
		case f.number == headFloorAt:
			at = f.time()
		case f.number == headParts:
			parts = f.n
		}
	}
	floor = history.EdgeAt(revision, at)
	if uint64(len(h.parts)) != parts {
		return floor, nil, fmt.Errorf("it has %d parts, and %d are there", parts, len(h.parts))
	}
	for n := range int(parts) {
		r := partRecord(page, n, nil)
		part, is := h.parts[r.key]
		if !is {
			return floor, nil, fmt.Errorf("part %d of %d is not there", n, parts)
		}
		some, err := readPart(part.body)
		if err != nil {
			return floor, nil, fmt.Errorf("part %d of %d: %w", n, parts, err)
		}
		all = append(all, some...)
	}
	return floor, all, nil
}
