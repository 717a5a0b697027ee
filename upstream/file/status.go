package file

import "time"

// Status is the state of the origin's files, as a copy.
type Status struct {
	Path string
	// Ready: all files were valid at one time, so sets are answered.
	Ready bool
	// Complete: the content of every file is known. Otherwise no absence is stated.
	Complete bool
	// Resources is the number of resources in force.
	Resources int
	// Error says why the files cannot be listed, and ErrorAt since when; "" and zero if they can.
	Error   string
	ErrorAt time.Time
	// Files are sorted by name.
	Files []FileStatus
}

// FileStatus is the state of one file.
type FileStatus struct {
	Path string
	// Loaded is when the content in force was read; zero: never.
	Loaded time.Time
	// Resources is the number of resources used from the file.
	Resources int
	// Error is what is wrong with the file now, and Line where; "" and 0 if nothing is, or the line
	// is unknown. ErrorAt is when it was first found; zero without an error.
	Error   string
	ErrorAt time.Time
	Line    int
}

// Status returns the current state.
func (o *Origin) Status() Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.status
}

func statusOf(s *source, c *content) Status {
	st := Status{Path: s.path, Ready: c.whole, Complete: c.complete, Resources: c.size, Error: s.errorText()}
	for _, f := range s.all() {
		st.Files = append(st.Files, FileStatus{
			Path: f.path, Loaded: f.loaded, Resources: len(f.good), Error: c.errorOf(f), Line: c.problemsOf(f).line(),
		})
	}
	return st
}

// since sets the times of the errors: those that were there before keep theirs.
func (st *Status) since(before *Status, now time.Time) {
	errorAt := func(text, was string, at time.Time) time.Time {
		switch text {
		case "":
			return time.Time{}
		case was:
			return at
		}
		return now
	}
	st.ErrorAt = errorAt(st.Error, before.Error, before.ErrorAt)
	known := make(map[string]*FileStatus, len(before.Files))
	for i := range before.Files {
		known[before.Files[i].Path] = &before.Files[i]
	}
	for i := range st.Files {
		f, was := &st.Files[i], &FileStatus{}
		if k := known[f.Path]; k != nil {
			was = k
		}
		f.ErrorAt = errorAt(f.Error, was.Error, was.ErrorAt)
	}
}
