package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// source has the files on disk: what was last read of them, and what of that is used. Owned by one
// goroutine.
type source struct {
	path string
	dir  bool // path is a directory
	lim  limits
	rest time.Duration // how long a file written in place must not have changed

	files   map[string]*file // by name within the directory
	problem error            // why the files cannot be listed
	logged  string           // the last of problem that was logged
}

// file is one file.
type file struct {
	path string

	// What was read last. Invariant: good is the newest valid content, whatever was read after it.
	info     fs.FileInfo // nil: read it again
	problems problems
	bytes    int // 0: it could not be read
	good     []placed
	loose    *problem  // a form in good that is not canonical (FILE-1); nil: there is none
	loaded   time.Time // when good was read
	known    bool      // good was read once; until then the file's content is unknown

	// What is on disk while it differs from info, and since when.
	seen   fs.FileInfo
	seenAt time.Time

	logged string // the last error that was logged
}

// touched are the names in the directory that had events.
type touched map[string]bool

// everything, as a name in touched, stands for all names.
const everything = ""

// pass is the result of one check of the files.
type pass struct {
	read, removed int
	bytes         int  // of what was read
	listing       bool // problem appeared or is over
	problems      problems
}

func (p *pass) changed() bool { return p.read > 0 || p.removed > 0 || p.listing }

func newSource(cfg Config) (*source, error) {
	if cfg.Path == "" {
		return nil, errors.New("path: is empty")
	}
	info, err := os.Stat(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	s := &source{
		path: filepath.Clean(cfg.Path), dir: info.IsDir(), rest: cfg.Poll, files: map[string]*file{},
		lim: limits{file: cfg.MaxBytes, name: cfg.NameBytes, resources: maxResources, fields: cfg.NameFields, types: cfg.Types},
	}
	if !s.dir {
		s.files[filepath.Base(s.path)] = &file{path: s.path}
	}
	return s, nil
}

// all returns the files, sorted by name.
func (s *source) all() []*file {
	var fs []*file
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		fs = append(fs, s.files[name])
	}
	return fs
}

// complete reports whether the content of every file is known.
func (s *source) complete() bool {
	for _, f := range s.files {
		if !f.known {
			return false
		}
	}
	return len(s.files) > 0
}

func (s *source) errorText() string {
	if s.problem == nil {
		return ""
	}
	return s.problem.Error()
}

// look reads what has changed on disk.
func (s *source) look(now time.Time, t touched) pass {
	var p pass
	if s.dir {
		before := s.errorText()
		s.problem = s.list(&p)
		p.listing = s.errorText() != before
		if p.listing && s.problem != nil {
			p.problems = append(p.problems, &problem{file: s.path, msg: s.errorText()})
		}
	}
	for name, f := range s.files {
		if f.look(now, t[name] || t[everything], s.rest, s.lim) {
			p.read++
			p.bytes += f.bytes
			p.problems = append(p.problems, f.problems...)
		}
	}
	return p
}

// list updates the list of files from the directory. A directory that cannot be listed, or is
// empty, changes nothing: an unmounted volume leaves an empty directory behind.
func (s *source) list(p *pass) error {
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, e := range entries {
		if ignored(e.Name()) {
			continue
		}
		path := filepath.Join(s.path, e.Name())
		switch info, err := os.Stat(path); { // of what a link points to
		case err == nil && info.IsDir():
		case err != nil && missing(path): // gone since it was listed
		default:
			found[e.Name()] = true
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("%s: holds no files; to serve nothing, put in a file that says `resources: []`", s.path)
	}
	for name := range s.files {
		if !found[name] {
			delete(s.files, name)
			p.removed++
		}
	}
	for name := range found {
		if s.files[name] == nil {
			s.files[name] = &file{path: filepath.Join(s.path, name)}
		}
	}
	return nil
}

func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// ignored reports whether a name in a directory is no configuration: dot files, which mounted
// ConfigMaps and careful writers use, and what editors leave behind.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") ||
		strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}

// look reads the file if it has to be read, and reports whether anything changed.
func (f *file) look(now time.Time, touched bool, rest time.Duration, lim limits) bool {
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		return f.unreadable(err)
	case touched, f.info == nil, !os.SameFile(f.info, info):
	case sameState(f.info, info):
		f.seen = nil
		return false
	case f.seen == nil, !sameState(f.seen, info):
		f.seen, f.seenAt = info, now
		return false
	case now.Sub(f.seenAt) < rest:
		return false
	}
	f.seen = nil
	data, info, err := read(f.path, lim.file)
	if err != nil {
		return f.unreadable(err)
	}
	f.info, f.bytes = info, len(data)
	good, problems, loose := parse(f.path, data, lim)
	f.problems = problems
	if len(problems) == 0 {
		f.good, f.loose, f.loaded, f.known = good, loose, now, true
	}
	return true
}

// unreadable records why the file could not be read. It reports whether that is new. The next check
// tries again.
func (f *file) unreadable(err error) bool {
	before := f.problems.Error()
	f.info, f.seen, f.bytes = nil, nil, 0
	f.problems = problems{{file: f.path, msg: reason(err)}}
	return f.problems.Error() != before
}

// reason returns err without the path, which the problem names already.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

func sameState(a, b fs.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

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
