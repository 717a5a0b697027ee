package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with a file, and where.
type Problem struct {
	File         string
	Line, Column int    // counted from 1
	Path         string // such as "origins[0].grpc.addresses[1]"; empty for the whole file
	Msg          string
	Warning      bool // the file can be used all the same
}

// Error is one line: file:line:column: path: message, with "warning: " before
// the path of a warning.
func (p *Problem) Error() string {
	where := fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Warning {
		where += "warning: "
	}
	if p.Path != "" {
		where += p.Path + ": "
	}
	return where + strings.ReplaceAll(p.Msg, "\n", " ")
}

// Problems returns the problems in an error of Parse or Load; none if the file could not be read at
// all.
func Problems(err error) []*Problem {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*Problem
		for _, e := range joined.Unwrap() {
			all = append(all, Problems(e)...)
		}
		return all
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return []*Problem{p}
	}
	return nil
}

type position struct{ line, column int }

// report collects problems, and has the position of each path.
type report struct {
	file     string
	text     []byte              // of the file
	at       map[string]position // by path
	problems []*Problem          // at most maxProblems
	warnings []*Problem          // the same
	more     bool                // there are problems that are not listed
}

func newReport(file string) *report {
	return &report{file: file, at: map[string]position{"": {1, 1}}}
}

// problem places a message at its path or, if that was not written, at the nearest parent.
func (r *report) problem(path, msg string) *Problem {
	near := path
	at, ok := r.at[near]
	for !ok {
		near = parent(near)
		at, ok = r.at[near]
	}
	return &Problem{File: r.file, Line: at.line, Column: at.column, Path: path, Msg: cut(msg)}
}

// cut bounds a message, which may quote a text of any length.
func cut(msg string) string {
	if len(msg) <= maxProblem {
		return msg
	}
	return strings.ToValidUTF8(msg[:maxProblem], "") + "..."
}

// full reports whether no more problems are listed.
func (r *report) full() bool {
	r.more = len(r.problems) >= maxProblems
	return r.more
}

func (r *report) addf(path, format string, args ...any) {
	if !r.full() {
		r.problems = append(r.problems, r.problem(path, fmt.Sprintf(format, args...)))
	}
}

// addAtf is addf for a place without a path of its own, such as a key.
func (r *report) addAtf(at position, path, format string, args ...any) {
	if !r.full() {
		p := &Problem{File: r.file, Line: at.line, Column: at.column, Path: path, Msg: cut(fmt.Sprintf(format, args...))}
		r.problems = append(r.problems, p)
	}
}

func (r *report) err() error {
	slices.SortStableFunc(r.problems, byPlace)
	errs := make([]error, len(r.problems))
	for i, p := range r.problems {
		errs[i] = p
	}
	if r.more {
		last := r.problems[len(r.problems)-1]
		errs = append(errs, &Problem{File: r.file, Line: last.Line, Column: last.Column, Msg: "further problems are not listed"})
	}
	return errors.Join(errs...)
}

func byPlace(a, b *Problem) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

// parent removes the last key or index of a path.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}
