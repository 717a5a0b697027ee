package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// bound keeps a directory within cache.snapshot.max_bytes at every moment. What is there besides
// the snapshot and the copies that were set aside is counted, and has a reserve. Of the rest,
//
//   - a file without superseded records is to take 5/16: content;
//   - the file may grow to 5/8 by what is appended to it;
//   - so there are always 3/8 for a new file beside it. That is a fifth more than its content is to
//     be, since the size of what is to be written is an estimate;
//   - copies have what is left. They go, the oldest first, as soon as the room is needed.
//
// What is written is counted as it is written, so an estimate that is wrong breaks nothing.
type bound struct {
	files files
	path  string // of the snapshot
	max   int64  // 0: there is no bound
	// dropped is called with the path of each copy that was removed; nil: it is not.
	dropped func(copied string)
}

// errNoRoom says that a write would make the directory too large.
var errNoRoom = errors.New("cache.snapshot.max_bytes leaves no room for it")

// rounding is what the reserve has for a file system, which gives room in whole blocks.
const rounding = 64 << 10

// reserve is what is left for other files of the directory, with their replacements.
func reserve(maxBytes int64) int64 { return min(maxBytes/8, 4<<20) }

// MaxBeside returns how large a file may be that weir keeps beside a snapshot, and replaces by
// writing a new one beside it.
func MaxBeside(maxBytes int64) int64 { return (reserve(maxBytes) - rounding) / 2 }

// usage is what a directory has.
type usage struct {
	file   int64
	copies []copied // oldest first, without a second name of the file
	rest   int64    // of the bound, for the file, its replacement and copies
}

// copied is a file that was set aside.
type copied struct {
	path  string
	bytes int64
}

func (b *bound) usage() (u usage, err error) {
	dir := filepath.Dir(b.path)
	entries, err := os.ReadDir(dir) // sorted, and names of copies contain the time
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return u, err
	}
	file, err := os.Stat(b.path)
	switch {
	case err == nil:
		u.file = file.Size()
	case !errors.Is(err, fs.ErrNotExist):
		return u, err
	}
	var others int64
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
		case err != nil:
			return u, err
		case !info.Mode().IsRegular() || file != nil && os.SameFile(info, file):
		case strings.HasPrefix(e.Name(), fileName+asideInfix):
			u.copies = append(u.copies, copied{filepath.Join(dir, e.Name()), info.Size()})
		default:
			others += info.Size()
		}
	}
	u.rest = b.max - max(reserve(b.max), others+reserve(b.max)/2)
	return u, nil
}

func (u *usage) content() int64 { return u.rest / 16 * 5 }
func (u *usage) grown() int64   { return 2 * u.content() }
func (u *usage) whole() int64   { return u.rest - u.grown() }

// share is what one write may still take.
type share struct {
	bound  *bound
	left   int64 // for the file that is written
	free   int64 // in the directory; below 0: too much is there
	copies []copied
}

// share returns what may be appended to the file, or the size of a new one, of which there is
// nothing yet.
func (b *bound) share(appended bool) (*share, error) {
	if b.max == 0 {
		return nil, nil
	}
	u, err := b.usage()
	if err != nil {
		return nil, err
	}
	s := &share{b, u.whole(), u.rest - u.file, u.copies}
	if appended {
		s.left = u.grown() - u.file
	}
	for _, c := range u.copies {
		s.free -= c.bytes
	}
	return s, nil
}

// take takes room for n bytes, before they are written. A nil *share has any.
//
// Where nothing is free although all copies are gone, the file in place is too large: it was
// written under another bound. It stays until the new one is whole, whatever the bound.
func (s *share) take(n int64) error {
	if s == nil {
		return nil
	}
	if n > s.left {
		return errNoRoom
	}
	if err := s.drop(n); err != nil {
		return err
	}
	s.left -= n
	s.free -= n
	return nil
}

// drop removes copies until n bytes are free, or there are no more.
func (s *share) drop(n int64) error {
	for s.free < n && len(s.copies) > 0 {
		c := s.copies[0]
		if err := s.bound.files.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cache.snapshot.max_bytes leaves no room for a copy that was set aside: %w", err)
		}
		if s.bound.dropped != nil {
			s.bound.dropped(c.path)
		}
		s.free += c.bytes
		s.copies = s.copies[1:]
	}
	return nil
}

// trim removes copies that there is no room for. One that was the file's second name counts from
// its replacement on.
func (b *bound) trim() error {
	s, err := b.share(true)
	if s == nil {
		return err
	}
	return s.drop(0)
}
