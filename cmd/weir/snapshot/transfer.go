package snapshot

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
)

// An export is a file in plain text, without superseded records, and without secrets and resources
// that have a key in them: it is carried elsewhere.

// records yields the records of a content, in an order that depends on nothing else.
func (c *Content) records() iter.Seq[record] {
	return func(yield func(record) bool) {
		for _, name := range slices.Sorted(maps.Keys(c.origins)) {
			if !yield(c.origins[name]) {
				return
			}
		}
		if c.revision.class == classHistory && !yield(c.revision) {
			return
		}
		for _, key := range slices.Sorted(maps.Keys(c.marks)) {
			if !yield(c.marks[key]) {
				return
			}
		}
		for _, key := range slices.Sorted(maps.Keys(c.histories)) {
			h := c.histories[key]
			for _, key := range slices.Sorted(maps.Keys(h.parts)) {
				if !yield(h.parts[key]) {
					return
				}
			}
			if h.head.class == classHistory && !yield(h.head) {
				return
			}
		}
		for _, key := range slices.Sorted(maps.Keys(c.shards)) {
			s := c.shards[key]
			if s.head.class == classShard && !yield(s.head) {
				return
			}
			for _, key := range slices.Sorted(maps.Keys(s.items)) {
				if !yield(s.items[key]) {
					return
				}
			}
		}
	}
}

// Export writes a file without superseded records. What it leaves out is gone from the content,
// too.
func (c *Content) Export(w io.Writer) (LeftOut, error) {
	left := c.strip()
	h := c.Header
	h.Major, h.Minor = formatMajor, formatMinor
	_, err := writeFile(w, &h, c.records(), left)
	return left, err
}

// ErrExists says that the directory has a snapshot already.
var ErrExists = errors.New("there is a snapshot already")

// Import makes a content the snapshot of a directory, atomically: encrypted, or else without
// secrets and resources that have a key in them. It refuses a directory that a running weir has
// locked, and, without force, one that has a snapshot. maxBytes is that of Config.
func (c *Content) Import(dir string, force bool, keys *Keys, maxBytes int64) (warning, err error) {
	d, warning, err := OpenDir(dir)
	if d != nil {
		defer d.Close()
	}
	switch {
	case err != nil:
		return warning, fmt.Errorf("%s: %w", dir, err)
	case Exists(dir) && !force:
		return warning, fmt.Errorf("%s: %w", File(dir), ErrExists)
	}
	l := log{files: disk{}, path: File(dir), deployment: c.Header.Deployment, keys: keys}
	l.bound = bound{files: l.files, path: l.path, max: maxBytes}
	defer l.close()
	return warning, l.rewrite(c)
}

// rewrite puts a content in place as a whole: encrypted, or else without what needs that.
func (l *log) rewrite(c *Content) error {
	left := c.Report.LeftOut
	if l.keys == nil {
		left = c.strip()
	}
	return l.replace(c.Header.Created, c.records(), left)
}
