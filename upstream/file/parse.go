package file

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream/descriptors"
)

// limits bound the cost of a file.
type limits struct {
	file int // bytes of a file, and of what its YAML aliases expand to
	name int // bytes of a resource name; 0: no limit
	// of one file; 0: no limit
	resources int

	fields xds.NameFields     // where an unwrapped resource has its name
	types  *descriptors.Types // nil: those linked in
}

// decodedLeast is how much memory, in bytes, a resource of the shortest file may take decoded.
const decodedLeast = 16 << 20

// parser reads one file.
type parser struct {
	file     string
	lim      limits
	spent    int // bytes of JSON made so far
	stated   bool
	secrets  bool // the file has some, so errors quote nothing of it (RELAY-76)
	found    []placed
	at       map[key]position
	problems problems
	loose    *problem // the first form that is not canonical (FILE-1); nil: there is none
}

// parse reads a file's content, in the format of its suffix (FILE-1). A file with a problem has no
// content: half of it could state absences. loose is its first form that is not canonical.
func parse(file string, data []byte, lim limits) (found []placed, _ problems, loose *problem) {
	p := &parser{file: file, lim: lim, at: map[key]position{}, secrets: secretNames.Match(data)}
	switch filepath.Ext(file) {
	case ".pb":
		p.binary(data)
	case ".pb_text", ".textproto":
		p.text(data)
	case ".json":
		p.json(data)
	default:
		p.yaml(data)
	}
	if !p.stated && len(p.problems) == 0 {
		// Who writes in place truncates first. An empty file does not state that nothing exists.
		p.fail(position{}, "", "says nothing; to serve no resources, write `resources: []`")
	}
	if len(p.problems) > 0 {
		return nil, p.problems, nil
	}
	return p.found, nil, p.loose
}

func (p *parser) fail(at position, path, format string, args ...any) {
	if len(p.problems) <= maxProblems+1 { // one more than is printed, to show that there are more
		p.problems = append(p.problems, &problem{file: p.file, at: at, path: path, msg: fmt.Sprintf(format, args...)})
	}
}

func (p *parser) binary(data []byte) {
	var r discoveryv3.DiscoveryResponse
	if err := xds.Unmarshal(data, &r, maxDecoded); err != nil {
		p.fail(position{}, "", "is not an encoded DiscoveryResponse, as .pb says: %s", descriptors.Bare(err))
		return
	}
	p.response(&r, len(data) > 0)
}

// protoPlace matches the position that the text and JSON parsers of protobuf put into errors. The
// format is not guaranteed; without a match the position is that of the resource.
var protoPlace = regexp.MustCompile(`^(?:syntax error )?\(line (\d+):(\d+)\): `)

func (p *parser) text(data []byte) {
	if line, why := textCost(data); why != "" {
		p.fail(position{line: line}, "", "%s", why)
		return
	}
	var r discoveryv3.DiscoveryResponse
	if err := (prototext.UnmarshalOptions{Resolver: p.lim.types}).Unmarshal(data, &r); err != nil {
		at, msg := protoPosition(err)
		p.fail(at, "", "is not a DiscoveryResponse in text form: %s", p.said(msg))
		return
	}
	p.response(&r, proto.Size(&r) > 0)
}

func protoPosition(err error) (position, string) {
	msg := descriptors.Bare(err)
	m := protoPlace.FindStringSubmatch(msg)
	if m == nil {
		return position{}, msg
	}
	line, _ := strconv.Atoi(m[1]) // digits, or no match
	column, _ := strconv.Atoi(m[2])
	return position{line, column}, msg[len(m[0]):]
}

var secretNames = regexp.MustCompile(`tls\.v3\.Secret|v2\.auth\.Secret`)

// said returns a parser's error text, unless it may quote a private key that was written in the
// wrong place. The position is reported anyway.
func (p *parser) said(msg string) string {
	if !p.secrets || strings.HasPrefix(msg, "unable to resolve") {
		return msg
	}
	return "is not what belongs here; it is not repeated, since the file has secrets (RELAY-76)"
}

// response reads a decoded DiscoveryResponse.
func (p *parser) response(r *discoveryv3.DiscoveryResponse, stated bool) {
	p.stated = p.stated || stated
	for i, a := range r.GetResources() {
		p.add(a, r.GetTypeUrl(), position{}, fmt.Sprintf("resources[%d]", i))
	}
}

// accept checks a resource like one of a response (RELAY-30), and keeps it.
func (p *parser) accept(typeURL string, encoded []byte, at position, path string) {
	if p.lim.resources > 0 && len(p.found) >= p.lim.resources {
		p.fail(position{}, "", "has more than %d resources; divide it into several files", p.lim.resources)
		return
	}
	response, err := xds.ParseResponse(encoded, false)
	if err != nil {
		p.fail(at, path, "%s", err)
		return
	}
	u, rejected := p.lim.fields.Accept(response, p.lim.name)
	if rejected != nil {
		p.fail(at, path, "%s", strings.TrimPrefix(strings.Join(rejected.Reasons, "; "), "resource 0 "))
		return
	}
	for _, r := range u.Resources {
		if r.Nameless && typeURL != xds.ListenerType {
			p.fail(at, path, "has no name")
			return
		}
		if r.Version == "" {
			r.Version = version(encoded)
		}
		e := placed{&entry{r, encoded}, key{typeURL, r.Name, r.Constraints.Key()}, at}
		if first, dup := p.at[e.key]; dup {
			p.fail(at, path, "%s is in the file twice, first at %s", e.key, place(p.file, first))
			return
		}
		p.at[e.key] = at
		p.found = append(p.found, e)
	}
}

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
