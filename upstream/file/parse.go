package file

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream/descriptors"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
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

// memory is how much memory, in bytes, a resource may take when it is decoded.
func (l *limits) memory() int { return decodedLeast + l.file }

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
		p.fail(position{}, "", "is not an encoded DiscoveryResponse, as .pb says: %s", bare(err))
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
	msg := bare(err)
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

// bare returns the text of a protobuf error without its prefix. The space after the prefix is
// sometimes a non-breaking one.
func bare(err error) string {
	return strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
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
