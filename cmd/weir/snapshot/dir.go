package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Files of a directory: the snapshot, the next one while it is written, the lock, and files that
// were set aside.
const (
	fileName   = "weir.snapshot"
	tempSuffix = ".tmp"
	lockName   = "lock"
	asideInfix = ".damaged-"

	dirMode  = 0o700
	fileMode = 0o600

	// maxAside is how many files set aside are kept: the newest.
	maxAside = 3
)

// ErrLocked says that another process has locked the directory.
var ErrLocked = errors.New("another weir has this directory")

// File returns the path of a directory's snapshot.
func File(dir string) string { return filepath.Join(dir, fileName) }

// Exists reports whether a directory has a snapshot.
func Exists(dir string) bool {
	_, err := os.Stat(File(dir))
	return err == nil
}

// Dir is a directory for a snapshot.
type Dir struct {
	path string
	lock *os.File // nil: not locked by us
}

// OpenDir makes the directory, if it does not exist, and locks it. The directory is for its owner
// only; wider modes are corrected. If the error is ErrLocked, d can be read. warning is what could
// not be corrected.
func OpenDir(path string) (d *Dir, warning, err error) {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return nil, nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if mode := info.Mode().Perm(); mode&^dirMode != 0 {
		if err := os.Chmod(path, mode&dirMode); err != nil {
			warning = fmt.Errorf("other users can read it (mode %04o), and that cannot be changed: %w", mode, err)
		}
	}
	d = &Dir{path: path}
	return d, warning, d.Lock()
}

// Lock takes the lock, unless it is held.
func (d *Dir) Lock() error {
	if d.lock != nil {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(d.path, lockName), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return ErrLocked
		}
		return fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	d.lock = f
	// Left by a process that died; if it stays, it is overwritten.
	_ = os.Remove(File(d.path) + tempSuffix)
	return nil
}

// Close releases the lock.
func (d *Dir) Close() {
	if d.lock != nil {
		_ = d.lock.Close() // which releases the lock
		d.lock = nil
	}
}

// SetAside gives the file a second name, which outlives its replacement, and removes the oldest of
// such files. The file also stays in place until there is a better one, since a part of it may be
// all there is. It returns the second name; "" if the file has one already.
func (d *Dir) SetAside(now time.Time) (string, error) {
	current, err := os.Stat(File(d.path))
	if err != nil {
		return "", err
	}
	aside, err := d.aside()
	if err != nil {
		return "", err
	}
	for _, name := range aside {
		if info, err := os.Stat(name); err == nil && os.SameFile(info, current) {
			return "", nil
		}
	}
	name := File(d.path) + asideInfix + now.UTC().Format("20060102T150405.000Z")
	if err := os.Link(File(d.path), name); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	for _, old := range aside[:max(0, len(aside)+1-maxAside)] {
		if err := os.Remove(old); err != nil {
			return name, err
		}
	}
	return name, nil
}

// aside returns the files set aside, oldest first: they are sorted by name, and names contain the
// time.
func (d *Dir) aside() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), fileName+asideInfix) {
			names = append(names, filepath.Join(d.path, e.Name()))
		}
	}
	return names, nil
}

// files is the part of a file system that is used, so that tests can have one that fails.
type files interface {
	// Open opens a file for writing. With create the file is new and empty.
	Open(path string, create bool) (file, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes renames and removals durable.
	SyncDir(path string) error
}

type file interface {
	io.WriterAt
	io.Closer
	Sync() error
	Truncate(size int64) error
}

// disk is the real file system.
type disk struct{}

func (disk) Open(path string, create bool) (file, error) {
	flags := os.O_WRONLY
	if create {
		flags |= os.O_CREATE | os.O_TRUNC
	}
	return os.OpenFile(path, flags, fileMode) // with an error the interface holds a nil file
}

func (disk) Rename(from, to string) error { return os.Rename(from, to) }
func (disk) Remove(path string) error     { return os.Remove(path) }

func (disk) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // nothing was written
	return d.Sync()
}
