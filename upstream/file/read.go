package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// rereads is how often a file that changes while it is read is read again.
const rereads = 3

var errChanging = errors.New("changes while it is read; write a new file and rename it into place")

// read returns the file's content at one instant, and the result of Stat then.
func read(path string, most int) ([]byte, fs.FileInfo, error) {
	for range rereads {
		data, info, err := readOnce(path, most)
		if !errors.Is(err, errChanging) {
			return data, info, err
		}
	}
	return nil, nil, errChanging
}

func readOnce(path string, most int) ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would block
		return nil, nil, errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if info.Size() > int64(most) {
		return nil, nil, fmt.Errorf("is %d bytes long, more than the limit of %d; split it", info.Size(), most)
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !sameState(info, after) || int64(len(data)) != info.Size() {
		return nil, nil, errChanging
	}
	return data, info, nil
}
