package snapshot

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Content is the content of a file, as far as it can be read.
type Content struct {
	Header Header
	// Report says what was read, and what could not be.
	Report Report

	origins map[string]record
	shards  map[string]*shardRecords
	// revision is the record of the table's revision, and histories are the histories of shards, by
	// the same keys.
	revision  record
	histories map[string]*historyRecords
	marks     map[string]record
}

// shardRecords are the records of one type of one group.
type shardRecords struct {
	head  record // class 0: it was not found
	items map[string]record
}

// Report is the result of reading a file.
type Report struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	// Records is the number of valid records, Commits that of the ends of writes among them.
	Records int `json:"records"`
	Commits int `json:"commits"`
	// Unknown is the number of records with classes of a later minor version.
	Unknown int `json:"unknown,omitempty"`
	// CutOff is the length of an unfinished last write, which was ignored. A killed process leaves
	// one.
	CutOff int64 `json:"cut_off,omitempty"`
	// Damages are sorted by offset.
	Damages []Damage `json:"damages,omitempty"`
	// Key is what the key is called that the file is encrypted with; empty: it is in plain text.
	// Offsets of records and of damage to them are those in plain text.
	Key string `json:"key,omitempty"`
	// LeftOut is what the last write left out.
	LeftOut LeftOut `json:"left_out,omitzero"`
}

// ErrEmpty says that a file has not a single byte.
var ErrEmpty = errors.New("it is empty")

// Read reads a file that another process may be writing to. It may be in plain text, or encrypted
// with one of the keys. The error is about the file as a whole; damaged parts are in the report.
func Read(path string, keys *Keys) (*Content, error) { return ReadWithin(path, keys, nil) }

// ReadWithin is Read as far as there is room in memory.
func ReadWithin(path string, keys *Keys, room Room) (*Content, error) {
	data, err := readAll(path, room)
	if err != nil {
		return nil, err
	}
	return DecodeWithin(path, data, keys, room)
}

// Decode is Read of a file that was read already, and changes data. name is for messages.
func Decode(name string, data []byte, keys *Keys) (*Content, error) {
	return DecodeWithin(name, data, keys, nil)
}

// DecodeWithin is Decode as far as there is room in memory.
func DecodeWithin(name string, data []byte, keys *Keys, room Room) (*Content, error) {
	size := int64(len(data))
	s, err := unseal(data, keys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if size == 0 {
		return nil, fmt.Errorf("%s: %w", name, ErrEmpty)
	}
	c, err := parse(name, s.plain, room)
	if err != nil {
		return nil, err
	}
	c.Report.Key, c.Report.Bytes = s.key, size
	c.Report.CutOff += s.cutOff
	c.Report.Damages = append(s.damages, c.Report.Damages...)
	return c, nil
}

// readAll reads as much of the file as it has when it is opened. (Mapped into memory, a file that
// is cut would end the process.)
func readAll(path string, room Room) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a file", path)
	}
	if !room.has(info.Size()) {
		return nil, fmt.Errorf("%s: memory is short: it has %d bytes", path, info.Size())
	}
	data := make([]byte, info.Size())
	n, err := io.ReadFull(f, data)
	// It may have been cut meanwhile.
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data[:n], nil
}

// parse replays the writes of a file. A write counts as a whole or not at all, so the result is a
// state that existed. Exceptions are the first write, which cannot have been cut since the file was
// complete when it was put in place, and writes around damage: of these all valid records count.
func parse(path string, data []byte, room Room) (*Content, error) {
	c := newContent()
	c.Report.Path, c.Report.Bytes = path, int64(len(data))
	header, damages, err := readHeader(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.Header, c.Report.Damages = header, damages
	s := scanner{data: data, mark: header.mark}
	var pending []record
	whole := headerSize // end of the last finished write
	for at, r := range s.records() {
		if c.Report.Records++; c.Report.Records%roomStep == 0 && !room.has(0) {
			return nil, fmt.Errorf("%s: %w", path, errShort)
		}
		pending = append(pending, r)
		if r.class != classCommit {
			continue
		}
		c.Report.Commits++
		c.apply(pending)
		pending, whole = nil, at+int(r.size())
	}
	c.Report.Damages = append(c.Report.Damages, s.damages...)
	if c.Report.Commits == 0 {
		c.apply(pending)
		c.Report.Damages = append(c.Report.Damages, Damage{Offset: int64(s.tail), What: "the file ends before its first write does"})
		whole = s.tail
	}
	c.Report.CutOff = int64(len(data) - whole)
	return c, nil
}

func newContent() *Content {
	return &Content{origins: map[string]record{}, shards: map[string]*shardRecords{}, histories: map[string]*historyRecords{}, marks: map[string]record{}}
}

func (c *Content) apply(records []record) {
	for i := range records {
		r := &records[i]
		switch r.class {
		case classOrigin:
			c.origins[r.key] = *r
		case classShard:
			c.shard(r.key).head = *r
		case classItem:
			if len(r.key) >= shardKeySize {
				c.shard(r.key[:shardKeySize]).items[r.key] = *r
			}
		case classHistory:
			c.setHistory(r)
		case classMarks:
			c.marks[r.key] = *r
		case classRemove:
			c.remove(r.key)
		case classCommit:
			c.Report.LeftOut = readLeftOut(r.meta)
		default:
			c.Report.Unknown++
		}
	}
}

func (c *Content) shard(key string) *shardRecords {
	s := c.shards[key]
	if s == nil {
		s = &shardRecords{items: map[string]record{}}
		c.shards[key] = s
	}
	return s
}

func (c *Content) remove(key string) {
	if key == "" {
		return
	}
	switch of, key := class(key[0]), key[1:]; of {
	case classOrigin:
		delete(c.origins, key)
	case classShard:
		delete(c.shards, key)
		delete(c.histories, key)
	case classHistory:
		delete(c.histories, key)
	case classItem:
		if s := c.shards[key[:min(len(key), shardKeySize)]]; s != nil {
			delete(s.items, key)
		}
	}
}

// groups returns the groups of which something is in the file.
func (c *Content) groups() map[groupID]bool {
	all := map[groupID]bool{}
	for _, s := range c.shards {
		if x, _, err := readShard(s.head.meta); err == nil {
			all[groupID{x.Origin, x.Group}] = true
		}
	}
	return all
}
