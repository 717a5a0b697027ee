package snapshot

import (
	"io/fs"
	"maps"
	"syscall"
)

// memory is a file system that can run out of room and fail.
type memory struct {
	files map[string]*memoryFile
	room  int // bytes it may hold in all; 0: any number
	// fail is asked before each operation: open, write, sync, truncate, rename, remove, syncdir.
	fail func(op, path string) error
}

type memoryFile struct {
	memory *memory
	path   string
	data   []byte
	synced int
	closed bool
}

func newMemory() *memory { return &memory{files: map[string]*memoryFile{}} }

func (m *memory) may(op, path string) error {
	if m.fail == nil {
		return nil
	}
	return m.fail(op, path)
}

func (m *memory) Open(path string, create bool) (file, error) {
	if err := m.may("open", path); err != nil {
		return nil, err
	}
	f := m.files[path]
	if f == nil && !create {
		return nil, fs.ErrNotExist
	}
	if create {
		f = &memoryFile{memory: m, path: path}
		m.files[path] = f
	}
	return f, nil
}

func (m *memory) Rename(from, to string) error {
	if err := m.may("rename", from); err != nil {
		return err
	}
	f := m.files[from]
	if f == nil {
		return fs.ErrNotExist
	}
	delete(m.files, from)
	f.path, m.files[to] = to, f
	return nil
}

func (m *memory) Remove(path string) error {
	if err := m.may("remove", path); err != nil {
		return err
	}
	delete(m.files, path)
	return nil
}

func (m *memory) SyncDir(path string) error { return m.may("syncdir", path) }

func (m *memory) used() (n int) {
	for f := range maps.Values(m.files) {
		n += len(f.data)
	}
	return n
}

// WriteAt writes what there is room for.
func (f *memoryFile) WriteAt(b []byte, at int64) (int, error) {
	if f.closed {
		return 0, fs.ErrClosed
	}
	if err := f.memory.may("write", f.path); err != nil {
		return 0, err
	}
	var err error
	if room := f.memory.room; room > 0 {
		if left := room - f.memory.used() + max(0, len(f.data)-int(at)); left < len(b) {
			b, err = b[:max(0, left)], syscall.ENOSPC
		}
	}
	if end := int(at) + len(b); end > len(f.data) {
		f.data = append(f.data, make([]byte, end-len(f.data))...)
	}
	copy(f.data[at:], b)
	return len(b), err
}

func (f *memoryFile) Sync() error {
	if err := f.memory.may("sync", f.path); err != nil {
		return err
	}
	f.synced = len(f.data)
	return nil
}

func (f *memoryFile) Truncate(size int64) error {
	if err := f.memory.may("truncate", f.path); err != nil {
		return err
	}
	f.data = f.data[:size]
	return nil
}

func (f *memoryFile) Close() error {
	f.closed = true
	return nil
}
