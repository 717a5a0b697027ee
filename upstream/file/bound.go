package file

import (
	"fmt"

	"github.com/weir-xds/weir/relay/xds"
)

// The bounds of what a file costs while it is read, besides its length. All of them are looked at
// before the cost is paid: a file of some megabytes could take all memory.
const (
	// maxValues bounds the values of one document as nodes, and those of one resource with its
	// aliases written out: 400 MiB, or 500 MiB of messages that are all empty.
	maxValues = 2_000_000
	// ofMessage is what a mapping counts in a resource: a message has several times the size of a
	// node.
	ofMessage = 3
	// maxDecoded bounds what a binary file is decoded to, without the payloads of its resources.
	maxDecoded = 256 << 20
	// maxResources bounds the resources of one file.
	maxResources = 500_000
)

// divideIt goes on after what is too much.
const divideIt = "; divide it into several files, or into documents by lines of ---, or supply it in binary form (.pb)"

// textCost returns why a file in the text form of protobuf is not decoded, and the line; "": it is.
// Braces, brackets and colons in texts and comments do not count.
func textCost(data []byte) (line int, why string) {
	line = 1
	depth, values := 0, 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '\n':
			line++
		case '#':
			i += lengthTo('\n', data[i+1:])
		case '"', '\'':
			i += lengthTo(data[i], data[i+1:])
		case '{', '<':
			depth++
			values += ofMessage
		case '}', '>':
			depth--
		case ':', ',', '[':
			values++
		}
		switch {
		case depth > xds.MaxDepth:
			return line, fmt.Sprintf("is nested deeper than %d levels", xds.MaxDepth)
		case values > maxValues:
			return line, fmt.Sprintf("has more than %d values up to here", maxValues) + divideIt
		}
	}
	return 0, ""
}

// lengthTo returns how many bytes there are up to the end of a text or a comment. A backslash has
// the byte after it not end a text. Neither goes on in the next line, which is left for the caller
// to count.
func lengthTo(end byte, data []byte) int {
	for i := 0; i < len(data); i++ {
		switch {
		case data[i] == '\n':
			return i
		case data[i] == end:
			return i + 1
		case data[i] == '\\' && end != '\n':
			i++
		}
	}
	return len(data)
}
