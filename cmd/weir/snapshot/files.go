package snapshot

import (
	"io"
	"os"
)

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
