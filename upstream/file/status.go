package file

import "time"

// Status is how the origin's files stand. It is a copy.
type Status struct {
	Path string
	// Ready: every file was in order at one time, so sets are answered.
	Ready bool
	// Complete: nothing is known to be missing. Otherwise nothing is stated to be absent.
	Complete bool
	// Resources is the number in force.
	Resources int
	// Error says why the files cannot be listed; "" if they can.
	Error string
	// Files are sorted by name.
	Files []FileStatus
}

// FileStatus is how one file stands.
type FileStatus struct {
	Path string
	// Loaded is when the content in force was read; zero: never.
	Loaded time.Time
	// Resources is the number the file contributes.
	Resources int
	// Error is what is wrong with it now, and Line where; "" and 0 if nothing is, or the line is not known.
	Error string
	Line  int
}

// Status tells how the files stand.
func (o *Origin) Status() Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.status
}

func statusOf(s *source, c *content) Status {
	st := Status{Path: s.path, Ready: c.whole, Complete: c.complete, Resources: c.size, Error: s.errorText()}
	for _, f := range s.all() {
		st.Files = append(st.Files, FileStatus{
			Path: f.path, Loaded: f.loaded, Resources: len(f.good), Error: c.errorOf(f), Line: c.lineOf(f),
		})
	}
	return st
}
