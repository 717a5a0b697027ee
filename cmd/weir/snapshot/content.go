package snapshot

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Content is what a file says, as far as it can be read.
type Content struct {
	Header Header
	// Report says what could not be read, and how much was.
	Report Report

	origins map[string]record
	shards  map[string]*shardRecords
}

// shardRecords are those of one type of one group.
type shardRecords struct {
	head  record // of no class: it was not found
	items map[string]record
}

// Report is what reading a file found.
type Report struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	// Records are those that were whole, Commits the ends of writes among them.
	Records int `json:"records"`
	Commits int `json:"commits"`
	// Unknown are records of classes that a later minor version has.
	Unknown int `json:"unknown,omitempty"`
	// CutOff is how many bytes of a last write that was never finished were left out: what a
	// process that is killed leaves behind.
	CutOff int64 `json:"cut_off,omitempty"`
	// Damages are in the order of their offsets.
	Damages []Damage `json:"damages,omitempty"`
}

// Read reads a file that another process may be writing to. The error is about the file as a whole:
// what is wrong with parts of it is in the report.
func Read(path string) (*Content, error) {
	data, err := readAll(path)
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

// readAll reads the file as long as it is when it is opened. (A mapping would end the process where
// a file is cut under it.)
func readAll(path string) ([]byte, error) {
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
	data := make([]byte, info.Size())
	n, err := io.ReadFull(f, data)
	// it may have been cut meanwhile
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data[:n], nil
}

// parse replays the writes of a file: each is taken whole or not at all, so that what comes out is
// a state that once was. Only of the first, which was put in place whole and cannot have been cut
// off, and around damage, is there taken what there is.
func parse(path string, data []byte) (*Content, error) {
	c := &Content{origins: map[string]record{}, shards: map[string]*shardRecords{}}
	c.Report.Path, c.Report.Bytes = path, int64(len(data))
	header, bad, err := readHeader(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.Header = header
	for i := range 2 {
		if bad>>i&1 != 0 {
			c.Report.Damages = append(c.Report.Damages, Damage{int64(i * copySize), copySize, "a copy of the header is damaged"})
		}
	}
	s := scanner{data: data, mark: header.mark}
	var pending []record
	whole := headerSize // where the last write that was finished ends
	for at, r := range s.records() {
		c.Report.Records++
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
		c.Report.Damages = append(c.Report.Damages, Damage{int64(s.tail), 0, "the file ends before its first write does"})
		whole = s.tail
	}
	c.Report.CutOff = int64(len(data) - whole)
	return c, nil
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
		case classRemove:
			c.remove(r.key)
		case classCommit:
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
	case classItem:
		if s := c.shards[key[:min(len(key), shardKeySize)]]; s != nil {
			delete(s.items, key)
		}
	}
}
