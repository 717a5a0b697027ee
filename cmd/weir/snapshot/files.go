package snapshot

import (
	"io"
	"os"
)

// files is what is asked of a file system, so that tests can have one that fails.
type files interface {
	// Open opens for writing, and makes the file new and empty if that is told.
	Open(path string, create bool) (file, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes what happened to names lasting.
	SyncDir(path string) error
}

type file interface {
	io.WriterAt
	io.Closer
	Sync() error
	Truncate(size int64) error
}

// disk is the real one.
type disk struct{}

func (disk) Open(path string, create bool) (file, error) {
	flags := os.O_WRONLY
	if create {
		flags |= os.O_CREATE | os.O_TRUNC
	}
	return os.OpenFile(path, flags, fileMode) // an interface of a nil file only beside an error
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
