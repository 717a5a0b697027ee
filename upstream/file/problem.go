package file

import (
	"fmt"
	"strings"
)

// position is a place in a file, counted from 1; zero: unknown.
type position struct{ line, column int }

// problem is one thing wrong with a file, and where.
type problem struct {
	file string
	at   position
	path string // such as "resources[2].connect_timeout"; "" for the whole file
	msg  string
}

func (p *problem) Error() string {
	s := place(p.file, p.at) + ": "
	if p.path != "" {
		s += p.path + ": "
	}
	return s + strings.ReplaceAll(p.msg, "\n", " ")
}

// place prints a position as editors understand it.
func place(file string, at position) string {
	switch {
	case at.line == 0:
		return file
	case at.column == 0:
		return fmt.Sprintf("%s:%d", file, at.line)
	}
	return fmt.Sprintf("%s:%d:%d", file, at.line, at.column)
}

// problems are in the order of the file.
type problems []*problem

// maxProblems bounds the text of one error; a file that is wrong throughout needs no full list.
const maxProblems = 10

func (ps problems) Error() string {
	var texts []string
	for i, p := range ps {
		if i == maxProblems {
			texts = append(texts, fmt.Sprintf("and %d more", len(ps)-i))
			break
		}
		texts = append(texts, p.Error())
	}
	return strings.Join(texts, "; ")
}

// line returns the line of the first problem.
func (ps problems) line() int {
	for _, p := range ps {
		return p.at.line
	}
	return 0
}
