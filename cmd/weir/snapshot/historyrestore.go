package snapshot

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// Reading the history of a file. Where a part of the file is damaged all of it is left out: whether
// a change is missing cannot be known, and what is said of an earlier state has to be so.

// setHistory takes over a record of the history.
func (c *Content) setHistory(r *record) {
	switch {
	case r.key == "":
		c.revision = *r
	case len(r.key) == shardKeySize:
		c.historyOf(r.key).head = *r
	case len(r.key) == partSize:
		c.historyOf(r.key[:shardKeySize]).parts[r.key] = *r
	}
}

// historyOf finds or makes the history of a page.
func (c *Content) historyOf(page string) *historyRecords {
	h := c.histories[page]
	if h == nil {
		h = &historyRecords{parts: map[string]record{}}
		c.histories[page] = h
	}
	return h
}

// newest is the newest revision of the table that wrote the file; 0: it kept no history.
func (c *Content) newest() (revision uint64, err error) {
	if err := decode(c.revision.meta, func(c *coder) { c.number(1, &revision) }); err != nil {
		return 0, err
	}
	if revision > maxRevision {
		return 0, fmt.Errorf("revision %d is more than is possible", revision)
	}
	return revision, nil
}

var errDamaged = errors.New("the file is damaged")

// resume has the table go on after the revisions of the file, so that a number means one state
// alone, whether or not the history may be used.
func (r *restoration) resume() {
	if !r.table.History().On() {
		return
	}
	revision, err := r.content.newest()
	if err == nil {
		r.table.Resume(revision)
		if len(r.content.Report.Damages) > 0 {
			err = errDamaged
		}
	}
	switch {
	case len(r.content.histories) == 0:
	case err != nil:
		r.fail(fmt.Errorf("the history is left out, so what was before is not known: %w", err), false)
	default:
		r.newest = revision
	}
}

// past is the history of a page; nil: it is not known.
func (r *restoration) past(page string, x *relay.TypeImage) *history.Past {
	h := r.content.histories[page]
	if r.newest == 0 || h == nil {
		return nil
	}
	floor, changes, err := h.changes(page)
	var past history.Past
	if err == nil {
		past = history.Past{Floor: floor, Changes: make([]history.Noted, len(changes))}
		for i := range changes {
			past.Changes[i] = changes[i].Noted
			past.Changes[i].Seq = uint64(i) // to find it again
		}
		err = past.Check(r.newest + 1)
	}
	if err != nil {
		r.fail(fmt.Errorf("origin %q, group %s, type %s: its history is left out: %w", x.Origin, x.Group, x.TypeURL, err), false)
		return nil
	}
	past = r.table.History().Fit(past, r.cfg.Wall)
	b := bodies{restoration: r, image: x, sameServers: r.sameServers(x.Origin), from: map[xds.Provenance]*xds.Provenance{}}
	for i := range past.Changes {
		b.give(&past.Changes[i], &changes[past.Changes[i].Seq])
	}
	r.Changes += len(past.Changes)
	return &past
}

// bodies makes the bodies of a history.
type bodies struct {
	*restoration
	image       *relay.TypeImage
	sameServers bool
	from        map[xds.Provenance]*xds.Provenance // equal ones are one
}

// give gives a change the body that was written with it. One that cannot be used is not known.
func (b *bodies) give(n *history.Noted, x *keptChange) {
	if n.Was == nil {
		return
	}
	if !b.sameServers {
		n.Was.Server = relay.NoServer
	}
	if x.body == nil {
		return
	}
	x.body.Server = n.Was.Server
	v, err := b.table.RestoreBody(b.cfg.Now, b.cfg.Wall, b.image.Origin, b.image.TypeURL, *x.body)
	if err != nil {
		b.fail(fmt.Errorf("origin %q, type %s, in its history: %w", b.image.Origin, b.image.TypeURL, err), false)
		n.Lose()
		return
	}
	v.From = b.provenance(v.From, n.Was, x.response)
	n.Was.Name, n.Was.Digest, n.Was.Bytes, n.Was.Body = v.Name, v.Digest, v.Size(), v
}

func (b *bodies) provenance(from *xds.Provenance, was *history.Version, response string) *xds.Provenance {
	key := *from
	key.Version, key.Fallback, key.Source, key.Came = response, was.Fallback, was.Source, unixNano(was.Received)
	if b.from[key] == nil {
		b.from[key] = &key
	}
	return b.from[key]
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// stripHistory drops the bodies with a key in them from the history of a page, and all of it if it
// cannot be read.
func (c *Content) stripHistory(page string) {
	h := c.histories[page]
	if h == nil {
		return
	}
	for key, r := range h.parts {
		body, err := strippedPart(r.body)
		if err != nil {
			delete(c.histories, page)
			return
		}
		r.body = body
		h.parts[key] = r
	}
}

// strippedPart is a part without bodies that have a key in them.
func strippedPart(b []byte) (out []byte, err error) {
	var x keptChange // one for all: there may be very many
	err = decode(b, func(c *coder) {
		x = keptChange{}
		change := c.field.bytes
		if x.read(c); c.err != nil {
			return
		}
		if x.body != nil && resourceHolds(x.body.Resource) {
			change = withoutBody(change)
		}
		out = appendBytes(out, partChange, change)
	})
	return out, err
}

// withoutBody is a change without the body of what was before. That is not known any more, but that
// there was something.
func withoutBody(change []byte) (out []byte) {
	for f, err := range fields(change) {
		switch {
		case err != nil: // it was read before
		case f.of == changeBody:
		case f.bytes != nil:
			out = appendBytes(out, f.of, f.bytes)
		default:
			out = appendNumber(out, f.of, f.n)
		}
	}
	return appendBool(out, changeStripped, true)
}
