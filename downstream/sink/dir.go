package sink

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// unfinished is the file that is being written. Envoy and weir ignore files whose names begin with
// a dot.
const unfinished = ".weir-sink.tmp"

const (
	dirMode    fs.FileMode = 0o755
	fileMode   fs.FileMode = 0o644
	secretMode fs.FileMode = 0o600
)

// dir is the directory, with our files in it.
type dir struct {
	path string
	// has is a digest of each file's content and mode; nil: the directory was not read yet, or
	// something has failed since.
	has map[string][sha256.Size]byte
	// doomed are files that nothing refers to, and since when.
	doomed map[string]time.Time
	// renamed is called for each file that was put in place; nil except in tests.
	renamed func(file string)
}

// open reads the directory, so that unchanged files are not written again.
func (d *dir) open(kinds []*kind) error {
	if d.has != nil {
		return nil
	}
	if err := os.MkdirAll(d.path, dirMode); err != nil {
		return err
	}
	// An earlier run may have been killed while it wrote.
	if err := ignoreMissing(os.Remove(filepath.Join(d.path, unfinished))); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	has := make(map[string][sha256.Size]byte)
	for _, e := range entries {
		for _, k := range kinds {
			if !k.owns(e.Name()) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(d.path, e.Name()))
			if err != nil {
				return err
			}
			sum := sha256.Sum256(content)
			if info, err := e.Info(); err != nil || info.Mode() != k.mode() {
				sum = [sha256.Size]byte{} // its mode is wrong: it is written again
			}
			has[e.Name()] = sum
		}
	}
	d.has, d.doomed = has, make(map[string]time.Time)
	return nil
}

func (k *kind) mode() fs.FileMode {
	if k.short == "sds" {
		return secretMode
	}
	return fileMode
}

// holds reports whether a file exists.
func (d *dir) holds(file string) bool {
	_, is := d.has[file]
	return is
}

// read returns a file's content; nil if it does not exist.
func (d *dir) read(file string) ([]byte, error) {
	if !d.holds(file) {
		return nil, nil
	}
	return os.ReadFile(filepath.Join(d.path, file))
}

// put writes a file, unless it has that content and mode already.
func (d *dir) put(file string, content []byte, mode fs.FileMode) (written bool, err error) {
	delete(d.doomed, file)
	sum := sha256.Sum256(content)
	if d.has[file] == sum {
		return false, nil
	}
	beside := filepath.Join(d.path, unfinished)
	if err := write(beside, content, mode); err != nil {
		return false, errors.Join(err, ignoreMissing(os.Remove(beside)))
	}
	if err := os.Rename(beside, filepath.Join(d.path, file)); err != nil {
		return false, errors.Join(err, ignoreMissing(os.Remove(beside)))
	}
	if d.has[file] = sum; d.renamed != nil {
		d.renamed(file)
	}
	return true, nil
}

// write writes a file. Others cannot read it before it has its mode.
func write(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, secretMode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (d *dir) remove(file string) error {
	err := ignoreMissing(os.Remove(filepath.Join(d.path, file)))
	if err == nil {
		delete(d.has, file)
		delete(d.doomed, file)
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
