package config

import (
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v4"

	"github.com/weir-xds/weir/upstream/yamltree"
)

// The bounds of a file. Without them a small one kills the process that reads it, also a running
// weir at a reload: an alias of three bytes stands for any number of values, and so do the aliases
// in what it stands for.
const (
	// maxFile bounds a file in bytes, and the text of its values with variables written out. As
	// much is kept of it at most (--last-good).
	maxFile = 4 << 20
	// maxValues bounds the values of a file, as package yamltree counts them, with aliases written
	// out. A rule of authorization has about thirty. Each takes less than 500 bytes until the file
	// is checked.
	maxValues = 500_000
	// maxKey bounds a key, in bytes, since the paths of all that is below it have it.
	maxKey = 512
	// maxList bounds a list, but for those of rules and questions: many are compared with each
	// other.
	maxList = 10_000
	// maxProblems bounds how many problems are listed, and how many warnings, and maxProblem the
	// text of one, in bytes.
	maxProblems, maxProblem = 1000, 1000
)

// unbounded are the lists that have one element for each of many teams, and are not compared.
var unbounded = map[string]bool{"authorization": true, "questions": true}

// ReadFile reads a configuration. It reads no more than one may have.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: %s", path, tooLong)
	}
	return data, err
}

var (
	tooLong       = fmt.Sprintf("the file has more than %d bytes", maxFile)
	tooManyValues = fmt.Sprintf("may have more than %d values, exceeded at this line; split its lists", maxValues)
)

// tooCostly reports a text that is not parsed since it would cost too much.
func tooCostly(src *report, data []byte) bool {
	if len(data) > maxFile {
		src.addf("", "%s", tooLong)
	} else if line := yamltree.Text(data, maxValues); line > 0 {
		src.addAtf(position{line, 1}, "", "%s", tooManyValues)
	}
	return len(src.problems) > 0
}

// tooCostlyTree reports a tree that is not decoded since its aliases stand for too much.
func tooCostlyTree(src *report, root *yaml.Node) bool {
	n := yamltree.Node(root, maxValues)
	if n != nil {
		src.addAtf(position{n.Line, n.Column}, "", "with its aliases written out the file has more than %d values up to here; use fewer aliases", maxValues)
	}
	return n != nil
}
