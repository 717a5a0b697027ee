package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream/yamltree"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

const responseType = xds.TypePrefix + "envoy.service.discovery.v3.DiscoveryResponse"

func (p *parser) yaml(data []byte) {
	if line := yamltree.Text(data, maxValues); line > 0 {
		p.fail(position{line: line}, "", "may have more than %d values, counted up to this line"+divideIt, maxValues)
		return
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		p.fail(position{}, "", "%s", err)
		return
	}
	for {
		var doc yaml.Node
		err := loader.Load(&doc)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			at, msg := yamlPosition(err)
			p.fail(at, "", "not valid YAML: %s", msg)
			return // what follows a syntax error cannot be trusted
		}
		p.document(&doc)
	}
}

func yamlPosition(err error) (position, string) {
	le, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return position{}, err.Error()
	}
	msg := le.Message
	if le.ContextMsg != "" {
		msg = fmt.Sprintf("%s that begins in line %d: %s", le.ContextMsg, max(1, le.ContextMark.Line), msg)
	}
	return position{max(1, le.Mark.Line), max(1, le.Mark.Column)}, msg
}

// document reads one YAML or JSON document: a response, a list of resources, or one resource.
func (p *parser) document(n *yaml.Node) {
	if n.Kind == yaml.DocumentNode {
		if len(n.Content) == 0 {
			return
		}
		n = n.Content[0]
	}
	n = target(n)
	typeURL := ""
	if c := child(n, "@type"); c != nil && c.Kind == yaml.ScalarNode {
		typeURL = c.Value
	}
	switch {
	case isNull(n): // comments only
	case n.Kind == yaml.SequenceNode:
		p.list(n, "", "")
	case n.Kind != yaml.MappingNode:
		p.fail(at(n), "", "must be resources, not a single value")
	case fullType(typeURL) == responseType, typeURL == "" && child(n, "resources") != nil:
		p.responseNode(n)
	case typeURL == "" && child(n, "static_resources") != nil:
		p.fail(at(n), "", "is an Envoy bootstrap; put what static_resources lists into files of its own, "+
			`each resource with its "@type"`)
	default:
		p.resource(n, "", "")
	}
}

func (p *parser) list(n *yaml.Node, path, want string) {
	p.stated = true
	for i, c := range n.Content {
		p.resource(target(c), fmt.Sprintf("%s[%d]", path, i), want)
	}
}

// responseKeys are the fields of a DiscoveryResponse, and whether they are used in a file.
var responseKeys = map[string]bool{
	"@type": false, "resources": true, "type_url": true, "typeUrl": true, "version_info": false, "versionInfo": false,
	"nonce": false, "canary": false, "control_plane": false, "controlPlane": false,
}

func (p *parser) responseNode(n *yaml.Node) {
	var want string
	var resources *yaml.Node
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := target(n.Content[i]), target(n.Content[i+1])
		_, known := responseKeys[k.Value]
		switch {
		case k.Tag == ignoreTag:
			continue
		case k.Kind != yaml.ScalarNode || !known:
			p.fail(at(k), k.Value, "is no field of a DiscoveryResponse")
		case seen[k.Value]:
			p.fail(at(k), k.Value, "is given twice")
		case k.Value == "resources":
			resources = v
		case k.Value == "type_url" || k.Value == "typeUrl":
			want = v.Value
		}
		seen[k.Value] = true
	}
	switch {
	case resources == nil:
		p.fail(at(n), "", "has no resources; to serve none, write `resources: []`")
	case resources.Kind == yaml.MappingNode: // one in place of a list, as Envoy reads it
		p.list(&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{resources}}, "resources", want)
	case resources.Kind != yaml.SequenceNode:
		p.fail(at(resources), "resources", "must be a list; to serve none, write `resources: []`")
	default:
		p.list(resources, "resources", want)
	}
}

// resource reads one resource: bare, wrapped with "@type", or wrapped without.
func (p *parser) resource(n *yaml.Node, path, want string) {
	p.stated = true
	if n.Kind != yaml.MappingNode {
		p.fail(at(n), path, "must be a resource, that is a mapping")
		return
	}
	if child(n, "@type") == nil {
		if child(n, "resource") == nil {
			p.fail(at(n), path, `has no "@type"; write one such as "@type": %senvoy.config.cluster.v3.Cluster`, xds.TypePrefix)
			return
		}
		var r discoveryv3.Resource
		if p.message(n, path, &r) {
			p.wrapped(&r, want, at(n), path)
		}
		return
	}
	var a anypb.Any
	if p.message(n, path, &a) {
		p.add(&a, want, at(n), path)
	}
}

// message reads a message from the proto JSON of n.
func (p *parser) message(n *yaml.Node, path string, m proto.Message) bool {
	w := writer{most: p.lim.file - p.spent}
	w.value(n)
	if w.err != nil {
		p.fail(w.where, join(path, w.trail()), "%s", w.err)
		return false
	}
	if w.nested != nil {
		p.fail(at(w.nested), path, "more than %d messages with an \"@type\" are nested in one another", xds.MaxAnys)
		return false
	}
	p.spent += len(w.b)
	forms, err := p.lim.types.Unmarshal(w.b, m, xds.JSONBound{Depth: xds.MaxJSONDepth, Memory: decodedLeast + p.lim.file})
	if len(forms) > 0 && p.loose == nil {
		where, field := w.find(n, 1+bytes.Count(w.b[:forms[0].At], []byte("\n")))
		p.loose = &problem{file: p.file, at: where, path: join(path, field), msg: forms[0].What +
			" is read as Envoy reads it, and other tools may not; so are others like it in the file"}
	}
	if err == nil {
		return true
	}
	if bound := (*xds.BoundError)(nil); errors.As(err, &bound) {
		p.fail(at(n), path, "%s", err)
		return false
	}
	line, msg := protoPosition(err)
	where, field := w.find(n, line.line)
	p.fail(where, join(path, field), "%s%s", p.said(msg), advice(msg))
	return false
}

// find returns the node that is in a line of the text written for n, and its path; n itself if
// there is none. line may be 0.
func (w *writer) find(n *yaml.Node, line int) (where position, field string) {
	again := writer{most: w.most, want: line}
	if line > 0 {
		again.value(n)
	}
	if again.where == (position{}) {
		return at(n), ""
	}
	return again.where, again.trail()
}

// advice returns what to do about frequent errors of the JSON parser.
func advice(msg string) string {
	switch {
	case strings.Contains(msg, "unable to resolve"):
		return "; weir does not know this message: check the spelling, give its descriptors (types in the configuration), or " +
			"supply the file in binary form (.pb), whose resources need not be known"
	case strings.Contains(msg, "for string"):
		return "; put it in quotes"
	case strings.Contains(msg, "unexpected token"):
		return "; a mapping, a list and a single value are three things, and another one belongs here"
	}
	return ""
}

func join(path, field string) string {
	if path == "" || field == "" || field[0] == '[' {
		return path + field
	}
	return path + "." + field
}

func at(n *yaml.Node) position { return position{n.Line, n.Column} }

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// child returns the value of a key in a mapping; nil if there is none.
func child(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := target(n.Content[i]); k.Kind == yaml.ScalarNode && k.Value == key {
			return target(n.Content[i+1])
		}
	}
	return nil
}
