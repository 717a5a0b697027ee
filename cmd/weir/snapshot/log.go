package snapshot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"time"
)

// log writes the file of a directory: as a whole, beside the old one and then in its place, or by
// appending changes. Whatever fails, and whenever the process dies, the file in place has the last
// finished write.
type log struct {
	// Set once.
	files      files
	path       string
	deployment string
	// pace is called with the number of bytes to be written, and may wait.
	pace func(n int)

	bound    bound
	keys     *Keys // of the next file
	file     file  // nil: none of ours is in place, so the next write is a whole file
	size     int64 // of the file, up to the last finished write
	mark     mark
	envelope *envelope // nil: the file is in plain text
}

// writeBuffer is how many bytes are written to the file at once.
const writeBuffer = 256 << 10

// replace puts a new file in the place of the old one.
func (l *log) replace(now time.Time, records iter.Seq[record], left LeftOut) error {
	temp := l.path + tempSuffix
	f, err := l.files.Open(temp, true)
	if err != nil {
		return err
	}
	h := Header{Major: formatMajor, Minor: formatMinor, Created: now, Deployment: l.deployment, mark: newMark()}
	e := newEnvelope(l.keys)
	var size int64
	room, err := l.bound.share(false)
	if err == nil {
		size, err = e.write(&pacedWriter{io.NewOffsetWriter(f, 0), room, l.pace}, 0, func(w io.Writer) (int64, error) {
			return writeFile(w, &h, records, left)
		})
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = l.files.Rename(temp, l.path)
	}
	if err != nil {
		_ = f.Close()            // the first error is returned
		_ = l.files.Remove(temp) // frees the room
		return err
	}
	l.close() // of the old file, which has no name any more
	l.file, l.size, l.mark, l.envelope = f, size, h.mark, e
	// The new file is in place and complete. If the directory does not sync, a crash of the machine
	// may bring back the old file, which was complete as well. So the error is returned, and the
	// next write syncs again.
	if failed := l.files.SyncDir(filepath.Dir(l.path)); failed != nil {
		l.close()
		return failed
	}
	return l.bound.trim()
}

// append appends a write to the file. If it fails, the file is as before. With errNoRoom the
// directory's bound allows no more of it.
func (l *log) append(now time.Time, records iter.Seq[record], left LeftOut) error {
	room, err := l.bound.share(true)
	if err != nil {
		return err
	}
	to := &pacedWriter{io.NewOffsetWriter(l.file, l.size), room, l.pace}
	size, err := l.envelope.write(to, l.size, func(w io.Writer) (int64, error) {
		return writeRecords(w, l.mark, now, records, left)
	})
	if err == nil {
		// File systems differ in what they do with pages that failed to sync; a later sync may
		// succeed without them. So the file is not written to again.
		if err = l.file.Sync(); err != nil {
			_ = l.file.Truncate(l.size) // a reader ignores it in any case
			l.close()
			return err
		}
		l.size += size
		return nil
	}
	if cut := l.file.Truncate(l.size); cut != nil {
		l.close() // the next write would leave a part of this one behind it
		err = errors.Join(err, cut)
	}
	return err
}

// writeFile writes a complete file, and returns its size.
func writeFile(w io.Writer, h *Header, records iter.Seq[record], left LeftOut) (int64, error) {
	if _, err := w.Write(h.encode()); err != nil {
		return 0, err
	}
	size, err := writeRecords(w, h.mark, h.Created, records, left)
	return headerSize + size, err
}

// writeRecords writes records and the commit that makes them count, and returns their size.
func writeRecords(
	to io.Writer, m mark, now time.Time, records iter.Seq[record], left LeftOut,
) (size int64, err error) {
	w := bufio.NewWriterSize(to, writeBuffer)
	var head []byte
	put := func(r *record) error {
		if n := max(len(r.key), len(r.meta), len(r.body)); n > maxPart {
			return fmt.Errorf("%.100q: a part of %d bytes is longer than the format allows, %d", r.key, n, maxPart)
		}
		head = r.appendHead(head[:0], m)
		_, _ = w.Write(head) // a bufio.Writer keeps its first error
		_, _ = w.WriteString(r.key)
		_, _ = w.Write(r.meta)
		_, err := w.Write(r.body)
		size += r.size()
		return err
	}
	for r := range records {
		if err := put(&r); err != nil {
			return 0, err
		}
	}
	meta := encode(func(c *coder) { c.time(1, &now); left.fields(c) })
	if err := put(&record{class: classCommit, meta: meta}); err != nil {
		return 0, err
	}
	return size, w.Flush()
}

func (l *log) close() {
	if l.file != nil {
		_ = l.file.Close() // what is to be kept was synced
		l.file = nil
	}
}

type pacedWriter struct {
	w    io.Writer
	room *share
	pace func(n int)
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	if err := p.room.take(int64(len(b))); err != nil {
		return 0, err
	}
	if p.pace != nil {
		p.pace(len(b))
	}
	return p.w.Write(b)
}
